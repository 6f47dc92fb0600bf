"""CEL: what expressions evaluate to, what fails in evaluation, and what does not compile. Each was asked of
kube-apiserver 1.36 with the same object."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.machinery.schema.cel import CelError, Problem, Unsupported, compile_expression, of_schema
from gpuaas.machinery.schema.cel.budget import BUDGET, Budget
from gpuaas.machinery.schema.cel.types import BOOL, INT, STRING, escape
from gpuaas.machinery.schema.model import SchemaSet
from gpuaas.machinery.schema.rules import validate_rules

PROPERTIES: dict[str, Any] = {
    "b": {"type": "integer"},
    "s": {"type": "string"},
    "l": {"type": "array", "items": {"type": "string"}},
    "st": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "m": {"type": "object", "additionalProperties": {"type": "integer"}},
    "d": {"type": "number"},
    "t": {"type": "string", "format": "date-time"},
    "i": {"x-kubernetes-int-or-string": True},
    "o": {"type": "object", "properties": {"p": {"type": "boolean"}}},
    "n": {"type": "string", "nullable": True},
    "dur": {"type": "string", "format": "duration"},
    "by": {"type": "string", "format": "byte"},
    "foo-bar": {"type": "string"},
    "namespace": {"type": "string"},
}
OBJECT: dict[str, Any] = {
    "b": 3,
    "s": "hello",
    "l": ["b", "a"],
    "st": ["x", "y"],
    "m": {"k": 1, "j": 2},
    "d": 1.5,
    "t": "2026-01-02T03:04:05Z",
    "i": "50%",
    "o": {"p": True},
    "n": None,
    "dur": "1h",
    "by": "aGk=",
    "foo-bar": "dash",
    "namespace": "ns",
}


def outcome(rule: str) -> str:
    """ "holds", "fails", or what went wrong in the evaluation."""
    openapi = {"type": "object", "properties": PROPERTIES, "x-kubernetes-validations": [{"rule": rule}]}
    schema = SchemaSet({}.__getitem__).inline({"type": "object", "properties": {"spec": openapi}})
    errors = validate_rules(schema, {"spec": OBJECT})
    if not errors:
        return "holds"
    body = errors[0].body
    if body == f"Invalid value: failed rule: {rule}":
        return "fails"
    return body.removeprefix('Invalid value: "object": ').removesuffix(f" evaluating rule: {rule}")


HOLDS = [
    "!format.dns1123Label().validate(self.s).hasValue()",
    "format.dns1123Label().validate('No').value()[0].startsWith('a lowercase RFC 1123 label')",
    "!format.dns1035LabelPrefix().validate('a-').hasValue() && format.dns1035Label().validate('a-').hasValue()",
    "format.uuid().validate('x').value() == ['does not match the UUID format']",
    "format.named('date').value().validate('2026-13-01').value() == ['invalid date']",
    "!format.named('nope').hasValue() && !format.labelValue().validate('').hasValue()",
    "isSemver('1.2.3') && !isSemver('v1.2') && isSemver('v1.2', true) && semver('01.2', true) == semver('1.2.0')",
    "semver('1.10.0').isGreaterThan(semver('1.9.0')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
    "semver('1.0.0-alpha.2').compareTo(semver('1.0.0-alpha.10')) == -1 && semver('4.5.6').patch() == 6",
    "self.b == 3",
    "self.b > self.d",
    "self.b % 2 == 1",
    "-5 / 2 == -2 && -5 % 2 == -1",
    "has(self.o.p)",
    "!has(self.n)",  # null counts as absent
    "self.l.all(x, x < 'c')",
    "self.l.exists(x, x == 'a')",
    "self.l.exists_one(x, x == 'a')",
    "self.l.filter(x, x == 'a').size() == 1",
    "self.l.map(x, x + x)[0] == 'bb'",
    "self.l.map(x, x == 'a', x + '!') == ['a!']",
    "self.l.all(i, v, i < 2)",
    "self.l.transformList(i, v, i) == [0, 1]",
    "self.m.transformMap(k, v, v + 1)['k'] == 2",
    "self.m.exists(k, v, k == 'j' && v == 2)",
    "[[1], [2]].all(x, x.all(y, y > 0))",
    "[1, 2].all(x, [1, 2].exists(y, x == y))",
    "type(self.i) == string ? self.i.matches('^[0-9]+%$') : self.i > 1",
    "self.i == '50%'",
    "self.i != 50",
    "self.t > timestamp('2026-01-01T00:00:00Z')",
    "self.t.getFullYear() == 2026 && self.t.getMonth() == 0 && self.t.getDayOfWeek() == 5",
    "self.t - timestamp('2026-01-02T03:04:00Z') == duration('5s')",
    "timestamp('2026-01-01T00:00:00Z') + duration('24h') == timestamp('2026-01-02T00:00:00Z')",
    "string(self.t) == '2026-01-02T03:04:05Z'",
    "self.dur == duration('60m') && string(self.dur) == '3600s'",
    "self.by == b'hi' && string(self.by) == 'hi'",
    "self.s.upperAscii() == 'HELLO' && self.s.substring(1, 3) == 'el' && self.s.charAt(0) == 'h'",
    "self.s.split('l') == ['he', '', 'o'] && 'a,b'.split(',', 1) == ['a,b']",
    "self.s.replace('l', 'L') == 'heLLo' && self.s.indexOf('l') == 2 && self.s.lastIndexOf('l') == 3",
    "self.s.find('l+') == 'll' && self.s.findAll('l').size() == 2",
    "self.s.startsWith('he') && self.s.endsWith('lo') && self.s.contains('ell') && ' a '.trim() == 'a'",
    "self.l.join('-') == 'b-a'",
    "!self.l.isSorted() && self.l.indexOf('a') == 1",
    "[3, 1, 2].sum() == 6 && [3, 1, 2].min() == 1 && [3, 1, 2].max() == 3",
    "[1, 2, 3].slice(0, 2) == [1, 2] && lists.range(3) == [0, 1, 2] && [1, 1].distinct() == [1]",
    "sets.equivalent([1, 2], [2, 1, 1]) && sets.contains([1, 2], [1]) && !sets.intersects([1], [2])",
    "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1.5').add(quantity('500m')) == quantity('2')",
    "!isQuantity(self.s) && isQuantity('1Gi') && quantity('2k').asInteger() == 2000",
    "self.?o.p.orValue(false) && !self.?n.hasValue()",
    "self.m[?'zz'].orValue(7) == 7 && self.?l[9].orValue('none') == 'none'",
    "optional.of(1).optMap(x, x + 1).value() == 2 && optional.none().orValue(1) == 1",
    "'%s-%d-%.2f'.format([self.s, self.b, self.d]) == 'hello-3-1.50'",
    """'%s'.format([self.l]) == '["b", "a"]'""",
    "1 / 0 == 1 || self.b == 3",  # the other side decides
    "self.b == 3 || 1 / 0 == 1",
    "!(1 / 0 == 1 && self.b == 4)",
    "self.l.exists(x, int(x) == 1 || x == 'a')",
    "string(self.d) == '1.5' && string(1.0) == '1' && double('1e3') == 1000.0",
    "int('12') == 12 && int(3.9) == 3 && string(12) == '12' && bool('true')",
    "self.st == ['y', 'x']",  # a set has no order
    "self.l != ['a', 'b']",
    "'a' in self.l && 'k' in self.m && !('z' in self.m)",
    "dyn(1) == dyn(1.0) && dyn(1) != dyn('1') && dyn(true) != dyn(1)",
    "type(1) == int && type(1.0) == double && type(self.l) == list",
    "{'a': 1}.a == 1 && {'a': {'b': [1]}}['a']['b'][0] == 1",
    "size('héé') == 3 && 'héé'.substring(1, 2) == 'é'",
    "url('https://a.b:80/p?q=1').getHost() == 'a.b:80' && url('https://a.b:80/p').getPort() == '80'",
    "ip('::1').isLoopback() && ip('1.2.3.4').family() == 4 && !isIP('x')",
    "!cidr('10.0.0.0/8').containsIP('11.0.0.1') && cidr('10.0.0.0/8').prefixLength() == 8",
    "1u + 2u == 3u && 1 < 1.5 && 2u > 1",
    "self.foo__dash__bar == 'dash' && self.__namespace__ == 'ns' && self.namespace == 'ns'",
    r"'a\nb'.size() == 3 && r'a\nb'.size() == 4 && '\u00e9' == 'é'",
    """ "it's" == 'it\\'s' """,
    "true // a comment",
    "!!true && --1 == 1 && (1 + 2) * 3 == 9 && 1 + 2 * 3 == 7",
]


