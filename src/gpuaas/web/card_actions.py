"""What can be done with cards on the pages: change how a node's cards are shared, or their MIG layout.

Each states first which pods it would displace, from the same functions as `gpuaas share` and `gpuaas mig plan`.
"""

from __future__ import annotations

from typing import Final

from gpuaas.base.errors import BadRequest
from gpuaas.base.numbers import natural
from gpuaas.client.resources import NODES
from gpuaas.devices import mig_plan, sharing
from gpuaas.devices.cards import Card
from gpuaas.devices.mig_plan import NodeCardsNow
from gpuaas.devices.offer import offer
from gpuaas.devices.plugin_config import ConfigError
from gpuaas.web.page import Action, Field, Form, Visit

_SHOWN: Final = 5
_MIG_LABEL: Final = "nvidia.com/mig.config"
_WAYS: Final = (
    ("none", "whole cards"),
    *((f"time-slicing {count}", f"time-slicing, {count} pods a card") for count in (2, 4, 8)),
    *((f"mps {count}", f"MPS, {count} pods a card") for count in (2, 4, 8)),
)


def _may_change(visit: Visit) -> bool:
    return visit.may("patch", NODES, name=visit.parts["name"])


async def _effect_of_sharing(visit: Visit, form: Form) -> str:
    node, wish = _wished(visit, form)
    displaced = sharing.displaced_pods(node.cards, node.config, node.held, wish)
    try:
        offered = offer(node.cards, sharing.config_of(wish, node.cards))
    except ConfigError as error:
        raise BadRequest(str(error)) from None
    listed = ", ".join(f"{len(devices)} {resource}" for resource, devices in sorted(offered.items()))
    return f"Node {node.name} offers {listed or 'nothing'}; {_displaces(displaced)}."


async def _share(visit: Visit, form: Form) -> str:
    node, wish = _wished(visit, form)
    change = {"metadata": {"annotations": {sharing.ANNOTATION: wish.document()}}}
    await visit.api.patch(NODES, node.name, change)
    return f"The sharing of node {node.name} changes."


def _wished(visit: Visit, form: Form) -> tuple[NodeCardsNow, sharing.Wish]:
    node, text = visit.views.cards_now(visit.user, visit.parts["name"])
    if form["way"] not in dict(_WAYS):
        raise BadRequest(f"way: {form['way'][:40]!r} was found; one of {', '.join(dict(_WAYS))} was expected")
    strategy, _, count = form["way"].partition(" ")
    try:
        wanted = sharing.Wish("none")
        if strategy != "none":
            wanted = sharing.Wish("mps" if strategy == "mps" else "time-slicing", natural(count) or 2)
        return node, sharing.wish_for(node.cards, node.config, text, wanted)
    except sharing.WishError as error:
        raise BadRequest(str(error)) from None


async def _effect_of_layout(visit: Visit, form: Form) -> str:
    node, _ = visit.views.cards_now(visit.user, visit.parts["name"])
    cards, displaced = _layout(node, form)
    counts: dict[str, int] = {}
    for card in cards:
        for device in card.devices:
            counts[device.profile] = counts.get(device.profile, 0) + 1
    whole = sum(not card.mig for card in cards)
    parts = [f"{whole} whole cards"] * bool(whole) + [f"{count} x {name}" for name, count in sorted(counts.items())]
    return f"Node {node.name} has {', '.join(parts) or 'no slices'}; {_displaces(displaced)}."


async def _set_layout(visit: Visit, form: Form) -> str:
    node, _ = visit.views.cards_now(visit.user, visit.parts["name"])
    _layout(node, form)
    await visit.api.patch(NODES, node.name, {"metadata": {"labels": {_MIG_LABEL: form["config"].strip()}}})
    return f"The MIG layout of node {node.name} changes to {form['config'].strip()}."


def _layout(node: NodeCardsNow, form: Form) -> tuple[tuple[Card, ...], tuple[str, ...]]:
    name = form["config"].strip()
    if not name:
        raise BadRequest("config: a name such as all-1g.5gb was expected, nothing was found")
    try:
        return mig_plan.change_of(node, name)
    except ValueError as error:
        raise BadRequest(f"config: {error}") from None


def _displaces(pods: list[str] | tuple[str, ...]) -> str:
    if not pods:
        return "no pod is displaced"
    more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    return f"displaces {', '.join(pods[:_SHOWN])}{more}"


CARD_ACTIONS: Final = (
    Action(
        "share-node",
        "/cards/{name}/share",
        "Share the cards of node {name}",
        "Share",
        _may_change,
        _effect_of_sharing,
        _share,
        "/cards",
        (Field("way", "How", "none", _WAYS),),
        danger=True,
    ),
    Action(
        "mig-node",
        "/cards/{name}/mig",
        "Change the MIG layout of node {name}",
        "MIG layout",
        _may_change,
        _effect_of_layout,
        _set_layout,
        "/cards",
        (Field("config", "Configuration", hint="a name such as all-1g.5gb, all-balanced or all-disabled"),),
        danger=True,
    ),
)
