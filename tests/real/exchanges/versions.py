"""Horizontal autoscalers in their two versions: what the older one cannot say, it carries in annotations."""

from __future__ import annotations

import json
from typing import Any

from tests.real.wire import JSON_PATCH, MERGE, STRATEGIC, TABLE, Wire, case

CARRIED = "autoscaling.alpha.kubernetes.io/"
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
SELECTOR = {
    "matchLabels": {"z": "1", "a": "2"},
    "matchExpressions": [{"key": "k", "operator": "In", "values": ["<&>", "b"]}, {"key": "l", "operator": "Exists"}],
}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
METRICS: list[dict[str, Any]] = [
    CPU,
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1500m"}}},
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}}},
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "memory",
            "container": "c",
            "target": {"type": "AverageValue", "averageValue": "1024Mi"},
        },
    },
    {
        "type": "Pods",
        "pods": {
            "metric": {"name": "rate", "selector": SELECTOR},
            "target": {"type": "AverageValue", "averageValue": "1k"},
        },
    },
    {
        "type": "Object",
        "object": {
            "metric": {"name": "hits"},
            "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "i"},
            "target": {"type": "Value", "value": "2000"},
        },
    },
    {
        "type": "Object",
        "object": {
            "metric": {"name": "hits", "selector": {}},
            "describedObject": {"kind": "Service", "name": "s"},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    },
    {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": 3}}},
    {
        "type": "External",
        "external": {"metric": {"name": "q", "selector": SELECTOR}, "target": {"type": "Value", "value": "0.5"}},
    },
]
BEHAVIOR = {
    "scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}], "stabilizationWindowSeconds": 30},
    "scaleUp": {"selectPolicy": "Disabled", "tolerance": "0.050"},
}
STATUS = {
    "currentReplicas": 2,
    "desiredReplicas": 3,
    "observedGeneration": 4,
    "lastScaleTime": "2026-01-02T03:04:05Z",
    "currentMetrics": [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "12m", "averageUtilization": 40}}},
        {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "1Gi"}}},
        {"type": "Pods", "pods": {"metric": {"name": "rate"}, "current": {"averageValue": "7"}}},
        {
            "type": "Object",
            "object": {
                "metric": {"name": "hits"},
                "describedObject": {"kind": "Service", "name": "s"},
                "current": {"value": "9", "averageValue": "3"},
            },
        },
        {"type": "External", "external": {"metric": {"name": "q"}, "current": {"averageValue": "4"}}},
        {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "container": "c", "current": {"averageUtilization": 5}},
        },
    ],
    "conditions": [
        {"type": "AbleToScale", "status": "True", "reason": "R", "message": "<so>", "lastTransitionTime": None},
        {"type": "ScalingActive", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z"},
    ],
}


def newer(name: str, **spec: Any) -> dict[str, Any]:
    whole = {"scaleTargetRef": DEPLOYMENT, "maxReplicas": 5, **spec}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": whole,
    }


