"""What the volumes of a pod and the mounts of a container must say. Paths stay inside: no `..`, no way up."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuaas.api.kubernetes.rules.checks import dns_label, dns_subdomain, each, known, one_of
from gpuaas.api.kubernetes.rules.fields import file_reference
from gpuaas.api.metadata import View
from gpuaas.base.fielderrors import FieldError, child, duplicate, forbidden, invalid, not_found, required, too_long
from gpuaas.base.names import is_dns1123_subdomain
from gpuaas.base.quantity import parse_quantity

FILE_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
# The sources in the order the real server looks at them, with the fields that may not be empty.
_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "emptyDir": (),
    "hostPath": ("path",),
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "secret": ("secretName",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "flocker": (),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("registry", "volume"),
    "downwardAPI": (),
    "fc": (),
    "flexVolume": ("driver",),
    "configMap": ("name",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "storageos": (),
    "projected": (),
    "scaleIO": ("gateway", "system", "volumeName"),
    "csi": (),
    "ephemeral": (),
    "image": (),
}


def validate_volumes(spec: View, pod_name: str, path: str, *, is_pod: bool) -> tuple[dict[str, View], list[FieldError]]:
    """The usable volumes by name, and what is wrong with the others."""
    errors: list[FieldError] = []
    usable: dict[str, View] = {}
    volumes: Sequence[View] = spec.get("volumes") or ()
    made = {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if pod_name and volume.get("ephemeral")}
    for volume, at in each(spec, "volumes", path):
        name = volume.get("name", "")
        found = _source(volume, pod_name, at, is_pod)
        found += dns_label(name, child(at, "name")) if name else [required(child(at, "name"))]
        if name in usable:
            found.append(duplicate(child(at, "name"), name))
        if not found:
            usable[name] = volume
        errors += found
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in made:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(child(at, "persistentVolumeClaim", "claimName"), claim, text))
    return usable, errors


def validate_mounts(container: View, volumes: Mapping[str, View], path: str) -> list[FieldError]:
    devices = {device.get("name"): device.get("devicePath") for device in container.get("volumeDevices") or ()}
    mounts = {mount.get("name"): mount.get("mountPath") for mount in container.get("volumeMounts") or ()}
    errors: list[FieldError] = []
    seen: set[str] = set()
    for mount, at in each(container, "volumeMounts", path):
        errors += _mount(mount, container, volumes, devices, seen, at, child(path, "volumeMounts"))
    return errors + _devices(container, volumes, mounts, path)


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


def _source(volume: View, pod_name: str, path: str, is_pod: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = False
    for source in _sources(volume):
        content, needed = volume[source], _SOURCES[source]
        at = child(path, source)
        if seen:
            errors.append(forbidden(at, "may not specify more than 1 volume type"))
            continue
        seen = True
        at = child(path, "persistentDisk") if source == "gcePersistentDisk" else at  # so the real server calls it
        errors += [required(child(at, field)) for field in needed if not content.get(field)]
        errors += _details(source, content, at, is_pod)
        if source == "ephemeral" and pod_name and volume.get("name"):
            claim = f"{pod_name}-{volume['name']}"
            messages = is_dns1123_subdomain(claim)
            errors += [invalid(child(path, "name"), volume["name"], f'PVC name "{claim}": {text}') for text in messages]
    return errors if seen else [required(path, "must specify a volume type")]


def _sources(volume: View) -> Sequence[str]:
    """What a volume says it is made from; several are told of in Kubernetes' order."""
    said = [key for key, content in volume.items() if content is not None and key in _SOURCES]
    return said if len(said) < 2 else [source for source in _SOURCES if source in said]


