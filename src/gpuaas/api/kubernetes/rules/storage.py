"""Claims to storage: what they must say, and what of them may still change."""

from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.rules.checks import dns_label, dns_subdomain, each, known, unchanged
from gpuaas.api.kubernetes.rules.pod_warnings import SPELLED, claim_warnings, term_warnings
from gpuaas.api.kubernetes.rules.resources import resource_amount
from gpuaas.api.metadata import View, validate_annotations, validate_label_selector, validate_labels
from gpuaas.base.fielderrors import FieldError, child, forbidden, invalid, keyed, required
from gpuaas.base.quantity import parse_quantity

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_ANNOTATIONS: Final = {
    _BETA_CLASS: 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_RECYCLE: Final = (
    "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
)
_GONE: Final = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
)


def claim_spec(spec: View, path: str) -> list[FieldError]:
    modes, at = spec.get("accessModes") or (), child(path, "accessModes")
    errors = [] if modes else [required(at, "at least 1 access mode is required")]
    errors += validate_label_selector(spec.get("selector"), child(path, "selector"))
    for mode in modes:
        errors += known(mode, _ACCESS_MODES, at)
    if "ReadWriteOncePod" in modes and any(mode in _ACCESS_MODES[:3] for mode in modes):
        errors.append(forbidden(at, "may not use ReadWriteOncePod with other access modes"))
    errors += _storage(spec, keyed(child(path, "resources"), "storage"))
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            errors += dns_subdomain(spec[field], child(path, field))
    if spec.get("volumeMode") is not None:
        errors += known(spec["volumeMode"], ("Block", "Filesystem"), child(path, "volumeMode"))
    return errors + _sources(spec, path)


def claim_template(template: View, path: str) -> list[FieldError]:
    """The claim inside an ephemeral volume: its metadata may hold labels and annotations only."""
    metadata, at = template.get("metadata") or {}, child(path, "metadata")
    errors = validate_annotations(metadata.get("annotations"), child(at, "annotations"))
    errors += validate_labels(metadata.get("labels"), child(at, "labels"))
    others = [key for key in metadata if key not in ("annotations", "labels", "creationTimestamp")]
    errors += [forbidden(child(at, key), "cannot be set") for key in others if metadata[key]]
    return errors + claim_spec(template.get("spec") or {}, child(path, "spec"))


class PersistentVolumeClaim(Behaviour):
    generation = False

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        status = obj.setdefault("status", {})
        status.setdefault("phase", "Pending")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}
        _drop_foreign_source(obj["spec"])
        if not _is_old_source(obj["spec"].get("dataSource")):
            obj["spec"].pop("dataSource", None)
        _same_sources(obj["spec"])

    def prepare_update(self, obj: Object, old: View) -> None:
        if (old.get("spec") or {}).get("dataSourceRef") is None:
            _drop_foreign_source(obj["spec"])
        _same_sources(obj["spec"])

    def validate(self, obj: View) -> list[FieldError]:
        return claim_spec(obj.get("spec") or {}, "spec")

    def warnings(self, obj: View, old: View | None) -> list[str]:
        return _annotation_warnings(obj, (_BETA_CLASS,)) + claim_warnings(obj.get("spec") or {}, "spec")

    def validate_update(self, obj: View, old: View) -> list[FieldError]:
        errors: list[FieldError] = []
        new_spec, old_spec = dict(obj.get("spec") or {}), dict(old.get("spec") or {})
        if not old_spec.get("volumeName") and new_spec.get("volumeName"):
            old_spec["volumeName"] = new_spec["volumeName"]
        if old_spec.get("storageClassName") is None and new_spec.get("storageClassName") is not None:
            old_spec["storageClassName"] = new_spec["storageClassName"]
        bound = (obj.get("status") or {}).get("phase") == "Bound"
        errors += _beta_class(obj, old)
        if _frozen(new_spec, bound) != _frozen(old_spec, bound):
            errors.append(forbidden("spec", _IMMUTABLE))
        errors += _shrink(obj, old)
        return errors + unchanged(new_spec.get("volumeMode"), old_spec.get("volumeMode"), "volumeMode")


