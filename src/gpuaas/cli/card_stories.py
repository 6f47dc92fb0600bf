"""The stories about cards that `gpuaas demo` tells: `sharing` (one card, four notebooks) and `mig` (slices that change)."""

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.stories import StepFailed, Story

if TYPE_CHECKING:
    from gpuaas.client.protocol import Object

NODE = "gpu"
_SHARED, _SLICED = "notebooks", "slices"


async def sharing(story: Story) -> None:
    """Four people share one GPU by time-slicing; a fifth waits; who uses more memory than a quarter is stopped alone."""
    await story.apply("queue.yaml")
    await story.see("the queue is active", story.active(_SHARED))
    await story.see("the node offers its card", offers(story, "nvidia.com/gpu", 1))
    await story.apply("time-slicing-config.yaml")
    patch = {"spec": {"devicePlugin": {"config": {"name": "time-slicing-config"}}}}
    click.echo(f"$ kubectl patch clusterpolicy cluster-policy --type merge -p '{json.dumps(patch)}'")
    await _patch_policy(story, patch)
    await story.see("the node offers four shares", offers(story, "nvidia.com/gpu", 4))
    await story.see("its labels say so", labelled(story, {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "1"}))
    await story.see("the queue's quota follows", quota(story, _SHARED, "nvidia.com/gpu", 4))
    await story.apply("notebooks.yaml")
    await story.see("four notebooks run", story.pods(_SHARED, "Running", 4))
    await story.see("all on one card, each on its own share", _on_one_card(story, _SHARED, 4))
    await story.see("gpuaas ps: a share is not a GPU", _counts_as(story, _SHARED, "0.25", 4))
    running = await _running(story, _SHARED)
    waits = next(f"user-{n}" for n in range(1, 6) if f"user-{n}-0" not in running)
    await story.see("the fifth waits", story.condition(_SHARED, waits, "QuotaReserved", "False"))
    click.echo(f"    {await story.message(_SHARED, waits, 'QuotaReserved')}")
    greedy, *neighbours = sorted(running)
    click.echo(f"$ kubectl annotate pod -n {_SHARED} {greedy} gpuaas.dev/gpu-memory-used=20Gi")
    await _annotate_pod(story, greedy, {"gpuaas.dev/gpu-memory-used": "20Gi"})
    await story.see("it is stopped", _event(story, _SHARED, "GPUMemoryOverLimit"))
    await story.see("its neighbours go on", _undisturbed(story, {name: running[name] for name in neighbours}))
    owner = neighbours[0].removesuffix("-0")
    click.echo(f"$ kubectl delete notebook -n {_SHARED} {owner}")
    await _delete(story, "kubeflow.org", "v1", "notebooks", _SHARED, owner)
    await story.see("the fifth starts", story.condition(_SHARED, waits, "Admitted"))
    await story.see("four run again", _on_one_card(story, _SHARED, 4))


