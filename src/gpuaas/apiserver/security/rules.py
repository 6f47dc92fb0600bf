"""Policy rules: what one allows, whether some cover others, and how messages write them.

Pure. Kubernetes' semantics: `*` is every verb, group or resource; `*/scale` every scale subresource; names restrict;
a URL may end in `*`. Who has which rules is `rbac`'s question.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ALL = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """A verb on a resource, leaving names aside."""
        return (
            (verb in self.verbs or ALL in self.verbs)
            and (group in self.groups or ALL in self.groups)
            and self._has_resource(resource, subresource)
        )

    def allows_path(self, verb: str, path: str) -> bool:
        return (verb in self.verbs or ALL in self.verbs) and any(_url_covers(url, path) for url in self.urls)

    def _has_resource(self, resource: str, subresource: str) -> bool:
        if ALL in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def __str__(self) -> str:
        """As escalation messages print it: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{label}:{quoted_list(values)}" for label, values in parts if values) + "}"


EVERYTHING = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), urls=(ALL,)))


def parse_rules(rules: Sequence[Mapping[str, Any]] | None) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            tuple(rule.get("verbs") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            tuple(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in rules or ()
    )


def rule_object(rule: Rule) -> dict[str, Any]:
    """The rule as an object has it."""
    full = {
        "verbs": rule.verbs,
        "apiGroups": rule.groups,
        "resources": rule.resources,
        "resourceNames": rule.names,
        "nonResourceURLs": rule.urls,
    }
    return {key: list(values) for key, values in full.items() if values or key == "verbs"}


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The parts of `wanted` (one group, resource, verb and name each) that no rule of `owned` covers."""
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(owner, part) for owner in owned)]


def compacted(rules: Iterable[Rule]) -> list[Rule]:
    """Parts that differ only in their verb, joined again; URLs stay apart, as in Kubernetes."""
    together: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    apart: list[Rule] = []
    for rule in rules:
        if rule.urls:
            apart.append(rule)
        else:
            together.setdefault((rule.groups, rule.resources, rule.names), []).extend(rule.verbs)
    return apart + [Rule(tuple(verbs), *key) for key, verbs in together.items()]


def _parts(rule: Rule) -> Iterable[Rule]:
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                if not rule.names:
                    yield Rule((verb,), (group,), (resource,))
                for name in rule.names:
                    yield Rule((verb,), (group,), (resource,), (name,))
    for url in rule.urls:
        for verb in rule.verbs:
            yield Rule((verb,), urls=(url,))


def _covers(owner: Rule, part: Rule) -> bool:
    if not (ALL in owner.verbs or part.verbs[0] in owner.verbs):
        return False
    if part.urls:
        return not owner.names and any(_url_covers(url, part.urls[0]) for url in owner.urls)
    if not (ALL in owner.groups or part.groups[0] in owner.groups):
        return False
    if owner.names and not (part.names and part.names[0] in owner.names):
        return False
    resource, slash, subresource = part.resources[0].partition("/")
    wanted = {ALL, part.resources[0], f"*/{subresource}"} if slash else {ALL, resource}
    return not wanted.isdisjoint(owner.resources)


def _url_covers(owner: str, url: str) -> bool:
    return owner in (ALL, url) or (owner.endswith("*") and url.startswith(owner.rstrip("*")))


def quoted(text: str) -> str:
    """A string as Go's %q writes it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escaped(char) for char in text) + '"'


def quoted_list(values: Iterable[str]) -> str:
    return "[" + " ".join(quoted(value) for value in values) + "]"


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}  # fmt: skip


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
