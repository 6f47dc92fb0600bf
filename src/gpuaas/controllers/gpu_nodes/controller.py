"""Keeps every node with cards as NVIDIA's configuration wants it: resources, labels, MIG layout, conditions, events.

Which cards a node has is given by its owner (a fleet file or the driver), never read from the API; what changes about
them, the MIG layout, is kept in the annotation `gpuaas.dev/cards` and read back once, when the controller starts
(devices.inventory says why a hand edit cannot fake cards). From then on the controller's own view counts: a resource,
label or annotation of cards that another client writes is put back.

Keys are names of nodes; the empty key means that policies or ConfigMaps changed, after which every node is looked at.
Metadata is written before the status, so that kubelets know a device before the scheduler counts it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.base.numbers import natural
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import CONFIG_MAPS, NODES, PODS
from gpuaas.controllers.gpu_nodes import change
from gpuaas.controllers.gpu_nodes.change import Changes
from gpuaas.controllers.gpu_nodes.decide import Decision, decide
from gpuaas.controllers.gpu_nodes.drain import Drain
from gpuaas.controllers.gpu_nodes.mig import FAILURE, PENDING, STATE_LABEL, SUCCESS, Holder, Moment
from gpuaas.controllers.gpu_nodes.surface import (
    NAMESPACES,
    Parsed,
    Policy,
    Surface,
    governing,
    read_keys,
    read_mig,
    read_policy,
)
from gpuaas.devices import faults, inventory, sharing
from gpuaas.devices.advertise import CONFIG, config_in_force, stale_labels, stale_resources
from gpuaas.devices.cards import Card
from gpuaas.devices.foreign import is_ill, with_foreign
from gpuaas.devices.holding import held_by
from gpuaas.devices.labels import Machine
from gpuaas.devices.mig_config import Configs, MigConfigError
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import annotations_of, labels_of
from gpuaas.runtime.pods import is_finished

POLICIES: Final = Resource("nvidia.com", "v1", "clusterpolicies", False, "ClusterPolicy")
ON_NODE: Final = "node"  # index of pods, shared by all who ask for it
CONFIG_CONDITION: Final = "gpuaas.dev/DevicePluginConfig"
MIG_CONDITION: Final = "gpuaas.dev/MigConfig"
_EVERYTHING: Final = ""
HEALTH_CONDITION: Final = "gpuaas.dev/GPUHealth"
DEADLINE: Final = "gpuaas.dev/change-deadline-seconds"  # annotation of a node
_DEADLINE: Final = 600.0
_ASK_AGAIN: Final = 5.0  # seconds until a pod that may not go is asked again
_SETTLING: Final = 0.25  # seconds between closing a card and draining or changing it: by then every holder is seen
_MANAGER: Final = "gpu-operator"
_SHOWN: Final = 8  # cards listed in a message


@dataclass(frozen=True, slots=True)
class NodeCards:
    """A node's cards as its owner knows them. `fixed`: labels the owner wrote itself, which stay as they are."""

    cards: Callable[[], tuple[Card, ...]]
    machine: Machine
    simulated: bool = True
    fixed: Mapping[str, str] = field(default_factory=dict)