async def mig(story: Story) -> None:
    """A card is cut into slices, jobs land on them, and the cut changes under running jobs without losing one."""
    await story.apply("queue.yaml")
    await story.see("the queue is active", story.active(_SLICED))
    await story.see("the node offers its card", offers(story, "nvidia.com/gpu", 1))
    await label(story, "all-1g.5gb")
    await story.see("the card is cut", labelled(story, {"nvidia.com/mig.config.state": "success"}))
    await story.see("the node offers seven slices", offers(story, "nvidia.com/mig-1g.5gb", 7))
    await story.see("the queue's quota follows", quota(story, _SLICED, "nvidia.com/mig-1g.5gb", 7))
    await story.apply("jobs.yaml")
    await story.see("seven jobs run", story.pods(_SLICED, "Running", 7))
    await story.see("each on a slice of its own", _on_slices(story, 7))
    await story.see("gpuaas ps: a slice is not a GPU", _counts_as(story, _SLICED, "0.14", 7))
    await label(story, "all-2g.10gb")
    await story.see("its jobs are asked to leave", _event(story, _SLICED, "CardDrained"))
    await story.see("they save their state first", _event(story, _SLICED, "CheckpointSignal"))
    await story.see("the card is partitioned again", offers(story, "nvidia.com/mig-2g.10gb", 3))
    await story.see("the jobs queue again", _waiting(story, 7))
    await label(story, "all-9g.99gb")
    await story.see("a cut that cannot be fails", _failed(story, "all-9g.99gb"))
    await story.see("and nothing changed", offers(story, "nvidia.com/mig-2g.10gb", 3))
    await label(story, "all-1g.5gb")
    await story.see("the first cut is back", offers(story, "nvidia.com/mig-1g.5gb", 7))
    await story.see("and so are all seven jobs", _on_slices(story, 7))
    click.echo(f"$ kubectl annotate node {NODE} gpuaas.dev/card-faults=0=mig     # the driver will refuse")
    await _patch_node(story, {"annotations": {"gpuaas.dev/card-faults": "0=mig"}})
    await label(story, "all-3g.20gb")
    await story.see("a card that cannot be changed keeps its slices", _failed(story, "old layout"))
    await story.see("and every job runs on", _on_slices(story, 7))


# -- What is done -------------------------------------------------------------------------------------------------------


async def label(story: Story, config: str) -> None:
    click.echo(f"$ kubectl label node {NODE} nvidia.com/mig.config={config} --overwrite")
    await _patch_node(story, {"labels": {"nvidia.com/mig.config": config}})


async def _patch_node(story: Story, metadata: "Object") -> None:
    from gpuaas.client.resources import NODES

    await story.client.patch(NODES, NODE, {"metadata": metadata})


async def _patch_policy(story: Story, patch: "Object") -> None:
    from gpuaas.client.protocol import Resource

    await story.client.patch(Resource("nvidia.com", "v1", "clusterpolicies", False), "cluster-policy", patch)


async def _annotate_pod(story: Story, name: str, annotations: "Object") -> None:
    from gpuaas.client.resources import PODS

    await story.client.patch(PODS, name, {"metadata": {"annotations": annotations}}, _SHARED)


async def _delete(story: Story, group: str, version: str, plural: str, namespace: str, name: str) -> None:
    from gpuaas.client.protocol import Propagation, Resource

    resource = Resource(group, version, plural, True)
    await story.client.delete(resource, name, namespace, propagation=Propagation.BACKGROUND)


# -- What must be seen --------------------------------------------------------------------------------------------------

Check = Callable[[], Awaitable[str]]


def offers(story: Story, resource: str, count: int) -> Check:
    """Nothing else of its cards is offered."""

    async def check() -> str:
        from gpuaas.client.resources import NODES

        status = (await story.client.get(NODES, NODE))["status"]
        for part in ("capacity", "allocatable"):
            found = {name: int(amount) for name, amount in status[part].items() if name.startswith("nvidia.com/")}
            if found != {resource: count}:
                return ""
        return f"{resource}: {count}"

    return check


def labelled(story: Story, wanted: dict[str, str]) -> Check:
    async def check() -> str:
        from gpuaas.client.resources import NODES

        labels = (await story.client.get(NODES, NODE))["metadata"]["labels"]
        is_so = all(labels.get(name) == value for name, value in wanted.items())
        return ", ".join(f"{name}={value}" for name, value in wanted.items()) if is_so else ""

    return check


def quota(story: Story, queue: str, resource: str, amount: int) -> Check:
    async def check() -> str:
        from gpuaas.client.kueue import CLUSTER_QUEUES

        groups = (await story.client.get(CLUSTER_QUEUES, queue))["spec"]["resourceGroups"]
        for group in groups:
            for flavor in group["flavors"]:
                for one in flavor["resources"]:
                    if one["name"] == resource and str(one["nominalQuota"]) == str(amount):
                        return f"{flavor['name']} has {amount} of {resource}"
        return ""

    return check


