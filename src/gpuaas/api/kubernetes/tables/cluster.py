"""Rows of the cluster's own kinds: nodes, namespaces, volumes, configuration, quotas, events, leases."""

from collections.abc import Sequence

from gpuaas.api.durations import age
from gpuaas.api.kubernetes.tables.cells import Cells, View, columns, condition, object_age, part

NODE_COLUMNS = columns(
    "Status|Roles|Age|Version|+Internal-IP|+External-IP|+OS-Image|+Kernel-Version|+Container-Runtime"
)
NAMESPACE_COLUMNS = columns("Status|Age")
CONFIG_MAP_COLUMNS = columns("Data|Age")
SECRET_COLUMNS = columns("Type|Data|Age")
QUOTA_COLUMNS = columns("Request|Limit|Age")
VOLUME_COLUMNS = columns(
    "Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|+VolumeMode"
)
CLAIM_COLUMNS = columns("Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|+VolumeMode")
EVENT_COLUMNS = columns("Last Seen|Type|Reason|Object|+Subobject|+Source|Message|+First Seen|+Count|+Name:string/name")
LEASE_COLUMNS = columns("Holder|Age")
PRIORITY_CLASS_COLUMNS = columns("Value:integer|Global-Default:boolean|Age|PreemptionPolicy")
COMPONENT_COLUMNS = columns("Status|Message|Error")
RUNTIME_CLASS_COLUMNS = columns("Handler|Age")
CLAIMED_DEVICES_COLUMNS = columns("State|Age")
SLICE_COLUMNS = columns("Node|Driver|Pool|Age")

_BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
_ROLE_PREFIX = "node-role.kubernetes.io/"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def node_row(obj: View, now: float) -> Cells:
    info = part(obj, "status", "nodeInfo")
    ready = condition(obj, "Ready")
    words = [("Ready" if ready.get("status") == "True" else "NotReady") if ready else "Unknown"]
    if part(obj, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        ",".join(words),
        ",".join(_roles(part(obj, "metadata").get("labels") or {})) or "<none>",
        object_age(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _roles(labels: View) -> list[str]:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return sorted(roles - {""})


def _address(node: View, kind: str) -> str:
    for address in part(node, "status").get("addresses") or ():
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return "<none>"


def namespace_row(obj: View, now: float) -> Cells:
    return [part(obj, "status").get("phase", ""), object_age(obj, now)]


def config_map_row(obj: View, now: float) -> Cells:
    return [len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), object_age(obj, now)]


def secret_row(obj: View, now: float) -> Cells:
    return [obj.get("type", ""), len(obj.get("data") or ()), object_age(obj, now)]


def quota_row(obj: View, now: float) -> Cells:
    hard, used = part(obj, "status", "hard"), part(obj, "status", "used")
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        (limits if name.startswith("limits.") else requests).append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [", ".join(requests), ", ".join(limits), object_age(obj, now)]


def volume_row(obj: View, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    claim = spec.get("claimRef")
    return [
        part(spec, "capacity").get("storage", "0"),
        _access_modes(spec.get("accessModes") or ()),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        part(obj, "metadata", "annotations").get(_BETA_STORAGE_CLASS) or spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        object_age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def claim_row(obj: View, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    bound = bool(spec.get("volumeName"))
    return [
        _phase(obj),
        spec.get("volumeName", ""),
        part(status, "capacity").get("storage", "0") if bound else "",
        _access_modes(status.get("accessModes") or ()) if bound else "",
        part(obj, "metadata", "annotations").get(_BETA_STORAGE_CLASS) or spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        object_age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _phase(obj: View) -> str:
    if part(obj, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return str(part(obj, "status").get("phase", ""))


def _access_modes(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def event_row(obj: View, now: float) -> Cells:
    """An event in the core group's shape, in which it is kept; its name is the last column, so the row is whole."""
    first = age(obj.get("firstTimestamp") or obj.get("eventTime"), now)
    last = age(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else first
    count = obj.get("count") or 1
    series = obj.get("series")
    if series:
        last, count = age(series.get("lastObservedTime"), now), series.get("count", 0)
    target, source = part(obj, "involvedObject"), part(obj, "source")
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    kind = target.get("kind", "").lower()
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{target['name']}" if target.get("name") else kind,
        target.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (obj.get("message") or "").strip(),
        first,
        count,
        part(obj, "metadata").get("name", ""),
    ]


def lease_row(obj: View, now: float) -> Cells:
    return [part(obj, "spec").get("holderIdentity") or "", object_age(obj, now)]


def priority_class_row(obj: View, now: float) -> Cells:
    return [
        obj.get("value", 0),
        obj.get("globalDefault", False),
        object_age(obj, now),
        obj.get("preemptionPolicy") or "",
    ]


def component_row(obj: View, _now: float) -> Cells:
    for found in obj.get("conditions") or ():
        if found.get("type") == "Healthy":
            word = "Healthy" if found.get("status") == "True" else "Unhealthy"
            return [word, found.get("message", ""), found.get("error", "")]
    return ["Unknown", "", ""]


def runtime_class_row(obj: View, now: float) -> Cells:
    return [obj.get("handler", ""), object_age(obj, now)]


def claimed_devices_row(obj: View, now: float) -> Cells:
    status = part(obj, "status")
    deleted = bool(part(obj, "metadata").get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not deleted:
        states.append("pending")
    return [",".join(states), object_age(obj, now)]


def slice_row(obj: View, now: float) -> Cells:
    spec = part(obj, "spec")
    return [
        spec.get("nodeName") or "",
        spec.get("driver", ""),
        part(spec, "pool").get("name", ""),
        object_age(obj, now),
    ]