@pytest.mark.parametrize("rule", HOLDS)
def test_holds(rule: str) -> None:
    assert outcome(rule) == "holds"


FAILS = ["self.b == 4", "self.i == 50", "self.l.all(x, x == 'a')", "self.m.all(k, self.m[k] > 1)", "false || false"]


@pytest.mark.parametrize("rule", FAILS)
def test_fails(rule: str) -> None:
    assert outcome(rule) == "fails"


WRONG = {
    "self.b / 0 == 1": "division by zero",
    "self.b % 0 == 1": "modulus by zero",
    "self.b + 9223372036854775807 > 0": "integer overflow",
    "self.l[5] == 'a'": "index out of bounds: 5",
    "self.m['zz'] == 1": "no such key: zz",
    "self.n == 'a'": "no such key: n",
    "int(self.s) == 1": "type conversion error from 'string' to 'int'",
    "1 / 0 == 1 && true": "division by zero",
    "self.l.all(x, int(x) == 1)": "type conversion error from 'string' to 'int'",
    "self.i > 1": "'no such overload': call arguments did not match a supported operator, function or macro signature"
    " for rule: self.i > 1",
}


@pytest.mark.parametrize(("rule", "why"), WRONG.items(), ids=WRONG)
def test_goes_wrong(rule: str, why: str) -> None:
    assert outcome(rule) == why


