"""Which pods make a unit, which of a group count, and what is said of them."""

from typing import Any

import pytest

from gpuaas.kueue.integrations import pod_groups, pod_rules
from gpuaas.kueue.integrations.integration import CannotCompose
from gpuaas.kueue.integrations.pods import Pods, can_run, holds_quota, role_hash, started, unit
from gpuaas.kueue.integrations.podsets import Info

Object = dict[str, Any]
K = "kueue.x-k8s.io/"


def pod(
    name: str,
    *,
    phase: str = "Pending",
    gated: bool = False,
    role: str = "r",
    total: int = 2,
    node: str = "",
    at: str = "2026-01-01T00:00:00Z",
    deleted: str = "",
    finalizer: bool = True,
    **notes: str,
) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": "n",
        "uid": name,
        "creationTimestamp": at,
        "labels": {f"{K}queue-name": "lq"},
        "annotations": {f"{K}role-hash": role, f"{K}pod-group-total-count": str(total), **notes},
        "finalizers": [f"{K}managed"] if finalizer else [],
    }
    if deleted:
        metadata |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30}
    spec: Object = {"containers": []}
    if node:
        spec["nodeName"] = node
    if gated:
        spec["schedulingGates"] = [{"name": f"{K}admission"}]
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def workload(count: int = 2, role: str = "r", *conditions: Object, **spec: Any) -> Object:
    return {
        "metadata": {"name": "g", "annotations": {f"{K}is-group-workload": "true"}},
        "spec": {"podSets": [{"name": role, "count": count}], **spec},
        "status": {"conditions": list(conditions)},
    }


@pytest.mark.parametrize(
    ("requests", "expected"),
    [({"cpu": "1"}, "dc85db45"), ({}, "a9f06f3a")],
)
def test_roles_are_named_as_upstream_names_them(requests: dict[str, str], expected: str) -> None:
    assert role_hash({"containers": [{"resources": {"requests": requests}}]}) == expected


def test_the_order_of_fields_does_not_make_a_role() -> None:
    one = {"tolerations": [{"key": "a", "operator": "Exists"}], "containers": []}
    other = {"containers": [], "tolerations": [{"operator": "Exists", "key": "a"}]}
    assert role_hash(one) == role_hash(other)


@pytest.mark.parametrize(
    ("found", "able"),
    [
        (pod("a"), True),
        (pod("a", phase="Succeeded"), True),
        (pod("a", phase="Failed"), False),
        (pod("a", deleted="2026-01-01T00:00:00Z"), False),
        (pod("a", deleted="2026-01-01T00:00:00Z", node="x", phase="Running"), True),
    ],
)
def test_which_pods_can_run(found: Object, able: bool) -> None:
    assert can_run(found) is able


def test_a_pod_stuck_on_a_lost_node_holds_nothing() -> None:
    going = pod("a", phase="Running", node="x", deleted="2026-01-01T00:00:00Z")
    assert holds_quota(going, 1_767_225_600.0 + 10)
    assert not holds_quota(going, 1_767_225_600.0 + 31)
    assert not holds_quota(pod("a"), 0.0)


def names(pods: Any) -> list[str]:
    return [each["metadata"]["name"] for each in pods or ()]


def test_the_newest_and_gated_are_the_ones_too_many() -> None:
    pods = [
        pod("old", at="2026-01-01T00:00:00Z", gated=True),
        pod("mid", at="2026-01-01T00:00:01Z"),
        pod("new", at="2026-01-01T00:00:02Z"),
    ]
    found = pod_groups.fit(pods, workload(), 0.0)
    assert (names(found.keeps), names(found.excess), found.absent) == (["mid", "new"], ["old"], 0)


def test_a_failed_pod_counts_until_it_is_replaced() -> None:
    bad, good, new = pod("bad", phase="Failed"), pod("good"), pod("new", gated=True)
    before = pod_groups.fit([bad, good], workload(), 0.0)
    assert (names(before.keeps), before.absent, list(before.replaced)) == (["good", "bad"], 1, [])
    after = pod_groups.fit([bad, good, new], workload(), 0.0)
    assert (names(after.keeps), after.absent, names(after.replaced)) == (["good", "new"], 0, ["bad"])


@pytest.mark.parametrize(
    "found",
    [workload(2, "another role"), workload(2, "r", maximumExecutionTimeSeconds=5)],
    ids=["another role", "another time"],
)
def test_a_workload_of_other_pods_must_go(found: Object) -> None:
    assert pod_groups.fit([pod("a"), pod("b")], found, 0.0).keeps is None


