"""Gives pods their devices on one kubelet's nodes, as a real kubelet's device manager does with NVIDIA's plugin.

What a node offers is read from its annotations (cards and configuration), held against the cards the node really has.
Which devices are taken is read from the pods on the node, whose annotation only the status subresource may write, so it
survives restarts without a file of its own; what was decided a moment ago and is not in a pod yet is kept here. A
decision is made between two awaits, so that two pods never get one device.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpuaas.devices import faults, foreign, holding, inventory, wiring
from gpuaas.devices.advertise import CONFIG, config_in_force, default_config
from gpuaas.devices.budget import asked_mib
from gpuaas.devices.cards import Card
from gpuaas.devices.holding import Held, choose, held_by, requests_of
from gpuaas.devices.mps import AMONG, EVERYBODY
from gpuaas.devices.offer import Offer, offer
from gpuaas.devices.plugin_config import ConfigError, PluginConfig
from gpuaas.executors.nodes import NodeSpec
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import annotations_of, uid_of
from gpuaas.runtime.pods import is_finished

View = Mapping[str, Any]
ON_NODE = "node"  # index of pods, shared by all who ask for it
_DECISIVE = (
    inventory.ANNOTATION,
    CONFIG,
    faults.ANNOTATION,
    foreign.FOREIGN,
    foreign.IGNORED,
)  # of a node, for its offer
_REMEMBERED = 256  # nodes whose offer is kept


class DeviceBook:
    """`pods` has the index ON_NODE. `is_over`: whether nothing of a pod runs any more."""

    def __init__(
        self, specs: Iterable[NodeSpec], pods: Informer, is_over: Callable[[View], bool] = is_finished
    ) -> None:
        self._specs = {spec.name: spec for spec in specs if spec.gpu_count or spec.found}
        self._pods = pods
        self._is_over = is_over
        self.runs_alone: Callable[[View], bool] = lambda _: False
        self._given: dict[str, dict[str, tuple[Held, ...]]] = {}  # by node and pod, until it is released
        self._offers: dict[str, tuple[tuple[str, ...], tuple[Offer, PluginConfig]]] = {}

    def resources(self, node: View) -> tuple[str, ...]:
        """What is given out one by one here."""
        return tuple(self._offer(node)[0]) if node["metadata"]["name"] in self._specs else ()

    def give(self, pod: View, node: View, wishes: Mapping[str, str] | None = None) -> tuple[Held, ...]:
        """The devices of the pod: those it has, or free ones. `wishes`: annotations that count, where those of the pod
        are not all. Raises NoDeviceError, BudgetError or RefusedError."""
        uid, name = uid_of(pod), node["metadata"]["name"]
        if name not in self._specs:
            return ()
        here = self._given.setdefault(name, {})
        found = held_by(pod) or here.get(uid, ())
        if not found:
            offered, config = self._offer(node)
            requests = requests_of(pod["spec"], offered)
            if not requests:
                return ()
            barred = self._barred(pod, node) if config.strategy == "mps" else frozenset[str]()
            asked = asked_mib(annotations_of(pod) if wishes is None else wishes)
            found = choose(offered, config, requests, self.taken(name), asked=asked, barred=barred)
        here[uid] = found
        return found

    def wiring_trouble(self, devices: Sequence[Held], node: View) -> str:
        """Why the cards one container was given are not connected well; empty where they are."""
        offered, _ = self._offer(node)
        cards = {one.card.uuid: one.card for found in offered.values() for one in found.values()}
        containers: dict[str, dict[str, Card]] = {}
        for one in devices:
            if one.card in cards:
                containers.setdefault(one.container, {})[one.card] = cards[one.card]
        several = [list(given.values()) for given in containers.values() if len(given) > 1]
        return next((words for given in several if (words := wiring.trouble(given, list(cards.values())))), "")

    def _barred(self, pod: View, node: View) -> frozenset[str]:
        """Cards this pod may not share by MPS, where a fault of one process ends all: those of other namespaces' pods, and
        of who has to run alone."""
        everybody = annotations_of(node).get(AMONG) == EVERYBODY
        namespace, apart = pod["metadata"]["namespace"], self.runs_alone(pod)
        found: set[str] = set()
        given = self._given.get(node["metadata"]["name"], {})
        for other in self._pods.indexed(ON_NODE, node["metadata"]["name"]):
            if self._is_over(other) or uid_of(other) == uid_of(pod):
                continue
            if apart or not (everybody or other["metadata"]["namespace"] == namespace) or self.runs_alone(other):
                found.update(held.card for held in held_by(other) or given.get(uid_of(other), ()))
        return frozenset(found)

    def are_open(self, devices: Sequence[Held], node: View) -> bool:
        """Whether the node, as it is known now, still has them to give: a card that is to change takes no work."""
        offered, _ = self._offer(node)
        known = {device.uuid: device.card for found in offered.values() for device in found.values()}
        return all(one.uuid in known and not known[one.uuid].unhealthy for one in devices)

    def taken(self, node: str) -> list[Held]:
        """What pods hold there, also those that are gone while something of them runs."""
        held = dict(self._given.get(node, {}))
        for pod in self._pods.indexed(ON_NODE, node):
            if not self._is_over(pod):
                held.setdefault(uid_of(pod), held_by(pod))
        return [one for devices in held.values() for one in devices]

    def release(self, node: str, uid: str) -> None:
        """Nothing of the pod runs any more."""
        self._given.get(node, {}).pop(uid, None)

    def _offer(self, node: View) -> tuple[Offer, PluginConfig]:
        name = node["metadata"]["name"]
        said = node["metadata"].get("annotations") or {}
        text = tuple(str(said.get(each) or "") for each in _DECISIVE)
        kept = self._offers.get(name)
        if kept is None or kept[0] != text:
            kept = self._offers[name] = (text, offer_of(self._specs[name], dict(zip(_DECISIVE, text, strict=True))))
            if len(self._offers) > _REMEMBERED:
                del self._offers[next(iter(self._offers))]
        return kept[1]


def offer_of(spec: NodeSpec, annotations: Mapping[str, str]) -> tuple[Offer, PluginConfig]:
    """`annotations`: of the node."""
    cards_text, config_text = annotations.get(inventory.ANNOTATION, ""), annotations.get(CONFIG, "")
    cards = inventory.with_closed(inventory.restored(spec.cards(), cards_text), cards_text)
    found, _ = faults.read_faults(annotations.get(faults.ANNOTATION, ""))
    cards = foreign.with_foreign(faults.marked(cards, found), annotations)
    config = config_in_force(config_text, cards) or default_config(cards)
    try:
        return offer(cards, config), config
    except ConfigError:
        return {}, config


def annotation_patch(pod: View, devices: Sequence[Held]) -> dict[str, Any] | None:
    """What to write to the pod's status subresource; None where it says so already."""
    text = holding.encode(devices)
    metadata = pod["metadata"]
    if not devices or (metadata.get("annotations") or {}).get(holding.ANNOTATION) == text:
        return None
    return {"metadata": {"uid": metadata["uid"], "annotations": {holding.ANNOTATION: text}}}
