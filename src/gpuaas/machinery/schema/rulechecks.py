"""Whether the rules in a definition's schema are acceptable: their texts, and that they compile.

Errors are worded and placed as kube-apiserver does. A definition whose rules may cost too much is refused; what they
may cost is estimated by module cel.estimate.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, child, forbidden, internal, invalid, keyed, not_supported, required
from gpuaas.machinery.schema.cel import Problem, Type, Unsupported, compile_expression, of_schema
from gpuaas.machinery.schema.cel.compiler import types_of
from gpuaas.machinery.schema.cel.estimate import REQUEST, UNBOUNDED, Declared, Estimator, declared
from gpuaas.machinery.schema.cel.types import optional_of
from gpuaas.machinery.schema.fieldpaths import normalized_path
from gpuaas.machinery.schema.rules import compile_rule

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_BREAKS: Final = re.compile(r"[\n\r]")
_KEY: Final = "x-kubernetes-validations"
_MOST, _MOST_OF_ONE = 100_000_000, 10_000_000  # that rules may cost, all of a definition's and one


def check_rule_texts(openapi: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """What can be said of the rules of one place without reading them."""
    for index, said in enumerate(openapi.get(_KEY) or ()):
        yield from _check_texts(openapi, said, child(path, _KEY, index))


def _check_texts(openapi: Mapping[str, Any], said: Mapping[str, Any], where: str) -> Iterator[FieldError]:
    rule, message = str(said.get("rule", "")).strip(), str(said.get("message", ""))
    if not rule:
        yield required(child(where, "rule"), "rule is not specified")
    elif message and not message.strip():
        yield invalid(child(where, "message"), message, "must be non-empty if specified")
    elif _BREAKS.search(message.strip()):
        yield invalid(child(where, "message"), message, "must not contain line breaks")
    elif _BREAKS.search(rule) and not message.strip():
        yield required(child(where, "message"), "message must be specified if rule contains line breaks")
    expression = said.get("messageExpression", "")
    if expression and not expression.strip():
        yield required(child(where, "messageExpression"), "messageExpression must be non-empty if specified")
    if said.get("reason") is not None and said["reason"] not in _REASONS:
        yield not_supported(child(where, "reason"), said["reason"], _REASONS)
    path = said.get("fieldPath", "")
    if path and not path.strip():
        yield invalid(child(where, "fieldPath"), path, "must be non-empty if specified")
    if _BREAKS.search(path):
        yield invalid(child(where, "fieldPath"), path, "must not contain line breaks")
    if path and normalized_path(openapi, path) is None:
        yield invalid(child(where, "fieldPath"), path, "must be a valid path")


def check_rules(openapi: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the rules of a whole schema, as expressions."""
    bill = _Bill()
    errors = list(_check(openapi, path, _Place(bill, resource=True)))
    return errors + bill.errors(path)


class _Bill:
    """What all rules of a schema may cost together, and the dearest of them."""

    def __init__(self) -> None:
        self.total = 0
        self._dear: list[tuple[int, str]] = []

    def add(self, path: str, cost: int) -> None:
        self.total = min(self.total + cost, UNBOUNDED)
        if cost >= _MOST // 100:
            self._dear = sorted([*self._dear, (cost, path)], key=lambda each: -each[0])[:4]

    def errors(self, path: str) -> list[FieldError]:
        if self.total <= _MOST:
            return []
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        whole = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found = [forbidden(where, text) for _, where in self._dear]
        return [*found, forbidden(path, _too_dear(whole, self.total, _MOST))]


@dataclass(frozen=True, slots=True)
class _Place:
    bill: _Bill
    resource: bool = False
    uncorrelatable: str = ""  # the list above it whose items cannot be correlated
    often: int | None = 1  # how often it can be in an object; None: nothing bounds it


