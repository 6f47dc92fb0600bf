"""The demos of many clusters: a hub and its workers as separate endpoints, each step checked on the side it happens on."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gpuaas.cli.stories import Story

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object, Resource

HUB: Final = "hub"
QUEUE_NAMESPACE: Final = "default"
_PATIENCE = 15.0
Check = Callable[[], Awaitable[str]]


class FleetStory(Story):
    def __init__(self, hub: "HttpClient", workers: Mapping[str, "HttpClient"], files: Mapping[str, Path], folder: Path):
        super().__init__(hub, folder, _PATIENCE)
        self.workers = workers
        self.files = files

    async def join_all(self, labels: Mapping[str, Mapping[str, str]] | None = None) -> None:
        from gpuaas.cli.fleet.membership import admit

        for name in self.workers:
            given = dict((labels or {}).get(name, {}))
            words = " ".join(f"--label {key}={value}" for key, value in given.items())
            click.echo(f"$ gpuaas fleet join {name} --from {self.files[name].name} {words}".rstrip())
            await admit(self.client, name, self.files[name], name, given)
        for name in self.workers:
            await self.see(f"{name} is connected", self.connected(name))

    def connected(self, name: str) -> Check:
        from gpuaas.client.ocm import MULTIKUEUE_CLUSTERS

        return self.condition_on(MULTIKUEUE_CLUSTERS, name, "Active")

    def condition_on(self, resource: "Resource", name: str, kind: str) -> Check:
        async def check() -> str:
            for each in await self._conditions(resource, name):
                if each["type"] == kind and each["status"] == "True":
                    return f"{kind}=True {each['reason']}: {each['message']}"
            return ""

        return check

    async def _conditions(self, resource: "Resource", name: str) -> "Sequence[Object]":
        from gpuaas.base.errors import NotFound

        try:
            found = await self.client.get(resource, name)
        except NotFound:
            return ()
        return (found.get("status") or {}).get("conditions") or ()

    def check_active(self, name: str) -> Check:
        from gpuaas.client.kueue import ADMISSION_CHECKS

        return self.condition_on(ADMISSION_CHECKS, name, "Active")

    def decided(self, placement: str, *names: str) -> Check:
        """The PlacementDecision lists these clusters and no other."""

        async def check() -> str:
            from gpuaas.client.ocm import DECISIONS

            label = f"cluster.open-cluster-management.io/placement={placement}"
            found = (await self.client.list(DECISIONS, "kueue-system", labels=label)).items
            chosen = sorted(
                d["clusterName"] for each in found for d in (each.get("status") or {}).get("decisions") or ()
            )
            return ", ".join(chosen) if chosen == sorted(names) else ""

        return check

    def config(self, name: str, *clusters: str) -> Check:
        async def check() -> str:
            from gpuaas.base.errors import NotFound
            from gpuaas.client.ocm import MULTIKUEUE_CONFIGS

            try:
                found = (await self.client.get(MULTIKUEUE_CONFIGS, name))["spec"]["clusters"]
            except NotFound:
                return ""
            return ", ".join(found) if sorted(found) == sorted(clusters) else ""

        return check

    def mirrored(self, queue: str, *names: str) -> Check:
        """The queue is on these clusters, without admission checks."""

        async def check() -> str:
            from gpuaas.base.errors import NotFound
            from gpuaas.client.kueue import CLUSTER_QUEUES

            for name in names:
                try:
                    found = await self.workers[name].get(CLUSTER_QUEUES, queue)
                except NotFound:
                    return ""
                if (found["spec"].get("admissionChecksStrategy") or {}).get("admissionChecks"):
                    return ""
            return f"{queue} on {', '.join(names)}"

        return check

    def sent(self, job: str, *clusters: str) -> Check:
        """The hub's Workload is admitted and names one of the clusters (any of them where none is given)."""

        async def check() -> str:
            workload = await self.workload(QUEUE_NAMESPACE, job)
            status = (workload or {}).get("status") or {}
            where = str(status.get("clusterName") or "")
            admitted = any(c["type"] == "Admitted" and c["status"] == "True" for c in status.get("conditions") or ())
            return where if admitted and where in (clusters or tuple(self.workers)) else ""

        return check

    def job_on(self, cluster: str, job: str, phase: str) -> Check:
        """`Running` or `Complete`, on the hub or a worker."""

        async def check() -> str:
            from gpuaas.base.errors import NotFound
            from gpuaas.client.resources import JOBS

            client = self.client if cluster == HUB else self.workers[cluster]
            try:
                status = (await client.get(JOBS, job, QUEUE_NAMESPACE)).get("status") or {}
            except NotFound:
                return ""
            ended = any(c["type"] == "Complete" and c["status"] == "True" for c in status.get("conditions") or ())
            found = "Complete" if ended else "Running" if status.get("active") else ""
            return f"{found} on {cluster}" if found == phase else ""

        return check

    def log(self, cluster: str, job: str) -> Check:
        """What its pod on the cluster wrote, as the hub gives it out."""

        async def check() -> str:
            from gpuaas.base.errors import ApiError
            from gpuaas.client.resources import PODS

            pods = (await self.workers[cluster].list(PODS, QUEUE_NAMESPACE, labels=f"job-name={job}")).items
            if not pods:
                return ""
            pieces = self.client.log(pods[0]["metadata"]["name"], QUEUE_NAMESPACE)
            try:
                async with contextlib.aclosing(pieces):
                    return b"".join([piece async for piece in pieces]).decode().strip()
            except ApiError:
                return ""

        return check

    def alone(self, cluster: str) -> Check:
        """No other worker has a copy of any workload."""

        async def check() -> str:
            from gpuaas.client.kueue import WORKLOADS

            others = [name for name in self.workers if name != cluster]
            for name in others:
                if (await self.workers[name].list(WORKLOADS, QUEUE_NAMESPACE)).items:
                    return ""
            return f"{', '.join(others)}: no resources found"

        return check

    async def never_on(self, cluster: str, job: str) -> None:
        from gpuaas.client.resources import JOBS

        names = [each["metadata"]["name"] for each in (await self.workers[cluster].list(JOBS, QUEUE_NAMESPACE)).items]

        async def check() -> str:
            return f"no job {job} there" if job not in names else ""

        await self.see(f"{cluster} never sees {job}", check)

    async def label(self, cluster: str, **labels: str | None) -> None:
        from gpuaas.client.ocm import MANAGED_CLUSTERS

        words = " ".join(f"{key}={value}" if value is not None else f"{key}-" for key, value in labels.items())
        click.echo(f"$ kubectl label managedcluster {cluster} {words} --overwrite")
        await self.client.patch(MANAGED_CLUSTERS, cluster, {"metadata": {"labels": labels}})

    async def score(self, cluster: str, value: int) -> None:
        """As kubectl does it: the whole list of scores, with one of them changed."""
        from gpuaas.client.ocm import SCORES

        name = "resource-usage-score"
        found = await self.client.get(SCORES, name, cluster)
        scores = [
            {**each, "value": value} if each["name"] == "gpuClusterAvailable" else each
            for each in found["status"]["scores"]
        ]
        click.echo(
            f"$ kubectl patch addonplacementscore {name} -n {cluster} --subresource=status (gpuClusterAvailable {value})"
        )
        await self.client.patch(SCORES, name, {"status": {"scores": scores}}, cluster, subresource="status")

    def scored(self, cluster: str) -> Check:
        async def check() -> str:
            from gpuaas.base.errors import NotFound
            from gpuaas.client.ocm import SCORES

            try:
                found = await self.client.get(SCORES, "resource-usage-score", cluster)
            except NotFound:
                return ""
            values = {each["name"]: each["value"] for each in (found.get("status") or {}).get("scores") or ()}
            return f"gpuClusterAvailable {values['gpuClusterAvailable']}" if "gpuClusterAvailable" in values else ""

        return check


