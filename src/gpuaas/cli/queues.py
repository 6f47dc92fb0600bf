"""`queues`, `gpus`, `stop`, `resume`: the state of quotas and nodes, and who may go on."""

from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster, print_json, print_table

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object


QUEUE_COLUMNS = ("CLUSTERQUEUE", "COHORT", "FLAVOR", "RESOURCE", "NOMINAL", "USED", "BORROWED", "WAITING", "STATE")
GPU_COLUMNS = ("PRODUCT", "RESOURCE", "NODES", "TOTAL", "USED", "FREE")


@click.command()
@on_a_cluster("json")
def queues(target: Target) -> None:
    """Quota by queue, flavor and resource: nominal, used, borrowed, waiting."""
    rows = target.work(_of_namespace if target.namespace else queue_rows)
    if target.output == "json":
        print_json(rows)
    elif rows:
        print_table(QUEUE_COLUMNS, [[row[name.lower()] for name in QUEUE_COLUMNS] for row in rows])
    else:
        where = f" that namespace {target.namespace} has a queue for" if target.namespace else ""
        click.echo(f"there is no ClusterQueue with quota{where}")


async def _of_namespace(client: "HttpClient", namespace: str) -> list[dict[str, Any]]:
    from gpuaas.client.kueue import LOCAL_QUEUES

    led_to = {each["spec"]["clusterQueue"] for each in (await client.list(LOCAL_QUEUES, namespace)).items}
    return [row for row in await queue_rows(client, namespace) if row["clusterqueue"] in led_to]


async def queue_rows(client: "HttpClient", _namespace: str) -> list[dict[str, Any]]:
    from gpuaas.client.kueue import CLUSTER_QUEUES

    rows = []
    for queue in (await client.list(CLUSTER_QUEUES)).items:
        spec, status = queue.get("spec") or {}, queue.get("status") or {}
        used = {
            (flavor["name"], each["name"]): each
            for flavor in status.get("flavorsReservation") or ()
            for each in flavor.get("resources") or ()
        }
        active = next((each for each in status.get("conditions") or () if each["type"] == "Active"), None)
        state = "Unknown" if active is None else "Active" if active["status"] == "True" else active["reason"]
        for group in spec.get("resourceGroups") or ():
            for flavor in group.get("flavors") or ():
                for quota in flavor.get("resources") or ():
                    found = used.get((flavor["name"], quota["name"]), {})
                    rows.append(
                        {
                            "clusterqueue": queue["metadata"]["name"],
                            "cohort": spec.get("cohortName", ""),
                            "flavor": flavor["name"],
                            "resource": quota["name"],
                            "nominal": str(quota["nominalQuota"]),
                            "used": found.get("total", "0"),
                            "borrowed": found.get("borrowed", "0"),
                            "waiting": status.get("pendingWorkloads", 0),
                            "state": state,
                        }
                    )
    return rows


@click.command()
@on_a_cluster("json")
def gpus(target: Target) -> None:
    """The GPUs of the nodes: product, how many, how many in use."""
    rows = target.work(gpu_rows)
    if target.output == "json":
        print_json(rows)
        return
    if not rows:
        click.echo("no node offers GPUs")
        return
    print_table(GPU_COLUMNS, [[row[name.lower()] for name in GPU_COLUMNS] for row in rows])
    if rows[0]["used"] is None:
        click.echo("how many are in use only shows to who may list all pods; gpuaas queues shows the quotas", err=True)


async def gpu_rows(client: "HttpClient", _namespace: str) -> list[dict[str, Any]]:
    from gpuaas.admission.ledger import is_gpu
    from gpuaas.base.quantity import parse_quantity
    from gpuaas.client.resources import NODES

    nodes = (await client.list(NODES)).items
    used: dict[tuple[str, str], int] = {}
    pods = await _pods(client)
    for pod in pods or ():
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for container in (pod.get("spec") or {}).get("containers") or ():
            for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                key = ((pod["spec"].get("nodeName") or ""), name)
                if is_gpu(name):
                    used[key] = used.get(key, 0) + parse_quantity(amount).value
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for node in nodes:
        product = (node["metadata"].get("labels") or {}).get("nvidia.com/gpu.product", "unknown")
        for name, amount in ((node.get("status") or {}).get("allocatable") or {}).items():
            if is_gpu(name):
                row = found.setdefault(
                    (product, name), {"product": product, "resource": name, "nodes": 0, "total": 0, "used": 0}
                )
                row["nodes"] += 1
                row["total"] += parse_quantity(amount).value
                row["used"] += used.get((node["metadata"]["name"], name), 0)
    if pods is None:
        return [{**row, "used": None, "free": None} for _, row in sorted(found.items())]
    return [{**row, "free": row["total"] - row["used"]} for _, row in sorted(found.items())]


