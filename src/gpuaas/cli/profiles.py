"""`gpuaas profiles`: the hardware one can pick by name, what is free of it, and making a new profile in one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from gpuaas.cli.context import Target, WrongOption, on_a_cluster
from gpuaas.cli.get import unmanaged
from gpuaas.cli.profile_choice import PROFILES, SHARED, listed
from gpuaas.cli.show import Columns

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object

_COLUMNS = Columns(
    ("profile", "name", "gets", "queue", "free"),
    ("limits", "description", "priority", "namespace"),
    spare=("queue", "name"),
)
_ORDER_OF: Final = "odh-dashboard-config"


@click.group(invoke_without_command=True)
@click.option(
    "--for", "feature", type=click.Choice(["workbench", "model-serving"]), help="Only what is offered for it."
)
@on_a_cluster("wide")
@click.pass_context
def profiles(context: click.Context, /, target: Target, feature: str | None) -> None:
    """The hardware profiles: what one gets, the queue, and how many are free now for you."""
    if context.invoked_subcommand is None:
        _list(target, [feature] if feature else [])


def _list(target: Target, features: list[str]) -> None:
    rows = target.work(lambda client, namespace: _rows(client, namespace, features))

    def in_words() -> None:
        offered = [row for row in rows if not row["hidden"]]
        hidden = [row for row in rows if row["hidden"]]
        if offered:
            shown = [{**row, "free": "-" if row["free"] is None else row["free"]} for row in offered]
            _COLUMNS.table(shown, wide=target.output == "wide").print()
        elif not hidden:
            click.echo(
                "there is no hardware profile; make one:  gpuaas profiles create l4-1gpu --gpus 1 --cpu 4 --memory 16Gi"
            )
        for row in hidden:
            click.echo(f"not offered: {row['profile']}: {row['hidden']}", err=True)
        if offered:
            click.echo(f"  gpuaas run --profile {offered[0]['profile']} -- COMMAND", err=True)

    target.show(rows, in_words)


async def _rows(client: HttpClient, namespace: str, features: list[str]) -> list[dict[str, Any]]:
    from gpuaas.base.errors import ApiError
    from gpuaas.client.kueue import LOCAL_QUEUES
    from gpuaas.views import profiles as rows
    from gpuaas.views import read

    async def seen(wanted: Any) -> Any:
        try:
            return await wanted
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            return None

    there = await listed(client, namespace)
    queues = await seen(client.list(LOCAL_QUEUES, namespace))
    quotas, gpus = await seen(read.queues(client, namespace)), await seen(read.gpus(client))
    local = {one["metadata"]["name"]: one["spec"].get("clusterQueue", "") for one in (queues.items if queues else ())}
    around = rows.Surroundings(local, quotas or (), gpus or (), gpus is not None)
    return [row.shown() for row in rows.rows(there, around, await _order(client), features)]


async def _order(client: HttpClient) -> list[str]:
    """The administrator's order, from the dashboard's configuration."""
    from gpuaas.base.errors import ApiError
    from gpuaas.client.protocol import Resource

    configs = Resource("opendatahub.io", "v1alpha", "odhdashboardconfigs", True, "OdhDashboardConfig")
    for place in SHARED:
        try:
            found = await client.get(configs, _ORDER_OF, place)
        except ApiError:
            continue
        return [str(name) for name in (found.get("spec") or {}).get("hardwareProfileOrder") or ()]
    return []


@profiles.command()
@click.argument("name")
@click.option("--display-name", default="", help="What people see.  [default: the name]")
@click.option("--description", default="", help="One line about it.")
@click.option("--cpu", default="2", show_default=True, help="CPUs: DEFAULT, MIN-MAX or MIN-DEFAULT-MAX.")
@click.option("--memory", default="8Gi", show_default=True, help="Memory, written the same way.")
@click.option(
    "--gpus", default="0", show_default=True, help="GPUs, written the same way; PRODUCT:N asks for a product."
)
@click.option(
    "--resource", default="nvidia.com/gpu", show_default=True, help="Which resource GPUs are (a MIG slice, say)."
)
@click.option("--queue", default="", help="The LocalQueue its users wait in.")
@click.option("--priority", default="", help="The WorkloadPriorityClass of its users' jobs; needs --queue.")
@click.option("--toleration", "tolerations", multiple=True, help="KEY or KEY=VALUE of a taint its pods tolerate.")
@click.option("--shared/--own", default=True, show_default=True, help="For all namespaces, or only for this one.")
@click.option("--dry-run", is_flag=True, help="Only show the manifest.")
@on_a_cluster()
def create(target: Target, name: str, shared: bool, dry_run: bool, **wanted: Any) -> None:
    """Make a hardware profile:  gpuaas profiles create l4-1gpu --gpus 1 --cpu 4 --memory 16Gi --queue default"""
    profile = profile_for(name, **wanted)

    async def make(client: HttpClient, namespace: str) -> Object:
        place = SHARED[0] if shared else namespace
        if not dry_run:
            await _ensure_namespace(client, place)
        return await client.create(PROFILES, profile, place, dry_run=dry_run)

    if dry_run:
        from gpuaas.cli.show import show

        show("json" if target.output == "json" else "yaml", profile, lambda: None)
        return
    made = unmanaged(target.work(make))
    words = f"hardware profile {name} is in namespace {made['metadata']['namespace']}"
    if shared and target.namespace:
        words += f", for all namespaces (only for {target.namespace}: --own)"
    target.show(made, lambda: click.echo(f"{words}\n  gpuaas run --profile {name} -- COMMAND · gpuaas profiles"))


async def _ensure_namespace(client: HttpClient, name: str) -> None:
    from gpuaas.base.errors import AlreadyExists, ApiError
    from gpuaas.client.resources import NAMESPACES

    try:
        await client.get(NAMESPACES, name)
    except ApiError:
        try:
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except AlreadyExists:
            return


def profile_for(
    name: str,
    *,
    display_name: str = "",
    description: str = "",
    cpu: str = "2",
    memory: str = "8Gi",
    gpus: str = "0",
    resource: str = "nvidia.com/gpu",
    queue: str = "",
    priority: str = "",
    tolerations: tuple[str, ...] = (),
) -> Object:
    """The HardwareProfile that `gpuaas profiles create` makes."""
    product, _, number = gpus.rpartition(":")
    listed = [_identifier("cpu", "CPU", "CPU", cpu), _identifier("memory", "Memory", "Memory", memory)]
    if number != "0":
        listed.append(_identifier(resource, f"{product or 'GPU'}", "Accelerator", number))
    scheduling = _scheduling(product, queue, priority, tolerations)
    texts = {"opendatahub.io/display-name": display_name, "opendatahub.io/description": description}
    notes = {key: text for key, text in texts.items() if text}
    return {
        "apiVersion": PROFILES.api_version,
        "kind": PROFILES.kind,
        "metadata": {"name": name, **({"annotations": notes} if notes else {})},
        "spec": {"identifiers": listed, **({"scheduling": scheduling} if scheduling else {})},
    }


def _scheduling(product: str, queue: str, priority: str, tolerations: tuple[str, ...]) -> Object:
    if queue and (product or tolerations):
        raise WrongOption("--queue: the queue's flavors choose the nodes; leave out the product and --toleration")
    if queue:
        return {
            "type": "Queue",
            "kueue": {"localQueueName": queue, **({"priorityClass": priority} if priority else {})},
        }
    if priority:
        raise WrongOption("--priority: only a queue has priorities; name one with --queue")
    node: Object = {}
    if product:
        node["nodeSelector"] = {"nvidia.com/gpu.product": product}
    if tolerations:
        node["tolerations"] = [_toleration(each) for each in tolerations]
    return {"type": "Node", "node": node} if node else {}


def _toleration(text: str) -> dict[str, str]:
    key, equals, value = text.partition("=")
    return {"key": key, "operator": "Equal", "value": value} if equals else {"key": key, "operator": "Exists"}


def _identifier(name: str, title: str, kind: str, text: str) -> dict[str, Any]:
    """An amount, MIN-MAX, or MIN-DEFAULT-MAX."""
    from gpuaas.base.quantity import parse_quantity

    parts = text.split("-")
    try:
        amounts = [parse_quantity(part).nano for part in parts]
    except ValueError:
        amounts = []
    if not 1 <= len(amounts) <= 3 or amounts != sorted(amounts) or amounts[0] <= 0:
        raise WrongOption(f'{title} "{text}": an amount such as 4, or MIN-MAX, or MIN-DEFAULT-MAX such as 1-2-8')
    least, usual, most = parts[0], parts[0] if len(parts) < 3 else parts[1], parts[-1]
    read = {
        field: _number(value) for field, value in (("minCount", least), ("defaultCount", usual), ("maxCount", most))
    }
    return {"displayName": title, "identifier": name, "resourceType": kind, **read}


def _number(text: str) -> int | str:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else text
