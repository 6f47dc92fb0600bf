"""`ps`, `why`, `cancel`, `logs`: what a person does with jobs that are in the system."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster, print_json, print_table

if TYPE_CHECKING:
    from gpuaas.admission.why import Answer
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object


_AGAIN = 0.5  # seconds between looks whether a job that is followed has begun


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of every namespace.")
@click.option("--finished", is_flag=True, help="Those that have finished, too.")
@on_a_cluster("json", "wide")
def ps(target: Target, all_namespaces: bool, finished: bool) -> None:
    """The jobs in the queues: state, place in the queue, GPUs, age."""
    rows, elsewhere = target.work(lambda client, namespace: listed(client, namespace, everywhere=all_namespaces))
    rows = [row for row in rows if finished or row["state"] not in ("Succeeded", "Failed")]
    if target.output == "json":
        print_json(rows)
        return
    if not rows:
        click.echo("no jobs" if finished else "no jobs wait or run (finished ones: gpuaas ps --finished)")
        if elsewhere:
            click.echo(f"other namespaces have {elsewhere} (gpuaas ps -A)", err=True)
        return
    print_table(*ps_table(rows, namespaces=all_namespaces, wide=target.output == "wide"))


def ps_table(
    rows: list[dict[str, Any]], *, namespaces: bool, wide: bool = False
) -> tuple[list[str], list[list[object]]]:
    columns = ["namespace"] * namespaces + ["job", "queue", "state", "position", "gpus", "age"] + ["workload"] * wide
    headers = [{"position": "POS"}.get(name, name.upper()) for name in columns]
    return headers, [["" if row[name] is None else row[name] for name in columns] for row in rows]


async def listed(client: "HttpClient", namespace: str, *, everywhere: bool) -> tuple[list[dict[str, Any]], int]:
    """What `ps` shows, and how many unfinished jobs other namespaces have."""
    from gpuaas.admission.picture import engine_of, state_of
    from gpuaas.api.durations import age
    from gpuaas.base.clock import SystemClock
    from gpuaas.cli.look import picture, shown

    found = await picture(client, namespace)
    engine = engine_of(found)
    order = {
        item.key: place
        for queue in engine.forest.queues.values()
        for place, item in enumerate(queue.pending.ordered(), 1)
    }
    now = SystemClock().now()
    rows: list[dict[str, Any]] = []
    elsewhere = 0
    for workload in sorted(found.workloads, key=lambda each: _age(each, order)):
        meta = workload["metadata"]
        if not everywhere and meta["namespace"] != namespace:
            elsewhere += state_of(workload) not in ("Succeeded", "Failed")
            continue
        row = shown(workload, order.get(f"{meta['namespace']}/{meta['name']}"))
        rows.append(
            {
                "namespace": row.namespace,
                "job": row.full,
                "queue": row.queue,
                "state": row.state,
                "position": row.position,
                "gpus": row.gpus,
                "age": age(row.created, now),
                "workload": row.workload,
            }
        )
    return rows, elsewhere


def _age(workload: "Object", order: dict[str, int]) -> tuple[str, int, str]:
    """The oldest first; of those made in the same second, those that wait last, in their order."""
    meta = workload["metadata"]
    return meta["creationTimestamp"], order.get(f"{meta['namespace']}/{meta['name']}", 0), meta["name"]


@click.command()
@click.argument("job")
@on_a_cluster("json")
def why(target: Target, job: str) -> None:
    """Why JOB waits: one reason, the evidence, and ways out.

    JOB is a name, or kind/name: train, job/train, raycluster/dev, workload/job-train-1a2b3.
    """
    answer = target.work(lambda client, namespace: explained(client, namespace, job))
    if target.output == "json":
        print_json(answer.as_object())
        return
    click.echo(f"{answer.subject}: {answer.state} ({answer.reason})")
    click.echo(f"  {answer.sentence}")
    for line in answer.evidence:
        click.echo(f"    {line}")
    if answer.ways:
        click.echo("  ways out:")
        for way in answer.ways:
            click.echo(f"    - {way}")


async def explained(client: "HttpClient", namespace: str, job: str) -> "Answer":
    from gpuaas.admission.why import why as explain
    from gpuaas.admission.why import why_no_workload
    from gpuaas.base.clock import SystemClock
    from gpuaas.cli.look import everything, find_job, find_workload, named, picture, workload_of
    from gpuaas.client.kueue import PRIORITY_CLASSES, WORKLOADS

    workloads = (await client.list(WORKLOADS, namespace)).items
    workload = named(workloads, job)
    found = None if workload is not None else await find_job(client, namespace, job)
    if found is not None:
        workload = await workload_of(client, namespace, found[1], workloads)
    if found is None or workload is not None:
        workload = workload or await find_workload(client, namespace, job)  # says what there is instead
        return explain(await picture(client, namespace, pods=True), workload, round(SystemClock().now() * 1000))
    kind, obj = found
    whole = await picture(client, namespace)
    queues = [each for each in whole.local_queues if each["metadata"]["namespace"] == namespace]
    classes = await everything(client, PRIORITY_CLASSES)
    known = None if classes is None else [each["metadata"]["name"] for each in classes]
    return why_no_workload(obj, kind, queues, priorities=known)


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@on_a_cluster("json")
def cancel(target: Target, jobs: tuple[str, ...]) -> None:
    """Delete each JOB and everything it made.

    JOB is a name, or kind/name: train, job/train, raycluster/dev.
    """

    async def act(client: "HttpClient", namespace: str) -> list[str]:
        found = [await _deletable(client, namespace, job) for job in jobs]  # all of them, before any is gone
        return [await _delete(client, namespace, *each) for each in dict.fromkeys(found)]

    cancelled = target.work(act)
    if target.output == "json":
        print_json({"cancelled": cancelled[0] if len(cancelled) == 1 else cancelled})
    else:
        for each in cancelled:
            click.echo(f"{each} is cancelled")


async def _deletable(client: "HttpClient", namespace: str, job: str) -> tuple[str, str, str]:
    """What a person made: its kind, name and version."""
    from gpuaas.admission.picture import owner_of
    from gpuaas.cli.look import find_job, find_workload, named
    from gpuaas.client.kueue import WORKLOADS

    workload = named((await client.list(WORKLOADS, namespace)).items, job)
    found = None if workload is not None else await find_job(client, namespace, job)
    if found is not None:
        return found[0], found[1]["metadata"]["name"], found[1]["apiVersion"]
    workload = workload or await find_workload(client, namespace, job)  # says what there is instead
    kind, name = owner_of(workload)
    owners = workload["metadata"].get("ownerReferences") or ()
    return kind, name, next((each["apiVersion"] for each in owners if each["name"] == name), WORKLOADS.api_version)


async def _delete(client: "HttpClient", namespace: str, kind: str, name: str, version: str) -> str:
    from gpuaas.client.protocol import Propagation, Resource

    served = [each.resource for each in await client.discover() if each.resource.kind == kind]
    group, _, number = version.rpartition("/")
    guess = Resource(group, number, f"{kind.lower()}s", True, kind)
    where = next((each for each in served if each.api_version == version), guess)
    await client.delete(where, name, namespace, propagation=Propagation.BACKGROUND)
    return f"{kind.lower()}/{name}"


@click.command()
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until it ends.")
@click.option("--tail", type=click.IntRange(min=0), default=None, help="Only so many of the last lines.")
@on_a_cluster()
def logs(target: Target, job: str, follow: bool, tail: int | None) -> None:
    """What JOB's pods wrote.

    JOB is a name, or kind/name: train, job/train, raycluster/dev.
    """
    target.work(lambda client, namespace: show_logs(client, namespace, job, follow=follow, tail=tail))


async def _begun(client: "HttpClient", namespace: str, pod: str) -> None:
    """Waits until the pod has something to say, or will never have."""
    from gpuaas.client.resources import PODS

    while True:
        found = await client.get(PODS, pod, namespace)
        if (found.get("status") or {}).get("phase", "Pending") != "Pending":
            return
        await asyncio.sleep(_AGAIN)


async def show_logs(
    client: "HttpClient",
    namespace: str,
    job: str,
    *,
    follow: bool,
    tail: int | None = None,
    heard: Callable[[], None] = lambda: None,
) -> None:
    """`heard` is told of everything that comes."""
    from gpuaas.admission.picture import Picture, owner_of, pods_of, state_of
    from gpuaas.cli.look import pods_and_owners, whose_pods
    from gpuaas.cli.wait import outcome

    told = False
    while True:
        workload = await whose_pods(client, namespace, job)
        pods, owners = await pods_and_owners(client, namespace)
        mine = pods_of(Picture(pods=pods, owners=owners), workload)
        if mine:
            break
        name = f"{owner_of(workload)[1]} -n {namespace}"
        over = state_of(workload) in ("Succeeded", "Failed") or outcome(workload)[1] is not None
        waits = follow and not over
        if not told:
            ahead = ", what it writes comes when it runs" if waits else ""
            click.echo(f"{job} has no pods (yet); gpuaas why {name} says why{ahead}", err=True)
        if not waits:
            return
        told = True
        await asyncio.sleep(_AGAIN)

    async def one(pod: str) -> None:
        prefix = f"[{pod}] " if len(mine) > 1 else ""
        pending = ""
        if follow:
            await _begun(client, namespace, pod)
        async for piece in client.log(pod, namespace, follow=follow, tail_lines=tail):
            heard()
            *lines, pending = (pending + piece.decode(errors="replace")).split("\n")
            for line in lines:
                click.echo(prefix + line)
        if pending:
            click.echo(prefix + pending)

    names = sorted(str(each["metadata"]["name"]) for each in mine)
    if follow:
        await asyncio.gather(*map(one, names))
        return
    for each in names:
        await one(each)
