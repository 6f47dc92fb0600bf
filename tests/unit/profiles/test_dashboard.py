"""Which profiles are offered, what a form accepts, what a workbench's state is, and when a notebook is idle."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.profiles.culling import Kernel, Seen, check
from gpuaas.profiles.customise import check as check_form
from gpuaas.profiles.offered import INCOMPLETE, Project, banner, name_of, natural, offered, ordered, warnings
from gpuaas.profiles.workbench import sentence, state_of, step

CPU = {
    "identifier": "cpu",
    "resourceType": "CPU",
    "displayName": "CPU",
    "minCount": 1,
    "defaultCount": 2,
    "maxCount": 4,
}
MEMORY = {
    "identifier": "memory",
    "resourceType": "Memory",
    "displayName": "Memory",
    "minCount": "2Gi",
    "defaultCount": "4Gi",
    "maxCount": "8Gi",
}
GPU = {"identifier": "nvidia.com/gpu", "displayName": "GPU", "minCount": 1, "defaultCount": 1, "maxCount": 2}


def profile(name: str, *identifiers: Any, queue: str = "", **annotations: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"identifiers": list(identifiers or (CPU, MEMORY))}
    if queue:
        spec["scheduling"] = {"type": "Queue", "kueue": {"localQueueName": queue}}
    shown = {f"opendatahub.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "annotations": shown}, "spec": spec}


@pytest.mark.parametrize(
    ("identifiers", "expected"),
    [
        ((CPU, MEMORY, GPU), []),
        ((GPU,), [INCOMPLETE]),
        (({**CPU, "defaultCount": 8}, MEMORY), ["Default value must be equal to or between the minimum and maximum"]),
        (({**CPU, "minCount": 0}, MEMORY), ["Minimum allowed value must be a positive number."]),
        (({**CPU, "defaultCount": "1.5"}, MEMORY), ["Default count for CPU cannot be a decimal."]),
        (
            (CPU, {**MEMORY, "defaultCount": "4G"}),
            ["Default value must be", "The resource count for Memory has an invalid"],
        ),
    ],
)
def test_what_is_wrong_with_a_profile(identifiers: Any, expected: list[str]) -> None:
    found = warnings(profile("p", *identifiers))
    assert len(found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        (Project(), ["plain"]),
        (Project(kueue_managed=True, kueue_enabled=True), ["queued"]),
        (Project(kueue_managed=True, kueue_enabled=True, queues=frozenset({"other"})), []),
        (Project(kueue_managed=True, kueue_enabled=False), []),
    ],
)
def test_a_project_is_offered_what_its_kueue_switch_allows(project: Project, expected: list[str]) -> None:
    profiles = [
        profile("queued", queue="q"),
        profile("plain"),
        profile("off", disabled="true"),
        profile("gpu-only", GPU),
        profile("serving", dashboard_feature_visibility='["model-serving"]'),
    ]
    assert [name_of(p) for p in offered(profiles, ["workbench"], project, [])] == expected


def test_numbers_in_names_sort_by_value_and_a_given_order_comes_first() -> None:
    names = ["gpu-10", "gpu-2", "Alpha", "beta"]
    assert sorted(names, key=natural) == ["Alpha", "beta", "gpu-2", "gpu-10"]
    profiles = [profile(name) for name in names]
    assert [name_of(p) for p in ordered(profiles, ["gpu-10", "gone", "gpu-10"])] == ["gpu-10", "Alpha", "beta", "gpu-2"]


def test_the_banner_appears_only_where_something_is_wrong() -> None:
    assert banner([profile("p")]) is None
    found = banner([profile("p"), profile("q", GPU)])
    assert found is not None
    assert found["title"] == "One or more hardware profiles are incomplete"


@pytest.mark.parametrize(
    ("request_", "limit", "message"),
    [
        (2, 2, None),
        ("", 2, "CPU must be provided"),
        ("500m", 2, "Must be at least 1 Cores"),
        (2, 5, "Must not exceed 4 Cores"),
        (3, 2, "Limit must be greater than or equal to request"),
        (None, 2, "Invalid input"),
    ],
)
def test_what_a_form_accepts(request_: Any, limit: Any, message: str | None) -> None:
    errors = check_form(profile("p", CPU), {"requests": {"cpu": request_}, "limits": {"cpu": limit}})
    assert [error.message for error in errors] == ([message] if message else [])


def workload(*conditions: tuple[str, str, str, str], **status: Any) -> dict[str, Any]:
    listed = [{"type": t, "status": s, "reason": r, "message": m} for t, s, r, m in conditions]
    return {"status": {"conditions": listed, **status}}


@pytest.mark.parametrize(
    ("given", "label", "text"),
    [
        (workload(), "Queued", "Waiting for quota in q"),
        (workload(("QuotaReserved", "False", "Pending", "no node fits")), "Queued", "Waiting for available resources"),
        (
            workload(("Admitted", "True", "Admitted", "The workload is admitted")),
            "Starting",
            "The workload is admitted",
        ),
        (
            workload(("Admitted", "True", "Admitted", ""), admissionChecks=[{"name": "budget", "state": "Pending"}]),
            "Admission check",
            "Waiting for admission check: budget",
        ),
        (workload(("Evicted", "True", "Preempted", "")), "Preempted", "Paused by a higher-priority job"),
        (
            workload(("Evicted", "True", "PodsReadyTimeout", ""), requeueState={"count": 2, "requeueAt": "10:20"}),
            "Requeued",
            "Re-queued (attempt 2, next retry at 10:20)",
        ),
        (workload(("Finished", "True", "Failed", "Job failed")), "Failed", "Job failed"),
        (
            workload(("Finished", "True", "Succeeded", "Job finished successfully")),
            "Complete",
            "Job finished successfully",
        ),
    ],
)
def test_what_a_workload_means_to_its_user(given: Any, label: str, text: str) -> None:
    state = state_of(given)
    assert (state.label, sentence(state, "q")) == (label, text)


def test_the_progress_line_names_the_position_of_what_waits() -> None:
    state = state_of(workload())
    assert step(state, "q", 3) == "Waiting for quota in q (position 3)"
    assert step(state, "q", 1, again=True) == "Re-queued: Waiting for quota in q (position 1)"


HOUR = 3600.0


@pytest.mark.parametrize(
    ("seen", "idle", "activity"),
    [
        (Seen(0.0, 9_000.0), True, 0.0),
        (Seen(0.0, 9_000.0, kernels=[Kernel("busy", 0.0)]), False, 10_000.0),
        (Seen(0.0, 9_000.0, kernels=[Kernel("idle", 8_000.0)]), False, 8_000.0),
        (Seen(0.0, 9_000.0, kernels=[Kernel("idle", None)]), True, 0.0),
        (Seen(0.0, 9_000.0, terminals=[9_500.0]), False, 9_500.0),
        (Seen(0.0, 9_000.0, stopped=True), False, 0.0),
        (Seen(None, 9_000.0), False, None),
    ],
)
def test_when_a_notebook_is_idle(seen: Seen, idle: bool, activity: float | None) -> None:
    verdict = check(seen, 10_000.0, idle_after=HOUR, period=60.0)
    assert (verdict.idle, verdict.last_activity) == (idle, activity)


def test_a_check_is_due_after_its_period() -> None:
    assert check(Seen(0.0, 9_900.0), 10_000.0, idle_after=HOUR, period=60.0).due
    assert not check(Seen(0.0, 9_950.0), 10_000.0, idle_after=HOUR, period=60.0).due
    assert not check(Seen(0.0, None), 10_000.0, idle_after=HOUR, period=60.0).due
