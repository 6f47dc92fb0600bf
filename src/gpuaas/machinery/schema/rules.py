"""Validation rules of custom resources (`x-kubernetes-validations`): compiled once per schema, asked on every write.

`validate_rules` gives a field error for each rule that does not hold. A rule that speaks of `oldSelf` is asked only
when there is an old value to compare with: on update, and only where the old value can be correlated (fields, entries of
maps, items of lists that are maps). What was wrong before and has not changed is tolerated, as in module validation.
A rule that uses a function we do not have is never silently passed over: `unevaluated_rules` names it.

Whether the rules of a definition are acceptable is module rulechecks' question.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, keyed, required, show
from gpuaas.machinery.schema.cel import CelError, Expression, Problem, Type, Unsupported, compile_expression, of_schema
from gpuaas.machinery.schema.cel.budget import BUDGET, Budget, Exhausted
from gpuaas.machinery.schema.cel.types import BYTES, DURATION, TIMESTAMP, optional_of
from gpuaas.machinery.schema.cel.values import NO_OVERLOAD, NONE, Opt, kind_of, parse_span
from gpuaas.machinery.schema.fieldpaths import normalized_path
from gpuaas.machinery.schema.model import MISSING, Schema
from gpuaas.machinery.schema.scalars import Unreadable, canonical_bytes, parse_time
from gpuaas.machinery.schema.validation import blocks_rules, validate

_LONGEST_MESSAGE: Final = 5 * 1024


def validate_custom(
    schema: Schema, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None, *, found: Sequence[FieldError] = ()
) -> list[FieldError]:
    """Everything a custom resource must fulfil: its schema, then, unless it is too wrong to ask, its rules. `found` is
    what is wrong with its metadata."""
    errors = validate(schema, obj, old)
    if rules_of(schema) is None:
        return errors
    unchecked = blocks_rules([*found, *errors]) if errors or found else None
    return [*errors, unchecked] if unchecked else [*errors, *validate_rules(schema, obj, old)]


def validate_rules(schema: Schema, obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[FieldError]:
    """The rules that do not hold."""
    node = rules_of(schema)
    if node is None:
        return []
    before = MISSING if old is None else old
    errors: list[FieldError] = []
    _ask(node, obj, before, "", _Unchanged(obj, before, None), Budget(), errors)
    return errors


def unevaluated_rules(openapi: Mapping[str, Any], path: str) -> list[str]:
    """A sentence for each rule that is accepted but not evaluated, because of a function that is missing here."""
    node = _compile(openapi, resource=True)
    return list(_unevaluated(node, path)) if node is not None else []


@dataclass(frozen=True, slots=True)
class Rule:
    said: Mapping[str, Any]
    index: int
    expression: Expression | None = None
    message: Expression | None = None
    problem: str = ""  # why it does not compile
    missing: str = ""  # which function is not here
    path: str = ""  # where the error goes, below the value

    @property
    def is_transition(self) -> bool:
        return self.expression is not None and "oldSelf" in self.expression.uses

    @property
    def optional_old(self) -> bool:
        return bool(self.said.get("optionalOldSelf"))

    @property
    def title(self) -> str:
        return str(self.said.get("message") or self.said.get("rule", "")).strip()


@dataclass(frozen=True, slots=True)
class RuleNode:
    """The rules of one place and of what is below it."""

    kind: str  # the schema's type
    rules: tuple[Rule, ...] = ()
    properties: Mapping[str, "RuleNode"] = field(default_factory=dict)
    additional: "RuleNode | None" = None
    items: "RuleNode | None" = None
    list_keys: tuple[str, ...] = ()
    convert: Callable[[Any], Any] | None = None  # from JSON to CEL's values, where a rule meets one that differs
    always: bool = False  # something is to be said here or below even if nothing changed


def rules_of(schema: Schema) -> RuleNode | None:
    if "rules" not in schema.compiled:
        schema.compiled["rules"] = _compile(schema.source, resource=True)
    found: RuleNode | None = schema.compiled["rules"]
    return found


def _compile(source: Mapping[str, Any], *, resource: bool = False) -> RuleNode | None:
    items = source.get("items")
    extra = source.get("additionalProperties")
    below = {
        key: node
        for key, place in source.get("properties", {}).items()
        if (node := _compile(place, resource=bool(place.get("x-kubernetes-embedded-resource")))) is not None
    }
    item_node = _compile(items) if isinstance(items, Mapping) else None
    extra_node = _compile(extra) if isinstance(extra, Mapping) else None
    said = source.get("x-kubernetes-validations") or ()
    if not said and not below and item_node is None and extra_node is None:
        return None
    type_ = of_schema(source, resource=resource) if said else None
    rules = tuple(compile_rule(rule, index, source, type_) for index, rule in enumerate(said)) if type_ else ()
    keys = source.get("x-kubernetes-list-map-keys", ()) if source.get("x-kubernetes-list-type") == "map" else ()
    meets_text = any(said.meets_text for rule in rules for said in (rule.expression, rule.message) if said is not None)
    convert = _converter(type_) if type_ is not None and meets_text else None
    always = any(rule.is_transition or (rule.expression is None and not rule.missing) for rule in rules)
    always = always or any(node.always for node in (*below.values(), item_node, extra_node) if node is not None)
    return RuleNode(source.get("type", ""), rules, below, extra_node, item_node, tuple(keys), convert, always)


def compile_rule(said: Mapping[str, Any], index: int, source: Mapping[str, Any], type_: Type) -> Rule:
    """One rule, or why it is none."""
    text = str(said.get("rule", ""))
    old_type = optional_of(type_) if said.get("optionalOldSelf") else type_
    variables = {"self": type_, "oldSelf": old_type}
    path = normalized_path(source, str(said.get("fieldPath", ""))) or ""
    try:
        expression = compile_expression(text, variables)
    except Unsupported as missing:
        return Rule(said, index, missing=str(missing))
    except Problem as problem:
        return Rule(said, index, problem=f"compilation failed: {problem}")
    if expression.type.name not in ("bool", "dyn"):
        return Rule(said, index, problem="cel expression must evaluate to a bool")
    message: Expression | None = None
    if said.get("messageExpression"):
        try:
            message = compile_expression(str(said["messageExpression"]), variables)
        except (Problem, Unsupported):  # the definition was refused for it, or the plain message has to do
            message = None
    return Rule(said, index, expression, message, path=path)


def _unevaluated(node: RuleNode, path: str) -> Iterator[str]:
    for rule in node.rules:
        if rule.missing:
            where = f"{path}.x-kubernetes-validations[{rule.index}].rule"
            yield f"{where}: this rule is not evaluated: the function {rule.missing} is not available"
    for key, place in node.properties.items():
        yield from _unevaluated(place, keyed(f"{path}.properties", key))
    if node.additional is not None:
        yield from _unevaluated(node.additional, f"{path}.additionalProperties")
    if node.items is not None:
        yield from _unevaluated(node.items, f"{path}.items")


def _converter(type_: Type) -> Callable[[Any], Any] | None:
    """What makes CEL values of JSON ones: times, durations and bytes are text in JSON."""
    if type_ in (TIMESTAMP, DURATION, BYTES):
        return lambda value: _scalar(type_, value)
    if type_.name in ("list", "map") and type_.fields is None:
        inner = _converter(type_.params[-1])
        if inner is None:
            return None
        if type_.name == "list":
            return lambda value: [inner(item) for item in value] if isinstance(value, list) else value
        return lambda value: {k: inner(v) for k, v in value.items()} if isinstance(value, dict) else value
    fields = {
        name: convert for name, part in (type_.fields or {}).values() if (convert := _converter(part)) is not None
    }
    if not fields:
        return None
    return lambda value: _converted(fields, value)


def _converted(fields: Mapping[str, Callable[[Any], Any]], value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: fields[key](item) if key in fields else item for key, item in value.items()}


def _scalar(type_: Type, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        if type_ is TIMESTAMP:
            return parse_time(value if "T" in value else f"{value}T00:00:00Z")
        if type_ is DURATION:
            return parse_span(value)
        return b64decode(canonical_bytes(value))
    except (Unreadable, CelError):
        return value


class _Unchanged:
    """Whether a value is as it was; asked only when a rule failed. Where the old value cannot be correlated, the nearest
    place above where it can decides."""

    __slots__ = ("above", "old", "value")

    def __init__(self, value: Any, old: Any, above: "_Unchanged | None") -> None:
        self.value, self.old, self.above = value, old, above

    def __bool__(self) -> bool:
        if self.old is not MISSING:
            return bool(self.old == self.value)
        return bool(self.above) if self.above is not None else False


def _ask(
    node: RuleNode,
    value: Any,
    old: Any,
    path: str,
    unchanged: _Unchanged,
    budget: Budget,
    errors: list[FieldError],
) -> None:
    if budget.left <= 0:
        return
    if value is None or (not node.always and old is not MISSING and (old is value or old == value)):
        return
    if node.rules:
        errors.extend(_ask_here(node, value, old, path, unchanged, budget))
    if isinstance(value, dict):
        before: Mapping[str, Any] = old if isinstance(old, dict) else {}
        for key, item in value.items():
            place = node.properties.get(key)
            if place is None and node.additional is None:
                continue
            where = child(path, key) if place is not None else keyed(path, key)
            place = place or node.additional
            assert place is not None
            earlier = before.get(key, MISSING)
            _ask(place, item, earlier, where, _Unchanged(item, earlier, unchanged), budget, errors)
    elif isinstance(value, list) and node.items is not None:
        known = _by_keys(old, node.list_keys)
        for index, item in enumerate(value):
            earlier = known.get(_keys_of(item, node.list_keys), MISSING) if known else MISSING
            judged = _Unchanged(item, earlier, unchanged)
            _ask(node.items, item, earlier, child(path, index), judged, budget, errors)


def _by_keys(old: Any, keys: tuple[str, ...]) -> dict[Any, Any]:
    if not keys or not isinstance(old, list):
        return {}
    return {_keys_of(item, keys): item for item in old if isinstance(item, dict)}


def _keys_of(item: Any, keys: tuple[str, ...]) -> Any:
    return tuple(repr(item.get(key)) for key in keys) if isinstance(item, dict) else None


def _ask_here(
    node: RuleNode, value: Any, old: Any, path: str, unchanged: _Unchanged, budget: Budget
) -> Iterator[FieldError]:
    convert = node.convert
    has_old = old is not MISSING and old is not None
    env: dict[str, Any] = {"self": convert(value) if convert else value, BUDGET: budget}
    old_self = (convert(old) if convert else old) if has_old else None
    for rule in node.rules:
        if rule.missing or (rule.is_transition and not has_old and not rule.optional_old):
            continue
        if rule.expression is None:
            yield invalid(path or "<nil>", node.kind, f"rule compile error: {rule.problem}")
            continue
        env["oldSelf"] = (Opt(True, old_self) if has_old else NONE) if rule.optional_old else old_self
        budget.begin()
        try:
            error = _outcome(rule, env, node.kind, value, path)
        except Exhausted:
            yield _too_costly(rule, node.kind, path, all_spent=budget.left <= 0)
            budget.left = 0
            return
        budget.end()
        if error is not None and (rule.is_transition or not unchanged):
            yield error


def _too_costly(rule: Rule, kind: str, path: str, *, all_spent: bool) -> FieldError:
    if all_spent:
        detail = "validation failed due to running out of cost budget, no further validation rules will be run"
    else:
        limit = "'operation cancelled: actual cost limit exceeded'"
        detail = (
            f"{limit}: no further validation rules will be run due to call cost exceeds limit for rule: {rule.title}"
        )
    return invalid(path or "<nil>", kind, detail)


def _outcome(rule: Rule, env: dict[str, Any], kind: str, value: Any, path: str) -> FieldError | None:
    assert rule.expression is not None
    try:
        answer = rule.expression.run(env)
        if answer is True:
            return None
        if answer is not False:
            raise CelError(NO_OVERLOAD)
    except CelError as problem:
        if str(problem) == NO_OVERLOAD:
            detail = f"'{problem}': call arguments did not match a supported operator, function or macro signature for"
            return invalid(path or "<nil>", kind, f"{detail} rule: {rule.title}")
        return invalid(path or "<nil>", kind, f"{problem} evaluating rule: {rule.title}")
    where = child(path, rule.path) if rule.path else path or "<nil>"
    return _refusal(rule, where, _message(rule, env), value, plain=kind not in ("object", "array"))


def _refusal(rule: Rule, path: str, detail: str, value: Any, *, plain: bool) -> FieldError:
    """Objects and lists are not shown in the message: they may be large."""
    match rule.said.get("reason"):
        case "FieldValueForbidden":
            return forbidden(path, detail)
        case "FieldValueRequired":
            return required(path, detail)
        case "FieldValueDuplicate":
            body = f"Duplicate value: {show(value)}" if plain else "Duplicate value"
            return FieldError("FieldValueDuplicate", path, body)
        case _ if plain:
            return invalid(path, value, detail)
        case _:
            return FieldError("FieldValueInvalid", path, f"Invalid value: {detail}")


def _message(rule: Rule, env: dict[str, Any]) -> str:
    if rule.message is not None:
        try:
            text = rule.message.run(env)
        except CelError:
            text = ""
        if kind_of(text) == "string":
            text = text.strip()
            if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE:
                return str(text)
    said = str(rule.said.get("message", "")).strip()
    return said or f"failed rule: {rule.title}"
