"""The stories that `gpuaas demo` tells: what is applied, and what must then be seen, on whatever cluster a client reaches.

Nothing here knows whose cluster it is: the same steps are checked on the embedded control plane and on Kubernetes with
upstream Kueue.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object

_PATIENCE = 10.0


class StepFailed(Exception):
    """A step did not happen; the message says what was seen instead."""


class Story:
    """A cluster, and the means to tell and check."""

    def __init__(self, client: "HttpClient", folder: Path, patience: float = _PATIENCE) -> None:
        self.client = client
        self.folder = folder
        self.patience = patience
        self.steps = 0

    async def apply(self, name: str) -> None:
        from gpuaas.cli.objects import read_manifests, resource_of
        from gpuaas.client.protocol import PatchKind

        click.echo(f"$ kubectl apply -f {name}")
        for obj in read_manifests(str(self.folder / name)):
            resource = await resource_of(self.client, obj)
            meta = obj["metadata"]
            await self.client.patch(
                resource,
                meta["name"],
                obj,
                meta.get("namespace", ""),
                kind=PatchKind.APPLY,
                field_manager="demo",
                force=True,
            )

    async def see(self, what: str, check: Callable[[], Awaitable[str]]) -> str:
        """Waits until `check` has something to say; that is the evidence."""
        started = time.monotonic()
        while time.monotonic() - started < self.patience:
            said = await check()
            if said:
                self.steps += 1
                took = (time.monotonic() - started) * 1000
                click.echo(f"  ✔ {what}: {said} ({took:.0f} ms)")
                return said
            await asyncio.sleep(0.02)
        raise StepFailed(f"{what}: not seen within {self.patience:.0f} s")

    async def serves(self, group: str) -> bool:
        return any(one.resource.group == group for one in await self.client.discover())

    async def workload(self, namespace: str, owner: str) -> "Object | None":
        from gpuaas.client.kueue import WORKLOADS
        from gpuaas.kueue.explain.snapshot import owner_of

        for each in (await self.client.list(WORKLOADS, namespace)).items:
            if owner_of(each)[1] == owner:
                return each
        return None

    def condition(self, namespace: str, owner: str, kind: str, status: str = "True") -> Callable[[], Awaitable[str]]:
        async def check() -> str:
            from gpuaas.kueue.workload_state import conditions_of

            workload = await self.workload(namespace, owner)
            found = conditions_of(workload).get(kind) if workload is not None else None
            if found is None or found["status"] != status:
                return ""
            return f"{kind}={status} {found['reason']}"

        return check

    def pods(self, namespace: str, phase: str, count: int) -> Callable[[], Awaitable[str]]:
        async def check() -> str:
            from gpuaas.client.resources import PODS

            found = [each for each in (await self.client.list(PODS, namespace)).items if _phase(each) == phase]
            return f"{len(found)} {phase}" if len(found) >= count else ""

        return check

    def active(self, *names: str) -> Callable[[], Awaitable[str]]:
        async def check() -> str:
            from gpuaas.client.kueue import CLUSTER_QUEUES

            found = {each["metadata"]["name"]: each for each in (await self.client.list(CLUSTER_QUEUES)).items}
            for name in names:
                conditions = ((found.get(name) or {}).get("status") or {}).get("conditions") or ()
                if not any(each["type"] == "Active" and each["status"] == "True" for each in conditions):
                    return ""
            return ", ".join(names)

        return check

    async def message(self, namespace: str, owner: str, kind: str) -> str:
        from gpuaas.kueue.workload_state import conditions_of

        workload = await self.workload(namespace, owner)
        return str(conditions_of(workload)[kind]["message"]) if workload is not None else ""


def _phase(pod: "Object") -> str:
    return "Terminating" if pod["metadata"].get("deletionTimestamp") else str((pod.get("status") or {}).get("phase"))


async def sla(story: Story) -> None:
    """Dev borrows the shared pool; prod takes it back; dev returns when prod is done."""
    await story.apply("setup.yaml")
    await story.see("queues are active", story.active("shared-cq", "team-a-cq", "team-b-cq"))
    await story.apply("workload-b-low-priority.yaml")
    await story.see("dev is admitted by borrowing", story.condition("team-b", "raycluster-dev", "Admitted"))
    await story.see("dev's pods run", story.pods("team-b", "Running", 2))
    await story.apply("workload-a-high-priority.yaml")
    await story.see("prod preempts dev", story.condition("team-b", "raycluster-dev", "Preempted"))
    click.echo(f"    {await story.message('team-b', 'raycluster-dev', 'Preempted')}")
    await story.see("prod is admitted", story.condition("team-a", "raycluster-prod", "Admitted"))
    await story.see("prod's pods run", story.pods("team-a", "Running", 2))
    await story.see("dev waits again", story.condition("team-b", "raycluster-dev", "Admitted", "False"))
    await story.see("it says why", _says(story, "team-b", "raycluster-dev", "2 more needed"))
    await story.see("the ledger has it", _ledger(story))
    click.echo("$ kubectl delete raycluster -n team-a raycluster-prod")
    await _delete(story, "ray.io", "rayclusters", "team-a", "raycluster-prod")
    await story.see("dev comes back by itself", story.condition("team-b", "raycluster-dev", "Admitted"))
    await story.see("dev's pods run again", story.pods("team-b", "Running", 2))


async def private_ai(story: Story) -> None:
    """Two workbenches want four GPUs each, and there are four: one runs, one waits until the first is gone."""
    for name in ("namespace", "resource-flavors", "cluster-queue", "local-queue"):
        await story.apply(f"base/{name}.yaml")
    await story.see("the queue is active", story.active("rhoai-main-queue"))
    profiles = await story.serves("infrastructure.opendatahub.io")
    if profiles:
        await story.apply("base/hardware-profiles.yaml")
    await story.apply("demo/workbench-1.yaml")
    await story.see("the first workbench is admitted", story.condition("private-ai", "workbench-1", "Admitted"))
    await story.see("its pod runs", story.pods("private-ai", "Running", 1))
    await story.apply("demo/workbench-2.yaml")
    await story.see("the second waits", story.condition("private-ai", "workbench-2", "QuotaReserved", "False"))
    await story.see("it says why", _says(story, "private-ai", "workbench-2", "insufficient unused quota"))
    click.echo("$ kubectl delete notebook -n private-ai workbench-1")
    await _delete(story, "kubeflow.org", "notebooks", "private-ai", "workbench-1")
    await story.see("the second starts by itself", story.condition("private-ai", "workbench-2", "Admitted"))
    await story.see("its pod runs", story.pods("private-ai", "Running", 1))
    if profiles:
        await story.apply("demo/by-profile.yaml")
        await story.see("one that only names a profile gets its queue and GPUs", _by_profile(story))
        await story.see("it is admitted beside", story.condition("private-ai", "by-profile", "Admitted"))


def _by_profile(story: Story) -> Callable[[], Awaitable[str]]:
    async def check() -> str:
        from gpuaas.client.protocol import Resource

        notebooks = Resource("kubeflow.org", "v1", "notebooks", True, "Notebook")
        found = await story.client.get(notebooks, "by-profile", "private-ai")
        queue = (found["metadata"].get("labels") or {}).get("kueue.x-k8s.io/queue-name")
        amounts = found["spec"]["template"]["spec"]["containers"][0].get("resources") or {}
        gpus = (amounts.get("limits") or {}).get("nvidia.com/gpu")
        return f"{queue}, {gpus} GPU" if queue and gpus else ""

    return check


def _says(story: Story, namespace: str, owner: str, words: str) -> Callable[[], Awaitable[str]]:
    async def check() -> str:
        message = await story.message(namespace, owner, "QuotaReserved")
        return message if words in message else ""

    return check


def _ledger(story: Story) -> Callable[[], Awaitable[str]]:
    async def check() -> str:
        from gpuaas.cli.audit import audit_rows

        for row in await audit_rows(story.client):
            return f"{row['victim']} made room for {row['preemptor']} ({row['rule']})"
        return ""

    return check


async def _delete(story: Story, group: str, plural: str, namespace: str, name: str) -> None:
    from gpuaas.client.protocol import Propagation, Resource

    await story.client.delete(Resource(group, "v1", plural, True), name, namespace, propagation=Propagation.BACKGROUND)


STORIES: dict[str, Callable[[Story], Awaitable[None]]] = {"private-ai": private_ai, "sla": sla}
CARD_STORIES = ("mig", "sharing")  # in module card_stories
NAMES = (*STORIES, *CARD_STORIES)


def _found(name: str) -> Callable[[Story], Awaitable[None]]:
    if name in STORIES:
        return STORIES[name]
    from gpuaas.cli import card_stories

    story: Callable[[Story], Awaitable[None]] = getattr(card_stories, name)
    return story


async def tell(name: str, client: "HttpClient", folder: Path, patience: float = _PATIENCE) -> int:
    """Tells the story with the files in `folder`; how many steps were seen."""
    story = Story(client, folder, patience)
    story_of = _found(name)
    click.echo((story_of.__doc__ or "").strip())
    await story_of(story)
    return story.steps
