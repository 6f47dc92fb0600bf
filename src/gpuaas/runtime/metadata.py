"""Reading what every object has: its key, its owners, its finalizers. Nothing here changes an object."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuaas.base.numbers import natural
from gpuaas.client.protocol import Object, Resource


class Key(NamedTuple):
    """What names an object within its resource; the namespace of a cluster-scoped one is ""."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Mapping[str, Any]) -> Key:
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def uid_of(obj: Mapping[str, Any]) -> str:
    uid: str = obj["metadata"].get("uid", "")
    return uid


def revision_of(obj: Mapping[str, Any]) -> int:
    """The resourceVersion as a number, 0 where it is none (then nothing can be compared)."""
    return natural(obj.get("metadata", {}).get("resourceVersion", "")) or 0


def is_deleting(obj: Mapping[str, Any]) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def owners_of(obj: Mapping[str, Any]) -> Sequence[Object]:
    return obj["metadata"].get("ownerReferences") or ()


def controller_of(obj: Mapping[str, Any]) -> Object | None:
    """The one owner reference that says `controller: true`."""
    for reference in owners_of(obj):
        if reference.get("controller"):
            return reference
    return None


def is_controlled_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == owner["metadata"].get("uid")


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def finalizers_of(obj: Mapping[str, Any]) -> Sequence[str]:
    return obj["metadata"].get("finalizers") or ()


def controller_reference(owner: Mapping[str, Any], resource: Resource) -> Object:
    """The reference a controller puts on what it makes for `owner`."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
