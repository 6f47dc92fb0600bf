"""Validation rules: which expressions a definition may hold, in which words others are refused, and what each gives."""

from __future__ import annotations

from typing import Any

from tests.real.exchanges.versions import CRDS, crd
from tests.real.wire import Wire, case

GROUP = "expressions.example.org"

# Each is shown by '%s'.format([it]).
VALUES = """
1 + 2 * 3 - 4 / 2 % 3
-7 / 2
-7 % 3
7u + 2u
1.5 + 2.0
2.0 / 0.0
-1.0 / 0.0
1e3
0x1F
0xFFu
'a' + "b" + r'\\n' + '''c'''
b'abc' + b'\\xff'
'\\u00e9\\x41\\101'
'a' < 'b'
1 < 2.5
1u < 2
2.0 == 2
[1, 2] + [3]
[1, 2, 3][1]
{'a': 1, 'b': 2}['b']
{'a': 1}.a
{1: 'x', 2: 'y'}
{'b': [1, 2], 'a': {'c': true}}
'a' in ['a', 'b']
'a' in {'a': 1}
size([1, 2, 3]) + 'abc'.size() + size({'a': 1}) + size(b'xyz')
'h\\u00e9llo'.size()
true ? 'x' : 'y'
!true || false && true
null
type(1)
type('a') == string
type([]) == list
type(null)
int('42') + int(3.9) + int(-3.9) + int(5u)
uint(7) + uint('8')
double('2.5') + double(1)
string(1) + string(2.5) + string(true) + string(3u) + string(b'x')
bytes('abc')
bool('true')
bool('T')
dyn(1) == 1
duration('1h30m').getMinutes()
duration('90s')
duration('1h') + duration('30m')
duration('1h') > duration('59m')
duration('1500ms').getMilliseconds()
string(duration('1h1m1s'))
timestamp('2024-02-29T12:34:56.789Z')
timestamp('2024-02-29T12:34:56Z').getFullYear()
timestamp('2024-02-29T12:34:56Z').getMonth()
timestamp('2024-02-29T12:34:56Z').getDayOfWeek()
timestamp('2024-02-29T12:34:56Z').getDayOfYear()
timestamp('2024-02-29T12:34:56Z').getDate()
timestamp('2024-02-29T12:34:56Z').getDayOfMonth()
timestamp('2024-02-29T12:34:56Z').getHours('America/New_York')
timestamp('2024-02-29T12:34:56Z').getMinutes('+05:30')
timestamp('2024-02-29T12:34:56Z') + duration('1h')
timestamp('2024-02-29T12:34:56Z') - timestamp('2024-02-28T12:34:56Z')
string(timestamp('2024-02-29T12:34:56+01:00'))
int(timestamp('1970-01-01T00:01:00Z'))
'hello'.charAt(1)
'hello'.charAt(5)
'hello'.indexOf('l')
'hello'.indexOf('l', 3)
'hello'.indexOf('')
'hello'.lastIndexOf('l')
'hello'.lastIndexOf('l', 2)
'HeLLo\\u00c9'.lowerAscii()
'HeLLo\\u00e9'.upperAscii()
'aXbXc'.replace('X', '-')
'aXbXc'.replace('X', '-', 1)
'abc'.replace('', '-')
'a,b,c'.split(',')
'a,b,c'.split(',', 2)
'abc'.split('')
'a,b'.split(',', 0)
'hello'.substring(2)
'hello'.substring(1, 3)
'  \\t a b \\n'.trim()
['a', 'b'].join()
['a', 'b'].join('-')
'abc'.reverse()
strings.quote('a"b\\n')
'hello'.startsWith('he')
'hello'.endsWith('lo')
'hello'.contains('ll')
'hello'.matches('^h.*o$')
matches('hello', 'l+')
'abc 123'.find('[0-9]+')
'abc'.find('[0-9]+')
'1 22 333'.findAll('[0-9]+')
'1 22 333'.findAll('[0-9]+', 2)
'%s %d %.2f %x %X %o %b %e'.format(['a', 5, 2.5, 255, 255, 8, 5, 1234.5])
'%s'.format([['a', 1, true, null, 2.5]])
'%s'.format([{'b': 1, 'a': 'x'}])
'%x'.format(['hi'])
'%%'.format([])
'%s'.format([duration('90s')])
'%s'.format([timestamp('2024-02-29T12:34:56Z')])
'%s'.format([type(1)])
'%.3e'.format([1234.5678])
'%d'.format([3u])
[1, 2, 3].all(x, x > 0)
[1, 2, 3].exists(x, x > 2)
[1, 2, 3].exists_one(x, x > 2)
[1, 2, 3].map(x, x * 2)
[1, 2, 3].map(x, x > 1, x * 2)
[1, 2, 3].filter(x, x > 1)
{'a': 1, 'b': 2}.all(k, k < 'c')
{'a': 1, 'b': 2}.exists(k, k == 'b')
[1, 2, 3].all(i, v, i < v)
[1, 2, 3].exists(i, v, i + v == 5)
[1, 2, 3].existsOne(i, v, v == 2)
[1, 2, 3].transformList(i, v, i * v)
[1, 2, 3].transformList(i, v, v > 1, i * v)
{'a': 1, 'b': 2}.transformMap(k, v, v * 10)
{'a': 1, 'b': 2}.transformMap(k, v, k == 'a', v * 10)
{'a': 1}.transformMapEntry(k, v, {string(v): k})
[1, 2].transformMap(i, v, v + i)
cel.bind(x, 5, x * x)
cel.bind(l, [1, 2], l + l)
[1, 2, 3].sum()
[1.5, 2.5].sum()
[duration('1s'), duration('2s')].sum()
[3, 1, 2].min()
['b', 'a'].max()
[1, 2, 2].isSorted()
[2, 1].isSorted()
[1, 2, 1].indexOf(1)
[1, 2, 1].lastIndexOf(1)
[1, 2, 1].indexOf(9)
[[1, 2], [3, [4]]].flatten()
[[1, [2, [3]]]].flatten(2)
[3, 1, 2].sort()
['b', 'a'].sort()
[{'n': 2}, {'n': 1}].sortBy(e, e.n)
[1, 2, 3, 4].slice(1, 3)
[1, 2, 3].reverse()
lists.range(4)
[1, 1, 2].distinct()
[1, 2, 3].first().value()
[1, 2, 3].last().value()
sets.contains([1, 2, 3], [1, 2])
sets.equivalent([1, 2], [2, 1, 1])
sets.intersects([1, 2], [2, 3])
url('https://user:pw@example.com:8080/a/b?x=1&x=2&y=%20z#frag').getHost()
url('https://example.com:8080/a b').getEscapedPath()
url('https://[::1]:80/').getHostname()
url('https://example.com:8080/').getPort()
url('https://example.com/?x=1&x=2').getQuery()
url('https://example.com/').getScheme()
isURL('https://example.com')
isURL('nope')
ip('127.0.0.1').isLoopback()
ip('::1').family()
ip('192.168.0.1').isUnspecified()
ip('224.0.0.1').isLinkLocalMulticast()
ip('169.254.1.1').isLinkLocalUnicast()
ip('10.0.0.1').isGlobalUnicast()
isIP('1.2.3.4')
isIP('1.2.3')
ip.isCanonical('127.0.0.1')
ip.isCanonical('::ffff')
string(ip('::0:1'))
ip('10.0.0.1') == ip('10.0.0.1')
cidr('192.168.0.0/24').containsIP('192.168.0.1')
cidr('192.168.0.0/24').containsIP(ip('192.168.1.1'))
cidr('192.168.0.0/24').containsCIDR('192.168.0.0/25')
cidr('192.168.0.5/24').masked() == cidr('192.168.0.0/24')
string(cidr('192.168.0.5/24').masked())
cidr('192.168.0.0/24').prefixLength()
string(cidr('192.168.0.0/24').ip())
isCIDR('1.2.3.4/33')
isCIDR('1.2.3.0/24')
quantity('1Gi').isGreaterThan(quantity('1000M'))
quantity('1.5').asApproximateFloat()
quantity('5k').asInteger()
quantity('1.5').isInteger()
quantity('1Gi').add(quantity('1Gi')) == quantity('2Gi')
quantity('3').sub(1) == quantity('2')
quantity('1').compareTo(quantity('2'))
quantity('1').isLessThan(quantity('2'))
isQuantity('1.3Zi')
isQuantity('x')
semver('1.2.3').isLessThan(semver('1.10.0'))
semver('1.2.3-rc.1').compareTo(semver('1.2.3'))
semver('v1.2', true).minor()
semver('1.2.3').major() + semver('1.2.3').patch()
isSemver('1.2.3')
isSemver('v1.0')
isSemver('v1.0', true)
format.dns1123Label().validate('abc')
format.dns1123Label().validate('ABC').hasValue()
format.dns1123Label().validate('ABC').value()[0]
format.named('uuid').hasValue()
format.named('nosuch').hasValue()
format.named('dns1035Label').value().validate('1abc').hasValue()
format.uri().validate('http://x').hasValue()
format.date().validate('2024-02-30').hasValue()
format.datetime().validate('2024-02-29T00:00:00Z').hasValue()
format.byte().validate('!!!').hasValue()
format.qualifiedName().validate('a/b').hasValue()
format.labelValue().validate('a b').hasValue()
format.dns1123Subdomain().validate('a.b').hasValue()
format.dns1123LabelPrefix().validate('a-').hasValue()
optional.of(5).value()
optional.of(5).hasValue()
optional.none().hasValue()
optional.of(1).or(optional.of(2)).value()
optional.of(5).optMap(x, x + 1).value()
optional.of(5).optFlatMap(x, optional.none()).hasValue()
optional.ofNonZeroValue('').hasValue()
{'a': 1}.?a.hasValue()
{'a': 1}[?'b'].hasValue()
{'a': {'b': 2}}.?a.?b.orValue(0)
[1, 2][?5].orValue(9)
optional.unwrap([optional.of(1), optional.none()])
[optional.of(1), optional.none()].unwrapOpt()
math.greatest(1, 3, 2)
math.least([3, 1, 2])
math.ceil(1.2)
math.floor(1.8)
math.round(1.5)
math.abs(-3)
math.isNaN(0.0 / 0.0)
math.isInf(1.0 / 0.0)
math.trunc(2.7)
math.bitAnd(6, 3)
math.bitOr(6, 3)
math.bitXor(6, 3)
math.bitNot(1)
math.bitShiftLeft(1, 3)
math.bitShiftRight(8, 2)
math.sqrt(16.0)
base64.encode(b'hello')
base64.decode('aGVsbG8=')
jsonpatch.escapeKey('a/b~c')
self.size()
has(self.x)
self.x
1 / 0
[1][5]
{'a': 1}['b']
9223372036854775807 + 1
-9223372036854775808
9223372036854775808
timestamp('nope')
duration('1x')
'a'.matches('[')
'a' + 1
1 + 1.0
1u + 1
[1, 'a']
{'a': 1, 'b': 'x'}
nothing
nothing()
'a'.nothing()
size(1)
1 ==
(1
1 2
a.b.c
self.all(x, true)
[1].all(1, true)
[1].all(x.y, true)
[1].map(x)
has(1)
has(self)
'%z'.format([1])
'%d'.format(['a'])
'%s'.format([])
'%s %s'.format(['a'])
'a'.substring(3)
'a'.charAt(-1)
'abc'.substring(2, 1)
ip('nope')
cidr('nope')
quantity('nope')
semver('nope')
url('nope')
quantity('1.5').asInteger()
lists.range(-1)
[1, 'a'].sum()
true && 1
1 ? 2 : 3
!1
-'a'
1 in 2
null == 1
dyn(1) < dyn('a')
dyn([1]).map(x, x + 'a')
self in ['x']
type(self)
Object{a: 1}
__type__
true in [true]
if
self.?x
r"a\\b"
// comment
''
a ? b : c
authorizer.path('/').check('get').allowed()
params.x
object.x
request.x
""".strip("\n").split("\n")


