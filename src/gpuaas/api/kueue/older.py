"""The schemas of v1beta1, said as differences from v1beta2.

v1beta1 is served for old manifests and always converted (`conversion`), so it has no types of its own: `older_schema`
takes the v1beta2 schema and applies the kind's table. An entry names a place (`spec.podSets[].count`) and gives the
keywords that differ there (None takes one away); `GONE` takes the field out, `New` puts one in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuaas.api.crds import Part, schema_of
from gpuaas.api.kinds import Object
from gpuaas.api.kueue.quotas import SUBDOMAIN, TOLERATION_RULES, LocalQueueStatus
from gpuaas.api.kueue.workloads import QUEUE_AND_TIME_RULES, SAME_NUMBER_RULE, WAS_RESERVED

RULES, LIST, KEYS = "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"

GONE = "gone"


@dataclass(frozen=True, slots=True)
class New:
    schema: Mapping[str, Any]


Edits = Mapping[str, "Mapping[str, Any] | New | str"]


def older_schema(kind: type[Part], edits: Edits) -> Object:
    schema = schema_of(kind)
    for place, edit in edits.items():
        schema = _edited(schema, _steps(place), edit)
    return schema


def _steps(place: str) -> list[str]:
    return place.replace("[]", ".[]").split(".") if place else []


def _edited(schema: Object, steps: list[str], edit: Mapping[str, Any] | New | str) -> Object:
    if not steps:
        assert isinstance(edit, Mapping)
        changed = {**schema, **edit}
        return {key: value for key, value in changed.items() if value is not None}
    step, rest = steps[0], steps[1:]
    if step == "[]":
        return {**schema, "items": _edited(schema["items"], rest, edit)}
    properties = dict(schema["properties"])
    if rest:
        properties[step] = _edited(properties[step], rest, edit)
    elif isinstance(edit, New):
        properties[step] = edit.schema
    elif isinstance(edit, str):
        del properties[step]
    else:
        properties[step] = _edited(properties[step], rest, edit)
    return {**schema, "properties": dict(sorted(properties.items()))}


def _rules(*rules: tuple[str, str]) -> list[Object]:
    return [{"message": message, "rule": rule} for rule, message in rules]


_UNLIMITED: Object = {"maxItems": None}
_ANY_STRING: Object = {"maxLength": None, "minLength": None}
_PLAIN_LIST: Object = {LIST: None, KEYS: None, "maxItems": None, "minItems": None}
_REFERENCE: Object = {"type": "string", "maxLength": 253, "pattern": SUBDOMAIN}
_STRING: Object = {"type": "string"}
# In v1beta1 the fair sharing status was one type for all three kinds.
_SHARED_FAIR_SHARING = New(
    schema_of(LocalQueueStatus)["properties"]["fairSharing"]["properties"]["admissionFairSharingStatus"]
)

COHORT: Edits = {
    "spec.resourceGroups[].coveredResources": {LIST: None},
    "status.fairSharing.admissionFairSharingStatus": _SHARED_FAIR_SHARING,
}

CLUSTER_QUEUE: Edits = {
    **COHORT,
    "spec": {
        RULES: _rules(
            (
                "!has(self.cohort) && has(self.resourceGroups) ? self.resourceGroups.all(rg, rg.flavors.all(f,"
                " f.resources.all(r, !has(r.borrowingLimit)))) : true",
                "borrowingLimit must be nil when cohort is empty",
            )
        )
    },
    "spec.cohortName": GONE,
    "spec.cohort": New(_REFERENCE),
    "spec.concurrentAdmissionPolicy": GONE,
    "spec.admissionChecks": New({"type": "array", "items": {"type": "string", "maxLength": 316}}),
    "spec.admissionChecksStrategy": {"required": None},
    "spec.admissionChecksStrategy.admissionChecks": _PLAIN_LIST,
    "spec.admissionChecksStrategy.admissionChecks[].name": {"minLength": None},
    "spec.admissionChecksStrategy.admissionChecks[].onFlavors": _PLAIN_LIST,
    "spec.admissionScope.admissionMode": {"enum": None},
    "spec.flavorFungibility.whenCanBorrow": {"enum": ["MayStopSearch", "TryNextFlavor", "Borrow"]},
    "spec.flavorFungibility.whenCanPreempt": {"enum": ["MayStopSearch", "TryNextFlavor", "Preempt"]},
    "status.conditions": _UNLIMITED,
    "status.pendingWorkloadsStatus": New(
        {
            "type": "object",
            "required": ["lastChangeTime"],
            "properties": {
                "clusterQueuePendingWorkload": {
                    "type": "array",
                    LIST: "atomic",
                    "items": {
                        "type": "object",
                        "required": ["name", "namespace"],
                        "properties": {"name": _STRING, "namespace": _STRING},
                    },
                },
                "lastChangeTime": {"type": "string", "format": "date-time"},
            },
        }
    ),
}

_TAINT: Object = {
    "type": "object",
    "required": ["effect", "key"],
    "properties": {
        "effect": _STRING,
        "key": _STRING,
        "timeAdded": {"type": "string", "format": "date-time"},
        "value": _STRING,
    },
}
LOCAL_QUEUE: Edits = {
    "status.conditions": _UNLIMITED,
    "status.flavorsUsage": GONE,
    "status.flavorUsage": New(schema_of(LocalQueueStatus)["properties"]["flavorsUsage"]),
    "status.flavors": New(
        {
            "type": "array",
            "maxItems": 64,
            LIST: "map",
            KEYS: ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": _REFERENCE,
                    "nodeLabels": {
                        "type": "object",
                        "additionalProperties": _STRING,
                        "maxProperties": 8,
                        "x-kubernetes-map-type": "atomic",
                    },
                    "nodeTaints": {"type": "array", "maxItems": 8, LIST: "atomic", "items": _TAINT},
                    "resources": {"type": "array", "maxItems": 64, LIST: "set", "items": _STRING},
                    "topology": {
                        "type": "object",
                        "required": ["levels", "name"],
                        "properties": {
                            "levels": {
                                "type": "array",
                                "minItems": 1,
                                "maxItems": 16,
                                LIST: "atomic",
                                "items": _STRING,
                            },
                            "name": _REFERENCE,
                        },
                    },
                },
            },
        }
    ),
}

ADMISSION_CHECK: Edits = {
    "spec.controllerName": _ANY_STRING,
    "spec.parameters.apiGroup": {"minLength": None},
    "spec.parameters.kind": {"minLength": None},
    "spec.parameters.name": {"minLength": None},
    "spec.retryDelayMinutes": New({"type": "integer", "format": "int64", "default": 15}),
    "status.conditions": _UNLIMITED,
}

MULTI_KUEUE_CONFIG: Edits = {
    "spec.clusters": {LIST: "set", RULES: None},
    "spec.clusters[]": {"maxLength": None},
    "spec.quotaManagement": GONE,
}

MULTI_KUEUE_CLUSTER: Edits = {
    "spec": {"required": ["kubeConfig"]},
    "spec.clusterSource": GONE,
    "spec.clusterProfileRef": New(
        {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 256}},
        }
    ),
    "spec.kubeConfig": New(
        {
            "type": "object",
            "required": ["location", "locationType"],
            "properties": {
                "location": _STRING,
                "locationType": {"type": "string", "enum": ["Secret", "Path"], "default": "Secret"},
            },
        }
    ),
    "status.conditions": _UNLIMITED,
}

PRIORITY_CLASS: Edits = {"description": {"maxLength": None}}

PROVISIONING: Edits = {
    "spec.provisioningClassName": {"minLength": None},
    "spec.podSetUpdates.nodeSelector": {LIST: None, KEYS: None},
}

_BOTH_SOURCES = "has(oldSelf.spec.priorityClassSource) && has(self.spec.priorityClassSource)"
_TOPOLOGY_STRINGS = (
    "podIndexLabel",
    "podSetGroupName",
    "podSetSliceRequiredTopology",
    "preferred",
    "required",
    "subGroupIndexLabel",
)
_DOMAIN: Object = {
    "type": "object",
    "required": ["count", "values"],
    "properties": {
        "count": {"type": "integer", "format": "int32", "minimum": 1},
        "values": {"type": "array", "minItems": 1, "maxItems": 16, LIST: "atomic", "items": _STRING},
    },
}
_ASSIGNMENTS = "status.admission.podSetAssignments[]"
_POD_UPDATES = "status.admissionChecks[].podSetUpdates[]"

WORKLOAD: Edits = {
    "": {
        RULES: _rules(
            SAME_NUMBER_RULE,
            (
                f"({WAS_RESERVED} && {_BOTH_SOURCES}) ? (oldSelf.spec.priorityClassSource =="
                " self.spec.priorityClassSource) : true",
                "priorityClassSource is immutable while workload quota reserved",
            ),
            (
                f"({WAS_RESERVED} && {_BOTH_SOURCES} && (self.spec.priorityClassSource !="
                " 'kueue.x-k8s.io/workloadpriorityclass') && has(oldSelf.spec.priorityClassName) &&"
                " has(self.spec.priorityClassName)) ? (oldSelf.spec.priorityClassName == self.spec.priorityClassName)"
                " : true",
                "priorityClassName is immutable while workload quota reserved and priorityClassSource is not equal to"
                " kueue.x-k8s.io/workloadpriorityclass",
            ),
            *QUEUE_AND_TIME_RULES,
        )
    },
    "spec": {
        "required": ["podSets"],
        RULES: _rules(
            (
                "has(self.priorityClassName) ? has(self.priority) : true",
                "priority should not be nil when priorityClassName is set",
            )
        ),
    },
    "spec.priorityClassRef": GONE,
    "spec.priorityClassName": New(_REFERENCE),
    "spec.priorityClassSource": New(
        {
            "type": "string",
            "default": "",
            "enum": ["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""],
        }
    ),
    "spec.preemptionGates": GONE,
    "spec.podSets[]": {"required": ["count", "template"]},
    **{f"spec.podSets[].topologyRequest.{name}": _ANY_STRING for name in _TOPOLOGY_STRINGS},
    "spec.podSets[].topologyRequest.podsetSliceRequiredTopologyConstraints": GONE,
    "status.accumulatedPastExecutionTimeSeconds": GONE,
    "status.accumulatedPastExexcutionTimeSeconds": New({"type": "integer", "format": "int32"}),
    "status.admission": {"required": ["clusterQueue", "podSetAssignments"]},
    _ASSIGNMENTS: {"required": ["name"]},
    f"{_ASSIGNMENTS}.delayedTopologyRequest": {"enum": None, "maxLength": None},
    f"{_ASSIGNMENTS}.topologyAssignment": {"required": ["domains", "levels"], RULES: None},
    f"{_ASSIGNMENTS}.topologyAssignment.slices": GONE,
    f"{_ASSIGNMENTS}.topologyAssignment.domains": New({"type": "array", "items": _DOMAIN}),
    f"{_ASSIGNMENTS}.topologyAssignment.levels[]": {"maxLength": None},
    "status.admissionChecks[].name": {"minLength": None},
    f"{_POD_UPDATES}.tolerations": {LIST: None, RULES: _rules(*TOLERATION_RULES)},
    "status.clusterName": _ANY_STRING,
    "status.conditions": _UNLIMITED,
    "status.nominatedClusterNames[]": {"maxLength": None},
    "status.preemptionGates": GONE,
    "status.schedulingStats.evictions": _UNLIMITED,
    "status.unhealthyNodes": _PLAIN_LIST,
    "status.unhealthyNodes[].name": {"maxLength": None},
}
