"""Classes that stand in where none is named, for the storage of claims and for ingresses; and whether a claim may grow.

Pure rules; the server gives them the classes there are.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.base.quantity import parse_quantity

View = Mapping[str, Any]

_STORAGE: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_INGRESS: Final = ("ingressclass.kubernetes.io/is-default-class",)
_OLD_STORAGE: Final = "volume.beta.kubernetes.io/storage-class"
_OLD_INGRESS: Final = "kubernetes.io/ingress.class"
_FIXED_SIZE: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


def default_storage_class(claim: dict[str, Any], classes: Iterable[View]) -> None:
    if claim["spec"].get("storageClassName") is None and _OLD_STORAGE not in _annotations(claim):
        _set(claim["spec"], "storageClassName", classes, _STORAGE)


def default_ingress_class(ingress: dict[str, Any], classes: Iterable[View]) -> None:
    spec = ingress.setdefault("spec", {})
    if spec.get("ingressClassName") is None and _OLD_INGRESS not in _annotations(ingress):
        _set(spec, "ingressClassName", classes, _INGRESS)


def growth_errors(claim: View, old: View, classes: Iterable[View]) -> list[str]:
    """Why a claim may not become larger than it was; nothing if it may, or does not."""
    if _size(claim) <= _size(old):
        return []
    if (old.get("status") or {}).get("phase") != "Bound":
        return ["Only bound persistent volume claims can be expanded"]
    name = _storage_class(claim)
    grows = any(c["metadata"]["name"] == name and c.get("allowVolumeExpansion") for c in classes)
    return [] if name and name == _storage_class(old) and grows else [_FIXED_SIZE]


def _set(spec: dict[str, Any], field: str, classes: Iterable[View], annotations: tuple[str, ...]) -> None:
    """The newest of those that call themselves the default, the first by name where two are as new."""
    defaults = sorted(
        (each["metadata"] for each in classes if any(_annotations(each).get(key) == "true" for key in annotations)),
        key=lambda metadata: str(metadata["name"]),
    )
    if defaults:
        spec[field] = max(defaults, key=lambda metadata: str(metadata.get("creationTimestamp", "")))["name"]


def _annotations(obj: View) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _storage_class(claim: View) -> str:
    return _annotations(claim).get(_OLD_STORAGE) or (claim.get("spec") or {}).get("storageClassName") or ""


def _size(claim: View) -> int:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return parse_quantity(requests.get("storage", "0")).milli
