"""`ps`, `why`, `cancel`, `logs`: what a person does with jobs that are in the system."""

from typing import TYPE_CHECKING

import click

from gpuaas.cli.context import Target, on_a_cluster, print_json, print_table

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True)
@click.option("--finished", is_flag=True, help="Finished ones too.")
@on_a_cluster("json")
def ps(target: Target, all_namespaces: bool, finished: bool) -> None:
    """The jobs in the queues: state, place in the queue, GPUs, age."""
    rows = target.work(lambda client, namespace: _listed(client, "" if all_namespaces else namespace))
    rows = [row for row in rows if finished or row["state"] not in ("Succeeded", "Failed")]
    if target.output == "json":
        print_json(rows)
        return
    if not rows:
        click.echo("no jobs" if finished else "no jobs wait or run (finished ones: gpuaas ps --finished)")
        return
    headers = ("NAMESPACE", "JOB", "QUEUE", "STATE", "POS", "GPUS", "AGE")
    cells = [
        (row["namespace"], row["job"], row["queue"], row["state"], row["position"] or "", row["gpus"], row["age"])
        for row in rows
    ]
    print_table(headers[1:], [row[1:] for row in cells]) if not all_namespaces else print_table(headers, cells)


async def _listed(client: "HttpClient", namespace: str) -> list[dict[str, object]]:
    from gpuaas.admission.picture import engine_of
    from gpuaas.api.durations import age
    from gpuaas.base.clock import SystemClock
    from gpuaas.cli.look import picture, shown

    found = await picture(client)
    engine = engine_of(found)
    order = {
        item.key: place
        for queue in engine.forest.queues.values()
        for place, item in enumerate(queue.pending.ordered(), 1)
    }
    now = SystemClock().now()
    rows: list[dict[str, object]] = []
    for workload in sorted(found.workloads, key=lambda each: str(each["metadata"]["creationTimestamp"])):
        meta = workload["metadata"]
        if namespace and meta["namespace"] != namespace:
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
    return rows


@click.command()
@click.argument("job")
@on_a_cluster("json")
def why(target: Target, job: str) -> None:
    """Why JOB waits: one reason, the evidence, and ways out.

    JOB is a name, or kind/name: train, job/train, raycluster/dev, workload/job-train-1a2b3.
    """
    from gpuaas.admission.why import Answer
    from gpuaas.admission.why import why as explain
    from gpuaas.base.clock import SystemClock
    from gpuaas.cli.look import find_workload, picture

    async def ask(client: "HttpClient", namespace: str) -> Answer:
        workload = await find_workload(client, namespace, job)
        return explain(await picture(client, pods=True), workload, round(SystemClock().now() * 1000))

    answer = target.work(ask)
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


@click.command()
@click.argument("job")
@on_a_cluster()
def cancel(target: Target, job: str) -> None:
    """Delete JOB and everything it made."""
    from gpuaas.cli.look import find_workload, owner_of
    from gpuaas.client.protocol import Propagation, Resource

    async def act(client: "HttpClient", namespace: str) -> str:
        workload = await find_workload(client, namespace, job)
        kind, name = owner_of(workload)
        if kind == "Workload":
            from gpuaas.client.kueue import WORKLOADS

            await client.delete(WORKLOADS, name, namespace)
            return f"workload/{name}"
        owner = next(each for each in workload["metadata"]["ownerReferences"] if each["name"] == name)
        served = [each.resource for each in await client.discover() if each.resource.kind == kind]
        where = next((each for each in served if each.api_version == owner["apiVersion"]), None)
        if where is None:
            group, _, version = owner["apiVersion"].rpartition("/")
            where = Resource(group, version, f"{kind.lower()}s", True, kind)
        await client.delete(where, name, namespace, propagation=Propagation.BACKGROUND)
        return f"{kind.lower()}/{name}"

    click.echo(f"{target.work(act)} is cancelled")


@click.command()
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until it ends.")
@click.option("--tail", type=int, default=None, help="Only the last lines.")
@on_a_cluster()
def logs(target: Target, job: str, follow: bool, tail: int | None) -> None:
    """What JOB's pods wrote."""
    from gpuaas.cli.look import find_workload, owner_of
    from gpuaas.client.resources import PODS

    async def show(client: "HttpClient", namespace: str) -> None:
        workload = await find_workload(client, namespace, job)
        _, name = owner_of(workload)
        uids = {each["uid"] for each in workload["metadata"].get("ownerReferences") or ()}
        pods = [
            pod
            for pod in (await client.list(PODS, namespace)).items
            if pod["metadata"]["uid"] in uids
            or any(each["uid"] in uids for each in pod["metadata"].get("ownerReferences") or ())
        ]
        if not pods:
            click.echo(f"{name} has no pods (yet); gpuaas why {name} says why", err=True)
        for pod in sorted(pods, key=lambda each: str(each["metadata"]["name"])):
            pod_name = pod["metadata"]["name"]
            prefix = f"[{pod_name}] " if len(pods) > 1 else ""
            async for piece in client.log(pod_name, namespace, follow=follow, tail_lines=tail):
                for line in piece.decode(errors="replace").splitlines():
                    click.echo(prefix + line)

    target.work(show)