def _details(source: str, content: View, path: str, is_pod: bool) -> list[FieldError]:
    match source:
        case "emptyDir":
            limit = content.get("sizeLimit")
            if limit is not None and parse_quantity(limit).nano < 0:
                return [forbidden(child(path, "sizeLimit"), "SizeLimit field must be a valid resource quantity")]
        case "hostPath" if content.get("path"):
            errors = no_backsteps(content["path"], child(path, "path"))
            return errors + known(content.get("type") or "", _HOST_PATH_TYPES, child(path, "type"))
        case "nfs":
            if not content.get("path", "").startswith("/"):
                return [invalid(child(path, "path"), content.get("path", ""), "must be an absolute path")]
        case "secret" | "configMap":
            return _mode(content, "defaultMode", path) + _keys(content, path)
        case "downwardAPI":
            return _mode(content, "defaultMode", path) + _files(content, path)
        case "projected":
            return _mode(content, "defaultMode", path) + _projections(content, path)
        case "csi":
            return _csi(content, path)
        case "ephemeral":
            return [] if content.get("volumeClaimTemplate") else [required(child(path, "volumeClaimTemplate"))]
        case "image":
            errors = [required(child(path, "reference"))] if is_pod and not content.get("reference") else []
            return errors + one_of(content.get("pullPolicy"), PULL_POLICIES, child(path, "pullPolicy"))
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


def _csi(content: View, path: str) -> list[FieldError]:
    driver = content.get("driver", "")
    if not driver:
        return [required(child(path, "driver"))]
    errors = [too_long(child(path, "driver"), 63)] if len(driver) > 63 else []
    errors += [invalid(child(path, "driver"), driver, text) for text in is_dns1123_subdomain(driver.lower())]
    secret = content.get("nodePublishSecretRef")
    if secret is not None:
        name = secret.get("name", "")
        errors += (
            dns_subdomain(name, child(path, "name"))
            if name
            else [required(child(path, "nodePublishSecretRef", "name"))]
        )
    return errors


def _mount(
    mount: View,
    container: View,
    volumes: Mapping[str, View],
    devices: Mapping[Any, Any],
    seen: set[str],
    at: str,
    path: str,
) -> list[FieldError]:
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
    if name in devices:
        errors.append(invalid(child(at, "name"), name, "must not already exist in volumeDevices"))
    if where in devices.values():
        text = "must not already exist as a path in volumeDevices"
        errors.append(invalid(child(at, "mountPath"), where, text))
    if mount.get("subPath"):
        errors += descending_path(mount["subPath"], child(path, "subPath"))
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            text = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(child(at, "subPathExpr"), mount["subPathExpr"], text))
        errors += descending_path(mount["subPathExpr"], child(path, "subPathExpr"))
    return errors + _propagation(mount, container, path)


def _propagation(mount: View, container: View, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    mode, at = mount.get("mountPropagation"), child(path, "mountPropagation")
    if mode is not None:
        errors += known(mode, ("Bidirectional", "HostToContainer", "None"), at)
        if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            errors.append(forbidden(at, "Bidirectional mount propagation is available only to privileged containers"))
    recursive, at = mount.get("recursiveReadOnly"), child(path, "recursiveReadOnly")
    if recursive is None:
        return errors
    errors += known(recursive, ("Disabled", "Enabled", "IfPossible"), at)
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(forbidden(at, "may only be specified when readOnly is true"))
        if mode not in (None, "None"):
            errors.append(forbidden(at, "may only be specified when mountPropagation is None or not specified"))
    return errors


def _devices(container: View, volumes: Mapping[str, View], mounts: Mapping[Any, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    for device, at in each(container, "volumeDevices", path):
        name, where = device.get("name", ""), device.get("devicePath", "")
        volume = volumes.get(name)
        if not name:
            errors.append(required(child(at, "name")))
        if name in names:
            errors.append(invalid(child(at, "name"), name, "must be unique"))
        if volume is None:
            errors.append(not_found(child(at, "name"), name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(child(at, "name"), name, text))
        if not where:
            errors.append(required(child(at, "devicePath")))
        if where in paths:
            errors.append(invalid(child(at, "devicePath"), where, "must be unique"))
        if no_backsteps(where, ""):
            errors.append(invalid(child(at, "devicePath"), where, "can not contain backsteps ('..')"))
        if name in mounts:
            errors.append(invalid(child(at, "name"), name, "must not already exist in volumeMounts"))
        if where in mounts.values():
            text = "must not already exist as a path in volumeMounts"
            errors.append(invalid(child(at, "devicePath"), where, text))
        names.add(name)
        paths.add(where)
    return errors
