"""Which objects a list, watch or deletecollection means: label and field selectors as one predicate."""

from collections.abc import Callable, Mapping
from typing import Any

from gpuaas.api.kinds import Behaviour
from gpuaas.apiserver.operation import Operation
from gpuaas.base.errors import BadRequest
from gpuaas.base.selectors import FieldTerm, LabelSelector, parse_fields, parse_labels

Predicate = Callable[[Mapping[str, Any]], bool]


def predicate(op: Operation) -> Predicate | None:
    """None where everything is meant. An object named in the path is a selection too (watch of one object)."""
    return _matcher(op, _labels(op), _named(op))


def scope(op: Operation) -> tuple[str, Predicate | None]:
    """Below which prefix to look, and what to look for there: who selects one name has to look at one key only."""
    labels, fields = _labels(op), _named(op)
    names = {term.value for term in fields if term.path == "metadata.name" and term.equal}
    if len(names) != 1 or (op.resource.namespaced and not op.namespace):
        return op.resource.range(op.namespace), _matcher(op, labels, fields)
    others = tuple(term for term in fields if term.path != "metadata.name" or not term.equal)
    return op.resource.key(op.namespace, names.pop()), _matcher(op, labels, others)


def _named(op: Operation) -> tuple[FieldTerm, ...]:
    return (*_fields(op), FieldTerm("metadata.name", op.name)) if op.name else _fields(op)


def _matcher(op: Operation, labels: LabelSelector | None, fields: tuple[FieldTerm, ...]) -> Predicate | None:
    if not labels and not fields:
        return None
    values = _behaviour(op).fields
    wanted, refused = _folded(fields)

    def matches(obj: Mapping[str, Any]) -> bool:
        meta = obj["metadata"]
        if labels and not labels.matches(meta.get("labels")):
            return False
        extra: Mapping[str, str] | None = None
        for path, term in wanted.items():
            if path == "metadata.name":
                value = meta["name"]
            elif path == "metadata.namespace":
                value = meta.get("namespace", "")
            else:
                extra = values(obj) if extra is None else extra
                value = extra.get(path, "")
            if (term is not None and value != term) or value in refused.get(path, ()):
                return False
        return True

    return matches


def _folded(fields: tuple[FieldTerm, ...]) -> tuple[dict[str, str | None], dict[str, set[str]]]:
    """By path: the one value an object must have, if one is asked for, and those it must not have."""
    wanted: dict[str, str | None] = {}
    refused: dict[str, set[str]] = {}
    for term in fields:
        before = wanted.setdefault(term.path, None)
        if not term.equal:
            refused.setdefault(term.path, set()).add(term.value)
        elif before is None:
            wanted[term.path] = term.value
        elif before != term.value:
            refused.setdefault(term.path, set()).add(before)  # two values at once: no object has them
    return wanted, refused


def _labels(op: Operation) -> LabelSelector | None:
    text = op.query.get("labelSelector")
    if not text:
        return None
    try:
        return parse_labels(text)
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _fields(op: Operation) -> tuple[FieldTerm, ...]:
    text = op.query.get("fieldSelector")
    if not text:
        return ()
    try:
        terms = parse_fields(text)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    for term in terms:
        if term.path not in ("metadata.name", "metadata.namespace", *_behaviour(op).field_selectors):
            raise BadRequest(_unknown(op, term.path))
    return terms


def _behaviour(op: Operation) -> Behaviour:
    """A user's kind says of each of its versions what can be selected by there; events are kept as another group's."""
    own = op.resource.relabels or op.kind.group != op.hub.group
    return op.kind.behaviour if own else op.hub.behaviour


def _unknown(op: Operation, path: str) -> str:
    if op.resource.group == "batch" and op.resource.plural == "jobs":
        return f'field label "{path}" not supported for Job'
    if op.resource.custom or op.hub.behaviour.field_selectors:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
