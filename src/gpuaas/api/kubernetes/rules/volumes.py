"""What the volumes of a pod and the mounts of a container must say. Paths stay inside: no `..`, no way up."""

from collections.abc import Mapping
from typing import Final

from gpuaas.api.kubernetes.rules.checks import dns_label, each
from gpuaas.api.kubernetes.rules.fields import file_reference
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, not_found, required
from gpuaas.base.quantity import parse_quantity

FILE_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
# The fields of a source that may not be empty, for the sources that executors read.
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "configMap": ("name",),
    "hostPath": ("path",),
    "persistentVolumeClaim": ("claimName",),
    "secret": ("secretName",),
}


def validate_volumes(spec: View, path: str) -> tuple[dict[str, View], list[FieldError]]:
    """The usable volumes by name, and what is wrong with the others."""
    errors: list[FieldError] = []
    usable: dict[str, View] = {}
    for volume, at in each(spec, "volumes", path):
        name = volume.get("name", "")
        found = _source(volume, at)
        found += dns_label(name, child(at, "name")) if name else [required(child(at, "name"))]
        if name in usable:
            found.append(duplicate(child(at, "name"), name))
        if not found:
            usable[name] = volume
        errors += found
    return usable, errors


def validate_mounts(container: View, volumes: Mapping[str, View], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for mount, at in each(container, "volumeMounts", path):
        errors += _mount(mount, volumes, seen, at, child(path, "volumeMounts"))
    return errors


def descending_path(value: str, path: str) -> list[FieldError]:
    errors = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return errors + no_backsteps(value, path)


def no_backsteps(value: str, path: str) -> list[FieldError]:
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def local_path(value: str, path: str) -> list[FieldError]:
    errors = descending_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        errors.append(invalid(path, value, "must not start with '..'"))
    return errors


def _source(volume: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = False
    for source, content in volume.items():
        if source == "name" or content is None:
            continue
        at = child(path, source)
        if seen:
            errors.append(forbidden(at, "may not specify more than 1 volume type"))
            continue
        seen = True
        errors += [required(child(at, field)) for field in _NEEDED.get(source, ()) if not content.get(field)]
        errors += _details(source, content, at)
    return errors if seen else [required(path, "must specify a volume type")]


def _details(source: str, content: View, path: str) -> list[FieldError]:
    match source:
        case "emptyDir":
            limit = content.get("sizeLimit")
            if limit is not None and parse_quantity(limit).nano < 0:
                return [forbidden(child(path, "sizeLimit"), "SizeLimit field must be a valid resource quantity")]
        case "hostPath" if content.get("path"):
            return no_backsteps(content["path"], child(path, "path"))
        case "secret" | "configMap":
            return _mode(content, "defaultMode", path) + _keys(content, path)
        case "downwardAPI":
            return _mode(content, "defaultMode", path) + _files(content, path)
        case "projected":
            return _mode(content, "defaultMode", path) + _projections(content, path)
        case "ephemeral":
            return [] if content.get("volumeClaimTemplate") else [required(child(path, "volumeClaimTemplate"))]
    return []


def _mode(content: View, field: str, path: str) -> list[FieldError]:
    mode = content.get(field)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(child(path, field), mode, FILE_MODE)]


def _keys(content: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for item, at in each(content, "items", path):
        errors += [required(child(at, field)) for field in ("key", "path") if not item.get(field)]
        errors += local_path(item.get("path", ""), child(at, "path")) + _mode(item, "mode", at)
    return errors


def _files(content: View, path: str) -> list[FieldError]:
    """Files from the pod's own fields; the real server names no index here."""
    errors: list[FieldError] = []
    for item in content.get("items") or ():
        if not item.get("path"):
            errors.append(required(child(path, "path")))
        errors += local_path(item.get("path", ""), child(path, "path"))
        errors += file_reference(item, path) + _mode(item, "mode", path)
    return errors


def _projections(content: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    paths: set[str] = set()
    for source, at in each(content, "sources", path):
        for kind in ("secret", "configMap"):
            part = source.get(kind)
            if part is not None:
                errors += [] if part.get("name") else [required(child(at, kind, "name"))]
                errors += _keys(part, child(at, kind)) + _conflicts(part, part.get("name", ""), paths, path)
        part = source.get("downwardAPI")
        if part is not None:
            errors += _files(part, child(at, "downwardAPI")) + _conflicts(part, None, paths, path)
        if source.get("serviceAccountToken") is not None:
            errors += _token(source["serviceAccountToken"], child(at, "serviceAccountToken"), path)
        if len(source) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type per source"))
    return errors


def _conflicts(part: View, shown: str | None, paths: set[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for item in part.get("items") or ():
        file = item.get("path", "")
        if file and file in paths:
            errors.append(invalid(path, file if shown is None else shown, "conflicting duplicate paths"))
        paths.add(file)
    return errors


def _token(token: View, path: str, volume_path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seconds = token.get("expirationSeconds", 0)
    if seconds < 600:
        text = "may not specify a duration less than 10 minutes"
        errors.append(invalid(child(path, "expirationSeconds"), seconds, text))
    if seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(child(path, "expirationSeconds"), seconds, text))
    if not token.get("path"):
        return [*errors, required(child(volume_path, "path"))]
    return errors + local_path(token["path"], child(volume_path, "path"))


def _mount(mount: View, volumes: Mapping[str, View], seen: set[str], at: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name, where = mount.get("name", ""), mount.get("mountPath", "")
    if not name:
        errors.append(required(child(at, "name")))
    if name not in volumes:
        errors.append(not_found(child(at, "name"), name))
    if not where:
        errors.append(required(child(at, "mountPath")))
    if where in seen:
        errors.append(invalid(child(at, "mountPath"), where, "must be unique"))
    seen.add(where)
    if mount.get("subPath"):
        errors += descending_path(mount["subPath"], child(path, "subPath"))
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            text = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(child(at, "subPathExpr"), mount["subPathExpr"], text))
        errors += descending_path(mount["subPathExpr"], child(path, "subPathExpr"))
    return errors
