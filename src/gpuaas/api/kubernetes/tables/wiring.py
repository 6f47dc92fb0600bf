"""Rows of what connects and governs: services, ingresses, roles, storage classes and admission."""

from collections.abc import Sequence

from gpuaas.api.durations import human_duration
from gpuaas.api.kubernetes.tables.cells import (
    Cells,
    View,
    columns,
    condition,
    labels_text,
    object_age,
    part,
    selector_cell,
    some,
)

SERVICE_COLUMNS = columns("Type|Cluster-IP|External-IP|Port(s)|Age|+Selector")
ENDPOINTS_COLUMNS = columns("Endpoints|Age")
ENDPOINT_SLICE_COLUMNS = columns("AddressType|Ports|Endpoints|Age")
INGRESS_COLUMNS = columns("Class|Hosts|Address|Ports|Age")
NETWORK_POLICY_COLUMNS = columns("Pod-Selector|Age")
BINDING_COLUMNS = columns("Role|Age|+Users|+Groups|+ServiceAccounts")
STORAGE_CLASS_COLUMNS = columns("Name:string/name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age")
SIGNING_COLUMNS = columns("Age|SignerName|Requestor|RequestedDuration|Condition")
WEBHOOKS_COLUMNS = columns("Webhooks:integer|Age")
VALIDATING_POLICY_COLUMNS = columns("Validations:integer|ParamKind|Age")
MUTATING_POLICY_COLUMNS = columns("Mutations:integer|ParamKind|Age")
POLICY_BINDING_COLUMNS = columns("PolicyName|ParamRef|Age")
API_SERVICE_COLUMNS = columns("Service|Available|Age")


def service_row(obj: View, now: float) -> Cells:
    spec = part(obj, "spec")
    addresses = spec.get("clusterIPs") or ()
    return [
        spec.get("type", ""),
        addresses[0] if addresses else "<none>",
        _external_address(obj),
        ",".join(_port(port) for port in spec.get("ports") or ()) or "<none>",
        object_age(obj, now),
        labels_text(spec.get("selector")),
    ]


def _external_address(obj: View) -> str:
    spec = part(obj, "spec")
    external: Sequence[str] = spec.get("externalIPs") or ()
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or "<none>"
        case "LoadBalancer":
            balanced = _balancer(obj)
            return ",".join([*([balanced] if balanced else []), *external]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return "<unknown>"


def _balancer(obj: View) -> str:
    found = {
        entry.get("ip") or entry.get("hostname") for entry in part(obj, "status", "loadBalancer").get("ingress") or ()
    }
    return ",".join(sorted(found - {None, ""}))


def _port(port: View) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port.get('protocol', '')}"


def endpoints_row(obj: View, now: float) -> Cells:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        hosts = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            found += hosts
        for port in ports:
            found += [f"[{host}]:{port['port']}" if ":" in host else f"{host}:{port['port']}" for host in hosts]
    return [some(found, 3) if obj.get("subsets") else "<none>", object_age(obj, now)]


def endpoint_slice_row(obj: View, now: float) -> Cells:
    ports = [str(port.get("port") or port.get("name") or "*") for port in obj.get("ports") or ()]
    addresses = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return [
        obj.get("addressType", ""),
        some(ports, 3, empty="<unset>"),
        some(addresses, 3, empty="<unset>"),
        object_age(obj, now),
    ]


def ingress_row(obj: View, now: float) -> Cells:
    spec = part(obj, "spec")
    return [
        spec.get("ingressClassName") or "<none>",
        _hosts(spec.get("rules") or ()),
        _balancer(obj),
        "80, 443" if spec.get("tls") else "80",
        object_age(obj, now),
    ]


def _hosts(rules: Sequence[View]) -> str:
    """The first three; every rule after the third host counts as one more, whether it names a host or not."""
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == 3:
            return f"{','.join(hosts)} + {len(rules) - 3} more..."
        if rule.get("host"):
            hosts.append(rule["host"])
    return ",".join(hosts) or "*"


def _with_default(obj: View, *annotations: str) -> str:
    metadata = part(obj, "metadata")
    is_default = any(part(metadata, "annotations").get(annotation) == "true" for annotation in annotations)
    return f"{metadata.get('name', '')} (default)" if is_default else str(metadata.get("name", ""))


def network_policy_row(obj: View, now: float) -> Cells:
    return [selector_cell(part(obj, "spec").get("podSelector")), object_age(obj, now)]


def binding_row(obj: View, now: float) -> Cells:
    role = part(obj, "roleRef")
    subjects = obj.get("subjects") or ()
    accounts = [
        f"{subject.get('namespace', '')}/{subject.get('name', '')}"
        for subject in subjects
        if subject.get("kind") == "ServiceAccount"
    ]
    return [
        f"{role.get('kind', '')}/{role.get('name', '')}",
        object_age(obj, now),
        ", ".join(subject.get("name", "") for subject in subjects if subject.get("kind") == "User"),
        ", ".join(subject.get("name", "") for subject in subjects if subject.get("kind") == "Group"),
        ", ".join(accounts),
    ]


def storage_class_row(obj: View, now: float) -> Cells:
    prefixes = ("storageclass.kubernetes.io", "storageclass.beta.kubernetes.io")
    return [
        _with_default(obj, *(f"{prefix}/is-default-class" for prefix in prefixes)),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        object_age(obj, now),
    ]


def signing_row(obj: View, now: float) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    kinds = {found.get("type") for found in status.get("conditions") or ()}
    word = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    word += ",Failed" if "Failed" in kinds else ""
    word += ",Issued" if status.get("certificate") else ""
    seconds = spec.get("expirationSeconds")
    return [
        object_age(obj, now),
        spec.get("signerName") or "<none>",
        spec.get("username", ""),
        "<none>" if seconds is None else human_duration(seconds),
        word,
    ]


def webhooks_row(obj: View, now: float) -> Cells:
    return [len(obj.get("webhooks") or ()), object_age(obj, now)]


def validating_policy_row(obj: View, now: float) -> Cells:
    return _policy_row(obj, "validations", now)


def mutating_policy_row(obj: View, now: float) -> Cells:
    return _policy_row(obj, "mutations", now)


def _policy_row(obj: View, what: str, now: float) -> Cells:
    spec = part(obj, "spec")
    kind = spec.get("paramKind")
    kind_text = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"
    return [len(spec.get(what) or ()), kind_text, object_age(obj, now)]


def policy_binding_row(obj: View, now: float) -> Cells:
    spec = part(obj, "spec")
    parameters = part(spec, "paramRef")
    text = "<unset>"
    if parameters.get("name"):
        text = f"{parameters.get('namespace') or '*'}/{parameters['name']}"
    return [spec.get("policyName", ""), text, object_age(obj, now)]


def api_service_row(obj: View, now: float) -> Cells:
    service = part(obj, "spec").get("service")
    available = condition(obj, "Available")
    word = available.get("status", "Unknown")
    if available and word != "True" and available.get("reason"):
        word = f"{word} ({available['reason']})"
    return [
        f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local",
        word,
        object_age(obj, now),
    ]
