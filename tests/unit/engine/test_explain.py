"""Why a workload waits, in one call: the word, upstream's sentence, the numbers, who holds it, and what would help."""

from __future__ import annotations

import pytest

from gpuaas.engine.reasons import Token
from gpuaas.engine.topology_values import TopologyRequest
from gpuaas.engine.values import ClusterQueue, Flavor, LocalQueue, StopPolicy

from .builders import Lab, Limits, cohort, queue
from .test_topology import RACK, TWO_RACKS, fleet


@pytest.fixture
def lab() -> Lab:
    """`mine` (4, may borrow 2) shares with `yours` (4), which runs 6."""
    found = Lab(queue("mine", (4, 2, None), "co", within="LowerPriority"), queue("yours", 4, "co"))
    found.run("y4", "yours", 4)
    found.run("y2", "yours", 2, priority=3)
    return found


def test_numbers_say_what_was_asked_owned_used_borrowable_and_who_holds_the_rest(lab: Lab) -> None:
    lab.run("m1", "mine", 1)
    lab.submit("w", "mine", 4)
    lab.settle()
    why = lab.why("w")
    assert (why.token, why.position, why.parked) == (Token.WAITING_FOR_QUOTA, 0, True)
    assert why.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for gpu in flavor default, 3 more needed"
    )
    (numbers,) = why.numbers
    assert (numbers.requested, numbers.nominal, numbers.used, numbers.free, numbers.borrowable, numbers.capacity) == (
        4,
        4,
        1,
        1,
        0,
        6,
    )
    assert numbers.missing == 3
    assert [(h.cluster_queue, h.used, h.nominal) for h in numbers.holders] == [("yours", 6, 4), ("mine", 1, 4)]
    assert numbers.holders[0].largest == (("ns/y4", 4), ("ns/y2", 2))
    assert numbers.line() == "default/gpu: asked 4, free 1 (nominal 4, used 1, borrowable 0)"


def test_it_says_what_would_admit_it_now(lab: Lab) -> None:
    lab.submit("w", "mine", 1, count=4)
    lab.settle()
    remedies = {r.kind: r for r in lab.why("w").remedies}
    assert remedies["Quota"].amounts == (("default", "gpu", 2),)
    assert remedies["Departures"].keys == ("ns/y4",)
    assert remedies["FewerPods"].number == 2
    assert "Priority" not in remedies, "it may preempt nobody in another queue"


@pytest.mark.parametrize("remedy", ["Quota", "Departures", "FewerPods", "Priority"])
def test_what_it_says_would_admit_it_does(remedy: str) -> None:
    lab = Lab(queue("q", 4, within="LowerPriority"))
    lab.run("low", "q", 1, priority=1)
    lab.run("high", "q", 3, priority=5)
    lab.submit("w", "q", 1, count=3)
    lab.settle()
    (advice,) = [r for r in lab.why("w").remedies if r.kind == remedy] or [None]
    if remedy == "FewerPods":
        assert advice is None, "nothing is free"
        return
    assert advice is not None
    match remedy:
        case "Quota":
            lab.tell(queue("q", 4 + advice.amounts[0][2], within="LowerPriority"))
        case "Departures":
            lab.finish(*(key.removeprefix("ns/") for key in advice.keys))
        case "Priority":
            lab.amend("w", priority=advice.number)
    lab.settle()
    assert "w" in lab.running()


def test_where_policy_forbids_preemption_it_still_says_whose_leaving_would_help() -> None:
    lab = Lab(queue("mine", 1, "co"), queue("yours", 4, "co"))
    lab.run("y3", "yours", 3)
    lab.run("y2", "yours", 2)
    lab.submit("w", "mine", 3)
    lab.settle()
    remedies = {r.kind: r for r in lab.why("w").remedies}
    assert remedies["Departures"].keys == ("ns/y3",), "y2 alone is too little, and is spared"
    lab.finish("y3")
    lab.settle()
    assert "w" in lab.running()


def test_a_trial_of_the_advice_costs_nothing(lab: Lab) -> None:
    lab.submit("w", "mine", 4)
    lab.settle()
    from gpuaas.engine.changes import Finished

    with lab.engine.what_if() as trial:
        trial.apply(Finished("ns/y4"))
        assert [a.key for a in trial.cycle(lab.now).admissions] == ["ns/w"]
    assert lab.pending() == {"w"}