def definition(plural: str, kind: str, rules: list[dict[str, Any]], **schema: Any) -> dict[str, Any]:
    made = crd(plural, kind, GROUP)
    value = {"type": "string", "maxLength": 10, **schema, "x-kubernetes-validations": rules}
    made["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {"type": "object", "properties": {"value": value}},
    }
    return made


def shown(text: str) -> str:
    return f"'%s'.format([{text}])"


@case
def expressions_as_rules(w: Wire) -> None:
    for text in VALUES:
        w.post(CRDS, definition("tries", "Try", [{"rule": text}]), dryRun="All")
        answer = w.prepare(
            "POST", f"{CRDS}?dryRun=All", definition("tries", "Try", [{"rule": "true", "messageExpression": text}])
        )
        w.note(
            f"as a message: {text}",
            status=str(answer.status),
            body="" if answer.status == 201 else w.normal.body(answer.body),
        )


@case
def expressions_and_their_values(w: Wire) -> None:
    """Of those that are accepted as a message when they are shown."""
    taken: list[tuple[int, str]] = []
    for number, text in enumerate(VALUES):
        rules = [
            {"rule": "self != 'x'", "messageExpression": shown(text)},
            {"rule": f"self != 'y' || {shown(text)} == ''"},
        ]
        made = definition("values", "Value", rules)
        answer = w.prepare("POST", f"{CRDS}?dryRun=All", made)
        w.note(f"taken: {text}", status=str(answer.status))
        if answer.status == 201:
            taken.append((number, text))
    for start in range(0, len(taken), 40):
        fields = {
            f"v{number}": {
                "type": "string",
                "maxLength": 10,
                "x-kubernetes-validations": [
                    {"rule": "self != 'x'", "messageExpression": shown(text)},
                    {"rule": f"self != 'y' || {shown(text)} == ''", "message": "evaluated"},
                ],
            }
            for number, text in taken[start : start + 40]
        }
        plural = f"values{start}"
        made = crd(plural, f"Value{start}", GROUP)
        made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"type": "object", "properties": fields}}
        answer = w.prepare("POST", CRDS, made)
        w.note(
            f"definition {start}",
            status=str(answer.status),
            body="" if answer.status == 201 else w.normal.body(answer.body),
        )
        path = w.path(plural, f"{GROUP}/v1")
        w.until(lambda path=path: w.prepare("GET", path).status == 200)  # type: ignore[misc]
        for value in ("x", "y"):
            body = {"apiVersion": f"{GROUP}/v1", "kind": f"Value{start}", "metadata": {"name": "a"}}
            answer = w.prepare("POST", f"{path}?dryRun=All", body | dict.fromkeys(fields, value))
            causes = {each.get("field"): each["message"] for each in answer.json().get("details", {}).get("causes", ())}
            for number, text in taken[start : start + 40]:
                w.note(f"{value}: {text}", said=w.normal.text(str(causes.get(f"v{number}"))))
        w.prepare("DELETE", f"{CRDS}/{plural}.{GROUP}")