async def _running(story: Story, namespace: str) -> "dict[str, Object]":
    from gpuaas.client.resources import PODS

    return {
        pod["metadata"]["name"]: pod
        for pod in (await story.client.list(PODS, namespace)).items
        if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    }


def _counts_as(story: Story, namespace: str, gpus: str, count: int) -> Check:
    """What `gpuaas ps` shows of the jobs that run."""

    async def check() -> str:
        from gpuaas.cli.ps import listed

        rows, _ = await listed(story.client, namespace, everywhere=False)
        running = [row for row in rows if row["state"] in ("Admitted", "Running")]
        return f"{count} jobs with {gpus} GPUs each" if [row["gpus"] for row in running] == [gpus] * count else ""

    return check


async def _held(story: Story, namespace: str) -> list[Any]:
    from gpuaas.devices.holding import held_by

    return [held for pod in (await _running(story, namespace)).values() for held in held_by(pod)]


def _on_one_card(story: Story, namespace: str, count: int) -> Check:
    async def check() -> str:
        held = await _held(story, namespace)
        if len(held) != count:
            return ""
        cards, ids = {one.card for one in held}, {one.id for one in held}
        if len(cards) != 1 or len(ids) != count:
            raise StepFailed(f"{count} pods hold {len(ids)} shares of {len(cards)} cards")
        return f"{cards.pop()}, shares {', '.join(sorted(one.rpartition('::')[2] for one in ids))}"

    return check


def _on_slices(story: Story, count: int) -> Check:
    async def check() -> str:
        held = await _held(story, _SLICED)
        if len(held) != count:
            return ""
        ids = {one.id for one in held}
        if len(ids) != count:
            raise StepFailed(f"{count} pods hold {len(ids)} slices")
        return f"{count} jobs on {len(ids)} slices of {held[0].name}, {held[0].profile}"

    return check


def _undisturbed(story: Story, before: "dict[str, Object]") -> Check:
    async def check() -> str:
        running = await _running(story, _SHARED)
        for name, pod in before.items():
            now = running.get(name)
            if now is None or now["metadata"]["uid"] != pod["metadata"]["uid"] or _restarts(now):
                raise StepFailed(f"{name} does not run as before")
        return ", ".join(sorted(before))

    return check


def _restarts(pod: "Object") -> int:
    return sum(int(one.get("restartCount", 0)) for one in pod["status"].get("containerStatuses") or ())


def _event(story: Story, namespace: str, reason: str) -> Check:
    async def check() -> str:
        from gpuaas.client.resources import EVENTS

        found = (await story.client.list(EVENTS, namespace)).items
        return next((f"{one['reason']}: {one['message']}" for one in found if one["reason"] == reason), "")

    return check


def _failed(story: Story, words: str) -> Check:
    async def check() -> str:
        from gpuaas.client.resources import NODES

        node = await story.client.get(NODES, NODE)
        if node["metadata"]["labels"].get("nvidia.com/mig.config.state") != "failed":
            return ""
        message = _condition_message(node["status"]["conditions"])
        return f"failed: {message}" if words in message else ""

    return check


def _condition_message(conditions: "Iterable[Object]") -> str:
    return next((str(one["message"]) for one in conditions if one["type"] == "gpuaas.dev/MigConfig"), "")


def _waiting(story: Story, count: int) -> Check:
    async def check() -> str:
        from gpuaas.client.kueue import WORKLOADS
        from gpuaas.kueue.workload_state import conditions_of

        found = (await story.client.list(WORKLOADS, _SLICED)).items
        waiting = [one for one in found if conditions_of(one).get("QuotaReserved", {}).get("status") == "False"]
        if len(waiting) != count:
            return ""
        return f"{count} wait: {conditions_of(waiting[0])['QuotaReserved']['message']}"

    return check
