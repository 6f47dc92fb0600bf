"""What a pod says about nodes: its node selector, its node affinity, and the taints it tolerates."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.base.numbers import integer

View = Mapping[str, Any]

NAME_FIELD = "metadata.name"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_HINDERING = ("NoSchedule", "NoExecute")


def selects(spec: View, labels: Mapping[str, str], name: str) -> bool:
    """Whether the node selector and the required node affinity allow the node."""
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    required = _node_affinity(spec).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term_holds(term, labels, name) for term in required.get("nodeSelectorTerms") or ())


def preference(spec: View, labels: Mapping[str, str], name: str) -> int:
    """The sum of the weights of the preferred node affinity terms that hold."""
    preferred = _node_affinity(spec).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(one["weight"] for one in preferred if _term_holds(one.get("preference") or {}, labels, name))


def untolerated(
    taints: Sequence[View], tolerations: Sequence[View], effects: Sequence[str] = _HINDERING
) -> View | None:
    """The first taint with one of the effects that no toleration covers."""
    for taint in taints:
        if taint.get("effect") in effects and not tolerated(taint, tolerations):
            return taint
    return None


def tolerated(taint: View, tolerations: Sequence[View]) -> bool:
    return any(tolerates(one, taint) for one in tolerations)


def tolerates(toleration: View, taint: View) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
        case _:
            return False


def _node_affinity(spec: View) -> View:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def _term_holds(term: View, labels: Mapping[str, str], name: str) -> bool:
    """An empty term holds for no node."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    values = {NAME_FIELD: name}
    return all(_holds(one, labels) for one in expressions) and all(_holds(one, values) for one in fields)


def _holds(requirement: View, values: Mapping[str, str]) -> bool:
    value = values.get(requirement["key"])
    wanted: Sequence[str] = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value is not None and value in wanted
        case "NotIn":
            return value is None or value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            number = _integer(value)
            bound = _integer(wanted[0]) if wanted else None
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
        case _:
            return False


def _integer(text: str | None) -> int | None:
    return integer(text) if text is not None else None