async def multikueue(story: FleetStory) -> None:
    """A job is submitted to the manager once, runs on a worker, and its status comes back."""
    await story.join_all()
    await story.apply("multikueue-setup.yaml")
    await story.see("AC", story.check_active("sample-multikueue"))
    await story.see("the queue is active", story.active("cluster-queue"))
    await story.see("the workers have the queue, without its check", story.mirrored("cluster-queue", *story.workers))
    await story.apply("job.yaml")
    where = await story.see("the manager sends the job to", story.sent("sample-job"))
    await _runs_and_ends(story, "sample-job", where)


async def placement_all(story: FleetStory) -> None:
    """Every cluster the Placement `default` selects may run the job; one does."""
    await story.join_all()
    await story.see("Placement default selects", story.decided("default", *story.workers))
    await story.apply("kueue-resources.yaml")
    await story.see("the placement check", story.check_active("multikueue-config-demo"))
    await story.see("MultiKueueConfig default lists", story.config("default", *story.workers))
    await story.see("the MultiKueue check", story.check_active("multikueue-demo"))
    await story.see("the queue is active", story.active("cluster-queue"))
    await story.apply("job.yaml")
    where = await story.see("the job goes to", story.sent("demo1-job"))
    await _runs_and_ends(story, "demo1-job", where)


