"""`why`, `cancel`, `logs`: what a person does with jobs that are in the system."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.kueue.explain.why import Answer


_AGAIN = 0.5  # seconds between looks whether a job that is followed has begun


@click.command()
@click.argument("job")
@on_a_cluster()
def why(target: Target, job: str) -> None:
    """Why JOB waits: one reason, the evidence, and ways out.

    JOB is a name, or kind/name: train, job/train, raycluster/dev, workload/job-train-1a2b3.
    """
    answer = target.work(lambda client, namespace: explained(client, namespace, job))
    target.show(answer, lambda: _tell(answer))


def _tell(answer: dict[str, Any]) -> None:
    click.echo(f"{answer['subject']}: {answer['state']} ({answer['reason']})")
    if answer.get("owner"):
        click.echo(f"  USER: {answer['owner']}")
    click.echo(f"  {answer['sentence']}")
    for line in answer["evidence"]:
        click.echo(f"    {line}")
    if answer["waysOut"]:
        click.echo("  ways out:")
        for way in answer["waysOut"]:
            click.echo(f"    - {way}")


async def explained(client: "HttpClient", namespace: str, job: str) -> dict[str, Any]:
    """By the server, where it serves views and a Workload goes by that name; else here, from lists."""
    from gpuaas.cli.kinds import kind_of
    from gpuaas.views import read

    kind, _, name = job.rpartition("/")
    found = await read.why(client, namespace, name, kind_of(kind)) if name else None
    return found or (await _explained_here(client, namespace, job)).as_object()


async def _explained_here(client: "HttpClient", namespace: str, job: str) -> "Answer":
    from gpuaas.base.clock import SystemClock
    from gpuaas.cli.queries import everything, find_job, find_workload, named, picture, workload_of
    from gpuaas.client.kueue import LOCAL_QUEUES, PRIORITY_CLASSES, WORKLOADS
    from gpuaas.kueue.explain.why import why as explain
    from gpuaas.kueue.explain.why import why_no_workload

    workloads = (await client.list(WORKLOADS, namespace)).items
    workload = named(workloads, job)
    found = None if workload is not None else await find_job(client, namespace, job)
    if found is not None:
        workload = await workload_of(client, namespace, found[1], workloads)
    if found is None or workload is not None:
        workload = workload or await find_workload(client, namespace, job)  # says what there is instead
        return explain(await picture(client, namespace, pods=True), workload, round(SystemClock().now() * 1000))
    kind, obj = found
    queues = await everything(client, LOCAL_QUEUES, namespace, only=True) or []
    classes = await everything(client, PRIORITY_CLASSES)
    known = None if classes is None else [each["metadata"]["name"] for each in classes]
    return why_no_workload(obj, kind, queues, priorities=known)


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@on_a_cluster()
def cancel(target: Target, jobs: tuple[str, ...]) -> None:
    """Delete each JOB and everything it made.

    JOB is a name, or kind/name: train, job/train, raycluster/dev.
    """

    async def act(client: "HttpClient", namespace: str) -> list[str]:
        found = [await _deletable(client, namespace, job) for job in jobs]  # all of them, before any is gone
        return [await _delete(client, namespace, *each) for each in dict.fromkeys(found)]

    cancelled = target.work(act)
    words = "\n".join(f"{each} is cancelled" for each in cancelled)
    target.show({"cancelled": cancelled[0] if len(cancelled) == 1 else cancelled}, lambda: click.echo(words))


async def _deletable(client: "HttpClient", namespace: str, job: str) -> tuple[str, str, str]:
    """What a person made: its kind, name and version."""
    from gpuaas.cli.queries import find_job, find_workload, named
    from gpuaas.client.kueue import WORKLOADS
    from gpuaas.kueue.explain.snapshot import owner_of

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
@on_a_cluster(objects=False)
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
    """`heard` is called with everything that comes."""
    from gpuaas.cli.queries import pods_and_owners, whose_pods
    from gpuaas.cli.wait import outcome
    from gpuaas.kueue.explain.snapshot import Picture, owner_of, pods_of, state_of

    announced = False
    while True:
        workload = await whose_pods(client, namespace, job)
        pods, owners = await pods_and_owners(client, namespace)
        mine = pods_of(Picture(pods=pods, owners=owners), workload)
        if mine:
            break
        name = f"{owner_of(workload)[1]} -n {namespace}"
        over = state_of(workload) in ("Succeeded", "Failed") or outcome(workload)[1] is not None
        waits = follow and not over
        if not announced:
            ahead = ", what it writes comes when it runs" if waits else ""
            click.echo(f"{job} has no pods (yet); gpuaas why {name} says why{ahead}", err=True)
        if not waits:
            return
        announced = True
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
