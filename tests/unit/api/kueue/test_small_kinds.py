"""Checks, MultiKueue, topologies and priority classes: what their schemas refuse, and how v1beta1 differs."""

from typing import Any

import pytest


def obj(kind: str, version: str = "v1beta2", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, **fields}


def levels(*labels: str) -> dict[str, Any]:
    return obj("Topology", spec={"levels": [{"nodeLabel": label} for label in labels]})


def cluster(**source: Any) -> dict[str, Any]:
    return obj("MultiKueueCluster", spec={"clusterSource": source})


HOST = "kubernetes.io/hostname"
KUBECONFIG = {"location": "worker-1"}

WRITES: dict[str, tuple[dict[str, Any], str]] = {
    "hosts may be the lowest level": (levels("cloud/block", HOST), ""),
    "and only the lowest": (
        levels(HOST, "cloud/block"),
        "the kubernetes.io/hostname label can only be used at the lowest level of topology",
    ),
    "levels differ": (levels("a", "a"), "must be unique"),
    "a topology has a level": (
        levels(),
        "spec.levels: Invalid value: 0: spec.levels in body should have at least 1 items",
    ),
    "a cluster is reached by a kubeconfig": (cluster(kubeConfig=KUBECONFIG), ""),
    "or by a profile": (cluster(clusterProfileRef={"name": "p"}), ""),
    "not by both": (
        cluster(kubeConfig=KUBECONFIG, clusterProfileRef={"name": "p"}),
        "exactly one of the fields in [kubeConfig clusterProfileRef] must be set",
    ),
    "nor by neither": (cluster(), "exactly one of the fields in [kubeConfig clusterProfileRef] must be set"),
    "the v1beta1 shape in v1beta2 is missed by name": (
        obj("MultiKueueCluster", spec={"kubeConfig": KUBECONFIG}),
        "spec.clusterSource: Required value",
    ),
    "a config names each cluster once": (
        obj("MultiKueueConfig", spec={"clusters": ["a", "b", "a"]}),
        "must be unique",
    ),
    "a config names a cluster": (obj("MultiKueueConfig", spec={"clusters": []}), "should have at least 1 items"),
    "a priority class has a value": (obj("WorkloadPriorityClass"), "value: Required value"),
    "a priority is a 32-bit number": (obj("WorkloadPriorityClass", value=100), ""),
    "a check has a controller": (obj("AdmissionCheck", spec={}), "spec.controllerName: Required value"),
    "v1beta1 needs a kubeconfig location type": (
        obj("MultiKueueCluster", "v1beta1", spec={"kubeConfig": KUBECONFIG}),
        "",
    ),
}


@pytest.mark.parametrize(("write", "refusal"), WRITES.values(), ids=WRITES)
def test_writes(write: dict[str, Any], refusal: str, answer: Any) -> None:
    found = answer(write)
    assert refusal in found if refusal else not found


UPDATES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the levels of a topology": (levels("a"), levels("a", "b")),
    "the controller of a check": (
        obj("AdmissionCheck", spec={"controllerName": "a"}),
        obj("AdmissionCheck", spec={"controllerName": "b"}),
    ),
}


@pytest.mark.parametrize(("old", "new"), UPDATES.values(), ids=UPDATES)
def test_is_immutable(old: dict[str, Any], new: dict[str, Any], answer: Any) -> None:
    assert "field is immutable" in answer(new, old)
