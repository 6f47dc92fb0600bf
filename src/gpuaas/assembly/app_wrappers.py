"""AppWrappers at admission: a user may wrap only what the user may create, and what was checked stays.

What they wrap is made by a controller that may do everything. So each component must be of a kind that is served, in the
wrapper's own namespace, and its writer must be allowed to create it; grants of rights cannot be wrapped at all, since
whether one may grant them is decided where they are written.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kinds import Object
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.security.identity import Asked
from gpuaas.apiserver.security.rbac import Rbac
from gpuaas.base.errors import Denied
from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, required
from gpuaas.kueue.integrations.app_wrapper import APP_WRAPPERS, inferred, pod_sets_of, value_at

Old = Mapping[str, Any] | None
View = Mapping[str, Any]

_COMPONENTS: Final = "spec.components"
_RIGHTS: Final = "rbac.authorization.k8s.io"
_MOST: Final = 8
_FIXED: Final = "attempt to change immutable field"


def install_app_wrapper_rules(cluster: Cluster, rbac: Rbac) -> None:
    rules = _Rules(cluster, rbac)
    cluster.admission.register_check(APP_WRAPPERS.group, APP_WRAPPERS.plural, rules.validate)


class _Rules:
    def __init__(self, cluster: Cluster, rbac: Rbac) -> None:
        self._catalogue = cluster.catalogue
        self._rbac = rbac

    def validate(self, op: Operation, obj: Object, old: Old) -> None:
        if op.subresource or op.in_process or not obj.get("spec"):
            return
        errors = self._new_errors(op, obj) if old is None or not old.get("spec") else _update_errors(obj, old)
        if errors:
            raise Denied("vappwrapper.kb.io", errors)

    def _new_errors(self, op: Operation, obj: Object) -> list[FieldError]:
        components, found, count = obj["spec"].get("components") or (), [], 0
        for index, component in enumerate(components):
            path = child(_COMPONENTS, index)
            errors = self._template_errors(op, component["template"], child(path, "template"))
            found += errors or _pod_set_errors(component, child(path, "podSets"))
            count += len(pod_sets_of(component))
        if not count:
            found.append(invalid(_COMPONENTS, list(components), "components contains no podspecs"))
        if count > _MOST:
            words = f"components contains {count} podspecs; at most {_MOST} are allowed"
            found.append(invalid(_COMPONENTS, list(components), words))
        return found

    def _template_errors(self, op: Operation, template: View, path: str) -> list[FieldError]:
        kind, metadata = template.get("kind", ""), template.get("metadata") or {}
        if not metadata.get("name"):
            return [required(child(path, "metadata", "name"))]
        served = self._catalogue.for_kind(template.get("apiVersion", ""), kind)
        if served is None or not served[0].namespaced:
            return [
                forbidden(
                    path,
                    f"{kind} of {template.get('apiVersion', '')} cannot be wrapped: it is not served in namespaces",
                )
            ]
        resource = served[0]
        if (resource.group, resource.plural) == (APP_WRAPPERS.group, APP_WRAPPERS.plural):
            return [forbidden(path, "Nested AppWrappers are forbidden")]
        if metadata.get("namespace", op.namespace) != op.namespace:
            where = child(path, "metadata", "namespace")
            return [forbidden(where, "AppWrappers cannot create objects in other namespaces")]
        asked = Asked("create", resource.group, resource.plural, namespace=op.namespace)
        if resource.group == _RIGHTS or not self._rbac.authorize(op.user, asked).allowed:
            words = f"User {op.user.name} is not authorized to create {resource.plural} in {op.namespace}"
            return [forbidden(path, words)]
        return []


def _pod_set_errors(component: View, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, part in enumerate(component.get("podSets") or ()):
        pod = value_at(component["template"], part["path"])
        if not isinstance(pod, Mapping) or not isinstance(pod.get("spec"), Mapping):
            words = "path does not refer to a v1.PodSpecTemplate"
            found.append(invalid(child(path, index, "path"), part["path"], words))
    known, declared = inferred(component["template"]), component.get("podSets") or ()
    if found or not known or not declared:
        return found
    sizes = {part["path"]: part.get("replicas", 1) for part in declared}
    if len(known) != len(declared):
        words = f"DeclaredPodSet count {len(declared)} differs from inferred count {len(known)}"
        return [invalid(path, list(declared), words)]
    for part in known:
        if part["path"] not in sizes:
            return [invalid(path, list(declared), f"PodSet with path '{part['path']}' is missing")]
        if sizes[part["path"]] != part["replicas"]:
            words = f"replica count {sizes[part['path']]} differs from inferred count {part['replicas']}"
            return [invalid(path, list(declared), f"{words} for PodSet at path position '{part['path']}'")]
    return []


def _update_errors(obj: View, old: View) -> list[FieldError]:
    found: list[FieldError] = []
    after, before = (each["spec"].get("components") or () for each in (obj, old))
    if len(after) != len(before):
        return [forbidden(_COMPONENTS, _FIXED)]
    for index, (new, known) in enumerate(zip(after, before, strict=True)):
        found += [
            forbidden(child(_COMPONENTS, index, part), _FIXED)
            for part in ("template", "podSets")
            if (new.get(part) or None) != (known.get(part) or None)
        ]
    if (obj["spec"].get("managedBy") or "") != (old["spec"].get("managedBy") or ""):
        found.append(forbidden("spec.managedBy", _FIXED))
    return found
