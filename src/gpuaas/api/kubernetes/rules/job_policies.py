"""The policies of a job: which failures count, and when some of its indexes are enough."""

from typing import Final

from gpuaas.api.kubernetes.rules.checks import each, known, nonnegative, qualified_name
from gpuaas.api.metadata import View
from gpuaas.base.duplicates import duplicates
from gpuaas.base.fielderrors import FieldError, child, duplicate, invalid, required, too_long, too_many
from gpuaas.base.numbers import natural

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_INDEXES_LIMIT: Final = 64 * 1024


def failure_policy(spec: View, path: str) -> list[FieldError]:
    policy = spec.get("podFailurePolicy") or {}
    rules = policy.get("rules") or ()
    errors = [too_many(child(path, "rules"), len(rules), 20)] if len(rules) > 20 else []
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {c.get("name") for kind in ("containers", "initContainers") for c in pod.get(kind) or ()}
    for rule, at in each(policy, "rules", path):
        errors += _failure_rule(spec, rule, names, at)
    return errors


def success_policy(spec: View, path: str) -> list[FieldError]:
    policy = spec.get("successPolicy") or {}
    rules, at = policy.get("rules") or (), child(path, "rules")
    errors: list[FieldError] = []
    if not rules:
        errors.append(required(at, "at least one rules must be specified when the successPolicy is specified"))
    if len(rules) > 20:
        errors.append(too_many(at, len(rules), 20))
    for rule, rule_at in each(policy, "rules", path):
        errors += _success_rule(rule, spec.get("completions") or 0, rule_at)
    return errors


def count_indexes(text: str, completions: int) -> int:
    """How many indexes `0,2-4` names; raises ValueError with words when it cannot be read."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        first, end = _interval(part, completions)
        if last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total += end - first + 1
        last = end
    return total


def _failure_rule(spec: View, rule: View, containers: set[str | None], path: str) -> list[FieldError]:
    action, at = rule.get("action", ""), child(path, "action")
    errors: list[FieldError] = []
    if not action:
        errors.append(required(at, f"valid values: {_quoted(_ACTIONS)}"))
    elif action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            errors.append(invalid(at, action, "requires the backoffLimitPerIndex to be set"))
    else:
        errors += known(action, _ACTIONS, at)
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    if codes is not None:
        errors += _exit_codes(codes, containers, child(path, "onExitCodes"))
    if conditions:
        errors += _conditions(rule, path)
    if codes is not None and conditions:
        errors.append(_bare(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        errors.append(_bare(path, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _exit_codes(codes: View, containers: set[str | None], path: str) -> list[FieldError]:
    operator, values, at = codes.get("operator", ""), list(codes.get("values") or ()), child(path, "values")
    choices = ("In", "NotIn")
    where = child(path, "operator")
    errors = known(operator, choices, where) if operator else [required(where, f"valid values: {_quoted(choices)}")]
    name = codes.get("containerName")
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(child(path, "containerName"), name, text))
    if not values:
        errors.append(invalid(at, codes.get("values"), "at least one value is required"))
    elif len(values) > 255:
        errors.append(too_many(at, len(values), 255))
    again = {index for index, _ in duplicates(values)}
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(child(at, index), value, "must not be 0 for the In operator"))
        if index in again:
            errors.append(duplicate(child(at, index), value))
    if values != sorted(values):
        errors.append(invalid(at, values, "must be ordered"))
    return errors


def _conditions(rule: View, path: str) -> list[FieldError]:
    patterns = rule.get("onPodConditions") or ()
    errors = [too_many(child(path, "onPodConditions"), len(patterns), 20)] if len(patterns) > 20 else []
    for pattern, at in each(rule, "onPodConditions", path):
        errors += qualified_name(pattern.get("type", ""), child(at, "type"))
        errors += known(pattern.get("status", ""), ("False", "True", "Unknown"), child(at, "status"))
    return errors


def _success_rule(rule: View, completions: int, path: str) -> list[FieldError]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    errors: list[FieldError] = []
    if count is None and indexes is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    total = 0
    if indexes is not None:
        at = child(path, "succeededIndexes")
        if len(indexes) > _INDEXES_LIMIT:
            errors.append(too_long(at, _INDEXES_LIMIT))
        try:
            total = count_indexes(indexes, completions)
        except ValueError as problem:
            errors.append(invalid(at, indexes, f"error parsing succeededIndexes: {problem}"))
    if count is not None:
        at = child(path, "succeededCount")
        errors += nonnegative(count, at)
        if count > completions:
            text = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(invalid(at, count, text))
        if indexes is not None and count > total:
            text = "the number of indexes in the specified succeededIndexes field"
            errors.append(invalid(at, count, f"must be less than or equal to {total} ({text})"))
    return errors


def _interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        raise ValueError(
            f'the fragment "{text}" violates the requirement that an index interval can have at most two parts'
            " separated by '-'"
        )
    numbers: list[int] = []
    for limit in limits:
        number = natural(limit)
        if number is None:
            raise ValueError(f'cannot convert string to integer for index: "{limit}"')
        if number >= completions:
            raise ValueError(f'too large index: "{limit}"')
        numbers.append(number)
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def _quoted(choices: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{choice}"' for choice in choices) + "]"


def _bare(path: str, text: str) -> FieldError:
    """A complaint that shows no value."""
    return FieldError("FieldValueInvalid", path, f"Invalid value: {text}")
