"""`gpuaas ps`: the jobs in the queues; as they are, or as they change."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster
from gpuaas.cli.show import ALL_OF_IT, Columns, Table, room

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object
    from gpuaas.kueue.explain.snapshot import Picture

Row = dict[str, Any]
_OVER = ("Succeeded", "Failed")
_EVERY = 1.0  # seconds between looks
_COLUMNS = ("job", "queue", "state", "position", "gpus", "age")
_WIDE = ("clusterQueue", "flavors", "nodes", "priority", "workload")


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of every namespace.")
@click.option("--finished", is_flag=True, help="Those that have finished, too.")
@click.option("-w", "--watch", is_flag=True, help="Go on, with a line for each job that changes, until Ctrl-C.")
@on_a_cluster("wide", "name")
def ps(target: Target, all_namespaces: bool, finished: bool, watch: bool) -> None:
    """The jobs in the queues: state, place in the queue, GPUs, age."""
    if watch:
        _watch(target, everywhere=all_namespaces, finished=finished)
        return
    placed = target.output in ("wide", *ALL_OF_IT)
    rows, elsewhere = target.work(
        lambda client, namespace: listed(client, namespace, everywhere=all_namespaces, placed=placed)
    )
    rows = rows if finished else _unfinished(rows)

    def in_words() -> None:
        if target.output == "name":
            for row in rows:
                click.echo(row["job"])
        elif rows:
            ps_table(rows, namespaces=all_namespaces, wide=placed).print()
        else:
            click.echo("no jobs" if finished else "no jobs wait or run (finished ones: gpuaas ps --finished)")
            if elsewhere:
                click.echo(f"other namespaces have {elsewhere} (gpuaas ps -A)", err=True)

    target.show(rows, in_words)


def _unfinished(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["state"] not in _OVER]


def _watch(target: Target, *, everywhere: bool, finished: bool) -> None:
    if target.output not in ("text", "wide"):
        raise click.UsageError(f"--watch writes a line for each change: -o text or wide, not {target.output}")
    wide = target.output == "wide"

    async def follow(client: "HttpClient", namespace: str) -> None:
        seen: list[Row] | None = None
        while True:
            rows, _ = await listed(client, namespace, everywhere=everywhere, placed=wide)
            news = [*changes(seen, rows)] if seen is not None else rows if finished else _unfinished(rows)
            as_wide_as_all = ps_table([*news, *rows], namespaces=everywhere, wide=wide)
            for line in as_wide_as_all.lines(room())[seen is not None : 1 + len(news)]:
                click.echo(line)
            seen = rows
            await asyncio.sleep(_EVERY)

    target.work(follow)


def changes(before: list[Row], now: list[Row]) -> Iterator[Row]:
    """Those that are new or otherwise than before, but for growing older; and those that have gone."""
    known = {(row["namespace"], row["workload"]): {**row, "age": ""} for row in before}
    for row in now:
        if known.pop((row["namespace"], row["workload"]), None) != {**row, "age": ""}:
            yield row
    gone = known.keys()
    yield from ({**row, "state": "Deleted"} for row in before if (row["namespace"], row["workload"]) in gone)


def ps_table(rows: list[Row], *, namespaces: bool, wide: bool = False) -> Table:
    columns = Columns(
        ("namespace",) * namespaces + _COLUMNS, _WIDE, spare=("queue", "age"), headings={"position": "POS"}
    )
    return columns.table(rows, wide=wide)


async def listed(
    client: "HttpClient", namespace: str, *, everywhere: bool, placed: bool = False
) -> tuple[list[Row], int]:
    """What `ps` shows, and how many unfinished jobs other namespaces have. With `placed` also where their pods are."""
    from gpuaas.cli.look import picture, pods_and_owners
    from gpuaas.kueue.explain.snapshot import engine_of, state_of

    found = await picture(client, namespace)
    order = {
        item.key: place
        for queue in engine_of(found).forest.queues.values()
        for place, item in enumerate(queue.pending.ordered(), 1)
    }
    where = nodes_below(*await pods_and_owners(client, "" if everywhere else namespace)) if placed else {}
    rows: list[Row] = []
    elsewhere = 0
    for workload in sorted(found.workloads, key=lambda each: _age(each, order)):
        if not everywhere and workload["metadata"]["namespace"] != namespace:
            elsewhere += state_of(workload) not in _OVER
            continue
        row = _row(found, workload, order)
        rows.append({**row, "nodes": _nodes(workload, where)} if placed else row)
    return rows, elsewhere


def _age(workload: "Object", order: dict[str, int]) -> tuple[str, int, str]:
    """The oldest first; of those made in the same second, those that wait last, in their order."""
    meta = workload["metadata"]
    return meta["creationTimestamp"], order.get(f"{meta['namespace']}/{meta['name']}", 0), meta["name"]


def _row(picture: "Picture", workload: "Object", order: dict[str, int]) -> Row:
    from gpuaas.api.durations import age
    from gpuaas.base.clock import SystemClock
    from gpuaas.cli.look import gpus_of
    from gpuaas.kueue.explain.evidence import given_flavors
    from gpuaas.kueue.explain.snapshot import owner_of, state_of

    meta, spec = workload["metadata"], workload.get("spec") or {}
    kind, name = owner_of(workload)
    local = picture.local_queue(meta["namespace"], spec.get("queueName", "")) or {"spec": {}}
    admission = (workload.get("status") or {}).get("admission") or local["spec"]
    return {
        "namespace": meta["namespace"],
        "job": f"{kind.lower()}/{name}",
        "queue": spec.get("queueName", ""),
        "state": state_of(workload),
        "position": order.get(f"{meta['namespace']}/{meta['name']}"),
        "gpus": str(gpus_of(spec)),
        "age": age(meta["creationTimestamp"], SystemClock().now()),
        "workload": meta["name"],
        "clusterQueue": admission.get("clusterQueue", ""),
        "flavors": given_flavors(workload),
        "priority": spec.get("priority", 0),
    }


def nodes_below(pods: list["Object"], owners: list["Object"]) -> dict[str, set[str]]:
    """The nodes of pods, by the uid of everything the pods stem from and by the workload they name."""
    above = {each["metadata"]["uid"]: _owner_uids(each) for each in owners}
    found: dict[str, set[str]] = {}
    for pod in pods:
        meta, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName")
        if not node:
            continue
        named = (meta.get("annotations") or {}).get("kueue.x-k8s.io/workload", "")
        reached, climbing = {f"{meta['namespace']}/{named}"}, [meta["uid"], *_owner_uids(pod)]
        while climbing:
            if (uid := climbing.pop()) not in reached:
                reached.add(uid)
                climbing += above.get(uid, ())
        for each in reached:
            found.setdefault(each, set()).add(node)
    return found


def _nodes(workload: "Object", where: dict[str, set[str]]) -> list[str]:
    meta = workload["metadata"]
    family = (meta["uid"], f"{meta['namespace']}/{meta['name']}", *_owner_uids(workload))
    return sorted({node for each in family for node in where.get(each, ())})


def _owner_uids(obj: "Object") -> list[str]:
    return [each["uid"] for each in obj["metadata"].get("ownerReferences") or ()]
