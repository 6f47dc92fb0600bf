"""`gpuaas gpus --cards`: each card of the nodes, with what it is split into and who holds it."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target
from gpuaas.cli.owners import Whose
from gpuaas.cli.show import Columns

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object
    from gpuaas.devices.holding import Held

COLUMNS = Columns(
    ("node", "index", "uuid", "product", "memory", "sharing", "holders", "users", "state"),
    spare=("memory", "state", "users"),
    headings={"holders": "HELD BY", "users": "USER"},
)
_SHORT = 12  # characters of a UUID in the table
_DRIVER = "gpuaas.dev/GPUDriver"


def show_cards(target: Target, user: Whose) -> None:
    async def look(client: "HttpClient", namespace: str) -> list[dict[str, Any]]:
        owner = await user.name(client)
        rows = await card_rows(client, namespace)
        return [row for row in rows if not owner or any(each["owner"] == owner for each in row["holders"])]

    rows = target.work(look)

    def in_words() -> None:
        if not rows:
            click.echo("no node has cards" if not (user.named or user.mine) else "no card is in use by that user")
            for words in target.work(driver_faults):
                click.echo(words, err=True)
            return
        COLUMNS.table([_in_words(row, wide=target.output == "wide") for row in rows], wide=True).print()

    target.show(rows, in_words)


def _in_words(row: Mapping[str, Any], *, wide: bool) -> dict[str, Any]:
    holders = [f"{each['namespace']}/{each['pod']}" for each in row["holders"]]
    return {
        **row,
        "uuid": row["uuid"] if wide else row["uuid"][:_SHORT],
        "memory": f"{row['memory']} MiB" if row["memory"] else "",
        "holders": ", ".join(holders)
        if wide or len(holders) < 4
        else f"{', '.join(holders[:3])} and {len(holders) - 3} more",
        "users": sorted({each["owner"] for each in row["holders"]} - {""}),
        "state": row["state"] or _open(row),
    }


def _open(row: Mapping[str, Any]) -> str:
    from gpuaas.devices.foreign import ForeignProcess

    others = "; ".join(ForeignProcess(**each).in_words for each in row["foreign"])
    return f"ready; beside processes that are not gpuaas's: {others}" if others else "ready"


async def card_rows(client: "HttpClient", _namespace: str) -> list[dict[str, Any]]:
    from gpuaas.client.resources import NODES
    from gpuaas.devices import inventory
    from gpuaas.devices.advertise import CONFIG
    from gpuaas.devices.foreign import FOREIGN, foreign_processes

    held = await _held(client)
    rows: list[dict[str, Any]] = []
    for node in (await client.list(NODES)).items:
        name, said = node["metadata"]["name"], node["metadata"].get("annotations") or {}
        shared, used = _sharing(str(said.get(CONFIG) or "")), foreign_processes(str(said.get(FOREIGN) or ""))
        for index, card in enumerate(inventory.shown_cards(str(said.get(inventory.ANNOTATION) or ""))):
            uuid = str(card.get("uuid") or "")
            rows.append(
                {
                    "node": name,
                    "index": index,
                    "uuid": uuid,
                    "product": card.get("product") or "unknown",
                    "memory": card.get("memory") or 0,
                    "sharing": _slices(card) or shared,
                    "slices": card.get("mig") or [],
                    "holders": held.get((name, uuid), []),
                    "foreign": [asdict(one) for one in used if one.card == uuid],
                    "state": card.get("closed") or "",
                }
            )
    return rows


def _slices(card: Mapping[str, Any]) -> str:
    """`mig 1g.5gb x 7` for a card with MIG on."""
    if not isinstance(card.get("mig"), list):
        return ""
    counts: dict[str, int] = {}
    for each in card["mig"]:
        counts[str(each.get("profile"))] = counts.get(str(each.get("profile")), 0) + 1
    return "mig " + (", ".join(f"{profile} x {count}" for profile, count in counts.items()) or "(empty)")


def _sharing(text: str) -> str:
    from gpuaas.devices.advertise import config_in_force
    from gpuaas.devices.offer import GPU

    config = config_in_force(text)
    shared = config.shared(GPU) if config is not None else None
    return f"{config.strategy} x {shared.replicas}" if config is not None and shared is not None else "none"


async def _held(client: "HttpClient") -> dict[tuple[str, str], list[dict[str, str]]]:
    """By node and card, the pods that hold something of it, as far as one may see them."""
    from gpuaas.api.owner import owner_named
    from gpuaas.devices.holding import held_by

    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    for pod in await _all_pods(client):
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for held in _by_card(held_by(pod)):
            named = {"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"]}
            holder = {**named, "device": held.id, "owner": owner_named(pod)}
            found.setdefault((pod["spec"].get("nodeName") or "", held.card), []).append(holder)
    return found


def _by_card(devices: "tuple[Held, ...]") -> "Iterator[Held]":
    seen: set[str] = set()
    for held in devices:
        if held.card not in seen:
            seen.add(held.card)
            yield held


async def foreign_lines(client: "HttpClient", _namespace: str) -> list[str]:
    """Processes on cards that are not gpuaas's, one a line; nothing for who may not see nodes. Only nodes that are machines
    have any."""
    from gpuaas.base.errors import ApiError
    from gpuaas.client.resources import NODES
    from gpuaas.devices.foreign import FOREIGN, IGNORED, foreign_processes
    from gpuaas.nodefit.names import EXECUTOR

    try:
        nodes = (await client.list(NODES, labels=f"{EXECUTOR}=process")).items
    except ApiError:
        return []
    lines: list[str] = []
    for node in nodes:
        said = node["metadata"].get("annotations") or {}
        effect = "ignored" if said.get(IGNORED) == "true" else "so it takes no new work"
        name, found = node["metadata"]["name"], foreign_processes(str(said.get(FOREIGN) or ""))
        lines += [f"card {one.card} of {name} is used by {one.in_words}, not gpuaas's: {effect}" for one in found]
    return lines


async def driver_faults(client: "HttpClient", _namespace: str) -> list[str]:
    """Why nodes that are machines have no cards."""
    from gpuaas.client.resources import NODES

    return [words for node in (await client.list(NODES)).items for words in _fault_of(node)]


def _fault_of(node: "Object") -> Iterator[str]:
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition["type"] == _DRIVER and condition["status"] == "False":
            yield f"{node['metadata']['name']}: {condition['message']}"


async def _all_pods(client: "HttpClient") -> "list[Object]":
    """None for a user who may not see all pods: the holders of their own are not known to be all."""
    from gpuaas.base.errors import ApiError
    from gpuaas.client.resources import PODS

    try:
        return (await client.list(PODS)).items
    except ApiError as error:
        if error.code != 403:
            raise
        return []
