"""The roles and bindings every cluster starts with: Kubernetes' own, and those Kueue brings.

Built from the tables of `bootstrap_tables`. `reconciled` brings what a user may have changed up to date without taking
anything away, as Kubernetes does, unless its autoupdate annotation says to leave it alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuaas.apiserver.security.bootstrap_tables import BINDINGS, KUBERNETES, KUEUE, KUEUE_PENDING, VERBS
from gpuaas.apiserver.security.rbac import GROUP
from gpuaas.apiserver.security.rules import Rule, compacted, parse_rules, rule_object, uncovered

Object = dict[str, Any]

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_DEFAULTS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_KUEUE = "rbac.kueue.x-k8s.io/"
_KUEUE_LABELS = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
_EDIT_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


def objects() -> Iterator[tuple[str, Object]]:
    """(plural, object) of everything, roles before the bindings that name them."""
    for role in cluster_roles():
        yield "clusterroles", role
    reader = "extension-apiserver-authentication-reader"
    rules = parse_rules(
        [{"verbs": VERBS["read"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [reader[:-7]]}]
    )
    yield "roles", _object("Role", _metadata(reader, namespace="kube-system"), rules=_rules(rules))
    for binding in cluster_role_bindings():
        yield "clusterrolebindings", binding
    users = ("u:system:kube-controller-manager", "u:system:kube-scheduler")
    yield (
        "rolebindings",
        _binding("RoleBinding", _metadata(f"system::{reader}", namespace="kube-system"), "Role", reader, users),
    )


def cluster_roles() -> Iterator[Object]:
    for name, rules in _table(KUBERNETES):
        piece = name.removeprefix("system:aggregate-to-")
        labels = {f"{_AGGREGATE}{piece}": "true"} if piece != name else {}
        yield _object("ClusterRole", _metadata(name, labels), rules=_rules(rules))
    # edit holds what view does, and admin what edit does
    for name, into in (("admin", ""), ("edit", "admin"), ("view", "edit")):
        labels = {f"{_AGGREGATE}{into}": "true"} if into else {}
        yield _aggregated(_metadata(name, labels), f"{_AGGREGATE}{name}")
    yield from _kueue_roles()


def cluster_role_bindings() -> Iterator[Object]:
    for role, subjects in BINDINGS.items():
        yield _binding("ClusterRoleBinding", _metadata(role), "ClusterRole", role, subjects)


def reconciled(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object | None:
    """The stored role or binding with what it lacks added; None if it lacks nothing or is to be left alone."""
    annotations = stored["metadata"].get("annotations") or {}
    if annotations.get(AUTOUPDATE) != "true":
        return None
    if "roleRef" in wanted:
        had = stored.get("subjects") or []
        missing: Sequence[Any] = [subject for subject in wanted.get("subjects") or [] if subject not in had]
        return {**stored, "subjects": [*had, *missing]} if missing else None
    if "aggregationRule" in wanted:
        rule = wanted["aggregationRule"]
        return {**stored, "aggregationRule": rule} if stored.get("aggregationRule") != rule else None
    lacking = compacted(uncovered(parse_rules(stored.get("rules")), parse_rules(wanted.get("rules"))))
    return {**stored, "rules": [*(stored.get("rules") or []), *_rules(lacking)]} if lacking else None


def _kueue_roles() -> Iterator[Object]:
    for name, label in (("kueue-batch-admin-role", "batch-admin"), ("kueue-batch-user-role", "batch-user")):
        yield _aggregated({"name": name, "labels": dict(_KUEUE_LABELS)}, f"{_KUEUE}{label}")
    for kind, group, plural, status, viewers, editors in KUEUE:
        shown = [Rule(("get",), (group,), (f"{plural}/status",))] if status else []
        edits = [Rule(_EDIT_VERBS, (group,), (plural,)), *shown]
        views = [Rule(VERBS["read"], (group,), (plural,)), *shown]
        yield _kueue_role(f"{kind}-editor", editors, edits)
        yield _kueue_role(f"{kind}-viewer", viewers, views)
    for short, resource, viewers in KUEUE_PENDING:
        views = [Rule(VERBS["read"], ("visibility.kueue.x-k8s.io",), (resource,))]
        yield _kueue_role(f"pending-workloads-{short}-viewer", viewers, views)


def _kueue_role(name: str, audience: str, rules: Sequence[Rule]) -> Object:
    short = {"a": f"{_KUEUE}batch-admin", "u": f"{_KUEUE}batch-user"}
    labels = {short.get(word, f"{_AGGREGATE}{word}"): "true" for word in audience.split()}
    metadata = {"name": f"kueue-{name}-role", "labels": {**_KUEUE_LABELS, f"{_KUEUE}role": name, **labels}}
    return _object("ClusterRole", metadata, rules=_rules(rules))


def _table(text: str) -> Iterator[tuple[str, list[Rule]]]:
    name, rules = "", []
    for line in text.strip().splitlines():
        if line.startswith(" "):
            rules.append(_parse(line))
            continue
        if name:
            yield name, rules
        name, rules = line, []
    yield name, rules


def _parse(line: str) -> Rule:
    cells = [cell.split() for cell in line.split("|")]
    verbs = VERBS.get(cells[0][0], tuple(cells[0]))
    if cells[1] == ["url"]:
        return Rule(verbs, urls=tuple(cells[2]))
    groups = tuple("" if group == "core" else group for group in cells[1])
    return Rule(verbs, groups, tuple(cells[2]), tuple(cells[3]) if len(cells) > 3 else ())


def _metadata(name: str, labels: Mapping[str, str] | None = None, namespace: str = "") -> Object:
    placed = {"namespace": namespace} if namespace else {}
    return {"name": name, **placed, "labels": {**_DEFAULTS, **(labels or {})}, "annotations": {AUTOUPDATE: "true"}}


def _object(kind: str, metadata: Object, **fields: Any) -> Object:
    return {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": metadata, **fields}


def _aggregated(metadata: Object, label: str) -> Object:
    selectors = [{"matchLabels": {label: "true"}}]
    return _object("ClusterRole", metadata, rules=[], aggregationRule={"clusterRoleSelectors": selectors})


def _binding(kind: str, metadata: Object, role_kind: str, role: str, subjects: Sequence[str]) -> Object:
    reference = {"apiGroup": GROUP, "kind": role_kind, "name": role}
    named = {"subjects": [_subject(subject) for subject in subjects]} if subjects else {}
    return _object(kind, metadata, **named, roleRef=reference)


def _subject(text: str) -> Object:
    kind, _, name = text.partition(":")
    if kind == "s":
        return {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
    return {"kind": "User" if kind == "u" else "Group", "apiGroup": GROUP, "name": name}


def _rules(rules: Sequence[Rule]) -> list[Object]:
    return [rule_object(rule) for rule in rules]