async def placement_labels(story: FleetStory) -> None:
    """Only clusters with the label are chosen; when the label moves, so do new jobs."""
    await story.join_all({"spoke1": {"accelerator": "nvidia-l4"}, "spoke2": {"accelerator": "nvidia-h200"}})
    await story.apply("gpu-placement.yaml")
    await story.see("Placement gpu-placement selects", story.decided("gpu-placement", "spoke1"))
    await story.apply("kueue-resources.yaml")
    await story.see("MultiKueueConfig gpu-placement lists", story.config("gpu-placement", "spoke1"))
    await story.see("the queue is active", story.active("cluster-queue"))
    await story.apply("job-1.yaml")
    await story.see("the job goes to", story.sent("demo2-gpu-job-1", "spoke1"))
    await story.see("it runs there", story.job_on("spoke1", "demo2-gpu-job-1", "Running"))
    await story.never_on("spoke2", "demo2-gpu-job-1")
    await story.see("and ends", story.job_on(HUB, "demo2-gpu-job-1", "Complete"))
    await story.label("spoke1", accelerator="none")
    await story.label("spoke2", accelerator="nvidia-l4")
    await story.see("Placement gpu-placement selects", story.decided("gpu-placement", "spoke2"))
    await story.see("MultiKueueConfig gpu-placement lists", story.config("gpu-placement", "spoke2"))
    await story.apply("job-2.yaml")
    await story.see("the next job goes to", story.sent("demo2-gpu-job-2", "spoke2"))
    await story.see("and ends", story.job_on(HUB, "demo2-gpu-job-2", "Complete"))


async def placement_scores(story: FleetStory) -> None:
    """The best score gets the job; a new score sends the next one elsewhere, and what runs stays where it is."""
    labels = {"accelerator": "nvidia-l4"}
    await story.join_all(dict.fromkeys(story.workers, labels))
    for name in story.workers:
        await story.see(f"{name} has a measured score", story.scored(name))
    await story.score("spoke1", 80)
    await story.score("spoke2", 20)
    await story.apply("dynamic-placement.yaml")
    await story.see("Placement dynamic-gpu-placement selects", story.decided("dynamic-gpu-placement", "spoke1"))
    await story.apply("kueue-resources.yaml")
    await story.see("the queue is active", story.active("cluster-queue"))
    await story.apply("job-1.yaml")
    await story.see("the first job goes to", story.sent("demo3-gpu-job-1", "spoke1"))
    await story.see("it runs", story.job_on("spoke1", "demo3-gpu-job-1", "Running"))
    await story.score("spoke2", 95)
    await story.see("the Placement now selects", story.decided("dynamic-gpu-placement", "spoke2"))
    await story.see("and MultiKueueConfig lists", story.config("dynamic-gpu-placement", "spoke2"))
    await story.apply("job-2.yaml")
    await story.see("the next job goes to", story.sent("demo3-gpu-job-2", "spoke2"))
    await story.see("it ends there", story.job_on(HUB, "demo3-gpu-job-2", "Complete"))
    await story.see("the first one runs on where it was", story.job_on("spoke1", "demo3-gpu-job-1", "Running"))
    await story.see("its workload still names", story.sent("demo3-gpu-job-1", "spoke1"))
    await story.see("and it is finished", story.job_on(HUB, "demo3-gpu-job-1", "Complete"))
    await story.never_on("spoke2", "demo3-gpu-job-1")