TEXT = {"type": "string"}
SHORT = {"type": "string", "maxLength": 10}
TEXTS = {"type": "array", "items": TEXT}
COSTS: tuple[tuple[dict[str, Any], str], ...] = (
    (TEXT, "self == 'x'"),
    (TEXT, "self == oldSelf"),
    (TEXT, "self.contains(self)"),
    (TEXT, "self.contains('abc')"),
    (TEXT, "self.matches('a+b')"),
    (TEXT, "self.matches(self)"),
    (TEXT, "self.startsWith(self)"),
    (TEXT, "self.split(',').all(x, x.size() > 1)"),
    (TEXT, "self.replace('a', 'bc').replace('', 'abcdef').size() > 2"),
    (TEXT, "self.lowerAscii().upperAscii().trim() == self.substring(1)"),
    (TEXT, "self + self + self == ''"),
    (TEXT, "self.find('a+') == self.findAll('b+')[0]"),
    (TEXT, "url(self).getHost() == 'x'"),
    (TEXT, "quantity(self).isGreaterThan(quantity('1'))"),
    (TEXT, "format.dns1123Label().validate(self).hasValue()"),
    (TEXT, "self in ['a', 'b']"),
    (SHORT, "self.matches('a+b')"),
    ({**TEXT, "enum": ["a", "bcd"]}, "self.contains(self)"),
    ({**TEXT, "format": "date-time"}, "self > timestamp('2024-01-01T00:00:00Z')"),
    ({**TEXT, "format": "byte"}, "self == b'x'"),
    (TEXTS, "self.all(x, x == 'a')"),
    (TEXTS, "self.all(x, self.all(y, x == y))"),
    (TEXTS, "self.exists(x, x.startsWith('a'))"),
    (TEXTS, "self.exists_one(x, x == 'a')"),
    (TEXTS, "self.map(x, x.size()).sum() > 3"),
    (TEXTS, "self.filter(x, x != 'a').size() > 3"),
    (TEXTS, "self.join(',') == 'x'"),
    (TEXTS, "self.max() == 'x'"),
    (TEXTS, "self.isSorted()"),
    (TEXTS, "'a' in self"),
    (TEXTS, "self.size() > 3 && self[0] == 'x'"),
    (TEXTS, "sets.contains(self, ['a'])"),
    (TEXTS, "self == oldSelf"),
    (TEXTS, "self.indexOf('a') > 1"),
    ({"type": "array", "items": TEXTS}, "self.all(x, x.all(y, y.contains('example')))"),
    ({"type": "array", "items": TEXTS, "maxItems": 3}, "self.all(x, x.all(y, y == 'e'))"),
    ({"type": "array", "items": SHORT, "maxItems": 100}, "self.all(x, self.exists_one(y, x == y))"),
    ({"type": "array", "items": {"type": "integer"}}, "self.all(x, x > 1)"),
    ({"type": "array", "items": {"type": "integer"}}, "self.all(x, self.all(y, x == y))"),
    ({"type": "array", "items": {"type": "integer"}}, "self.map(x, x * 2).all(y, y > 3)"),
    ({"type": "object", "additionalProperties": TEXT}, "self.all(k, self[k] == 'a')"),
    ({"type": "object", "additionalProperties": TEXT}, "self.all(k, k.startsWith('a'))"),
    ({"type": "object", "additionalProperties": TEXT, "maxProperties": 5}, "self.all(k, v, k == v)"),
    ({"type": "object", "additionalProperties": TEXT}, "'a' in self && self['a'] == self['b']"),
    ({"type": "object", "properties": {"a": TEXT, "b": TEXTS}}, "self.a in self.b"),
    ({"type": "object", "properties": {"a": TEXT, "b": TEXTS}}, "has(self.a) ? self.b.all(x, x == self.a) : true"),
    ({"type": "object", "properties": {"a": TEXT}}, "self.?a.orValue('x').contains('y')"),
    ({"x-kubernetes-int-or-string": True}, "self == 'x' || self == 5"),
    ({"x-kubernetes-int-or-string": True, "maxLength": 5}, "string(self).contains('x')"),
)


@case
def rules_that_may_cost_too_much(w: Wire) -> None:
    for schema, rule in COSTS:
        ruled = {**schema, "x-kubernetes-validations": [{"rule": rule}]}
        for whole in (
            {"value": ruled},
            {"values": {"type": "array", "items": ruled}},
            {"values": {"type": "array", "maxItems": 50, "items": ruled}},
            {"values": {"type": "object", "maxProperties": 7, "additionalProperties": ruled}},
        ):
            if "oldSelf" in rule and "values" in whole:
                continue
            made = crd("costs", "Cost", GROUP)
            made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"type": "object", "properties": whole}}
            answer = w.prepare("POST", f"{CRDS}?dryRun=All", made)
            causes = answer.json().get("details", {}).get("causes", ()) if answer.status != 201 else ()
            words = sorted(f"{each.get('field')}: {each['message']}" for each in causes)
            w.note(f"{rule} in {whole}", status=str(answer.status), causes="\n".join(words))
