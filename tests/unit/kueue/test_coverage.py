"""Which pods a workload covers: sums per workload and per namespace, whatever the pods say of themselves."""

from typing import Any

import pytest

from gpuaas.kueue.coverage import Account, Coverage, account_of, holding_of, is_open
from gpuaas.kueue.pods import pod_requests, units

GPU = "nvidia.com/gpu"
TRAIN, EVAL = Account("team", "train"), Account("team", "eval")


def requests(pod: Any) -> dict[str, int]:
    return {name: units(name, amount) for name, amount in pod_requests(pod["spec"]).items()}


def pod(uid: str, gpus: int = 1, *, workload: str = "train", phase: str = "Running", **spec: Any) -> dict[str, Any]:
    amount = {GPU: str(gpus)}
    return {
        "metadata": {
            "name": uid, "namespace": "team", "uid": uid, "annotations": {"kueue.x-k8s.io/workload": workload},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": amount}}], **spec},
        "status": {"phase": phase},
    }  # fmt: skip


def workload(
    name: str = "train", gpus: int = 4, *, slice_of: str = "", created: str = "2026-01-01T00:00:00Z", **changed: Any
) -> dict[str, Any]:
    conditions = {"QuotaReserved": "True", "Admitted": "True", **changed.get("conditions", {})}
    notes = {"kueue.x-k8s.io/workload-slice-name": slice_of} if slice_of else {}
    assignment = {"name": "main", "count": gpus, "flavors": {GPU: "any"}, "resourceUsage": {GPU: str(gpus)}}
    status: dict[str, Any] = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]},
        "conditions": [{"type": kind, "status": value, "reason": "x"} for kind, value in conditions.items()],
    }
    if "reclaimed" in changed:
        status["reclaimablePods"] = [{"name": "main", "count": changed["reclaimed"]}]
    metadata = {"name": name, "namespace": "team", "uid": name, "creationTimestamp": created, "annotations": notes}
    spec = {"podSets": [{"name": "main", "count": gpus}], "active": changed.get("active", True)}
    return {"metadata": {**metadata, **changed.get("metadata", {})}, "spec": spec, "status": status}


def book(*objects: dict[str, Any]) -> Coverage:
    made = Coverage(requests)
    for each in objects:
        (made.put_pod if "nodeName" in each["spec"] else made.put_workload)(each)
    return made


def shortage(made: Coverage, account: Account = TRAIN, **amounts: int) -> str:
    asked = {GPU: amounts.get("gpus", 0), **{name: value for name, value in amounts.items() if name != "gpus"}}
    return made.shortage(account, asked, lambda _: False)


def test_pods_fit_until_the_sum_is_what_the_workload_holds() -> None:
    made = book(workload(gpus=4), pod("a", 3))
    assert shortage(made, gpus=1) == ""
    assert shortage(made, gpus=2) == (
        "workload train: quota for nvidia.com/gpu is exceeded (asked 2, used 3, held 4)"
    )  # fmt: skip


def test_a_device_that_was_not_asked_for_at_admission_is_not_held() -> None:
    made = book(workload())
    assert "amd.com/gpu is exceeded (asked 1, used 0, held 0)" in made.shortage(
        TRAIN, {"amd.com/gpu": 1}, lambda _: False
    )
    assert (
        made.shortage(TRAIN, {"amd.com/gpu": 1}, lambda name: name == "amd.com/gpu") == ""
    )  # quota does not ask for it


def test_sidecars_of_operators_have_room_and_no_more() -> None:
    made = book(workload())
    assert shortage(made, cpu=500) == ""
    assert "quota for cpu is exceeded" in shortage(made, cpu=501)


def test_pods_that_go_count_until_they_have_ended() -> None:
    leaving = pod("a", 4)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made = book(workload(gpus=4), leaving)
    assert shortage(made, gpus=1) != ""
    made.put_pod(pod("a", 4, phase="Failed"))
    assert shortage(made, gpus=1) == ""


def test_what_runs_without_quota_leaves_no_room_for_others_of_its_namespace() -> None:
    made = book(workload("eval", 4), pod("left", 3))
    assert shortage(made, EVAL, gpus=1) == ""
    words = shortage(made, EVAL, gpus=2)
    assert words == "the workloads in namespace team: quota for nvidia.com/gpu is exceeded (asked 2, used 3, held 4)"


def test_slices_of_a_chain_are_one_account_and_the_newest_counts() -> None:
    old, new = workload("one", 2), workload("two", 4, slice_of="one", created="2026-01-01T00:00:05Z")
    made = book(old, new, pod("a", 2, workload="one"))
    assert shortage(made, Account("team", "one"), gpus=2) == ""
    assert shortage(made, Account("team", "one"), gpus=3) != ""
    made.drop_workload("team", "two")
    assert shortage(made, Account("team", "one"), gpus=1) != ""


def test_what_finished_pods_gave_back_is_not_held() -> None:
    assert shortage(book(workload(gpus=4, reclaimed=3)), gpus=2) != ""


@pytest.mark.parametrize(
    ("changed", "holds", "opens"),
    [
        ({}, True, True),
        ({"conditions": {"Admitted": "False"}}, True, False),
        ({"conditions": {"Evicted": "True"}}, True, False),
        ({"conditions": {"Finished": "True"}}, False, False),
        ({"conditions": {"QuotaReserved": "False", "Admitted": "False"}}, False, False),
        ({"active": False}, True, False),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, True, False),
    ],
)
def test_who_holds_quota_and_who_takes_pods(changed: dict[str, Any], holds: bool, opens: bool) -> None:
    found = workload(**changed)
    assert (holding_of(found) is not None, is_open(found)) == (holds, opens)


def test_excess_is_the_first_without_whom_the_rest_fits() -> None:
    made = book(workload(gpus=3), *(pod(uid, 1) for uid in "abcde"))
    assert made.is_overdrawn(TRAIN)
    assert list(made.excess(TRAIN, ["e", "d", "c", "b", "a"])) == ["e", "d"]
    made.drop_workload("team", "train")
    assert list(made.excess(TRAIN, ["e", "d", "c", "b", "a"])) == ["e", "d", "c", "b", "a"]


def test_the_version_grows_when_there_may_be_more_room() -> None:
    made = book(workload(gpus=4), pod("a", 1))
    before = made.balance_version("team")
    made.put_pod(pod("b", 1))
    assert made.balance_version("team") == before
    made.drop_pod("a")
    assert made.balance_version("team") > before


def test_the_account_is_what_the_server_noted() -> None:
    assert account_of(pod("a")) == TRAIN
    noted = pod("a")
    noted["metadata"]["annotations"]["kueue.x-k8s.io/workload-slice-name"] = "first"
    assert account_of(noted) == Account("team", "first")
    assert account_of({"metadata": {"name": "x"}, "spec": {}}) is None
