"""What a pod says about nodes: its node selector, its node affinity, and the taints it tolerates.

A pod is held against every node, so what it says is compiled once where there is much of it (`Tolerations`,
`NodeAffinity`): looked up by key then, instead of gone through for every node.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuaas.base.numbers import integer

View = Mapping[str, Any]

NAME_FIELD = "metadata.name"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_HINDERING = ("NoSchedule", "NoExecute")
_FEW = 8  # values that are gone through as fast as looked up


def selects(spec: View, labels: Mapping[str, str], name: str) -> bool:
    """Whether the node selector and the required node affinity allow the node."""
    return NodeAffinity(spec).selects(labels, name)


class NodeAffinity:
    """The node selector and the node affinity of a pod, compiled: `selects` and `preference` for one node after another."""

    __slots__ = ("_labels", "_preferred", "_required")

    def __init__(self, spec: View) -> None:
        said = _node_affinity(spec)
        required = said.get("requiredDuringSchedulingIgnoredDuringExecution")
        preferred = said.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        self._labels: View = spec.get("nodeSelector") or {}
        self._required = None if required is None else [_Term(each) for each in required.get("nodeSelectorTerms") or ()]
        self._preferred = [(each["weight"], _Term(each.get("preference") or {})) for each in preferred]

    def selects(self, labels: Mapping[str, str], name: str) -> bool:
        if not self._labels.items() <= labels.items():
            return False
        return self._required is None or any(term.holds(labels, name) for term in self._required)

    def preference(self, labels: Mapping[str, str], name: str) -> int:
        """The sum of the weights of the preferred node affinity terms that hold."""
        return sum(weight for weight, term in self._preferred if term.holds(labels, name))


class _Term:
    __slots__ = ("_expressions", "_fields")

    def __init__(self, term: View) -> None:
        self._expressions = [_compiled(one) for one in term.get("matchExpressions") or ()]
        self._fields = [_compiled(one) for one in term.get("matchFields") or ()]

    def holds(self, labels: Mapping[str, str], name: str) -> bool:
        """An empty term holds for no node."""
        if not self._expressions and not self._fields:
            return False
        if not all(check(labels.get(key)) for key, check in self._expressions):
            return False
        values = {NAME_FIELD: name}
        return all(check(values.get(key)) for key, check in self._fields)


_Check = tuple[str, Callable[[str | None], bool]]


def _compiled(requirement: View) -> _Check:
    """The key, and what its value has to be."""
    values: Sequence[str] = requirement.get("values") or ()
    if len(values) > _FEW and requirement.get("operator") in ("In", "NotIn"):
        wanted, inside = frozenset(values), requirement["operator"] == "In"
        return requirement["key"], lambda value: (value in wanted) is inside
    operator = requirement.get("operator") or ""
    return requirement["key"], lambda value: _holds(operator, value, values)


def untolerated(
    taints: Sequence[View], tolerations: "Sequence[View] | Tolerations", effects: Sequence[str] = _HINDERING
) -> View | None:
    """The first taint with one of the effects that no toleration covers."""
    for taint in taints:
        if taint.get("effect") in effects and not tolerated(taint, tolerations):
            return taint
    return None


class Tolerations:
    """Which taints a pod tolerates, by key and effect; "" stands for any."""

    __slots__ = ("_any_value", "_one_value")

    def __init__(self, tolerations: Sequence[View]) -> None:
        self._any_value: set[tuple[str, str]] = set()
        self._one_value: set[tuple[str, str, str]] = set()
        for one in tolerations:
            key, effect = one.get("key") or "", one.get("effect") or ""
            match one.get("operator") or "Equal":
                case "Exists":
                    self._any_value.add((key, effect))
                case "Equal" if key:
                    self._one_value.add((key, effect, one.get("value") or ""))

    def cover(self, taint: View) -> bool:
        key, value = taint["key"], taint.get("value") or ""
        effects = ("", taint.get("effect") or "")
        return any(
            (key, effect) in self._any_value
            or ("", effect) in self._any_value
            or (key, effect, value) in self._one_value
            for effect in effects
        )


def tolerated(taint: View, tolerations: Sequence[View] | Tolerations) -> bool:
    if isinstance(tolerations, Tolerations):
        return tolerations.cover(taint)
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


def _holds(operator: str, value: str | None, wanted: Sequence[str]) -> bool:
    match operator:
        case "In":
            return value is not None and value in wanted
        case "NotIn":
            return value is None or value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            number = _integer(value)
            bound = _integer(wanted[0]) if wanted else None
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
        case _:
            return False


def _integer(text: str | None) -> int | None:
    return integer(text) if text is not None else None