def test_a_group_is_abandoned_only_by_others_than_kueue() -> None:
    gone = [pod("a", deleted="2026-01-01T00:00:00Z"), pod("b", deleted="2026-01-01T00:00:00Z")]
    assert pod_groups.is_abandoned(gone, workload())
    assert not pod_groups.is_abandoned([*gone, pod("c")], workload())
    assert not pod_groups.is_abandoned(gone, workload(2, "r", {"type": "Evicted", "status": "True"}))
    waits = {"type": "WaitingForReplacementPods", "status": "True"}
    assert not pod_groups.is_abandoned(gone, workload(2, "r", {**waits, "reason": "Preempted"}))
    assert pod_groups.is_abandoned(gone, workload(2, "r", {**waits, "reason": "PodsFailed"}))


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ([pod("a")], "'g' group has fewer runnable pods than expected"),
        ([pod("a"), pod("b", total=3)], f"has different '{K}pod-group-total-count' values: 2!=3"),
        ([pod("a", total=0)], "group total count should be greater than zero"),
    ],
)
def test_a_group_that_is_not_whole_is_no_workload(pods: list[Object], words: str) -> None:
    with pytest.raises(CannotCompose, match=words.replace("(", "\\(")):
        pod_groups.check_complete(pods, "g")


def test_pods_of_different_queues_are_no_group() -> None:
    other = pod("b")
    other["metadata"]["labels"] = {f"{K}queue-name": "other"}
    with pytest.raises(CannotCompose, match="pods 'a' and 'b' has different queue names: lq!=other"):
        pod_groups.check_complete([pod("a"), other], "g")


def test_the_end_of_units() -> None:
    kind = Pods()
    assert kind.finished(unit([pod("a")])) is None
    failed = kind.finished(unit([pod("a", phase="Failed")]))
    assert failed is not None
    assert not failed.success
    done = [pod("a", phase="Succeeded"), pod("b", phase="Succeeded")]
    whole = kind.finished(unit(done, "g"))
    assert whole is not None
    assert whole.message == "Pods succeeded: 2/2."
    assert kind.finished(unit([done[0], pod("b", phase="Failed")], "g")) is None, "it may be replaced"
    last = kind.finished(unit([done[0], pod("b", phase="Failed", **{f"{K}retriable-in-group": "false"})], "g"))
    assert last is not None
    assert last.message == "Pods succeeded: 1/2."
    serving = [pod("a", phase="Succeeded", total=1, **{f"{K}pod-group-serving": "true"})]
    assert kind.finished(unit(serving, "g")) is None
    assert kind.reclaimable(unit(done[:1], "g"), lambda *_: None) == {"r": 1}
    assert kind.reclaimable(unit(serving, "g"), lambda *_: None) == {}


def test_missing_pods_are_told_once_with_the_reason() -> None:
    first = pod_groups.waiting(workload(), 1, 0.0)
    assert first is not None
    assert first["conditions"][0]["reason"] == "PodsFailed"
    told = workload(2, "r", *first["conditions"])
    assert pod_groups.waiting(told, 1, 9.0) is None
    back = pod_groups.waiting(told, 0, 9.0)
    assert back is not None
    assert (back["conditions"][0]["status"], back["conditions"][0]["message"]) == ("False", "No pods need replacement")
    assert pod_groups.waiting(workload(), 0, 0.0) is None


def test_a_started_pod_has_no_gate_but_that_of_its_place() -> None:
    held = pod("a")
    held["spec"]["schedulingGates"] = [{"name": f"{K}admission"}, {"name": f"{K}topology"}, {"name": "mine"}]
    free = started(held, Info("main", 1, node_selector={"card": "x"}))
    assert (free["spec"]["schedulingGates"], free["spec"]["nodeSelector"]) == ([{"name": "mine"}], {"card": "x"})
    placed = started(held, Info("main", 1, gates=[{"name": f"{K}topology"}]))
    assert [gate["name"] for gate in placed["spec"]["schedulingGates"]] == [f"{K}topology", "mine"]


@pytest.mark.parametrize(
    ("labels", "notes", "words"),
    [
        ({f"{K}managed": "no"}, {}, "managed label value can only be 'true'"),
        ({f"{K}pod-group-name": "g"}, {}, f"both the '{K}pod-group-total-count' annotation and the"),
        ({}, {f"{K}pod-group-total-count": "2"}, f"metadata.labels[{K}pod-group-name]: Required value"),
        ({f"{K}pod-group-name": "g"}, {f"{K}pod-group-total-count": "many"}, 'parsing "many": invalid syntax'),
        (
            {f"{K}pod-group-name": "g", f"{K}prebuilt-workload-name": "w"},
            {f"{K}pod-group-total-count": "1"},
            "prebuilt workload and pod group should be equal",
        ),
    ],
)
def test_what_pods_are_refused_for(labels: dict[str, str], notes: dict[str, str], words: str) -> None:
    made = {"metadata": {"name": "p", "labels": labels, "annotations": notes}, "spec": {}}
    assert any(words in str(error) for error in pod_rules.create_errors(made))


def test_a_group_keeps_its_name() -> None:
    old = pod("a")
    old["metadata"]["labels"][f"{K}pod-group-name"] = "g"
    new = pod("a")
    new["metadata"]["labels"][f"{K}pod-group-name"] = "h"
    errors = pod_rules.update_errors(new, old, lambda *_: None, default_queue=False)
    assert f'metadata.labels[{K}pod-group-name]: Invalid value: "h": field is immutable' in map(str, errors)