def test_more_than_could_ever_be_had(lab: Lab) -> None:
    lab.submit("w", "mine", 7)
    lab.settle()
    why = lab.why("w")
    assert why.token is Token.EXCEEDS_MAX_QUOTA
    assert why.message.endswith(
        "previously considered podsets requests (0) + current podset request (7) > maximum capacity (6)"
    )


def test_no_flavor_these_pods_can_use() -> None:
    lab = Lab(queue("q", {"l4": 4}))
    lab.tell(Flavor("l4", node_labels=(("gpu", "l4"),)))
    lab.submit("w", "q", node_selector=(("gpu", "h100"),))
    lab.submit("v", "q", {"tpu": 1})
    lab.settle()
    assert lab.why("w").token is Token.NO_MATCHING_FLAVOR
    assert lab.why("w").numbers[0].reason == "flavor l4 doesn't match node affinity"
    assert lab.why("v").message == "couldn't assign flavors to pod set main: resource tpu unavailable in ClusterQueue"


def test_the_milder_reason_of_alternative_flavors_counts() -> None:
    lab = Lab(queue("q", {"l4": 4, "h100": 2}))
    lab.tell(Flavor("l4", node_labels=(("gpu", "l4"),)))
    lab.submit("w", "q", 3, node_selector=(("gpu", "h100"),))
    lab.settle()
    assert lab.why("w").token is Token.EXCEEDS_MAX_QUOTA, "not NoMatchingFlavor: h100 matches, and is too small"


def test_position_counts_who_goes_before_in_the_cluster_queue_and_in_the_own_queue() -> None:
    lab = Lab(queue("q", 1))
    lab.tell(LocalQueue("ns", "other", "q"))
    lab.submit("other1", "other", priority=5)
    lab.submit("q1", "q")
    lab.submit("q2", "q")
    why = lab.why("q2")
    assert (why.position, why.local_position) == (2, 1)
    assert why.token is Token.BEHIND_OTHERS
    assert why.message == "It fits now, behind 2 other(s) in its queue"


@pytest.mark.parametrize(
    ("setting", "token", "message"),
    [
        ({"stop": StopPolicy.HOLD}, Token.QUEUE_STOPPED, "ClusterQueue q is inactive"),
        ({"namespaces": None}, Token.NAMESPACE_MISMATCH, "workload namespace doesn't match ClusterQueue selector"),
    ],
)
def test_queues_that_take_nobody(setting: dict[str, object], token: Token, message: str) -> None:
    lab = Lab(queue("q", 4, **setting))
    lab.submit("w", "q")
    lab.settle()
    assert (lab.why("w").token, lab.why("w").message) == (token, message)


@pytest.mark.parametrize(
    ("local", "message"),
    [
        (None, "LocalQueue gone doesn't exist"),
        (LocalQueue("ns", "gone", "nowhere"), "ClusterQueue nowhere doesn't exist"),
        (LocalQueue("ns", "gone", "q", StopPolicy.HOLD), "LocalQueue gone is inactive"),
    ],
)
def test_queues_that_are_not_there(local: LocalQueue | None, message: str) -> None:
    lab = Lab(queue("q", 4))
    if local is not None:
        lab.tell(local)
    lab.submit("w", "gone")
    lab.settle()
    assert (lab.why("w").token, lab.why("w").message) == (Token.QUEUE_MISSING, message)
    lab.tell(LocalQueue("ns", "gone", "q"))
    lab.settle()
    assert lab.running() == {"w"}, "and comes in when they are"


def test_a_back_off_ends_by_itself() -> None:
    lab = Lab(queue("q", 4))
    lab.submit("w", "q", requeue_at=60_000)
    lab.settle()
    assert lab.why("w").token is Token.BACKING_OFF
    assert lab.engine.next_wakeup() == 60_000
    lab.now = 60_000
    lab.cycle()
    assert lab.running() == {"w"}
    assert lab.engine.next_wakeup() is None


def test_who_would_have_to_leave_where_preemption_helps() -> None:
    lab = Lab(queue("q", 4, within="LowerPriority"))
    lab.run("low", "q", 4)
    lab.submit("w", "q", 2, priority=2)
    why = lab.why("w")
    assert why.token is Token.WAITING_FOR_PREEMPTED
    assert [(key, rule.value) for key, rule in why.victims] == [("ns/low", "InClusterQueue")]


