"""Which slice of an elastic job counts, which are over, and which pods may go."""

from typing import Any

import pytest

from gpuaas.kueue.integrations import slices
from gpuaas.kueue.integrations.names import workload_name

Object = dict[str, Any]
K = "kueue.x-k8s.io/"


def workload(name: str, *true: str, replaces: str = "", at: int = 0, **counts: int) -> Object:
    notes = {f"{K}elastic-job": "true"}
    if replaces:
        notes[f"{K}workload-slice-replacement-for"] = f"ns/{replaces}"
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "annotations": notes,
        "creationTimestamp": f"2026-01-01T00:00:{at:02}Z",
    }
    conditions = [{"type": kind, "status": "True", "reason": "", "message": ""} for kind in true]
    pod_sets = [{"name": each, "count": count} for each, count in (counts or {"main": 1}).items()]
    return {"metadata": metadata, "spec": {"podSets": pod_sets}, "status": {"conditions": conditions}}


HOLDS, GOES, DONE = "QuotaReserved", "Evicted", "Finished"
BEHIND = ("OutOfSync", "The workload slice is out of sync with its parent job")
REPLACED = ("WorkloadSliceReplaced", "Replaced to accommodate a new workload slice")
CHAINS: list[tuple[str, list[Object], str | None, str | None, dict[str, tuple[str, str]]]] = [
    ("nothing", [], None, None, {}),
    ("only finished ones", [workload("a", HOLDS, DONE)], None, None, {}),
    ("one that waits", [workload("a")], "a", None, {}),
    ("one that holds quota", [workload("a", HOLDS)], "a", "a", {}),
    ("one that is evicted: its job sees it out", [workload("a", HOLDS, GOES)], "a", None, {}),
    ("one that waits to replace", [workload("a", HOLDS), workload("b", replaces="a", at=1)], "b", "a", {}),
    (
        "one that has replaced, and the other does not know yet",
        [workload("a", HOLDS), workload("b", HOLDS, replaces="a", at=1)],
        "b",
        "b",
        {"a": REPLACED},
    ),
    (
        "made in the same second, in whatever order they sort",
        [workload("b", HOLDS), workload("a", HOLDS, replaces="b")],
        "a",
        "a",
        {"b": REPLACED},
    ),
    (
        "two that want to replace the same",
        [workload("a", HOLDS), workload("b", replaces="a", at=1), workload("c", replaces="a", at=2)],
        "b",
        "a",
        {"c": BEHIND},
    ),
    (
        "of two that want to replace the same the one that was let",
        [workload("a", HOLDS), workload("b", replaces="a", at=1), workload("c", HOLDS, replaces="a", at=2)],
        "c",
        "c",
        {"a": REPLACED, "b": BEHIND},
    ),
    (
        "one evicted while another waits to replace it",
        [workload("a", HOLDS, GOES), workload("b", replaces="a", at=1)],
        "b",
        None,
        {"a": REPLACED},
    ),
    (
        "all evicted",
        [workload("a", HOLDS, GOES), workload("b", GOES, replaces="a", at=1)],
        None,
        None,
        {"a": BEHIND, "b": BEHIND},
    ),
]


@pytest.mark.parametrize(
    ("found", "current", "holder", "over"), [case[1:] for case in CHAINS], ids=[c[0] for c in CHAINS]
)
def test_of_several_slices_one_counts(
    found: list[Object], current: str | None, holder: str | None, over: dict[str, tuple[str, str]]
) -> None:
    for order in (found, found[::-1]):
        chain = slices.chain_of(order)
        assert _name(chain.current) == current
        assert _name(chain.holder) == holder
        assert {_name(each): (reason, words) for each, reason, words in chain.over} == over


def _name(found: Object | None) -> str | None:
    return None if found is None else found["metadata"]["name"]


@pytest.mark.parametrize(
    ("before", "after", "shrinks"),
    [
        ({"a": 2}, {"a": 1}, True),
        ({"a": 2}, {"a": 2}, False),
        ({"a": 2}, {"a": 3}, False),
        ({"a": 2, "b": 2}, {"a": 1, "b": 2}, True),
        ({"a": 2, "b": 2}, {"a": 1, "b": 3}, False),
    ],
)
def test_only_what_grows_nowhere_shrinks(before: dict[str, int], after: dict[str, int], shrinks: bool) -> None:
    assert slices.only_shrinks(before, after) is shrinks


def pod(name: str, *, gated: bool = True, pod_set: str = "main", phase: str = "Pending", **spec: Any) -> Object:
    gates = [{"name": f"{K}elastic-job"}] if gated else []
    metadata = {"name": name, "uid": name, "labels": {f"{K}podset": pod_set}}
    return {"metadata": metadata, "spec": {"schedulingGates": gates, **spec}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pods", "gone", "names"),
    [
        pytest.param([pod("c"), pod("b"), pod("a")], (), ["a", "b"], id="as many as it has room for, first by name"),
        pytest.param([pod("a", gated=False), pod("b"), pod("c")], (), ["b"], id="those that run count"),
        pytest.param([pod("a", gated=False, phase="Failed"), pod("b"), pod("c")], (), ["b", "c"], id="not ended ones"),
        pytest.param([pod("a"), pod("b"), pod("c")], ("c",), ["a"], id="those let go a moment ago count"),
        pytest.param([pod("a", pod_set="other")], (), [], id="no pod set of its own"),
    ],
)
def test_pods_go_as_far_as_the_slice_has_room(pods: list[Object], gone: tuple[str, ...], names: list[str]) -> None:
    found = slices.may_go(workload("w", HOLDS, main=2), pods, gone)
    assert [each["metadata"]["name"] for each, _ in found] == names
    assert all("schedulingGates" not in ready["spec"] for _, ready in found)


def test_what_checks_add_comes_with_it_unless_it_contradicts() -> None:
    admitted = workload("w", HOLDS, main=2)
    request = "autoscaling.x-k8s.io/consume-provisioning-request"
    update = {"name": "main", "nodeSelector": {"zone": "a"}, "annotations": {request: "one", "other": "x"}}
    admitted["status"]["admissionChecks"] = [{"name": "c", "podSetUpdates": [update, {**update, "name": "else"}]}]
    ((_, ready),) = slices.may_go(admitted, [pod("a"), pod("b", nodeSelector={"zone": "b"})], ())
    assert ready["spec"] == {"nodeSelector": {"zone": "a"}}
    assert ready["metadata"]["annotations"] == {request: "one"}


def test_slices_of_one_job_have_names_of_their_own() -> None:
    names = [workload_name("Job", "batch", "train", "uid", extra) for extra in ("", "1", "2")]
    assert len(set(names)) == 3
    assert all(name.startswith("job-train-") for name in names)
