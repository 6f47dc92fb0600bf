"""`queues`, `gpus`, `stop`, `resume`: the state of quotas and nodes, and who may go on."""

from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, on_a_cluster
from gpuaas.cli.owners import Whose, of_a_user
from gpuaas.cli.show import Columns

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object


QUEUE_COLUMNS = Columns(
    ("clusterqueue", "cohort", "flavor", "resource", "nominal", "used", "borrowed", "waiting", "state"),
    ("cards", "borrowingLimit", "lendingLimit", "admitted"),
    spare=("cohort", "state", "borrowed", "waiting"),
    headings={"cards": "CARDS USED", "borrowingLimit": "BORROWING LIMIT", "lendingLimit": "LENDING LIMIT"},
)
GPU_COLUMNS = Columns(("product", "resource", "nodes", "total", "used", "free", "cards"), spare=("resource", "nodes"))
_FREE_COLUMNS = Columns(
    (*GPU_COLUMNS.always, "largest", "forYou", "users"),
    spare=(*GPU_COLUMNS.spare, "cards", "users", "largest"),
    headings={"largest": "ON ONE NODE", "forYou": "FOR YOU", "users": "USER"},
)
_NODE_COLUMNS = Columns(
    ("node", "product", "resource", "total", "used", "free", "users"),
    spare=("resource", "product", "users"),
    headings={"users": "USER"},
)


@click.command()
@on_a_cluster("wide")
def queues(target: Target) -> None:
    """Quota by queue, flavor and resource: nominal, used, borrowed, waiting."""
    rows = target.work(lambda client, _: queue_rows(client, target.namespace))

    def in_words() -> None:
        if rows:
            QUEUE_COLUMNS.table(rows, wide=target.output == "wide").print()
        else:
            where = f" that namespace {target.namespace} has a queue for" if target.namespace else ""
            click.echo(f"there is no ClusterQueue with quota{where}")

    target.show(rows, in_words)


async def queue_rows(client: "HttpClient", namespace: str = "") -> list[dict[str, Any]]:
    """Of all ClusterQueues, or of those that the namespace has a LocalQueue for."""
    from gpuaas.views import read

    return [row.shown() for row in await read.queues(client, namespace)]


@click.command()
@click.option("--cards", "by_card", is_flag=True, help="Each card: its node, index, UUID, memory, sharing and holders.")
@of_a_user
@on_a_cluster("wide")
def gpus(target: Target, by_card: bool, user: Whose) -> None:
    """The GPUs of the nodes: product, how many, how many in use and by whom, how many are free for you.

    ON ONE NODE: the most that are free on one node; a pod that asks for more has to wait.
    FOR YOU: the most that one of your queues would admit now, of those that are free.
    """
    if by_card:
        from gpuaas.cli.cards import show_cards

        show_cards(target, user)
        return

    async def look(client: "HttpClient", namespace: str) -> list[dict[str, Any]]:
        owner = await user.name(client)
        return held_by(owner, await free_gpu_rows(client, namespace, details=target.output != "text"))

    rows = target.work(look)

    def in_words() -> None:
        if not rows and (user.named or user.mine):
            click.echo("no GPU is in use by " + (user.named or "you"))
        elif not rows:
            click.echo("no node offers GPUs")
            from gpuaas.cli.cards import driver_faults

            for words in target.work(driver_faults):
                click.echo(words, err=True)
        elif target.output == "wide":
            nodes = [{**row, **node} for row in rows for node in row["perNode"]]
            _NODE_COLUMNS.table([*map(_named, nodes)]).print()
        else:
            _FREE_COLUMNS.table([*map(_named, rows)]).print()
        if rows and rows[0]["used"] is None:
            hint = "gpuaas queues shows the quotas"
            click.echo(f"how many are in use only shows to who may list all pods; {hint}", err=True)
        if rows:
            from gpuaas.cli.cards import foreign_lines

            for words in target.work(foreign_lines):
                click.echo(words, err=True)

    target.show(rows, in_words)


async def gpu_rows(client: "HttpClient", *, details: bool = True) -> list[dict[str, Any]]:
    """By product; with `details` also those of each node, as far as the user may see them."""
    from gpuaas.views import read

    return [row.shown() for row in await read.gpus(client, details=details)]


async def free_gpu_rows(client: "HttpClient", namespace: str, *, details: bool = True) -> list[dict[str, Any]]:
    """As `gpu_rows`, with what is free for the caller, where that can be known."""
    from gpuaas.views import read

    rows = await gpu_rows(client, details=details)
    free = {(row.product, row.resource): row.shown() for row in await read.free(client, namespace)}
    names = ("largest", "forYou", "largestForYou", "queues")
    for row in rows:
        found = free.get((row["product"], row["resource"]), {})
        row.update({name: found.get(name) for name in names})
    return rows


def held_by(owner: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of which this user holds some, with what others hold left out; all of them without one."""
    if not owner:
        return rows

    def only(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "users": {owner: row["users"][owner]}} for row in rows if owner in row["users"]]

    return [{**row, "perNode": only(row["perNode"])} for row in only(rows)]


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "users": [f"{name} {amount}" for name, amount in row["users"].items()]}


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
@on_a_cluster()
def stop(target: Target, kind: str, name: str, keep_already_running: bool) -> None:
    """Stop a queue (evicting what runs, unless kept) or a workload, named by itself or by its job."""
    policy = "Hold" if keep_already_running else "HoldAndDrain"
    spec = {"active": False} if kind == "workload" else {"stopPolicy": policy}
    effect = "" if kind == "workload" else "what runs goes on" if keep_already_running else "what runs is evicted"
    done = target.work(lambda client, namespace: _set(client, namespace, kind, name, spec))
    _told(target, kind, done, "stopped", effect)


@click.command()
@click.argument("kind", type=_KINDS)
@click.argument("name")
@on_a_cluster()
def resume(target: Target, kind: str, name: str) -> None:
    """Let a stopped queue or workload go on."""
    spec = {"active": True} if kind == "workload" else {"stopPolicy": "None"}
    _told(target, kind, target.work(lambda client, namespace: _set(client, namespace, kind, name, spec)), "resumed")


def _told(target: Target, kind: str, name: str, what: str, effect: str = "") -> None:
    words = f"{kind}/{name} is {what}{'; ' if effect else ''}{effect}"
    target.show({what: f"{kind}/{name}"}, lambda: click.echo(words))


async def _set(client: "HttpClient", namespace: str, kind: str, name: str, spec: "Object") -> str:
    """The name of what was changed."""
    from gpuaas.base.errors import NotFound
    from gpuaas.cli.queries import find_workload
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
    """What a check or a limit deactivated is kept out though it is active again, until a user resumes it."""
    from gpuaas.base.clock import SystemClock, rfc3339
    from gpuaas.base.errors import Conflict
    from gpuaas.client.kueue import WORKLOADS
    from gpuaas.kueue.workload_state import conditions_of, is_kept_out

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
