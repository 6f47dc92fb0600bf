"""The decision for one dispatched workload, state by state, with upstream's messages."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.kueue.multikueue.decide import (
    Answer,
    ClearActive,
    Create,
    Deactivate,
    Delete,
    Finish,
    Nominate,
    Remote,
    State,
    Sync,
    decide,
)

Object = dict[str, Any]
SPEC = {"podSets": [{"name": "main", "count": 1}], "queueName": "q", "priority": 5}
RETRY = 'Previously: "Ready"'


def condition(kind: str, second: int = 0, reason: str = "", message: str = "", status: str = "True") -> Object:
    time = f"2026-01-01T00:00:{second:02}Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time}


def workload(*conditions: Object, spec: Object | None = None, **status: Any) -> Object:
    return {
        "metadata": {"name": "w", "namespace": "n"},
        "spec": spec or SPEC,
        "status": {"conditions": list(conditions), **status},
    }


RESERVED = condition("QuotaReserved")
ADMITTED = condition("Admitted")
EVICTED = condition("Evicted", reason="Preempted", message="Preempted to accommodate")
LOST = condition("Evicted", reason="AdmissionCheck", message='"mk" (Admitting remote lost, Previously: "Ready")')
LEFT = condition("Evicted", reason="AdmissionCheck", message=LOST["message"], status="False")


def state(local: Object, *remotes: Remote, check: str = "Pending", **more: Any) -> State:
    entry = {"name": "mk", "state": check, "message": ""}
    local["status"].setdefault("admissionChecks", [entry])
    return State(local, entry, remotes, 1000.0, 900.0, **more)


def on(name: str, *conditions: Object, spec: Object | None = None, **more: Any) -> Remote:
    return Remote(name, True, workload(*conditions, spec=spec), **more)


def bare(name: str, **more: Any) -> Remote:
    return Remote(name, True, None, **more)


def away(name: str, since: float) -> Remote:
    return Remote(name, False, lost_since=since)


@pytest.mark.parametrize(
    ("given", "actions"),
    [
        ("nothing is due for a rejected check", (state(workload(RESERVED), bare("a"), check="Rejected"), [])),
        (
            "without quota no copy may be left",
            (state(workload(), on("a"), bare("b")), [Delete("a")]),
        ),
        (
            "the connected clusters are nominated before anything is copied",
            (state(workload(RESERVED), bare("a"), bare("b"), nominates=("a", "b")), [Nominate(("a", "b"))]),
        ),
        (
            "copies are made on the stored nominations",
            (
                state(workload(RESERVED, nominatedClusterNames=["a", "b"]), bare("a"), on("b"), nominates=("a", "b")),
                [Create("a")],
            ),
        ),
        (
            "a copy on a cluster that is not nominated goes",
            (
                state(workload(RESERVED, nominatedClusterNames=["a"]), bare("a"), on("b"), nominates=None),
                [Create("a"), Delete("b")],
            ),
        ),
        (
            "other checks come first",
            (
                state(
                    workload(
                        RESERVED,
                        admissionChecks=[{"name": "mk", "state": "Pending"}, {"name": "x", "state": "Pending"}],
                    ),
                    bare("a"),
                    nominates=("a",),
                ),
                [],
            ),
        ),
        (
            "a copy that only holds quota has not won",
            (
                state(workload(RESERVED, nominatedClusterNames=["a"]), on("a", RESERVED), nominates=("a",)),
                [],
            ),
        ),
        (
            "the earliest admitted wins, the others go, the job follows",
            (
                state(
                    workload(RESERVED, nominatedClusterNames=["a", "b"]),
                    on("a", condition("Admitted", 9)),
                    on("b", condition("Admitted", 3)),
                ),
                [
                    Delete("a"),
                    Sync("b"),
                    Answer("Ready", 'The workload was admitted on "b"', "b", "Normal"),
                ],
            ),
        ),
        (
            "of two in the same second the first of the configuration wins",
            (
                state(workload(RESERVED, nominatedClusterNames=["a", "b"]), on("b", ADMITTED), on("a", ADMITTED)),
                [Delete("a"), Sync("b"), Answer("Ready", 'The workload was admitted on "b"', "b", "Normal")],
            ),
        ),
        (
            "once it runs, clusterName names the winner",
            (
                state(
                    workload(RESERVED, ADMITTED, clusterName="b"),
                    on("a", condition("Admitted", 1)),
                    on("b", condition("Admitted", 5)),
                    check="Ready",
                ),
                [Delete("a"), Sync("b")],
            ),
        ),
        (
            "strict: the earliest, whatever clusterName says",
            (
                state(
                    workload(RESERVED, ADMITTED, clusterName="b", nominatedClusterNames=[]),
                    on("a", condition("Admitted", 1)),
                    on("b", condition("Admitted", 5)),
                    check="Ready",
                    strict=True,
                ),
                [Delete("b"), Sync("a"), Answer("Ready", 'The workload was admitted on "a"', "a", "Normal")],
            ),
        ),
        (
            "the end is copied with its words",
            (
                state(
                    workload(RESERVED, ADMITTED, clusterName="a"),
                    on("a", ADMITTED, condition("Finished", reason="Succeeded", message="ok")),
                    check="Ready",
                ),
                [Finish("a", "Succeeded", "ok")],
            ),
        ),
        (
            "a copy out of sync sends the workload elsewhere",
            (
                state(
                    workload(RESERVED, ADMITTED, clusterName="a"),
                    on("a", condition("Finished", reason="OutOfSync")),
                    check="Ready",
                ),
                [
                    Answer(
                        "Retry",
                        'Remote workload on worker cluster "a" is out of sync with its user job, '
                        f"resetting for re-dispatch, {RETRY}",
                        event="Warning",
                    )
                ],
            ),
        ),
        (
            "an eviction on the worker sends it elsewhere",
            (
                state(workload(RESERVED, ADMITTED, clusterName="a"), on("a", EVICTED), check="Ready"),
                [
                    Answer(
                        "Retry",
                        f'Workload evicted on worker cluster: "a", resetting for re-admission. {RETRY}',
                        event="Normal",
                    )
                ],
            ),
        ),
        (
            "while both leave, the status follows until nothing runs",
            (
                state(workload(RESERVED, ADMITTED, EVICTED), on("a", ADMITTED, EVICTED)),
                [Sync("a", create=False)],
            ),
        ),
        (
            "an eviction on the hub stops the copy",
            (
                state(workload(RESERVED, ADMITTED, EVICTED), on("a", ADMITTED)),
                [Deactivate("a", "Evicted on manager: Preempted to accommodate"), Sync("a", create=False)],
            ),
        ),
        (
            "a copy that says something else is made again",
            (
                state(
                    workload(RESERVED, nominatedClusterNames=["a"]),
                    on("a", RESERVED, spec={**SPEC, "queueName": "other"}),
                ),
                [Delete("a")],
            ),
        ),
        (
            "a copy that its worker deactivated is made again",
            (
                state(
                    workload(RESERVED, nominatedClusterNames=["a"]),
                    on("a", condition("Evicted", reason="Deactivated"), spec={**SPEC, "active": False}),
                ),
                [Delete("a")],
            ),
        ),
        (
            "a lost worker is waited for",
            (state(workload(RESERVED, ADMITTED, clusterName="a"), away("a", 200.0), check="Ready"), []),
        ),
        (
            "and given up after the timeout, with the quota",
            (
                state(workload(RESERVED, ADMITTED, clusterName="a"), away("a", 100.0), check="Ready"),
                [Answer("Retry", f"Admitting remote lost, {RETRY}"), ClearActive()],
            ),
        ),
        (
            "strict: only the check says so",
            (
                state(workload(RESERVED, ADMITTED, clusterName="a"), away("a", 100.0), check="Ready", strict=True),
                [Answer("Retry", f"Admitting remote lost, {RETRY}")],
            ),
        ),
        (
            "unless lost workers are not replaced",
            (
                state(
                    workload(RESERVED, ADMITTED, clusterName="a"),
                    away("a", 0.0),
                    check="Ready",
                    redispatch_lost=False,
                ),
                [],
            ),
        ),
        (
            "a copy that is gone is not waited for",
            (
                state(workload(RESERVED, ADMITTED, clusterName="a"), bare("a"), check="Ready"),
                [Answer("Retry", f"Admitting remote no longer exists, {RETRY}")],
            ),
        ),
        (
            "a check that is ready for no cluster",
            (
                state(workload(RESERVED, ADMITTED), bare("a"), check="Ready"),
                [
                    Answer(
                        "Retry",
                        "Admission check is Ready but no admitting cluster is recorded; this is unexpected, "
                        f"please report it, {RETRY}",
                    )
                ],
            ),
        ),
        (
            "the copy of a lost worker that came back runs on while its workload waits for quota",
            (state(workload(LEFT), on("a", RESERVED, ADMITTED), on("b")), [Delete("b")]),
        ),
        (
            "and is nominated first when the quota is there",
            (
                state(workload(RESERVED, LEFT), on("a", RESERVED, ADMITTED), bare("b"), nominates=("a", "b")),
                [Nominate(("a",))],
            ),
        ),
        (
            "a cluster that left the configuration keeps what runs there",
            (
                state(
                    workload(RESERVED, ADMITTED, clusterName="a"),
                    bare("b"),
                    on("a", RESERVED, ADMITTED, offered=False),
                    check="Ready",
                    nominates=("b",),
                ),
                [Sync("a")],
            ),
        ),
        (
            "an evicted workload whose worker is gone gives its quota back",
            (state(workload(RESERVED, ADMITTED, LOST), away("a", 100.0)), [ClearActive()]),
        ),
    ],
)
def test_decide(given: str, actions: tuple[State, list[Any]]) -> None:
    found, expected = actions
    assert list(decide(found).actions) == expected, given


def test_a_lost_worker_is_looked_at_again_when_its_time_is_over() -> None:
    found = state(workload(RESERVED, ADMITTED, clusterName="a"), away("a", 200.0), check="Ready")
    assert decide(found).again == 100.0


def test_the_copy_of_a_finished_workload_stays_for_a_while() -> None:
    local = workload(RESERVED, ADMITTED, condition("Finished", reason="Succeeded"), clusterName="a")
    copies = on("a", condition("Finished")), on("b", condition("Finished"))
    early = state(local, *copies, check="Ready", keep_finished=300.0, wall=1767225600.0 + 100)
    assert (decide(early).actions, decide(early).again) == ((Delete("b"),), 200.0)
    late = state(local, *copies, check="Ready", keep_finished=300.0, wall=1767225600.0 + 301)
    assert decide(late).actions == (Delete("a"), Delete("b"))
