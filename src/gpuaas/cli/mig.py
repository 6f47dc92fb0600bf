"""`gpuaas mig plan`: which MIG geometry would admit most of what waits now, and what it would displace."""

from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object
    from gpuaas.devices.mig_config import Configs
    from gpuaas.devices.mig_plan import Plan, Waiting

_SHOWN = 5
_NAMES = 6
_LABEL = "nvidia.com/mig.config"


@click.group()
def mig() -> None:
    """MIG layouts of cards."""


@mig.command()
@click.option("--apply", "apply_it", is_flag=True, help="Label the node of the best plan, which starts the change.")
@on_a_cluster()
def plan(target: Target, apply_it: bool) -> None:
    """Say which geometry would admit most of the jobs that wait now, and which pods it would displace.

    One node is changed at a time, to one of the configurations its label may name. The quota of queues is not looked at:
    with the annotation gpuaas.dev/quota-from: nodes it follows the cards.
    """
    found, waiting = target.work(lambda client, _: _plans(client))
    rows = [_row(one) for one in found]

    def in_words() -> None:
        if not waiting:
            click.echo("no job that asks for cards waits")
        elif not rows:
            click.echo(
                f"{waiting} jobs that ask for cards wait; no other geometry of one node would admit more of them"
            )
        for number, row in enumerate(rows[:_SHOWN]):
            _print(row, waiting, best=number == 0)

    target.show(rows, in_words)
    if apply_it and found:
        target.work(lambda client, _: _label(client, found[0]))
        click.echo(f"node/{found[0].node} labeled", err=True)


async def _plans(client: "HttpClient") -> "tuple[list[Plan], int]":
    from gpuaas.cli.card_world import card_nodes
    from gpuaas.devices.mig_plan import NodeCardsNow, plans

    custom = await _custom(client)
    nodes = [NodeCardsNow(one.name, one.cards, one.config, one.held, custom) for one in await card_nodes(client)]
    waiting = await _waiting(client)
    return plans(nodes, waiting), len(waiting)


async def _custom(client: "HttpClient") -> "Configs | None":
    """The configurations of the ConfigMap that the ClusterPolicy names; None where it names none that can be read."""
    from gpuaas.base.errors import ApiError
    from gpuaas.client.protocol import Resource
    from gpuaas.client.resources import CONFIG_MAPS
    from gpuaas.controllers.gpu_nodes.surface import NAMESPACES, governing, read_mig, read_policy

    try:
        listed = (await client.list(Resource("nvidia.com", "v1", "clusterpolicies", False))).items
    except ApiError:
        return None
    policy, _ = governing(read_policy(one) for one in listed)
    if policy is None or not policy.mig_config:
        return None
    for namespace in NAMESPACES:
        try:
            return read_mig((await client.get(CONFIG_MAPS, policy.mig_config, namespace)).get("data") or {})
        except (ApiError, ValueError):
            continue
    return None


async def _waiting(client: "HttpClient") -> "list[Waiting]":
    """Jobs without quota, and those whose pods found no node; the highest priority first, then the oldest."""
    from gpuaas.client.kueue import WORKLOADS
    from gpuaas.kueue.explain.snapshot import owner_of
    from gpuaas.kueue.workload_state import conditions_of, is_true

    found: list[tuple[Any, Waiting]] = []
    for workload in (await client.list(WORKLOADS)).items:
        conditions = conditions_of(workload)
        if is_true(conditions.get("Finished")) or is_true(conditions.get("QuotaReserved")):
            continue
        pods = _pods_of(workload)
        if not any(pods):
            continue
        meta = workload["metadata"]
        kind, name = owner_of(workload)
        order = (-int(workload["spec"].get("priority") or 0), meta["creationTimestamp"], meta["name"])
        found.append((order, _made(f"{meta['namespace']}/{kind.lower()}/{name}", pods)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _made(name: str, pods: "tuple[dict[str, int], ...]") -> "Waiting":
    from gpuaas.devices.mig_plan import Waiting

    return Waiting(name, pods)


def _pods_of(workload: "Object") -> tuple[dict[str, int], ...]:
    from gpuaas.devices.advertise import is_device_resource
    from gpuaas.devices.holding import requests_of

    pods: list[dict[str, int]] = []
    for pod_set in workload["spec"].get("podSets") or ():
        spec = (pod_set.get("template") or {}).get("spec") or {}
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        names = {
            name
            for one in containers
            for part in ("limits", "requests")
            for name in ((one.get("resources") or {}).get(part) or {})
            if is_device_resource(name)
        }
        total: dict[str, int] = {}
        for wanted in requests_of(spec, names).values():
            for name, count in wanted.items():
                total[name] = total.get(name, 0) + count
        pods += [total] * min(int(pod_set.get("count", 1)), 1000)
    return tuple(pods)


async def _label(client: "HttpClient", chosen: "Plan") -> None:
    from gpuaas.client.resources import NODES

    await client.patch(NODES, chosen.node, {"metadata": {"labels": {_LABEL: chosen.config}}})


def _row(one: "Plan") -> dict[str, Any]:
    return {
        "node": one.node,
        "config": one.config,
        "admits": list(one.admits),
        "loses": list(one.loses),
        "displaces": list(one.displaces),
        "cards": one.cards,
        "offers": dict(one.offers),
        "command": f"kubectl label node {one.node} {_LABEL}={one.config} --overwrite",
    }


def _print(row: dict[str, Any], waiting: int, *, best: bool) -> None:
    offers = ", ".join(f"{count} {name}" for name, count in sorted(row["offers"].items()))
    click.echo(
        f"{row['config']} on {row['node']} ({row['cards']} card{'s change' if row['cards'] > 1 else ' changes'}; it then offers {offers or 'nothing'})"
    )
    click.echo(f"  admits    {len(row['admits'])} of {waiting} more: {_listed(row['admits'])}")
    if row["loses"]:
        click.echo(f"  keeps out {_listed(row['loses'])}, which could be admitted as it is")
    click.echo(f"  displaces {_listed(row['displaces']) or 'no pod'}")
    if best:
        click.echo(f"  $ {row['command']}")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
