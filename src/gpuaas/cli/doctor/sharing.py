"""Sharing and MIG: shares that do not appear, pods stopped for GPU memory, nodes that stay out of service."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gpuaas.base.numbers import natural
from gpuaas.cli.doctor.finding import Finding

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient

View = Mapping[str, Any]
_NAMESPACES: Final = ("nvidia-gpu-operator", "gpu-operator")
_OVER_LIMIT: Final = "GPUMemoryOverLimit"
_SHOWN: Final = 5


async def check_shares(client: "HttpClient") -> list[Finding]:
    """Whether the ConfigMap with the sharing configuration is the one a ClusterPolicy names."""
    from gpuaas.client.protocol import Resource
    from gpuaas.client.resources import CONFIG_MAPS

    policies = await _listed(client, Resource("nvidia.com", "v1", "clusterpolicies", False))
    maps = [each for namespace in _NAMESPACES for each in await _listed(client, CONFIG_MAPS, namespace)]
    return list(share_findings(policies, maps))


async def check_memory(client: "HttpClient") -> list[Finding]:
    """Pods that were stopped because they used more than their part of a card."""
    from gpuaas.client.resources import EVENTS, NODES, PODS

    events = [one for one in await _listed(client, EVENTS) if one.get("reason") == _OVER_LIMIT]
    if not events:
        return []
    return list(memory_findings(events, await _listed(client, PODS), await _listed(client, NODES)))


async def check_closed_nodes(client: "HttpClient") -> list[Finding]:
    """Nodes with cards that take no pods, or whose cards wait to be changed; and who they wait for."""
    from gpuaas.client.resources import NODES, PODS

    nodes = [node for node in await _listed(client, NODES) if _is_closed(node) or _waits(node)]
    return list(closed_findings(nodes, await _listed(client, PODS))) if nodes else []


async def _listed(client: "HttpClient", resource: Any, namespace: str = "") -> list[Any]:
    """Nothing where the cluster has no such objects."""
    from gpuaas.base.errors import NotFound

    try:
        return (await client.list(resource, namespace)).items
    except NotFound:
        return []


# -- Pure ---------------------------------------------------------------------------------------------------------------


def share_findings(policies: Sequence[View], maps: Sequence[View]) -> Iterator[Finding]:
    known = {one["metadata"]["name"] for one in maps}
    shares = sorted(one["metadata"]["name"] for one in maps if _shares(one))
    named = {name: _named(policy) for policy in policies if (name := policy["metadata"]["name"])}
    wrong = {policy: config for policy, config in named.items() if config and config not in known}
    for policy, config in sorted(wrong.items()):
        close = shares[0] if shares else ""
        words = f"ClusterPolicy {policy} names ConfigMap {config}, which does not exist: its nodes offer whole cards"
        if close:
            fix = _patch(policy, close)
            yield Finding("red", "gpu-shares", f"{words}; there is ConfigMap {close}", fix)
        else:
            fix = f"kubectl create configmap {config} -n {_NAMESPACES[0]} --from-file=any=sharing.yaml"
            yield Finding("red", "gpu-shares", words, fix)
    in_use = set(named.values()) - {""}
    if policies and not wrong:
        policy = min(named)
        for unused in (name for name in shares if name not in in_use):
            words = f"ConfigMap {unused} shares cards, but no ClusterPolicy names it: nodes offer whole cards"
            yield Finding("yellow", "gpu-shares", words, _patch(policy, unused))


def _named(policy: View) -> str:
    plugin = (policy.get("spec") or {}).get("devicePlugin") or {}
    return str((plugin.get("config") or {}).get("name") or "")


def _shares(config_map: View) -> bool:
    return any("timeSlicing" in str(text) or "mps:" in str(text) for text in (config_map.get("data") or {}).values())


def _patch(policy: str, config: str) -> str:
    patch = f'{{"spec": {{"devicePlugin": {{"config": {{"name": "{config}"}}}}}}}}'
    return f"kubectl patch clusterpolicy {policy} --type merge -p '{patch}'"


def memory_findings(events: Iterable[View], pods: Sequence[View], nodes: Sequence[View]) -> Iterator[Finding]:
    """The last word about each pod."""
    latest: dict[tuple[str, str], View] = {}
    for event in events:
        about = event.get("involvedObject") or {}
        latest[str(about.get("namespace")), str(about.get("name"))] = event
    where = {(one["metadata"]["namespace"], one["metadata"]["name"]): one["spec"].get("nodeName") or "" for one in pods}
    labels = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in nodes}
    for key, event in sorted(latest.items())[:_SHOWN]:
        node = where.get(key, "")
        words = (
            f"pod {key[0]}/{key[1]} was stopped for GPU memory: {str(event.get('message')).removeprefix('stopped: ')}"
        )
        yield Finding("yellow", "gpu-memory", words, _more_memory(node, labels.get(node, {}), key))


def _more_memory(node: str, labels: Mapping[str, str], pod: tuple[str, str]) -> str:
    """Memory that hardware keeps apart where the card has MIG, else larger shares."""
    if node and labels.get("nvidia.com/mig.capable") == "true":
        return f"kubectl label node {node} nvidia.com/mig.config=all-balanced --overwrite"
    replicas = natural(labels.get("nvidia.com/gpu.replicas", "")) or 1
    if node and replicas > 2:
        return f"gpuaas share {node} --replicas {replicas // 2}"
    return f"gpuaas share {node} --off" if node else f"kubectl describe pod -n {pod[0]} {pod[1]}"


def closed_findings(nodes: Sequence[View], pods: Sequence[View]) -> Iterator[Finding]:
    from gpuaas.devices.holding import held_by

    for node in nodes:
        name = node["metadata"]["name"]
        holders = sorted(
            (pod["metadata"]["namespace"], pod["metadata"]["name"])
            for pod in pods
            if pod["spec"].get("nodeName") == name
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            and held_by(pod)
        )
        listed = ", ".join("/".join(one) for one in holders[:_SHOWN]) + (", …" if len(holders) > _SHOWN else "")
        delete = f"kubectl delete pod -n {holders[0][0]} {holders[0][1]}" if holders else ""
        if _waits(node):
            words = f"node {name}: its cards are to change and wait for pods: {listed or 'none is left'}"
            yield Finding("yellow", "gpu-node-waits", words, delete or f"kubectl describe node {name}")
        if _is_closed(node):
            still = f"; pods still hold its cards: {listed}" if holders else ""
            words = f"node {name} is SchedulingDisabled: it takes no pods{still}"
            fix = (
                f"kubectl get pods --all-namespaces --field-selector spec.nodeName={name}; {delete} && "
                if delete
                else ""
            )
            yield Finding("yellow", "gpu-node-closed", words, f"{fix}kubectl uncordon {name}")


def _is_closed(node: View) -> bool:
    has_cards = any(name.startswith("nvidia.com/") for name in (node.get("status") or {}).get("capacity") or {})
    return has_cards and bool((node.get("spec") or {}).get("unschedulable"))


def _waits(node: View) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(
        one["type"] in ("gpuaas.dev/MigConfig", "gpuaas.dev/DevicePluginConfig")
        and one["status"] == "False"
        and one.get("reason") in ("Pending", "Draining")
        for one in conditions
    )
