"""Whether the rules in a definition's schema are acceptable: their texts, and that they compile.

Errors are worded and placed as kube-apiserver does. What a rule may cost is not estimated here.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, child, internal, invalid, keyed, not_supported, required
from gpuaas.machinery.schema.cel import Problem, Type, Unsupported, compile_expression, of_schema
from gpuaas.machinery.schema.cel.types import optional_of
from gpuaas.machinery.schema.fieldpaths import normalized_path
from gpuaas.machinery.schema.rules import compile_rule

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_BREAKS: Final = re.compile(r"[\n\r]")
_KEY: Final = "x-kubernetes-validations"


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
    return list(_check(openapi, path, resource=True, uncorrelatable=""))


def _check(source: Mapping[str, Any], path: str, *, resource: bool, uncorrelatable: str) -> Iterator[FieldError]:
    for key, place in source.get("properties", {}).items():
        where = keyed(child(path, "properties"), key)
        embedded = bool(place.get("x-kubernetes-embedded-resource"))
        yield from _check(place, where, resource=embedded, uncorrelatable=uncorrelatable)
    extra, items = source.get("additionalProperties"), source.get("items")
    if isinstance(extra, Mapping):
        where = child(path, "additionalProperties")
        yield from _check(extra, where, resource=False, uncorrelatable=uncorrelatable)
    if isinstance(items, Mapping):
        told = source.get("x-kubernetes-list-type") == "map"
        apart = uncorrelatable or ("" if told else path)
        yield from _check(items, child(path, "items"), resource=False, uncorrelatable=apart)
    if source.get(_KEY):
        yield from _check_here(source, path, resource=resource, uncorrelatable=uncorrelatable)


def _check_here(source: Mapping[str, Any], path: str, *, resource: bool, uncorrelatable: str) -> Iterator[FieldError]:
    type_ = of_schema(source, resource=resource)
    if type_ is None:
        detail = (
            "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert"
            " structural schema to CEL declarations"
        )
        yield internal(child(path, _KEY), detail)
        return
    for index, said in enumerate(source[_KEY]):
        where = child(path, _KEY, index)
        compiled = compile_rule(said, index, source, type_)
        if compiled.problem:
            yield _invalid_rule(child(where, "rule"), said, compiled.problem)
            continue
        if compiled.missing:
            continue
        problem = _message_problem(said, type_)
        if problem:
            yield _invalid_rule(child(where, "messageExpression"), said, problem)
        if compiled.is_transition and uncorrelatable:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            yield invalid(child(where, "rule"), said["rule"], detail)
        elif not compiled.is_transition and said.get("optionalOldSelf") is not None:
            detail = "may not be set if oldSelf is not used in rule"
            yield invalid(child(where, "optionalOldSelf"), said["optionalOldSelf"], detail)


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