class GpuNodes(Controller):
    name = "gpu-nodes"
    component = "gpu-operator"
    workers = 2

    def __init__(self, deps: Deps, owned: Mapping[str, NodeCards], *, strict: bool = False) -> None:
        super().__init__(deps)
        self._owned = owned
        self._strict = strict
        self._cards: dict[str, tuple[Card, ...]] = {}
        self._surface = Surface()
        self._loaded = False
        self._changes: dict[str, Changes] = {}
        self._closed: dict[str, tuple[float, frozenset[str]]] = {}  # by node: since when which cards are closed
        self._reported: dict[str, str] = {}  # by node: the annotation of faults whose notes were reported
        self._blocked: dict[str, str] = {}  # by node: which pod may not go, and why
        self._nodes = self.follow(deps.informers.of(NODES), self._known)
        self._policies = self.follow(deps.informers.of(POLICIES), lambda _: (_EVERYTHING,), delay=0.02)
        self._config_maps = self.follow(deps.informers.outline(CONFIG_MAPS), self._configures, delay=0.02)
        self._pods = self.follow(deps.informers.of(PODS), self._waited_for)
        self._pods.add_index(ON_NODE, lambda pod: (pod["spec"]["nodeName"],) if pod["spec"].get("nodeName") else ())
        self._drain = Drain(self.client, deps.informers, self.recorder, self.clock)
        self._followed += self._drain.followed

    def _known(self, node: Mapping[str, Any]) -> Iterable[str]:
        name = node["metadata"]["name"]
        return (name,) if name in self._owned else ()

    def _waited_for(self, pod: Mapping[str, Any]) -> Iterable[str]:
        name = pod["spec"].get("nodeName")
        return (name,) if name in self._closed else ()

    def _configures(self, found: Mapping[str, Any]) -> Iterable[str]:
        metadata = found["metadata"]
        if metadata["namespace"] not in NAMESPACES:
            return ()
        policies = [read_policy(each) for each in self._policies.all()]
        named = {name for policy in policies for name in (policy.config, policy.mig_config)}
        return (_EVERYTHING,) if metadata["name"] in named else ()

    async def reconcile(self, key: str) -> Requeue | None:
        if key == _EVERYTHING or not self._loaded:
            await self._load()
        if key == _EVERYTHING:
            for name in self._owned:
                self.queue.add(name)
            return None
        node = self._nodes.get("", key)
        if node is None:
            return None
        await asyncio.sleep(0)  # at a start thousands of nodes are looked at, most of which need no write
        return await self._settle(key, node)

    # What is configured

    async def _load(self) -> None:
        policy, overruled = governing(read_policy(each) for each in self._policies.all())
        surface = Surface(policy, overruled)
        if policy is not None:
            surface = await self._read(policy, overruled)
        before, self._surface = self._surface, surface
        first, self._loaded = not self._loaded, True
        if policy is not None and surface != before:
            self._tell(surface, quiet=first)

    async def _read(self, policy: Policy, overruled: str) -> Surface:
        keys: dict[str, Parsed] = {}
        missing, mig, mig_problem = "", None, ""
        if policy.config:
            found = await self._config_map(policy.config)
            if found is None:
                missing = (
                    f"ClusterPolicy {policy.name} names ConfigMap {policy.config}, which is in none of the namespaces"
                )
                missing += f" {', '.join(NAMESPACES)}"
            else:
                for key, parsed in read_keys(found.get("data") or {}, policy):
                    keys[key] = parsed
                    await asyncio.sleep(0)
                missing = "" if keys else f"ConfigMap {policy.config} has no keys"
        if policy.mig_config and (custom := await self._config_map(policy.mig_config)) is not None:
            mig, mig_problem = _read_mig(policy.mig_config, custom)
        return Surface(policy, overruled, keys, missing, mig, mig_problem)

    async def _config_map(self, name: str) -> Object | None:
        for namespace in NAMESPACES:
            try:
                return await self.client.get(CONFIG_MAPS, name, namespace)
            except NotFound:
                continue
        return None

    def _tell(self, surface: Surface, *, quiet: bool) -> None:
        """Events on the policy and its ConfigMap. `quiet`: what is in order needs no word after a start."""
        policy = surface.policy
        assert policy is not None
        obj = self._policies.get("", policy.name)
        if obj is None:
            return
        wrong = [f"key {key}: {parsed.problem}" for key, parsed in surface.keys.items() if parsed.problem]
        problems = [surface.missing] if surface.missing else [f"ConfigMap {policy.config}, {words}" for words in wrong]
        if surface.mig_problem:
            problems.append(surface.mig_problem)
        for words in problems:
            self.recorder.event(POLICIES, obj, WARNING, "ConfigInvalid", f"{words}; nothing changes on its nodes")
        if surface.overruled:
            words = (
                f"ClusterPolicies {policy.name} and {surface.overruled} both name a configuration; {policy.name} counts"
            )
            for name in (policy.name, surface.overruled):
                if (one := self._policies.get("", name)) is not None:
                    self.recorder.event(POLICIES, one, WARNING, "TwoPolicies", f"{words}: it was edited last")
        if policy.config and not problems and not quiet:
            words = f"ConfigMap {policy.config} is in force: keys {', '.join(sorted(surface.keys))}"
            self.recorder.event(POLICIES, obj, NORMAL, "ConfigApplied", words)
        self._tell_config_map(policy.config, surface, wrong)

    def _tell_config_map(self, name: str, surface: Surface, wrong: list[str]) -> None:
        found = (self._config_maps.get(each, name) for each in NAMESPACES)
        obj = next((one for one in found if one is not None), None)
        if obj is None:
            return
        for words in wrong:
            self.recorder.event(CONFIG_MAPS, obj, WARNING, "ConfigInvalid", words)
        for key, parsed in surface.keys.items():
            if parsed.config is not None and parsed.config.ignored:
                words = f"key {key}: {', '.join(parsed.config.ignored)} has no effect in NVIDIA's device plugin"
                self.recorder.event(CONFIG_MAPS, obj, WARNING, "FieldsIgnored", words)

    # One node

    async def _settle(self, name: str, node: Object) -> Requeue | None:
        owned, annotations, labels = self._owned[name], annotations_of(node), labels_of(node)
        if name not in self._cards:
            self._cards[name] = inventory.restored(owned.cards(), annotations.get(inventory.ANNOTATION, ""))
            self._changes[name] = change.decode(annotations.get(change.ANNOTATION, ""))
        found, _ = faults.read_faults(annotations.get(faults.ANNOTATION, ""))
        cards = with_foreign(faults.marked(_as_owned(self._cards[name], owned), found), annotations)
        since, closed = self._closed.get(name, (self.clock.monotonic(), frozenset[str]()))
        text, now = annotations.get(CONFIG, ""), self.clock.now()
        at = Moment(
            self._holders(name),
            found,
            now,
            _seconds(annotations.get(DEADLINE, "")),
            settled=self.clock.monotonic() - since >= _SETTLING,
            may_change=owned.simulated,
            strict=self._strict,
            sharing=annotations.get(sharing.ANNOTATION, ""),
        )
        decision = decide(cards, owned.machine, labels, self._surface, text, self._changes[name], at)
        self._cards[name], self._changes[name] = decision.cards, decision.changes
        await self._write(node, owned, decision)
        self._tell_node(node, labels, text, decision)
        self._tell_health(node, cards, found)
        self._tell_notes(node, cards, found, annotations.get(faults.ANNOTATION, ""))
        closing = frozenset(card.uuid for card in decision.cards if card.unhealthy)
        if not closing:
            self._closed.pop(name, None)
        elif not closing <= closed:
            self._closed[name] = (self.clock.monotonic(), closing)
        since, _ = self._closed.get(name, (0.0, frozenset()))
        left = since + _SETTLING - self.clock.monotonic()
        if left > 0 and (decision.leaving or decision.mig.goes_on):
            # Who leaves must not be admitted to the same cards again: quotas follow what nodes offer, and need a moment.
            return Requeue(left)
        return await self._ask_to_leave(name, node, decision.leaving)

    async def _ask_to_leave(self, name: str, node: Object, leaving: Mapping[str, str]) -> Requeue | None:
        """Pods are asked one by one; those that may not go are named on the node, and asked again later."""
        if not leaving:
            self._blocked.pop(name, None)
            return None
        refused: dict[str, str] = {}
        for pod in self._pods.indexed(ON_NODE, name):
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if key in leaving and not is_finished(pod) and (why := await self._drain.ask(pod, leaving[key])):
                refused[key] = why
        if refused:
            key, why = min(refused.items())
            namespace, _, pod_name = key.partition("/")
            more = f" and {len(refused) - 1} more pods" if len(refused) > 1 else ""
            words = (
                f"pod {key}{more} may not leave its card: {why};"
                f" to end it all the same: kubectl delete pod -n {namespace} {pod_name}"
            )
            if self._blocked.get(name) != words:
                self._blocked[name] = words
                self.recorder.event(NODES, node, WARNING, "CardChangeBlocked", words)
        return Requeue(_ASK_AGAIN)

    def _holders(self, node: str) -> dict[str, list[Holder]]:
        """Pods by the card they hold something of."""
        found: dict[str, list[Holder]] = {}
        for pod in self._pods.indexed(ON_NODE, node):
            if is_finished(pod):
                continue
            devices: dict[str, list[tuple[str, str]]] = {}
            for held in held_by(pod):
                devices.setdefault(held.card, []).append((held.resource, held.id))
            for card, listed in devices.items():
                holder = Holder(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", tuple(listed))
                found.setdefault(card, []).append(holder)
        return found

    async def _write(self, node: Object, owned: NodeCards, decision: Decision) -> None:
        name, metadata, seen = node["metadata"]["name"], _metadata(node, owned, decision), node
        if metadata:
            seen = await self.client.patch(NODES, name, {"metadata": metadata}, field_manager=_MANAGER)
        status = self._status(seen, decision)
        if status:
            # Conditions are a list that others write too: a write in between must not be lost.
            version = {"resourceVersion": seen["metadata"]["resourceVersion"]} if "conditions" in status else {}
            body = {"metadata": version, "status": status}
            await self.client.patch(NODES, name, body, subresource="status", field_manager=_MANAGER)

    def _status(self, node: Object, decision: Decision) -> Object:
        known, derived = node.get("status") or {}, decision.advertised
        patch: Object = {}
        for part, wanted in (("capacity", derived.capacity), ("allocatable", derived.allocatable)):
            before = known.get(part) or {}
            change: Object = {each: amount for each, amount in wanted.items() if before.get(each) != amount}
            change |= dict.fromkeys(stale_resources(before, wanted))
            if change:
                patch[part] = change
        conditions = list(known.get("conditions") or ())
        wanted_conditions = self._conditions(conditions, decision)
        return patch if wanted_conditions == conditions else {**patch, "conditions": wanted_conditions}

    def _conditions(self, known: list[Object], decision: Decision) -> list[Object]:
        conditions: dict[str, tuple[str, str, str]] = {}
        if decision.waits:
            conditions[CONFIG_CONDITION] = ("False", "Draining", decision.waits)
        elif decision.problem:
            conditions[CONFIG_CONDITION] = ("False", "ConfigInvalid", decision.problem)
        elif decision.is_configured:
            conditions[CONFIG_CONDITION] = ("True", "ConfigApplied", _in_words(decision))
        if decision.mig.state:
            status, reason = _MIG_WORDS[decision.mig.state]
            conditions[MIG_CONDITION] = (status, reason, decision.mig.message)
        before = {one["type"]: one for one in known}
        conditions |= _health_of(decision.ill, was_ill=HEALTH_CONDITION in before)
        kept = [one for one in known if one["type"] not in (CONFIG_CONDITION, MIG_CONDITION, HEALTH_CONDITION)]
        for kind, (status, reason, message) in conditions.items():
            one = before.get(kind)
            now = rfc3339(self.clock.now())
            since = one["lastTransitionTime"] if one and one["status"] == status else now
            made = {"type": kind, "status": status, "reason": reason, "message": message}
            beat = one["lastHeartbeatTime"] if one and all(one.get(k) == v for k, v in made.items()) else now
            kept.append({**made, "lastHeartbeatTime": beat, "lastTransitionTime": since})
        return kept

    def _tell_node(self, node: Object, labels: Mapping[str, str], text: str, decision: Decision) -> None:
        conditions = {one["type"]: one for one in (node.get("status") or {}).get("conditions") or ()}
        if decision.waits:
            if (conditions.get(CONFIG_CONDITION) or {}).get("message") != decision.waits:
                self.recorder.event(NODES, node, NORMAL, "ConfigPending", decision.waits)
        elif decision.problem and (conditions.get(CONFIG_CONDITION) or {}).get("message") != decision.problem:
            self.recorder.event(NODES, node, WARNING, "ConfigInvalid", decision.problem)
        elif decision.text != text and not decision.problem and (decision.is_configured or _shares(text)):
            self.recorder.event(NODES, node, NORMAL, "ConfigApplied", _in_words(decision))
        mig = decision.mig
        if mig.state and (conditions.get(MIG_CONDITION) or {}).get("message") != mig.message:
            match mig.state:
                case "failed":
                    self.recorder.event(NODES, node, WARNING, "MigConfigFailed", mig.message)
                case "pending":
                    self.recorder.event(NODES, node, NORMAL, "MigConfigPending", mig.message)
                case _:
                    self.recorder.event(NODES, node, NORMAL, "MigConfigApplied", mig.message)

    def _tell_health(self, node: Object, cards: tuple[Card, ...], found: faults.Faults) -> None:
        """Events of what is new since the condition was written."""
        conditions = {one["type"]: one for one in (node.get("status") or {}).get("conditions") or ()}
        before = conditions.get(HEALTH_CONDITION) or {}
        known = str(before.get("message") or "") if before.get("status") == "False" else ""
        shown = inventory.shown_cards(annotations_of(node).get(inventory.ANNOTATION, "")) if found or known else []
        closed = {one.get("uuid"): one.get("closed") for one in shown}
        for card in cards:
            words = _ill(card)
            if is_ill(card) and closed.get(card.uuid) != card.unhealthy:
                self.recorder.event(
                    NODES, node, WARNING, "GPUUnhealthy", f"{words}; it takes no work, its pods are moved"
                )
        if known and not any(is_ill(card) for card in cards):
            self.recorder.event(NODES, node, NORMAL, "GPURecovered", f"every card takes work again; before: {known}")

    def _tell_notes(self, node: Object, cards: tuple[Card, ...], found: faults.Faults, text: str) -> None:
        """What is no fault of the card, once for each text of the annotation."""
        name = node["metadata"]["name"]
        if self._reported.get(name, "") == text:
            return
        self._reported[name] = text
        for card in cards:
            for words in (fault.note for fault in faults.of_card(found, card) if fault.note):
                self.recorder.event(NODES, node, NORMAL, "XidIgnored", f"card {card.index} ({card.uuid}): {words}")


def _ill(card: Card) -> str:
    return f"card {card.index} ({card.uuid}): {card.unhealthy}"


def _health_of(ill: Sequence[Card], *, was_ill: bool) -> dict[str, tuple[str, str, str]]:
    """A node that never had an ill card has no condition about it."""
    if ill:
        shown = "; ".join(map(_ill, ill[:_SHOWN])) + (f"; and {len(ill) - _SHOWN} more" if len(ill) > _SHOWN else "")
        return {HEALTH_CONDITION: ("False", "GPUUnhealthy", shown)}
    return {HEALTH_CONDITION: ("True", "GPUsHealthy", "every card takes work")} if was_ill else {}


def _as_owned(cards: tuple[Card, ...], owned: NodeCards) -> tuple[Card, ...]:
    """Closed only where the driver finds them so: every other reason is found again."""
    if owned.simulated:
        return tuple(replace(card, unhealthy="") if card.unhealthy else card for card in cards)
    known = {card.uuid: card.unhealthy for card in owned.cards()}
    return tuple(replace(card, unhealthy=known.get(card.uuid, card.unhealthy)) for card in cards)


def _seconds(text: str) -> float:
    """Of the annotation DEADLINE; the default for what is no number of seconds."""
    found = natural(text)
    return float(found) if found is not None else _DEADLINE


_MIG_WORDS = {
    PENDING: ("False", "Pending"),
    SUCCESS: ("True", "Applied"),
    FAILURE: ("False", "Failed"),
}


def _metadata(node: Object, owned: NodeCards, decision: Decision) -> Object:
    """What of its labels and annotations must change."""
    known, annotations = labels_of(node), annotations_of(node)
    derived = {**decision.advertised.labels, **owned.fixed}
    if decision.mig.state:
        derived[STATE_LABEL] = decision.mig.state
    labels: Object = {key: value for key, value in derived.items() if known.get(key) != value}
    labels |= dict.fromkeys(stale_labels(known, derived))
    wanted = {
        inventory.ANNOTATION: inventory.encode(decision.cards) or None,
        CONFIG: decision.text or None,
        change.ANNOTATION: change.encode(decision.changes),
    }
    changed = {key: value for key, value in wanted.items() if annotations.get(key) != value}
    return ({"labels": labels} if labels else {}) | ({"annotations": changed} if changed else {})


def _shares(text: str) -> bool:
    config = config_in_force(text)
    return config is not None and bool(config.sharing.resources)


def _in_words(decision: Decision) -> str:
    config = config_in_force(decision.text, decision.cards)
    shared = config.sharing.resources if config is not None else ()
    listed = ", ".join(f"{name}: {amount}" for name, amount in sorted(decision.advertised.capacity.items()))
    how = (
        f"{config.strategy} ({', '.join(f'{one.name} x {one.replicas}' for one in shared)})"
        if shared and config
        else ""
    )
    return f"{how or 'no sharing'}; the node offers {listed or 'nothing'}"


def _read_mig(name: str, found: Object) -> tuple[Configs | None, str]:
    try:
        return read_mig(found.get("data") or {}), ""
    except MigConfigError as error:
        return None, f"ConfigMap {name}, {error}"
