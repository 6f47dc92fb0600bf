"""`gpuaas share`: time-slicing or MPS on a node or a card in one line, naming first whom it displaces."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from gpuaas.cli.context import Target, WrongOption, on_a_cluster

if TYPE_CHECKING:
    from gpuaas.cli.card_world import CardNode
    from gpuaas.client.http import HttpClient
    from gpuaas.client.protocol import Object
    from gpuaas.devices.cards import Card
    from gpuaas.devices.sharing import Wish

_CONDITION = "gpuaas.dev/DevicePluginConfig"
_EVERY = 0.1
_ANSWER = 1.0  # seconds in which a node answers; what its condition says before then may be about an earlier wish


@click.command()
@click.argument("node_or_card")
@click.option("--replicas", type=click.IntRange(2), help="Time-slicing: so many pods share each card.")
@click.option("--mps", type=click.IntRange(2), help="MPS: so many pods share each card.")
@click.option(
    "--among",
    type=click.Choice(["namespace", "all"]),
    help="Whose pods share a card by MPS, where a fault of one ends all.  [default: one namespace's]",
)
@click.option("--off", is_flag=True, help="Whole cards again.")
@click.option("--dry-run", is_flag=True, help="Only say what would change and whom it would displace.")
@click.option("--wait", "patience", default=60.0, show_default=True, help="Seconds to wait for it; 0: do not wait.")
@on_a_cluster()
def share(
    target: Target,
    node_or_card: str,
    replicas: int | None,
    mps: int | None,
    among: str | None,
    off: bool,
    dry_run: bool,
    patience: float,
) -> None:
    """Share the cards of a node, or one card (its UUID, or NODE:INDEX).

    \b
                  speed                      fault                 memory               for
    whole         all of the card            one pod               all of the card      training
    time-slicing  turns; alone: all of it    one pod               budget, checked      notebooks
    MPS           at once, share of the SMs  all pods of the card  limit by MPS         inference
    MIG           a fixed part, always       one slice             a part in hardware   production

    Pods that hold what the change takes away are evicted first: through Kueue, so that they queue again, or through the
    eviction API. A share counts as its part of a card in quotas and reports. MIG: gpuaas mig plan.
    """
    from gpuaas.devices.sharing import Wish

    if sum((replicas is not None, mps is not None, off)) != 1:
        raise WrongOption("give one of --replicas N, --mps N and --off")
    if among is not None and mps is None:
        raise WrongOption("--among says who shares a card by MPS: give it with --mps N")
    wanted = Wish("none") if off else Wish("mps", mps or 0) if mps else Wish("time-slicing", replicas or 0)
    outcome = target.work(lambda client, _: _share(client, node_or_card, wanted, dry_run, patience, among))
    target.show(outcome, lambda: _print(outcome))
    if outcome["state"] == "failed":
        raise SystemExit(1)


async def _share(
    client: "HttpClient", name: str, wanted: "Wish", dry_run: bool, patience: float, among: str | None
) -> dict[str, Any]:
    from gpuaas.cli.card_world import card_nodes, find_target
    from gpuaas.client.resources import NODES
    from gpuaas.devices.mps import AMONG, EVERYBODY
    from gpuaas.devices.sharing import ANNOTATION, displaced_pods

    node, card = find_target(await card_nodes(client), name)
    wish = _wish_of(node, card, wanted)
    displaces = displaced_pods(node.cards, node.config, node.held, wish)
    outcome: dict[str, Any] = {"node": node.name, "displaces": displaces, "state": "dry run", "message": ""}
    if dry_run:
        return outcome
    annotations: dict[str, str | None] = {ANNOTATION: wish.document()}
    if among is not None:
        annotations[AMONG] = EVERYBODY if among == EVERYBODY else None
    await client.patch(NODES, node.name, {"metadata": {"annotations": annotations}})
    outcome |= await _settled(client, node, wish, patience)
    if outcome["state"] == "failed":  # nothing changed, and nothing is left to try it again
        before = (node.obj["metadata"].get("annotations") or {}).get(ANNOTATION)
        await client.patch(NODES, node.name, {"metadata": {"annotations": {ANNOTATION: before}}})
    return outcome


def _wish_of(node: "CardNode", card: "Card | None", wanted: "Wish") -> "Wish":
    from gpuaas.devices.sharing import ANNOTATION, WishError, wish_for

    text = str((node.obj["metadata"].get("annotations") or {}).get(ANNOTATION) or "")
    try:
        return wish_for(node.cards, node.config, text, wanted, card)
    except WishError as error:
        raise click.ClickException(f"node {node.name}: {error}") from None


async def _settled(client: "HttpClient", node: "CardNode", wish: "Wish", patience: float) -> dict[str, Any]:
    """Waits until what was wished for is in force on the node, or the node says why it is not."""
    from gpuaas.cli.card_world import condition
    from gpuaas.client.resources import NODES
    from gpuaas.devices.advertise import CONFIG, keep
    from gpuaas.devices.sharing import config_of

    text = keep(config_of(wish, node.cards), "gpuaas share", says_strategy=False)
    left = patience
    while True:
        obj = await client.get(NODES, node.name)
        said = condition(obj, _CONDITION)
        if (obj["metadata"].get("annotations") or {}).get(CONFIG) == text and said.get("status") != "False":
            return {"state": "in force", "message": _offers(obj)}
        is_answer = patience - left >= _ANSWER
        if is_answer and said.get("status") == "False" and said.get("reason") != "Draining":
            return {"state": "failed", "message": str(said.get("message"))}
        if left <= 0:
            return {"state": "pending", "message": str(said.get("message") or "")}
        await asyncio.sleep(_EVERY)
        left -= _EVERY


def _offers(node: "Object") -> str:
    found = (node.get("status") or {}).get("capacity") or {}
    return ", ".join(f"{name}: {amount}" for name, amount in sorted(found.items()) if name.startswith("nvidia.com/"))


def _print(outcome: dict[str, Any]) -> None:
    would = "would displace" if outcome["state"] == "dry run" else "displaces"
    click.echo(f"{would}: {', '.join(outcome['displaces']) or 'no pod'}")
    match outcome["state"]:
        case "in force":
            click.echo(f"node {outcome['node']} offers {outcome['message']}")
        case "pending":
            click.echo(f"not in force yet: {outcome['message'] or 'the node has not answered'}")
        case "failed":
            click.echo(f"Error: {outcome['message']}", err=True)