async def placement_tiers(story: FleetStory) -> None:
    """Three queues lead to three kinds of clusters; a user only chooses the queue."""
    gold = {"accelerator": "nvidia-h200", "tier": "gold"}
    await story.join_all({"gold": gold, "silver": {"accelerator": "nvidia-l4"}})
    await story.apply("placements.yaml")
    tiers = {"gold-gpu": "gold", "gpu": "silver", "cpu": "cpu"}
    for tier, cluster in tiers.items():
        await story.see(f"Placement {tier}-placement selects", story.decided(f"{tier}-placement", cluster))
    await story.apply("kueue-resources.yaml")
    await story.see("the queues are active", story.active(*(f"{tier}-cluster-queue" for tier in tiers)))
    await story.apply("jobs.yaml")
    jobs = {"gold-job": "gold", "gpu-job": "silver", "cpu-job": "cpu"}
    for job, cluster in jobs.items():
        await story.see(f"{job} goes to", story.sent(job, cluster))
    for job in jobs:
        await story.see(f"{job} ends", story.job_on(HUB, job, "Complete"))


async def _runs_and_ends(story: FleetStory, job: str, where: str) -> None:
    await story.see("it runs there", story.job_on(where, job, "Running"))
    await story.see("the others have no copy", story.alone(where))
    await story.see("the hub shows it", story.job_on(HUB, job, "Running"))
    await story.see("it ends, and the hub knows", story.job_on(HUB, job, "Complete"))
    click.echo(f"$ kubectl logs job/{job}")
    await story.see("its log is read on the hub", story.log(where, job))


FLEET_STORIES: dict[str, Callable[[FleetStory], Awaitable[None]]] = {
    "multikueue": multikueue,
    "placement-all": placement_all,
    "placement-labels": placement_labels,
    "placement-scores": placement_scores,
    "placement-tiers": placement_tiers,
}


async def tell_fleet(name: str, kubeconfig: Path, folder: Path) -> int:
    """Tells it on the clusters of a kubeconfig, the hub's context named `hub`; how many steps were seen."""
    async with _clients(kubeconfig) as (clients, files):
        story = FleetStory(clients[HUB], {n: c for n, c in clients.items() if n != HUB}, files, folder)
        story_of = FLEET_STORIES[name]
        click.echo((story_of.__doc__ or "").strip())
        for cluster, client in clients.items():
            click.echo(f"  {cluster:<8} {client.access.server}")
        await story_of(story)
        return story.steps


@contextlib.asynccontextmanager
async def _clients(kubeconfig: Path) -> "AsyncIterator[tuple[dict[str, HttpClient], dict[str, Path]]]":
    from gpuaas.client.http import from_kubeconfig
    from gpuaas.client.kubeconfig import add_context, encode, load

    known = load([kubeconfig])
    async with contextlib.AsyncExitStack() as stack:
        clients, files = {}, {}
        for name in known.contexts:
            access = known.access(name)
            files[name] = kubeconfig.with_name(f"kubeconfig-{name}")
            cluster = {"server": access.server, "certificate-authority-data": encode(access.certificate_authority)}
            add_context(files[name], name, cluster=cluster, user={"token": access.token}, make_current=True)
            clients[name] = await stack.enter_async_context(from_kubeconfig(files[name]))
        yield clients, files
