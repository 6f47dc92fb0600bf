"""Kinds that nothing acts on: they get their defaults and are stored as their schema allows; autoscalers in two versions."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import changed, made, refused

from gpuaas.api.kubernetes.autoscalers import convert_autoscaler

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}


def _object(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, **fields}


STORED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (_object("v1", "PersistentVolumeClaim", spec={}), {"status": {"phase": "Pending"}}),
    (_object("v1", "PersistentVolume", spec={}), {"status": {"phase": "Pending"}}),
    (
        _object("storage.k8s.io/v1", "StorageClass", provisioner="x"),
        {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    ),
    (
        _object("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}}),
        {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
    ),
    (_object("networking.k8s.io/v1", "Ingress", spec={}), {}),
    (_object("networking.k8s.io/v1", "IngressClass", spec={"controller": "plain"}), {}),
    (_object("discovery.k8s.io/v1", "EndpointSlice", ports=[{}]), {"ports": [{"name": "", "protocol": "TCP"}]}),
    (_object("autoscaling/v2", "HorizontalPodAutoscaler", spec={"maxReplicas": -1, "metrics": [MEMORY]}), {}),
    (_object("networking.k8s.io/v1", "ServiceCIDR", spec={"cidrs": ["somewhere"]}), {}),
    (_object("networking.k8s.io/v1", "IPAddress", spec={}), {}),
    (
        _object("apiregistration.k8s.io/v1", "APIService", spec={"service": {}}),
        {"spec": {"service": {"port": 443}, "groupPriorityMinimum": 0, "versionPriority": 0}},
    ),
]


@pytest.mark.parametrize(("sent", "defaults"), STORED, ids=[sent["kind"] for sent, _ in STORED])
def test_it_is_stored_with_its_defaults_and_may_be_changed(sent: dict[str, Any], defaults: dict[str, Any]) -> None:
    assert refused(sent) == []
    obj = made(sent)
    assert {key: value for key, value in obj.items() if key in defaults} | defaults == {
        key: obj[key] for key in defaults
    }
    assert changed(sent, {"metadata": {"labels": {"a": "b"}}})[1] == []


def _autoscaler(version: str, **spec: Any) -> dict[str, Any]:
    whole = {"maxReplicas": 3, **spec}
    return _object(f"autoscaling/{version}", "HorizontalPodAutoscaler", metadata={"name": "a"}, spec=whole)


def test_the_older_version_of_an_autoscaler_has_its_cpu_target_only() -> None:
    newer = _autoscaler("v2", metrics=[MEMORY, CPU], behavior={})
    assert convert_autoscaler(newer, "v1") == _autoscaler("v1", targetCPUUtilizationPercentage=50)
    assert convert_autoscaler(_autoscaler("v2", metrics=[MEMORY]), "v1") == _autoscaler("v1")
    assert convert_autoscaler(_autoscaler("v1", targetCPUUtilizationPercentage=50), "v2") == _autoscaler(
        "v2", metrics=[CPU]
    )
    status = {"desiredReplicas": 2, "currentMetrics": None, "conditions": []}
    shown = convert_autoscaler({**newer, "status": status}, "v1")["status"]
    assert shown == {"currentReplicas": 0, "desiredReplicas": 2}
