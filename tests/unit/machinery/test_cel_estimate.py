"""What rules may cost at worst: which definitions are refused for it, and by how much they exceed."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.machinery.schema.rulechecks import check_rules

TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
MANY: dict[str, Any] = {"type": "object", "additionalProperties": TEXT}
MORE = "more than 100x"

# schema, rule, how often the place can be in an object, by which factor the rule exceeds (as measured upstream)
COSTS: tuple[tuple[dict[str, Any], str, int | None, str], ...] = (
    (TEXT, "self == 'x'", 1, ""),
    (TEXT, "self == 'x'", None, ""),
    (TEXT, "self == oldSelf", 1, ""),
    (TEXT, "self.contains(self)", 1, MORE),
    (TEXT, "self.matches('a+b')", 1, ""),
    (TEXT, "self.matches(self)", 1, MORE),
    ({**TEXT, "maxLength": 10}, "self.matches('a+b')", None, ""),
    ({**TEXT, "enum": ["a", "bcd"]}, "self.contains(self)", None, ""),
    (TEXTS, "self.all(x, x == 'a')", 1, ""),
    (TEXTS, "self.all(x, self.all(y, x == y))", 1, MORE),
    (TEXTS, "self.join(',') == 'x'", 1, MORE),
    (NUMBERS, "self.all(x, x > 1)", 1, ""),
    (NUMBERS, "self.all(x, self.all(y, x == y))", 1, MORE),
    (MANY, "self.all(k, self[k] == 'a')", 1, ""),
    ({**MANY, "maxProperties": 5}, "self.all(k, v, k == v)", None, "2.8x"),
    ({"type": "array", "items": TEXTS}, "self.all(x, x.all(y, y.contains('example')))", 1, MORE),
)


@pytest.mark.parametrize(("schema", "rule", "often", "factor"), COSTS)
def test_a_rule_that_may_cost_too_much_is_refused(
    schema: dict[str, Any], rule: str, often: int | None, factor: str
) -> None:
    ruled = {**schema, "x-kubernetes-validations": [{"rule": rule}]}
    place = {"type": "array", "x-kubernetes-list-type": "map", "items": ruled} if often is None else ruled
    errors = [error.body for error in check_rules({"type": "object", "properties": {"a": place}}, "s")]
    found = [text for text in errors if "estimated rule cost exceeds budget" in text]
    assert f"by factor of {factor} (try" in found[0] if factor else not found, errors


def test_rules_that_are_cheap_alone_may_be_too_many() -> None:
    ruled = {**TEXT, "x-kubernetes-validations": [{"rule": "self.matches('^[a-z][a-z0-9]+$')"}]}
    properties = {f"p{n}": ruled for n in range(100)}
    errors = check_rules({"type": "object", "properties": properties}, "s")
    assert [error.path for error in errors[:-1]] == [
        f"s.properties[p{n}].x-kubernetes-validations[0].rule" for n in range(4)
    ]
    assert "contributed to estimated rule cost total" in errors[0].body
    assert errors[-1].path == "s"
    assert "for entire OpenAPIv3 schema exceeds budget by factor of 1.258" in errors[-1].body