async def _pods(client: "HttpClient") -> "list[Object] | None":
    """All pods; None for who may not see them, and so cannot know how many GPUs are in use."""
    from gpuaas.base.errors import ApiError
    from gpuaas.client.resources import PODS

    try:
        return (await client.list(PODS)).items
    except ApiError as error:
        if error.code != 403:
            raise
        return None


class _Kinds(click.Choice[str]):
    """Short names go too, as everywhere else."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(_SHORT.get(value, value), param, ctx)


_SHORT = {"cq": "clusterqueue", "lq": "localqueue", "wl": "workload", "kwl": "workload"}
_TRIES = 5  # while others write the same object
_KINDS = _Kinds(["clusterqueue", "localqueue", "workload"])


@click.command()
@click.argument("kind", type=_KINDS)
@click.argument("name")
@click.option("--keep-already-running", is_flag=True, help="Only admit nothing new; what runs goes on.")
@on_a_cluster("json")
def stop(target: Target, kind: str, name: str, keep_already_running: bool) -> None:
    """Stop a queue (evicting what runs, unless kept) or a workload, named by itself or by its job."""
    policy = "Hold" if keep_already_running else "HoldAndDrain"
    spec = {"active": False} if kind == "workload" else {"stopPolicy": policy}
    _told(target, kind, target.work(lambda client, namespace: _set(client, namespace, kind, name, spec)), "stopped")


@click.command()
@click.argument("kind", type=_KINDS)
@click.argument("name")
@on_a_cluster("json")
def resume(target: Target, kind: str, name: str) -> None:
    """Let a stopped queue or workload go on."""
    spec = {"active": True} if kind == "workload" else {"stopPolicy": "None"}
    _told(target, kind, target.work(lambda client, namespace: _set(client, namespace, kind, name, spec)), "resumed")


def _told(target: Target, kind: str, name: str, what: str) -> None:
    if target.output == "json":
        print_json({what: f"{kind}/{name}"})
    else:
        click.echo(f"{kind}/{name} is {what}")


async def _set(client: "HttpClient", namespace: str, kind: str, name: str, spec: "Object") -> str:
    """The name of what was changed."""
    from gpuaas.base.errors import NotFound
    from gpuaas.cli.look import find_workload
    from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS

    resource = {"clusterqueue": CLUSTER_QUEUES, "localqueue": LOCAL_QUEUES, "workload": WORKLOADS}[kind]
    where = namespace if resource.namespaced else ""
    if kind == "workload":
        name = str((await find_workload(client, namespace, name))["metadata"]["name"])
    try:
        await client.patch(resource, name, {"spec": spec}, where)
    except NotFound:
        names = [each["metadata"]["name"] for each in (await client.list(resource, where)).items]
        there = f" in namespace {namespace}" if where else ""
        raise click.ClickException(
            f"there is no {kind} {name}{there}; there are: {', '.join(names[:20]) or 'none'}"
        ) from None
    if spec.get("active"):
        await _let_in(client, namespace, name)
    return name


async def _let_in(client: "HttpClient", namespace: str, name: str) -> None:
    """What a check or a limit deactivated is kept out though it is active again, until somebody says so."""
    from gpuaas.admission.life import conditions_of, is_kept_out
    from gpuaas.base.clock import SystemClock, rfc3339
    from gpuaas.base.errors import Conflict
    from gpuaas.client.kueue import WORKLOADS

    for _ in range(_TRIES):
        seen = await client.get(WORKLOADS, name, namespace)
        if not is_kept_out(conditions_of(seen)):
            return
        others = [each for each in seen["status"]["conditions"] if each["type"] != "Requeued"]
        let_in = {
            "type": "Requeued",
            "status": "True",
            "reason": "Reactivated",
            "message": "The workload was reactivated",
        }
        conditions = [*others, {**let_in, "lastTransitionTime": rfc3339(SystemClock().now())}]
        version = {"resourceVersion": seen["metadata"]["resourceVersion"]}
        try:
            change = {"metadata": version, "status": {"conditions": conditions}}
            await client.patch(WORKLOADS, name, change, namespace, subresource="status")
            return
        except Conflict:
            continue