SELF = {"self": of_schema({"type": "object", "properties": PROPERTIES})}
REFUSED = {
    "self.zz == 1": (4, "undefined field 'zz'"),
    "self.s.foo == 1": (6, "type 'string' does not support field selection"),
    "nosuch == 1": (0, "undeclared reference to 'nosuch' (in container '')"),
    "foo(self)": (3, "undeclared reference to 'foo' (in container '')"),
    "self.s == 1": (7, "found no matching overload for '_==_' applied to '(string, int)'"),
    "self.b + 'x' == 1": (7, "found no matching overload for '_+_' applied to '(int, string)'"),
    "self.s.startsWith(1)": (17, "found no matching overload for 'startsWith' applied to 'string.(int)'"),
    "!self.b": (0, "found no matching overload for '!_' applied to '(int)'"),
    "self.b && true": (4, "expected type 'bool' but found 'int'"),
    "self.b.all(x, true)": (
        4,
        "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
    ),
    "self.l.all(x, x)": (14, "expected type 'bool' but found 'string'"),
    "self.l.filter(x, x).size() > 1": (
        13,
        "found no matching overload for '_?_:_' applied to '(string, list(string), list(string))'",
    ),
    "self.l.all(1, true)": (11, "argument must be a simple name"),
    "[1, 'a'].size() == 2": (4, "expected type 'int' but found 'string'"),
    "self.s.matches('(')": (15, "invalid matches argument"),
    "duration('x') > duration('1s')": (9, "invalid duration argument"),
    "has(self)": (4, "invalid argument to has() macro"),
    "for == 1": (0, "reserved identifier: for"),
    "self.b == 1 self": (12, "Syntax error: extraneous input 'self' expecting <EOF>"),
    "(self.b == 1": (12, "Syntax error: missing ')' at '<EOF>'"),
}


@pytest.mark.parametrize(("rule", "issue"), REFUSED.items(), ids=REFUSED)
def test_does_not_compile(rule: str, issue: tuple[int, str]) -> None:
    assert SELF["self"] is not None
    with pytest.raises(Problem) as problem:
        compile_expression(rule, {"self": SELF["self"]})
    assert problem.value.issues == [issue]