class PersistentVolume(Behaviour):
    generation = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if spec.get("hostPath") is not None:
            spec["hostPath"].setdefault("type", "")
        if spec.get("azureFile") is not None:
            spec["azureFile"].setdefault("secretNamespace", None)  # Go writes it even when it is not said
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}
        created = (obj.get("metadata") or {}).get("creationTimestamp")
        if created:
            obj["status"]["lastPhaseTransitionTime"] = created

    def warnings(self, obj: View, old: View | None) -> list[str]:
        spec = obj.get("spec") or {}
        found = _annotation_warnings(obj, tuple(_ANNOTATIONS))
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            found.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}")
        required_nodes = (spec.get("nodeAffinity") or {}).get("required") or {}
        for term, at in each(required_nodes, "nodeSelectorTerms", "spec.nodeAffinity.required"):
            found += term_warnings(term, at)
        gone = [(field, text) for field, text in _GONE.items() if spec.get(field) is not None]
        return found + [f"{child('spec', SPELLED.get(field, field))}: {text}" for field, text in gone]


def _annotation_warnings(obj: View, keys: tuple[str, ...]) -> list[str]:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return [f"{keyed('metadata.annotations', key)}: {_ANNOTATIONS[key]}" for key in keys if key in annotations]


def _storage(spec: View, path: str) -> list[FieldError]:
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if amount is None:
        return [required(path)]
    if parse_quantity(amount).nano <= 0:
        return [invalid(path, str(parse_quantity(amount)), "must be greater than zero")]
    return resource_amount("storage", amount, path)


def _sources(spec: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, content in (("dataSource", source), ("dataSourceRef", reference)):
        if content is not None:
            errors += _source(content, child(path, field))
    if source is None or reference is None:
        return errors
    if reference.get("namespace"):
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))
    return errors


def _source(source: View, path: str) -> list[FieldError]:
    errors = [required(child(path, field)) for field in ("name", "kind") if not source.get(field)]
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, text))
    if group:
        errors += dns_subdomain(group, child(path, "apiGroup"))
    if source.get("namespace"):
        errors += dns_label(source["namespace"], child(path, "namespace"))
    return errors


def _is_old_source(source: View | None) -> bool:
    """The older field holds claims and snapshots; anything else in it is left out without a word."""
    if source is None:
        return False
    group, kind = source.get("apiGroup") or "", source.get("kind")
    return (group, kind) in (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _drop_foreign_source(spec: Object) -> None:
    """Sources in other namespaces are switched off by default: they are left out without a word."""
    if (spec.get("dataSourceRef") or {}).get("namespace"):
        del spec["dataSourceRef"]


def _same_sources(spec: Object) -> None:
    """The two ways to name a source are kept equal, unless another namespace is meant."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for given in (source, reference):
        if given is not None:
            given.setdefault("apiGroup", None)  # Go writes it even when it is not said
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {key: reference[key] for key in ("apiGroup", "kind", "name") if key in reference}


def _frozen(spec: View, bound: bool) -> dict[str, Any]:
    """The spec without what may change once the claim is bound."""
    frozen = dict(spec)
    if bound:
        frozen.pop("volumeAttributesClassName", None)
        resources = dict(frozen.get("resources") or {})
        resources["requests"] = {k: v for k, v in (resources.get("requests") or {}).items() if k != "storage"}
        frozen["resources"] = resources
    return frozen


def _shrink(obj: View, old: View) -> list[FieldError]:
    sizes = [((o.get("spec") or {}).get("resources") or {}).get("requests") or {} for o in (obj, old)]
    new_size, old_size = (parse_quantity(size.get("storage", "0")).nano for size in sizes)
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
    if new_size < old_size and new_size <= parse_quantity(capacity).nano:
        return [forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")]
    return []


def _beta_class(obj: View, old: View) -> list[FieldError]:
    new_class, old_class = ((o.get("metadata") or {}).get("annotations") or {} for o in (obj, old))
    if new_class.get(_BETA_CLASS) == old_class.get(_BETA_CLASS):
        return []
    return [invalid(f"metadata.annotations[{_BETA_CLASS}]", new_class.get(_BETA_CLASS, ""), "field is immutable")]
