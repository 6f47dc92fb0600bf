"""Privilege escalation: users grant only rights they have. The checks on writing roles and bindings.

A user who may `escalate` a role or `bind` it is trusted with it; `system:masters` always is. Everybody else must hold
every permission the role grants, in the place where it is granted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.apiserver.security.identity import MASTERS, Asked, User
from gpuaas.apiserver.security.rbac import GROUP, Rbac, aggregate
from gpuaas.apiserver.security.rules import EVERYTHING, Rule, compacted, parse_rules, quoted, quoted_list, uncovered
from gpuaas.base.errors import Forbidden, NotFound

Object = Mapping[str, Any]

# What the garbage collector changes: no permission comes or goes with it.
_COLLECTED = ("ownerReferences", "finalizers", "managedFields")


def check_grant(
    rbac: Rbac, user: User, plural: str, namespace: str, url_name: str, obj: Object, old: Object | None
) -> None:
    """Raise Forbidden if writing this role or binding would grant more than the writer has.

    `url_name` is the name in the request's path, so it is empty for a create.
    """
    if MASTERS in user.groups or (old is not None and _only_collected_changes(obj, old)):
        return
    if plural in ("rolebindings", "clusterrolebindings"):
        _check_binding(rbac, user, plural, namespace, obj)
    elif not rbac.authorize(user, Asked("escalate", GROUP, plural, "", namespace, url_name)).allowed:
        _check_role(rbac, user, plural, namespace, obj, old)


def _check_role(rbac: Rbac, user: User, plural: str, namespace: str, obj: Object, old: Object | None) -> None:
    name = obj["metadata"].get("name", "")
    _confirm(rbac, user, plural, namespace, name, parse_rules(obj.get("rules")))
    if (_aggregates(obj) or (old is not None and _aggregates(old))) and _missing(rbac, user, namespace, EVERYTHING)[0]:
        # What it gathers is not known yet, so it may be anything.
        raise Forbidden(GROUP, plural, name, "must have cluster-admin privileges to use the aggregationRule")


def _check_binding(rbac: Rbac, user: User, plural: str, namespace: str, obj: Object) -> None:
    reference = obj.get("roleRef") or {}
    kind, role = reference.get("kind", ""), reference.get("name", "")
    bound = {"ClusterRole": "clusterroles", "Role": "roles"}.get(kind)
    group = reference.get("apiGroup", "")
    if bound and rbac.authorize(user, Asked("bind", group, bound, "", namespace, role)).allowed:
        return
    rules = rbac.role_rules(kind, role, namespace)
    if rules is None:
        raise NotFound(GROUP, plural, role)  # the real server names the binding's kind with the role's name
    _confirm(rbac, user, plural, namespace, obj["metadata"].get("name", ""), rules)


def _confirm(rbac: Rbac, user: User, plural: str, namespace: str, name: str, rules: Sequence[Rule]) -> None:
    missing, errors = _missing(rbac, user, namespace, rules)
    if not missing:
        return
    lines = sorted({str(rule) for rule in compacted(missing)})
    text = (
        f"user {quoted(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant RBAC permissions"
        " not currently held:\n" + "\n".join(lines)
    )
    if errors:
        # The real server calls what it did not find by the name of what it was asked to write.
        named = [f"{plural}.{GROUP} {error.partition(' ')[2]}" for error in errors]
        text += f"; resolution errors: [{aggregate(named)}]"
    raise Forbidden(GROUP, plural, name, text)


def _missing(rbac: Rbac, user: User, namespace: str, rules: Sequence[Rule]) -> tuple[list[Rule], list[str]]:
    grants, errors = rbac.grants(user, namespace)
    return uncovered([grant.rule for grant in grants], rules), errors


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_collected_changes(obj: Object, old: Object) -> bool:
    return {**obj, "metadata": _kept(obj)} == {**old, "metadata": _kept(old)}


def _kept(obj: Object) -> dict[str, Any]:
    return {key: value for key, value in obj["metadata"].items() if key not in _COLLECTED}
