"""Whom a node's kubelet turns away that somebody put there past the scheduler, and in which words."""

from typing import Any

import pytest

from gpuaas.nodefit.admit import rejection
from gpuaas.nodefit.book import place_of, read_pod

GPU = "nvidia.com/gpu"
NOT_THERE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}]}


def node(**more: Any) -> Any:
    amounts = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "2", GPU: "4", "example.com/card": "1"}
    return {
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": more,
        "status": {"allocatable": amounts},
    }


def pod(*containers: dict[str, str], init: tuple[Any, ...] = (), uid: str = "p", **spec: Any) -> Any:
    made = [_container(f"c{index}", amounts) for index, amounts in enumerate(containers or ({},))]
    before = [{**_container(f"i{index}", amounts), **more} for index, (amounts, more) in enumerate(init)]
    return {"metadata": {"name": uid, "uid": uid}, "spec": {"containers": made, "initContainers": before, **spec}}


def _container(name: str, amounts: dict[str, str]) -> Any:
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}}


def port(number: int) -> Any:
    return pod(containers=[{"name": "c", "ports": [{"containerPort": number, "hostPort": number}]}], uid=f"p{number}")


OTHER = pod({"cpu": "1500m", "memory": "6Gi", GPU: "2"}, uid="other")

CASES: list[tuple[str, Any, list[Any], str]] = [
    ("fits", pod({"cpu": "2500m", "memory": "2Gi", GPU: "2"}), [OTHER], ""),
    (
        "cpu in thousandths",
        pod({"cpu": "3", "memory": "3Gi"}),
        [OTHER],
        "OutOfcpu: Node didn't have enough resource: cpu, requested: 3000, used: 1500, capacity: 4000",
    ),
    (
        "memory in bytes",
        pod({"cpu": "1", "memory": "3Gi"}),
        [OTHER],
        "OutOfmemory: Node didn't have enough resource: memory, "
        "requested: 3221225472, used: 6442450944, capacity: 8589934592",
    ),
    (
        "room for pods comes first",
        pod({"cpu": "99"}),
        [OTHER, pod(uid="third")],
        "OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2",
    ),
    (
        "an amount before where it wants to be",
        pod({"example.com/card": "2"}, nodeSelector={"zone": "b"}),
        [],
        "OutOfexample.com/card: Node didn't have enough resource: example.com/card, requested: 2, used: 0, capacity: 1",
    ),
    ("what no node is known to have is let pass", pod({"example.com/other": "2"}), [], ""),
    (
        "devices before everything",
        pod({GPU: "3", "cpu": "99"}),
        [OTHER],
        "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
        "Requested: 3, Available: 2, which is unexpected",
    ),
    (
        "devices by the container",
        pod({GPU: "2"}, {GPU: "3"}),
        [],
        "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
        "Requested: 3, Available: 2, which is unexpected",
    ),
    ("init containers leave theirs", pod({GPU: "2"}, {GPU: "2"}, init=(({GPU: "4"}, {}),)), [], ""),
    (
        "sidecars do not",
        pod({GPU: "4"}, init=(({GPU: "1"}, {"restartPolicy": "Always"}),)),
        [],
        "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
        "Requested: 4, Available: 3, which is unexpected",
    ),
    (
        "node selector",
        pod(nodeSelector={"zone": "b"}),
        [],
        "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    ),
    (
        "node affinity",
        pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": NOT_THERE}}),
        [],
        "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    ),
    (
        "ports",
        port(80),
        [port(80)],
        "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
    ),
]


@pytest.mark.parametrize(("asked", "others", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_whom_a_kubelet_turns_away(asked: Any, others: list[Any], words: str) -> None:
    found = rejection(read_pod(asked), place_of(node(), others), [GPU])
    assert ("" if found is None else f"{found.reason}: {found.message}") == words


@pytest.mark.parametrize(
    ("effect", "tolerations", "words"),
    [
        ("NoExecute", [], "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"),
        ("NoExecute", [{"key": "broken", "operator": "Exists", "tolerationSeconds": 5}], ""),
        ("NoSchedule", [], ""),
    ],
)
def test_only_a_taint_that_ends_pods_keeps_them_away(effect: str, tolerations: list[Any], words: str) -> None:
    tainted = node(taints=[{"key": "broken", "effect": effect}], unschedulable=True)
    found = rejection(read_pod(pod(tolerations=tolerations)), place_of(tainted, []))
    assert ("" if found is None else found.message) == words
