"""Who a pod of a stateful set is: its name, its host name, its claims, and who owns those claims."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS, STATEFUL_SETS
from gpuaas.runtime.metadata import controller_reference, labels_of, owners_of, uid_of
from gpuaas.runtime.pods import pod_from_template

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
REVISION = "controller-revision-hash"
_NAME = re.compile(r"(.*)-([0-9]+)")

Set = Mapping[str, Any]


def ordinal_of(pod: Mapping[str, Any]) -> int:
    """-1 for a name that is not of the form `parent-number`."""
    found = _NAME.fullmatch(pod["metadata"]["name"])
    return int(found.group(2)) if found else -1


def is_member(stateful_set: Set, pod: Mapping[str, Any]) -> bool:
    found = _NAME.fullmatch(pod["metadata"]["name"])
    return found is not None and found.group(1) == stateful_set["metadata"]["name"]


def replicas_of(stateful_set: Set) -> int:
    replicas = stateful_set["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def start_of(stateful_set: Set) -> int:
    return int((stateful_set["spec"].get("ordinals") or {}).get("start") or 0)


def in_range(stateful_set: Set, pod: Mapping[str, Any]) -> bool:
    start = start_of(stateful_set)
    return start <= ordinal_of(pod) < start + replicas_of(stateful_set)


def revision_of(pod: Mapping[str, Any]) -> str:
    return labels_of(pod).get(REVISION, "")


def new_pod(stateful_set: Set, template: Mapping[str, Any], revision: str, ordinal: int) -> Object:
    pod = pod_from_template(template, stateful_set, STATEFUL_SETS)
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    metadata = pod["metadata"]
    metadata["name"] = name
    metadata["labels"] = {**(metadata.get("labels") or {}), **_identity(name, ordinal), REVISION: revision}
    pod["spec"]["hostname"] = name
    if stateful_set["spec"].get("serviceName"):
        pod["spec"]["subdomain"] = stateful_set["spec"]["serviceName"]
    volumes = with_claims(stateful_set, ordinal, pod["spec"].get("volumes") or ())
    if volumes:
        pod["spec"]["volumes"] = volumes
    return pod


def mended(stateful_set: Set, pod: Mapping[str, Any]) -> Object | None:
    """The identity labels of the pod, where they were changed."""
    ordinal = ordinal_of(pod)
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    return None if labels_of(pod).get(POD_NAME) == name else {"metadata": {"labels": _identity(name, ordinal)}}


def with_claims(stateful_set: Set, ordinal: int, volumes: Sequence[Object]) -> list[Object]:
    """The claims as volumes; a volume of the template under the same name gives way."""
    templates = stateful_set["spec"].get("volumeClaimTemplates") or ()
    claimed = [
        {
            "name": one["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(stateful_set, one, ordinal)},
        }
        for one in templates
    ]
    names = {one["name"] for one in claimed}
    return [*claimed, *(one for one in volumes if one["name"] not in names)]


def claims_of(stateful_set: Set, ordinal: int) -> list[Object]:
    """The claims a pod of this ordinal needs."""
    selected = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
    made = []
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        metadata: Object = {
            "name": claim_name(stateful_set, template, ordinal),
            "namespace": stateful_set["metadata"]["namespace"],
            "labels": {**(template["metadata"].get("labels") or {}), **selected},
        }
        if template["metadata"].get("annotations"):
            metadata["annotations"] = dict(template["metadata"]["annotations"])
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}
        made.append(claim)
    return made


def claim_name(stateful_set: Set, template: Mapping[str, Any], ordinal: int) -> str:
    return f"{template['metadata']['name']}-{stateful_set['metadata']['name']}-{ordinal}"


def claim_owners(stateful_set: Set, pod: Mapping[str, Any], claim: Mapping[str, Any]) -> list[Object] | None:
    """The owner references the retention policy wants on a claim; None where they are right or not ours to touch."""
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    with_set = policy.get("whenDeleted") == "Delete"
    with_pod = policy.get("whenScaled") == "Delete"
    known = list(owners_of(claim))
    if any(_is_stale(one, stateful_set, "StatefulSet") or _is_stale(one, pod, "Pod") for one in known):
        return None
    ours = {uid_of(stateful_set), uid_of(pod)}
    others = [one for one in known if one["uid"] not in ours]
    if (with_set or with_pod) and any(one.get("controller") for one in others):
        return others if len(others) != len(known) else None
    condemned = not in_range(stateful_set, pod)
    wanted = list(others)
    if with_set and not (with_pod and condemned):
        wanted.append(controller_reference(stateful_set, STATEFUL_SETS))
    if with_pod and condemned:
        wanted.append(controller_reference(pod, PODS))
    return wanted if wanted != known else None


def _is_stale(reference: Mapping[str, Any], obj: Mapping[str, Any], kind: str) -> bool:
    if reference["kind"] != kind or reference["name"] != obj["metadata"]["name"]:
        return False
    return bool(reference["uid"] != uid_of(obj))


def _identity(name: str, ordinal: int) -> dict[str, str]:
    return {POD_NAME: name, POD_INDEX: str(ordinal)}