def older(name: str, carried: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """In v1, with what is carried in annotations: text as it is, anything else as JSON."""
    texts = {
        f"{CARRIED}{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in (carried or {}).items()
    }
    made = {**newer(name, **spec), "apiVersion": "autoscaling/v1"}
    return {**made, "metadata": {"name": name, "annotations": {"mine": "1", **texts}}} if carried is not None else made


def paths(w: Wire) -> tuple[str, str]:
    resource = "horizontalpodautoscalers"
    return w.path(resource, "autoscaling/v1"), w.path(resource, "autoscaling/v2")


@case
def autoscalers_written_newer(w: Wire) -> None:
    v1, v2 = paths(w)
    w.post(v2, newer("bare"), fieldManager="ann")
    w.get(f"{v1}/bare")
    w.post(v2, newer("full", metrics=METRICS, behavior=BEHAVIOR), fieldManager="ann")
    w.get(f"{v1}/full")
    w.patch(f"{v2}/full/status", {"status": STATUS}, MERGE, fieldManager="controller")
    w.get(f"{v1}/full")
    w.get(f"{v1}/full", accept=TABLE)
    w.get(v1)
    written = {**newer("said"), "metadata": {"name": "said", "annotations": {f"{CARRIED}metrics": "[]"}}}
    w.post(v2, written, fieldManager="ann")
    written["metadata"]["annotations"] = {f"{CARRIED}{key}": "x" for key in ("behavior", "conditions", "other")}
    w.put(f"{v2}/said", written, fieldManager="ann")
    w.put(f"{v1}/bare", w.get(f"{v1}/bare").json())


@case
def autoscalers_changed_older(w: Wire) -> None:
    v1, v2 = paths(w)
    w.post(v2, newer("full", metrics=METRICS, behavior=BEHAVIOR), fieldManager="ann")
    w.patch(f"{v2}/full/status", {"status": STATUS}, MERGE, fieldManager="controller")
    w.patch(f"{v1}/full", {"spec": {"maxReplicas": 6}}, MERGE, fieldManager="bob")
    w.patch(f"{v1}/full", {"spec": {"targetCPUUtilizationPercentage": 11}}, STRATEGIC, fieldManager="bob")
    w.get(f"{v2}/full")
    w.patch(f"{v1}/full", {"spec": {"targetCPUUtilizationPercentage": None}}, MERGE, fieldManager="bob")
    w.get(f"{v2}/full")
    w.patch(f"{v1}/full", {"metadata": {"annotations": {f"{CARRIED}behavior": None}}}, MERGE, fieldManager="bob")
    w.get(f"{v2}/full")
    live = w.get(f"{v1}/full").json()
    live["status"] = {"currentReplicas": 7, "desiredReplicas": 1, "currentCPUUtilizationPercentage": 90}
    w.put(f"{v1}/full/status", live, fieldManager="controller")
    live["metadata"].pop("annotations", None)
    live["metadata"].pop("resourceVersion")
    w.put(f"{v1}/full/status", live, fieldManager="controller")
    w.get(f"{v2}/full")
    w.put(f"{v1}/full", live, fieldManager="bob")
    w.get(f"{v2}/full")
    path = f"/metadata/annotations/{CARRIED.replace('/', '~1')}metrics"
    w.patch(f"{v1}/full", [{"op": "remove", "path": path}], JSON_PATCH)


@case
def autoscalers_written_older(w: Wire) -> None:
    v1, v2 = paths(w)
    memory = {"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 70}}
    rates = {"type": "Pods", "pods": {"metricName": "rate", "targetAverageValue": "1000m", "selector": SELECTOR}}
    hits = {"target": {"kind": "Service", "name": "s"}, "metricName": "hits", "targetValue": "2k"}
    thing = {"type": "Object", "object": {**hits, "averageValue": "5"}}
    zero = {"type": "Object", "object": {**hits, "targetValue": "0", "averageValue": "5"}}
    queue = {"type": "External", "external": {"metricName": "q", "targetValue": 3, "unknown": 1}}
    box = {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c"}}
    percent = {"Type": "Percent", "Value": 10, "PeriodSeconds": 15}
    stories: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
        "bare": (None, {}),
        "cpu": (None, {"targetCPUUtilizationPercentage": 33}),
        "some": ({"metrics": [memory, rates, thing, zero, queue]}, {}),
        "both": ({"metrics": [memory]}, {"targetCPUUtilizationPercentage": 33}),
        "loose": ({"metrics": '[{"TYPE":"Resource","Resource":{"NAME":"memory","targetaverageutilization":7}}]'}, {}),
        "empty": ({"metrics": []}, {}),
        "nothing": ({"metrics": "null", "behavior": "null"}, {}),
        "no-json": ({"metrics": "[{", "behavior": "{"}, {"targetCPUUtilizationPercentage": 33}),
        "wrong-type": ({"metrics": [memory, {"type": 7}]}, {}),
        "wrong-number": ({"metrics": [{"type": "Resource", "resource": {"targetAverageUtilization": 7.5}}]}, {}),
        "wrong-amount": ({"metrics": [{"type": "External", "external": {"targetValue": "x"}}]}, {}),
        "unnamed": ({"metrics": [box, {"type": "Pods"}, None, {"type": "Object", "object": {}}]}, {}),
        "behaves": ({"behavior": {"ScaleUp": {"SelectPolicy": "Min", "Policies": [percent], "Tolerance": "0.10"}}}, {}),
        "behaves-so": ({"behavior": {"scaleup": None, "scaledown": {"policies": [percent], "x": 1}}}, {}),
        "impolite": ({"behavior": {"ScaleUp": {"SelectPolicy": "Min"}}}, {}),
        "behaves-not": ({"behavior": {}}, {}),
        "status": ({"conditions": [{"type": "A", "status": "True"}], "current-metrics": [], "other": "x"}, {}),
        "tolerant": ({"scale-up-tolerance": "0.1", "scale-down-tolerance": "x"}, {}),
    }
    for name, (carried, spec) in stories.items():
        w.post(v1, older(name, carried, **spec), fieldManager="ann")
        w.get(f"{v1}/{name}")
        w.get(f"{v2}/{name}")
    statuses = [
        {"current-metrics": STATUS["conditions"], "conditions": STATUS["currentMetrics"]},
        {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05+01:00"}]},
        {"conditions": [{"type": "A", "lastTransitionTime": "yesterday"}], "current-metrics": "null"},
        {
            "current-metrics": [
                {"type": "External", "external": {"metricName": "q"}},
                {"type": "Object", "object": hits},
            ]
        },
        {
            "current-metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "currentAverageUtilization": 5}},
                memory,
            ]
        },
    ]
    for carried in statuses:
        whole = {**older("bare", carried), "status": {"currentReplicas": 1, "currentCPUUtilizationPercentage": 80}}
        w.put(f"{v1}/bare/status", whole, fieldManager="controller")
        w.get(f"{v2}/bare")


@case
def autoscalers_applied_in_two_versions(w: Wire) -> None:
    v1, v2 = paths(w)
    memory = [{"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 70}}]
    w.apply(f"{v2}/a", newer("a", metrics=METRICS[:3], behavior=BEHAVIOR), "ann")
    w.apply(f"{v1}/a", older("a", {}), "bob")
    w.apply(f"{v1}/a", older("a", {"metrics": memory}), "bob")
    w.apply(f"{v1}/a", older("a", {"metrics": memory}), "bob", force="true")
    w.get(f"{v2}/a")
    w.apply(f"{v2}/a", newer("a", metrics=METRICS[:1]), "ann")
    w.apply(f"{v2}/a", newer("a", metrics=METRICS[:1]), "ann", force="true")
    w.apply(f"{v1}/a", older("a", {}), "bob")
    w.apply(f"{v1}/a", older("a", {}, targetCPUUtilizationPercentage=9), "bob", force="true")
    w.get(f"{v2}/a")
    w.apply(f"{v1}/b", older("b", {"metrics": memory}, targetCPUUtilizationPercentage=9), "ann")
    w.apply(f"{v1}/b", older("b", {"metrics": memory}), "ann")
    w.apply(f"{v2}/b", newer("b", metrics=METRICS[:2], maxReplicas=7), "bob", force="true")
    w.apply(f"{v1}/b", older("b", {}), "ann")
    w.apply(f"{v2}/b", newer("b", metrics=METRICS[:2], maxReplicas=7), "ann", force="true")
    w.get(f"{v1}/b")
    w.apply(f"{v2}/b", newer("b"), "ann")
    carried = {**newer("b"), "metadata": {"name": "b", "annotations": {f"{CARRIED}metrics": "[]", "n": "1"}}}
    w.apply(f"{v2}/b", carried, "ann")


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def crd(plural: str, kind: str, group: str, **more: Any) -> dict[str, Any]:
    names = {"plural": plural, "kind": kind, "listKind": f"{plural}List", **more}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": names,
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": spec,
    }


def _told(w: Wire, name: str, kind: str, status: str) -> bool:
    found = w.prepare("GET", f"{CRDS}/{name}").json()
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == status for each in conditions)


@case
def kinds_of_one_name(w: Wire) -> None:
    """Who has a name keeps it; who wants it waits. Statuses are looked at when the controllers have written them."""
    group = "names.example.org"
    w.prepare("POST", CRDS, crd("mugs", "Mug", group, shortNames=["mg", "m"]))
    w.until(lambda: _told(w, f"mugs.{group}", "Established", "True"))
    for plural, kind, more in (
        ("jugs", "Mug", {"shortNames": ["mg", "j", "m"], "categories": ["all"]}),
        ("cups", "Cup", {"shortNames": ["m"]}),
        ("cans", "mugsList", {"singular": "mug"}),
    ):
        w.prepare("POST", CRDS, crd(plural, kind, group, **more))
        w.until(lambda plural=plural: _told(w, f"{plural}.{group}", "NamesAccepted", "False"))  # type: ignore[misc]
        w.get(f"{CRDS}/{plural}.{group}")
        w.get(f"/apis/{group}/v1/{plural}")
    w.prepare("PATCH", f"{CRDS}/mugs.{group}", {"spec": {"names": {"shortNames": ["mg"]}}}, MERGE)
    w.until(lambda: _told(w, f"cups.{group}", "Established", "True"))
    w.get(f"{CRDS}/cups.{group}")
    w.prepare("PATCH", f"{CRDS}/cups.{group}", {"spec": {"names": {"shortNames": ["mg", "c"]}}}, MERGE)
    w.until(lambda: _told(w, f"cups.{group}", "NamesAccepted", "False"))
    w.get(f"{CRDS}/cups.{group}")
    resources = w.prepare("GET", f"/apis/{group}/v1").json()["resources"]
    w.note("what cups are called", body=json.dumps(next(each for each in resources if each["name"] == "cups")))
    w.prepare("DELETE", f"{CRDS}/cans.{group}")
    w.until(lambda: w.prepare("GET", f"{CRDS}/cans.{group}").status == 404)
    w.prepare("DELETE", f"{CRDS}/mugs.{group}")
    w.until(lambda: _told(w, f"jugs.{group}", "Established", "True"))
    w.get(f"{CRDS}/jugs.{group}")
    for plural in ("jugs", "cups"):
        w.prepare("DELETE", f"{CRDS}/{plural}.{group}")


@case
def kinds_that_somebody_approved(w: Wire) -> None:
    group, kind = "approval.example.k8s.io", "KubernetesAPIApprovalPolicyConformant"
    w.post(CRDS, crd("mugs", "Mug", group))
    for plural, said in (
        ("a", "https://example.org/x"),
        ("b", "unapproved"),
        ("c", 'unapproved, \t"so"'),
        ("d", "http://h?q"),
        ("e", "nobody"),
        ("f", "http:///x"),
        ("g", "//h/x"),
        ("h", "x:y"),
        ("i", ""),
        ("j", "http://a b"),
        ("k", "1x://h"),
    ):
        made = crd(plural, plural.upper(), group)
        made["metadata"]["annotations"] = {"api-approved.kubernetes.io": said}
        w.post(CRDS, made, dryRun="All")
        if w.prepare("POST", CRDS, made).status == 201:
            w.until(lambda plural=plural: any(_told(w, f"{plural}.{group}", kind, each) for each in ("True", "False")))  # type: ignore[misc]
            w.until(lambda plural=plural: _told(w, f"{plural}.{group}", "Established", "True"))  # type: ignore[misc]
            found = w.prepare("GET", f"{CRDS}/{plural}.{group}").json()["status"]["conditions"]
            said = next(
                f"{each['status']} {each['reason']} {each['message']}" for each in found if each["type"] == kind
            )
            w.note(plural, body=said)
            w.prepare("DELETE", f"{CRDS}/{plural}.{group}")
