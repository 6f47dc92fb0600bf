"""Builders for roles, bindings and users."""

from collections.abc import Sequence
from typing import Any

from gpuaas.apiserver.security.identity import Asked, User, authenticated
from gpuaas.apiserver.security.rbac import Rbac

GROUP = "rbac.authorization.k8s.io"
Object = dict[str, Any]


def user(name: str, *groups: str) -> User:
    return authenticated(User(name, groups=groups))


def rule(verbs: str, resources: str = "", group: str = "", names: str = "", urls: str = "") -> Object:
    made: Object = {"verbs": verbs.split()}
    if resources:
        made |= {"apiGroups": [group], "resources": resources.split()}
    if names:
        made["resourceNames"] = names.split()
    if urls:
        made["nonResourceURLs"] = urls.split()
    return made


def role(name: str, *rules: Object, namespace: str = "", **more: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": more.pop("labels", {})}
    return {"metadata": metadata, "rules": list(rules), **more}


def binding(name: str, kind: str, role_name: str, subjects: Sequence[str], namespace: str = "") -> Object:
    """Subjects: `User:alice`, `Group:team`, `ServiceAccount:namespace/name`."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    reference = {"apiGroup": GROUP, "kind": kind, "name": role_name}
    return {"metadata": metadata, "roleRef": reference, "subjects": [_subject(text) for text in subjects]}


def _subject(text: str) -> Object:
    kind, _, name = text.partition(":")
    if kind != "ServiceAccount":
        return {"kind": kind, "apiGroup": GROUP, "name": name}
    namespace, _, account = name.rpartition("/")
    return {"kind": kind, "name": account, **({"namespace": namespace} if namespace else {})}


def policy(*objects: Object) -> Rbac:
    """An evaluator fed with roles and bindings; which is which is told by their shape."""
    rbac = Rbac()
    for obj in objects:
        kind = "rolebindings" if "roleRef" in obj else "roles"
        rbac.put(kind if obj["metadata"].get("namespace") else f"cluster{kind}", obj)
    return rbac


def asked(text: str, namespace: str = "", name: str = "") -> Asked:
    """`get pods`, `get pods/log`, `list jobs.batch`, `get /version`."""
    verb, what = text.split()
    if what.startswith("/"):
        return Asked(verb, path=what)
    resource, _, group = what.partition(".")
    resource, _, subresource = resource.partition("/")
    return Asked(verb, group, resource, subresource, namespace, name)
