"""How the tests read: an object as a user writes it goes in, what the server would keep or say comes out."""

from typing import Any

import yaml
from tests.unit.api.kubernetes.typed_objects import SCHEMAS

from gpuaas.api.kinds import Kind
from gpuaas.api.kubernetes import builtin_kinds
from gpuaas.api.metadata import validate_metadata, validate_metadata_update
from gpuaas.machinery.mergepatch import apply_merge_patch
from gpuaas.machinery.schema.decode import normalize

KINDS: dict[tuple[str, str], Kind] = {(kind.api_version, kind.kind): kind for kind in builtin_kinds()}
UID = "5f3c0d3e-0000-4000-8000-000000000001"
CREATED = "2026-01-01T00:00:00Z"
NOW = 1_767_225_600.0


def made(text: str | dict[str, Any]) -> dict[str, Any]:
    """The object as it would be stored, whether or not it is acceptable."""
    sent = yaml.safe_load(text) if isinstance(text, str) else text
    kind = kind_of(sent)
    metadata = {"name": "x", **(sent.get("metadata") or {}), "uid": UID, "creationTimestamp": CREATED}
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    sent = {**sent, "metadata": metadata}
    if kind.status and not kind.behaviour.keep_status_on_create:
        sent.pop("status", None)
    obj = normalize(SCHEMAS.named(kind.schema), sent).obj
    kind.behaviour.default(obj)
    kind.behaviour.prepare_create(obj)
    return obj


def refused(text: str | dict[str, Any]) -> list[str]:
    """What is wrong with an object to be made, `path: words`; nothing when it is accepted."""
    obj = made(text)
    kind = kind_of(obj)
    rules = kind.behaviour
    errors = validate_metadata(obj, kind.namespaced, rules.name_messages, builtin=True) + rules.validate(obj)
    return [str(error) for error in errors]


def changed(text: str | dict[str, Any], patch: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The object after a merge patch, and what is wrong with the change. A patch of status goes to that subresource."""
    old = made(text)
    old["metadata"]["resourceVersion"] = "1"
    kind = kind_of(old)
    rules = kind.behaviour
    new = normalize(SCHEMAS.named(kind.schema), apply_merge_patch(old, patch)).obj
    if "status" in patch:
        obj = {**old, "status": new.get("status") or {}}
        rules.prepare_status_update(obj, old)
        errors = rules.validate_status_update(obj, old)
    else:
        obj = {**new, "status": old["status"]} if kind.status and "status" in old else new
        rules.default(obj)
        rules.prepare_update(obj, old)
        errors = validate_metadata_update(obj, old) + rules.check_update(obj, old)
    return obj, [str(error) for error in errors]


def complaints(text: str | dict[str, Any], patch: dict[str, Any]) -> list[str]:
    return changed(text, patch)[1]


def row(text: str | dict[str, Any], **status: Any) -> list[Any]:
    """The cells `kubectl get -o wide` shows after the name, for an object with that status."""
    obj = made(text)
    if status:
        obj["status"] = status
    kind = kind_of(obj)
    assert kind.row is not None
    return kind.row(obj, NOW)


def kind_of(obj: dict[str, Any]) -> Kind:
    return KINDS[obj["apiVersion"], obj["kind"]]


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **spec},
    }


def with_container(**fields: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "main", "image": "busybox:1", **fields}])


def template(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "busybox:1"}]
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers, **spec}}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    full = {"selector": {"matchLabels": {"app": "a"}}, "template": template(), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "spec": full}


def job(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"template": {"spec": template(restartPolicy="Never")["spec"]}, **spec},
    }


def service(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}], **spec}}
