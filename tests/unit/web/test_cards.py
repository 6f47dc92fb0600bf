"""The page of cards: cells at their MIG slots or by shares, with holders; and what its actions would displace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.views.objects import Object, node
from tests.unit.web.kit import Town

from gpuaas.base.errors import BadRequest
from gpuaas.devices import inventory
from gpuaas.devices.advertise import CONFIG, keep
from gpuaas.devices.cards import Card
from gpuaas.devices.holding import choose, encode
from gpuaas.devices.inventory import Pool, simulated_cards, with_closed, with_layout
from gpuaas.devices.offer import offer
from gpuaas.devices.plugin_config import PluginConfig
from gpuaas.devices.sharing import Wish, config_of
from gpuaas.web.card_actions import CARD_ACTIONS
from gpuaas.web.pages import cards

A100 = simulated_cards("n", Pool("NVIDIA-A100-SXM4-40GB", 2))
CUT = (with_layout(A100[0], {"3g.20gb": 1, "1g.5gb": 4}), A100[1])
MIXED = PluginConfig(mig_strategy="mixed")
SHARED = config_of(Wish("time-slicing", 4), A100)


def of(found: tuple[Card, ...], config: PluginConfig, **more: str) -> Object:
    made = node("n", "NVIDIA-A100-SXM4-40GB", 2)
    text = keep(config, "test")
    made["metadata"]["annotations"] = {inventory.ANNOTATION: inventory.encode(found), CONFIG: text, **more}
    return made


def holder(name: str, found: tuple[Card, ...], config: PluginConfig, resource: str, used: str = "") -> Object:
    devices = choose(offer(found, config), config, {"main": {resource: 1}}, ())
    notes = {"gpuaas.dev/devices": encode(devices)} | (
        {"gpuaas.dev/gpu-memory-used": used, "gpuaas.dev/gpu-utilization": "42"} if used else {}
    )
    return {
        "metadata": {"name": name, "namespace": "research", "uid": name, "annotations": notes},
        "spec": {"nodeName": "n", "containers": []},
        "status": {"phase": "Running"},
    }


def rows(town: Town) -> list[cards.Shown]:
    shown: list[cards.Shown] = town.load(cards.PAGE)["nodes"]["n"]
    return shown


def test_a_cut_card_has_its_slices_at_their_slots_and_the_other_is_whole() -> None:
    pod = holder("train", CUT, MIXED, "nvidia.com/mig-3g.20gb", used="4Gi")
    first, second = rows(Town(nodes=[of(CUT, MIXED)], pods=[pod]))
    places = ["at-0 wide-1", "at-1 wide-1", "at-2 wide-1", "at-3 wide-1", "at-4 wide-4"]
    assert sorted(cell.place for cell in first.cells) == places
    [held] = [cell for cell in first.cells if cell.state == "held"]
    assert held.title == "3g.20gb, 19968 MiB: research/train; uses 4096 MiB; 42 % busy"
    assert [(cell.state, cell.label) for cell in second.cells] == [("free", "free")]


def test_a_shared_card_has_a_cell_for_each_share_with_its_budget() -> None:
    pod = holder("note", A100, SHARED, "nvidia.com/gpu")
    both = rows(Town(nodes=[of(A100, SHARED)], pods=[pod]))
    assert [(card.sharing, len(card.cells)) for card in both] == [("time-slicing x 4", 4)] * 2
    [held] = [cell for card in both for cell in card.cells if cell.state == "held"]
    assert held.title.startswith("share 1 of 4, 10240 MiB: research/note; budget ")
    assert held.address.endswith("/search?q=note")


def test_an_ill_card_is_crossed_with_the_reason_and_foreign_processes_are_shown() -> None:
    closed = tuple(
        with_closed(A100, inventory.encode(A100).replace('"memory":40960}', '"memory":40960,"closed":"Xid 79"}', 1))
    )
    foreign = f'[{{"card":"{A100[1].uuid}","pid":7,"user":"ann","command":"python","memory":1048576}}]'
    town = Town(nodes=[of(closed, MIXED, **{"gpuaas.dev/gpu-foreign": foreign})])
    first, second = rows(town)
    assert (first.state, first.cells[0].state) == ("Xid 79", "ill")
    assert second.foreign == ["pid 7 (python of user ann), 1 MiB"]
    html = town.html(cards.PAGE)
    assert "takes no work: Xid 79" in html
    assert "1 card takes no work" in html
    assert "style=" not in html


def test_without_cards_the_page_says_how_to_get_some() -> None:
    assert "gpuaas up --fleet demo" in Town(nodes=[node("n", "L4", 1)]).html(cards.PAGE)


def effect(town: Town, name: str, **form: str) -> str:
    action = next(each for each in CARD_ACTIONS if each.name == name)
    visit: Any = town.visit(cards.PAGE, name="n")
    return asyncio.run(action.effect(visit, form))


def test_actions_state_what_they_would_displace() -> None:
    town = Town(nodes=[of(A100, SHARED)], pods=[holder("note", A100, SHARED, "nvidia.com/gpu")])
    assert effect(town, "share-node", way="time-slicing 8") == "Node n offers 16 nvidia.com/gpu; no pod is displaced."
    assert effect(town, "share-node", way="none") == "Node n offers 2 nvidia.com/gpu; displaces research/note."
    assert effect(town, "mig-node", config="all-1g.5gb") == "Node n has 14 x 1g.5gb; displaces research/note."
    for wrong in ({"way": "all"}, {"way": ""}):
        with pytest.raises(BadRequest):
            effect(town, "share-node", **wrong)
    with pytest.raises(BadRequest, match="selected mig-config not present: all-9g"):
        effect(town, "mig-node", config="all-9g")