def _too_dear(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    advice = "try simplifying the rule, or adding maxItems, maxProperties, and maxLength"
    return f"{what} exceeds budget by factor of {shown} ({advice} where arrays, maps, and strings are declared)"


def _check(source: Mapping[str, Any], path: str, place: _Place) -> Iterator[FieldError]:
    for key, below in source.get("properties", {}).items():
        where = keyed(child(path, "properties"), key)
        yield from _check(below, where, replace(place, resource=bool(below.get("x-kubernetes-embedded-resource"))))
    extra, items = source.get("additionalProperties"), source.get("items")
    if isinstance(extra, Mapping):
        inside = replace(place, resource=False, often=_times(place.often, source.get("maxProperties")))
        yield from _check(extra, child(path, "additionalProperties"), inside)
    if isinstance(items, Mapping):
        is_map = source.get("x-kubernetes-list-type") == "map"
        apart = place.uncorrelatable or ("" if is_map else path)
        often = _times(place.often, source.get("maxItems"))
        yield from _check(
            items, child(path, "items"), replace(place, resource=False, uncorrelatable=apart, often=often)
        )
    if source.get(_KEY):
        yield from _check_here(source, path, place)


def _times(often: int | None, most: int | None) -> int | None:
    return None if often is None or most is None else min(often * max(most, 0), UNBOUNDED)


def _check_here(source: Mapping[str, Any], path: str, place: _Place) -> Iterator[FieldError]:
    type_ = of_schema(source, resource=place.resource)
    if type_ is None:
        detail = (
            "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert"
            " structural schema to CEL declarations"
        )
        yield internal(child(path, _KEY), detail)
        return
    sizes = declared(source, resource=place.resource) or Declared()
    often = place.often if place.often is not None else REQUEST // (sizes.least + 1)
    for index, said in enumerate(source[_KEY]):
        where = child(path, _KEY, index)
        compiled = compile_rule(said, index, source, type_)
        if compiled.problem:
            yield _invalid_rule(child(where, "rule"), said, compiled.problem)
            continue
        if compiled.missing:
            continue
        yield from _priced(said, "rule", where, type_, sizes, often, place.bill)
        problem = _message_problem(said, type_)
        if problem:
            yield _invalid_rule(child(where, "messageExpression"), said, problem)
        elif said.get("messageExpression"):
            yield from _priced(said, "messageExpression", where, type_, sizes, 1, place.bill)
        if compiled.is_transition and place.uncorrelatable:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelatable}"
            yield invalid(child(where, "rule"), said["rule"], detail)
        elif not compiled.is_transition and said.get("optionalOldSelf") is not None:
            detail = "may not be set if oldSelf is not used in rule"
            yield invalid(child(where, "optionalOldSelf"), said["optionalOldSelf"], detail)


def _priced(
    said: Mapping[str, Any], key: str, where: str, type_: Type, sizes: Declared, often: int, bill: _Bill
) -> Iterator[FieldError]:
    """Puts it on the bill, and complains where it alone costs too much."""
    old_type = optional_of(type_) if said.get("optionalOldSelf") else type_
    try:
        tree, types = types_of(said[key], {"self": type_, "oldSelf": old_type})
    except (Problem, Unsupported):
        return
    cost = min(Estimator(sizes, types).cost(tree) * often, UNBOUNDED)
    bill.add(child(where, key), cost)
    if cost > _MOST_OF_ONE:
        yield forbidden(child(where, key), _too_dear(f"estimated {key} cost", cost, _MOST_OF_ONE))


def _message_problem(said: Mapping[str, Any], type_: Type) -> str:
    if not said.get("messageExpression"):
        return ""
    old_type = optional_of(type_) if said.get("optionalOldSelf") else type_
    try:
        expression = compile_expression(said["messageExpression"], {"self": type_, "oldSelf": old_type})
    except Unsupported:
        return ""
    except Problem as problem:
        return f"messageExpression compilation failed: {problem}"
    if expression.type.name not in ("string", "dyn"):
        return "messageExpression must evaluate to a string"
    return ""


def _invalid_rule(path: str, said: Mapping[str, Any], detail: str) -> FieldError:
    """The rule is shown the way Go prints its struct."""
    fields = {
        "Rule": said.get("rule", ""),
        "Message": said.get("message", ""),
        "MessageExpression": said.get("messageExpression", ""),
        "Reason": said.get("reason"),
        "FieldPath": said.get("fieldPath", ""),
        "OptionalOldSelf": said.get("optionalOldSelf"),
    }
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return FieldError("FieldValueInvalid", path, f"Invalid value: {text}: {detail}")
