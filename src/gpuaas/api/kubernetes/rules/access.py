"""Roles and bindings: who may do what."""

from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import dns_subdomain, each, known
from gpuaas.api.metadata import View, validate_label_selector
from gpuaas.base.fielderrors import FieldError, child, invalid, required, show
from gpuaas.base.names import is_path_segment

GROUP: Final = "rbac.authorization.k8s.io"


class Role(Behaviour):
    allow_create_on_update = True
    generation = False
    name_messages = staticmethod(is_path_segment)
    namespaced = True

    def default(self, obj: Object) -> None:
        obj.setdefault("rules", None)  # Go writes it even when it is not said

    def prepare_create(self, obj: Object) -> None:
        obj["rules"] = obj.get("rules") or None  # how an empty list without omitempty comes back from storage

    def prepare_update(self, obj: Object, old: View) -> None:
        self.prepare_create(obj)

    def validate(self, obj: View) -> list[FieldError]:
        errors: list[FieldError] = []
        for rule, at in each(obj, "rules", ""):
            errors += _rule(rule, self.namespaced, at)
        return errors


class ClusterRole(Role):
    namespaced = False

    def validate(self, obj: View) -> list[FieldError]:
        errors = super().validate(obj)
        aggregation = obj.get("aggregationRule")
        if aggregation is None:
            return errors
        if not aggregation.get("clusterRoleSelectors"):
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(required("aggregationRule.clusterRoleSelectors", text))
        for selector, at in each(aggregation, "clusterRoleSelectors", "aggregationRule"):
            errors += validate_label_selector(selector, at)
        return errors


class RoleBinding(Behaviour):
    allow_create_on_update = True
    generation = False
    name_messages = staticmethod(is_path_segment)
    role_kinds: tuple[str, ...] = ("Role", "ClusterRole")
    namespaced = True

    def default(self, obj: Object) -> None:
        role = obj.setdefault("roleRef", {})
        if not role.get("apiGroup"):
            role["apiGroup"] = GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = GROUP

    def validate(self, obj: View) -> list[FieldError]:
        role = obj.get("roleRef") or {}
        errors = known(role.get("apiGroup", ""), (GROUP,), "roleRef.apiGroup")
        errors += known(role.get("kind", ""), self.role_kinds, "roleRef.kind", sort=False)
        name = role.get("name", "")
        if not name:
            errors.append(required("roleRef.name"))
        errors += [invalid("roleRef.name", name, message) for message in is_path_segment(name)]
        for subject, at in each(obj, "subjects", ""):
            errors += _subject(subject, self.namespaced, at)
        return errors

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        role = obj.get("roleRef") or {}
        if role == (old.get("roleRef") or {}):
            return []
        return [invalid("roleRef", _role_shown(role), "cannot change roleRef")]


class ClusterRoleBinding(RoleBinding):
    role_kinds = ("ClusterRole",)
    namespaced = False


def _role_shown(role: View) -> dict[str, Any]:
    return {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": role.get("name", "")}


def _rule(rule: View, namespaced: bool, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(child(path, "verbs"), "verbs must contain at least one value"))
    urls, at = rule.get("nonResourceURLs"), child(path, "nonResourceURLs")
    if urls:
        if namespaced:
            errors.append(invalid(at, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(at, urls, text))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(child(path, "apiGroups"), "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(child(path, "resources"), "resource rules must supply at least one resource"))
    return errors


def _subject(subject: View, namespaced: bool, path: str) -> list[FieldError]:
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    errors = [] if name else [required(child(path, "name"))]
    match subject.get("kind", ""):
        case "ServiceAccount":
            errors += dns_subdomain(name, child(path, "name")) if name else []
            errors += known(group, ("",), child(path, "apiGroup"))
            if not namespaced and not subject.get("namespace"):
                errors.append(required(child(path, "namespace")))
        case "User" | "Group":
            errors += known(group, (GROUP,), child(path, "apiGroup"))
        case kind:
            kinds = '"ServiceAccount", "User", "Group"'
            body = f"Unsupported value: {show(kind)}: supported values: {kinds}"
            errors.append(FieldError("FieldValueNotSupported", child(path, "kind"), body))
    return errors