def test_a_problem_is_shown_in_its_line() -> None:
    with pytest.raises(Problem) as problem:
        compile_expression("true &&\n  nosuch", {})
    assert str(problem.value) == (
        "ERROR: <input>:2:3: undeclared reference to 'nosuch' (in container '')\n |   nosuch\n | ..^"
    )


def test_a_missing_function_is_no_mistake_of_the_author() -> None:
    with pytest.raises(Unsupported, match=r"google\.protobuf\.StringValue"):
        compile_expression("google.protobuf.StringValue{value: 'a'} == 'a'", {})


def test_the_type_of_an_expression_is_known() -> None:
    assert compile_expression("1 + 2", {}).type is INT
    assert compile_expression("['a'].map(x, x.size())[0] > 0", {}).type is BOOL
    assert compile_expression("true ? 'a' : 'b'", {}).type is STRING


ESCAPED = {
    "plain": "plain",
    "foo-bar": "foo__dash__bar",
    "a.b/c": "a__dot__b__slash__c",
    "a__b": "a__underscores__b",
    "namespace": "__namespace__",
    "in": "__in__",
    "a b": None,
    "1a": None,
}


@pytest.mark.parametrize(("name", "escaped"), ESCAPED.items())
def test_names_are_escaped(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped


NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(NUMBERS, NUMBERS)
def test_integers_are_exact_or_an_error(first: int, second: int) -> None:
    run = compile_expression("a * b + a - b", {"a": INT, "b": INT}).run
    steps = [first * second, first * second + first, first * second + first - second]
    if all(-(1 << 63) <= step < 1 << 63 for step in steps):
        assert run({"a": first, "b": second}) == steps[-1]
    else:
        with pytest.raises(CelError, match="integer overflow"):
            run({"a": first, "b": second})


@given(NUMBERS, NUMBERS.filter(bool))
def test_division_and_rest_fit(first: int, second: int) -> None:
    if (first, second) == (-(1 << 63), -1):
        return  # the one quotient that does not fit
    run = compile_expression("a / b * b + a % b", {"a": INT, "b": INT}).run
    assert run({"a": first, "b": second}) == first


@given(st.lists(st.sampled_from([True, False, None]), min_size=2, max_size=2))
def test_logic_absorbs_errors(sides: list[bool | None]) -> None:
    """None stands for a side that has no value."""
    texts = ["1 / 0 == 1" if side is None else str(side).lower() for side in sides]
    for operator, decisive in (("||", True), ("&&", False)):
        run = compile_expression(f" {operator} ".join(texts), {}).run
        if decisive in sides:
            assert run({}) is decisive
        elif None in sides:
            with pytest.raises(CelError):
                run({})
        else:
            assert run({}) is not decisive


def budgeted(rules: list[str], spec: dict[str, Any]) -> list[str]:
    openapi = {
        "type": "object",
        "properties": {
            "l": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "s": {"type": "string"},
        },
        "x-kubernetes-validations": [{"rule": rule} for rule in rules],
    }
    schema = SchemaSet({}.__getitem__).inline({"type": "object", "properties": {"spec": openapi}})
    return [error.body for error in validate_rules(schema, {"spec": spec})]


@pytest.mark.parametrize(
    "rule",
    [
        "self.l.all(x, self.l.all(y, self.l.all(z, x + y + z != 'no')))",
        "self.l.all(x, self.l.exists(y, y == 'none') || x != 'none')",
        "self.l.all(x, !('none' in self.l))",
        "self.l.all(x, !self.s.contains('none'))",
        "self.l.map(x, self.l).all(x, x == self.l)",
        "self.l.distinct().size() == self.l.size()",
        "sets.contains(self.l, self.l)",
        "self.set == self.set && self.set == self.set",
        "self.l.all(x, self.l.filter(y, y != x).map(y, y + x).size() > 0)",
    ],
)
def test_a_rule_that_costs_too_much_is_stopped_and_said(rule: str) -> None:
    many = [f"item-{number}" for number in range(3_000)]
    found = budgeted([rule, "false"], {"l": many, "set": many, "s": "x" * 100_000})
    stopped = "no further validation rules will be run due to call cost exceeds limit for rule"
    assert found == [f"Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': {stopped}: {rule}"]


def test_what_rules_cost_together_is_limited_too() -> None:
    rule = "self.l.all(x, self.l.all(y, x != 'none'))"
    found = budgeted([rule] * 30, {"l": [f"item-{number}" for number in range(300)]})
    assert found == [
        'Invalid value: "object": '
        "validation failed due to running out of cost budget, no further validation rules will be run"
    ]


def test_a_rule_over_a_long_list_is_asked() -> None:
    assert budgeted(["self.l.all(x, x.startsWith('item-') && self.l.size() > 3)"], {"l": ["item-1"] * 10_000}) == []


def test_what_is_no_duration_and_no_url_is_told_as_go_tells_it() -> None:
    assert (
        "type conversion error from 'string' to 'google.protobuf.Duration'"
        in budgeted(["duration(self.s) != duration('1h')"], {"s": "apple"})[0]
    )
    refused = budgeted(["url(self.s).getHost() == ''"], {"s": "a\b"})[0]
    assert 'parse "a\\b": net/url: invalid control character in URL' in refused


def test_a_long_text_is_seen_at_once_to_be_no_duration() -> None:
    long = "1" * 1_000_000
    assert budgeted(["duration(self.s) != duration('1h')"], {"s": long})[0].startswith('Invalid value: "object": ')


NEWER = {
    "[{'n': 2}, {'n': 1}].sortBy(e, e.n) == [{'n': 1}, {'n': 2}]": True,
    "{'a': 1, 'b': 2}.transformMapEntry(k, v, {string(v): k}) == {'1': 'a', '2': 'b'}": True,
    "optional.unwrap([optional.of(1), optional.none()]) == [1]": True,
    "[optional.of('a')].unwrapOpt() == ['a']": True,
    "timestamp('2024-02-29T12:34:56Z').getMinutes('+05:30') == 4": True,
    "timestamp('2024-02-29T12:34:56Z').getHours('-01:00') == 11": True,
    "'%s'.format([['a', 1, {'b': null}]]) == '[\"a\", 1, {\"b\":null}]'": True,
    "size(b'\\xff') == 1": True,
    "'%s'.format([type(null)]) == 'null_type'": True,
    "{?'a': optional.none(), 'b': 1} == {'b': 1}": True,
}


@pytest.mark.parametrize("rule", NEWER)
def test_newer_functions(rule: str) -> None:
    budget = Budget()
    budget.begin()
    assert compile_expression(rule, {}).run({BUDGET: budget}) is NEWER[rule]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("'%z'.format([1]) == ''", 'unrecognized formatting clause "z"'),
        ("'%d'.format(['a']) == ''", "decimal clause can only be used on integers, was given string"),
        ("'%s %s'.format(['a']) == ''", "index 1 out of range"),
        ("9223372036854775808 > 0", "invalid int literal"),
        ("'\\UFFFFFFFF' == ''", "unable to unescape string"),
        ("'\\ud800' == ''", "unable to unescape string"),
        ("jsonpatch.escapeKey('a') == ''", "undeclared reference to 'jsonpatch'"),
        ("[1, dyn('a')].size() == 2", "expected type 'int' but found 'dyn'"),
    ],
)
def test_what_is_wrong_with_literals_is_told_when_they_are_read(rule: str, words: str) -> None:
    with pytest.raises(Problem) as problem:
        compile_expression(rule, {})
    assert words in str(problem.value)


def test_a_sum_of_what_cannot_be_added_is_an_error_of_the_rule() -> None:
    budget = Budget()
    budget.begin()
    with pytest.raises(CelError):
        compile_expression("'%s'.format([[1, 'a'].sum()]) == ''", {}).run({BUDGET: budget})
