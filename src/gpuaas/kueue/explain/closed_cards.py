"""Cards that take no work now, as evidence for who waits for cards: ill ones, and those that others use. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpuaas.devices.advertise import is_device_resource
from gpuaas.devices.foreign import FOREIGN, IGNORED, USED_BY_OTHERS, foreign_processes
from gpuaas.devices.inventory import ANNOTATION, shown_cards
from gpuaas.kueue.explain.snapshot import Picture

View = Mapping[str, Any]
_MOST: Final = 4  # cards that are named
_LOOKED_AT: Final = 200  # nodes


def closed_cards(picture: Picture, workload: View) -> list[str]:
    """Which cards are closed, and why; nothing for a workload that asks for none."""
    if not _asks_for_cards(workload):
        return []
    lines = [line for node in picture.nodes[:_LOOKED_AT] for line in _of_node(node)]
    return lines if len(lines) <= _MOST else [*lines[:_MOST], f"and {len(lines) - _MOST} more cards are closed"]


def ways_to_open(picture: Picture, workload: View) -> list[str]:
    """For cards that processes outside gpuaas use."""
    if not _asks_for_cards(workload):
        return []
    for node in picture.nodes[:_LOOKED_AT]:
        said = node["metadata"].get("annotations") or {}
        if said.get(IGNORED) == "true":
            continue
        for process in foreign_processes(str(said.get(FOREIGN) or ""))[:1]:
            name = node["metadata"]["name"]
            return [f"on {name}, end it: kill {process.pid}; or let jobs beside it: gpuaas up --ignore-foreign"]
    return []


def _of_node(node: View) -> Iterator[str]:
    text = str((node["metadata"].get("annotations") or {}).get(ANNOTATION) or "")
    for index, card in enumerate(shown_cards(text)):
        if card.get("closed"):
            how = "is" if str(card["closed"]).startswith(USED_BY_OTHERS) else "takes no work:"
            yield f"card {index} of node {node['metadata']['name']} {how} {card['closed']}"


def _asks_for_cards(workload: View) -> bool:
    for pods in (workload.get("spec") or {}).get("podSets") or ():
        for container in ((pods.get("template") or {}).get("spec") or {}).get("containers") or ():
            resources = container.get("resources") or {}
            asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
            if any(is_device_resource(name) for name in asked):
                return True
    return False