def test_an_admission_says_what_is_borrowed_and_from_which_cohort(lab: Lab) -> None:
    lab.finish("y4")
    lab.submit("w", "mine", 6)
    (admission,) = lab.cycle().admissions
    assert [(loan.flavor, loan.resource, loan.amount, loan.cohort) for loan in admission.loans] == [
        ("default", "gpu", 2, "co")
    ]
    assert lab.why("w").state == "Admitted"


def test_a_preemption_says_by_whom_why_and_what_it_frees() -> None:
    lab = Lab(queue("a", 4, "co", reclaim="Any"), queue("b", 0, "co"))
    lab.run("victim", "b", 3)
    lab.submit("w", "a", 4, uid="u-1", job_uid="j-1")
    (victim,) = lab.cycle().preemptions
    assert victim.frees == (("default", "gpu", 3),)
    assert victim.message == (
        "Preempted to accommodate a workload (UID: u-1, JobUID: j-1) due to reclamation within the cohort; "
        "preemptor path: /co/a; preemptee path: /co/b"
    )


def test_nobody_knows_it() -> None:
    assert Lab().why("nobody") is None


def test_neither_quota_nor_departures_help_pods_that_no_place_would_ever_hold() -> None:
    lab = fleet(*TWO_RACKS)
    lab.tell(queue("q", {"l4": 16}))
    lab.run("first", "q", 4, count=2)
    lab.submit("w", "q", 4, count=3, topology=TopologyRequest(required=RACK))
    lab.settle()
    why = lab.why("w")
    assert why.token is Token.TOPOLOGY, "quota alone is short of 4, but no rack has three nodes"
    assert why.message.endswith('topology "topo" allows to fit only 2 out of 3 pod(s)')
    assert {each.kind for each in why.remedies} == {"FewerPods"}


def test_who_leaves_must_leave_the_place_that_is_needed() -> None:
    lab = fleet(*TWO_RACKS)
    lab.tell(queue("q", {"l4": 16}))
    for name, rack in (("whole", "b1-r1"), ("half", "b1-r2")):
        count = 2 if name == "whole" else 1
        lab.run(name, "q", 4, count=count, node_selector=((RACK, rack),))
    lab.submit("w", "q", 4, count=2, topology=TopologyRequest(required=RACK))
    lab.settle()
    remedies = {each.kind: each for each in lab.why("w").remedies}
    assert "Quota" not in remedies, "more quota makes no rack free"
    lab.finish(*(key.removeprefix("ns/") for key in remedies["Departures"].keys))
    lab.settle()
    assert "w" in lab.running()


@pytest.mark.parametrize(
    ("mine", "yours", "asked", "advice", "changed"),
    [
        pytest.param(
            (2, 2, None), 8, 5, "a borrowingLimit of 3 instead of 2 gpu in default of ClusterQueue mine",
            queue("mine", (2, 3, None), "co"), id="its own borrowing limit",
        ),
        pytest.param(
            2, (8, None, 2), 5, "a lendingLimit of 3 instead of 2 gpu in default of ClusterQueue yours",
            queue("yours", (8, None, 3), "co"), id="the lending limit of another",
        ),
        pytest.param((2, 2, None), (8, None, 2), 5, None, None, id="both at once: neither alone would do"),
        pytest.param(2, (8, 1, None), 11, None, None, id="limits of others that only they run into"),
    ],
)  # fmt: skip
def test_free_quota_that_only_a_limit_keeps_away(
    mine: Limits, yours: Limits, asked: int, advice: str | None, changed: ClusterQueue | None
) -> None:
    lab = Lab(queue("mine", mine, "co"), queue("yours", yours, "co"))
    lab.submit("w", "mine", asked)
    lab.settle()
    found = [each.words for each in lab.why("w").remedies if each.kind == "Limit"]
    assert found == ([advice] if advice else [])
    if changed is not None:
        lab.tell(changed)
        lab.settle()
        assert lab.running() == {"w"}


def test_the_limit_of_a_cohort_keeps_free_quota_away_too() -> None:
    lab = Lab(cohort("root", None, 8), cohort("east", "root", (0, 2, None)), queue("mine", 1, "east"))
    lab.submit("w", "mine", 5)
    lab.settle()
    (found,) = [each.words for each in lab.why("w").remedies if each.kind == "Limit"]
    assert found == "a borrowingLimit of 4 instead of 2 gpu in default of Cohort east"
    lab.tell(cohort("east", "root", (0, 4, None)))
    lab.settle()
    assert lab.running() == {"w"}
