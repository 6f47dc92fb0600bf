"""Which flavor is taken: the table of the reference, one row a case, and where the next scan goes on."""

from __future__ import annotations

import pytest

from gpuaas.engine.values import PodSet

from .builders import Lab, admitted, flavors, passed, preempted, queue

ORDER = ("spot", "ondemand")


def lab_with(spot: str, ondemand: str, **rules: bool) -> Lab:
    """A queue `q` to which each flavor looks as said, for one workload of 4 and priority 10."""
    own: dict[str, tuple[int | None, ...]] = {}
    other: dict[str, int] = {}
    for name, look in zip(ORDER, (spot, ondemand), strict=True):
        own[name], other[name] = {
            "fit 0": ((4,), 0),
            "fit 1": ((0,), 4),
            "reclaim 0": ((4,), 0),
            "preempt 0": ((4,), 0),
            "preempt 1": ((2,), 2),
            "no candidates 0": ((4,), 0),
            "no fit": ((0, 0), 4),
        }[look]
    lab = Lab(
        queue("q", dict(own), "co", within="LowerPriority", reclaim="Any", **rules),
        queue("other", dict(other), "co"),
    )
    for name, look in zip(ORDER, (spot, ondemand), strict=True):
        occupy(lab, name, look)
    return lab


def occupy(lab: Lab, flavor: str, look: str) -> None:
    """Let somebody run in a flavor, so that it looks as said."""
    who = {
        "reclaim 0": ("other", 4, 0),
        "preempt 0": ("q", 4, 0),
        "preempt 1": ("q", 2, 0),
        "no candidates 0": ("q", 4, 100),
    }.get(look)
    if who is None:
        return
    name, amount, priority = who
    from gpuaas.engine.changes import Reserved
    from gpuaas.engine.values import PodSetAdmission

    workload = lab.workload(f"on-{flavor}", name, amount, priority=priority)
    given = PodSetAdmission("main", (("gpu", flavor),), (("gpu", amount),), 1)
    lab.engine.apply(Reserved(workload, name, (given,), lab.now))


TRY = {"borrow_stops": False}
BOTH = {"borrow_stops": False, "preempt_stops": False}
BOTH_PREEMPT_FIRST = {**BOTH, "preempt_first": True}


@pytest.mark.parametrize(
    ("spot", "ondemand", "rules", "chosen"),
    [
        pytest.param("fit 1", "fit 0", {}, "spot", id="by default borrowing stops the search"),
        pytest.param("fit 1", "fit 0", BOTH, "ondemand", id="told to look on, own quota is better than borrowed"),
        pytest.param("fit 1", "reclaim 0", BOTH, "spot", id="without preference borrowing beats preempting"),
        pytest.param("fit 1", "reclaim 0", BOTH_PREEMPT_FIRST, "ondemand!", id="preempting first, if preferred"),
        pytest.param("preempt 0", "fit 0", {"preempt_stops": True}, "spot!", id="preempting may stop the search"),
        pytest.param("preempt 0", "fit 0", {}, "ondemand", id="by default a flavor that fits beats preempting"),
        pytest.param(
            "no candidates 0",
            "preempt 1",
            {**BOTH_PREEMPT_FIRST, "borrow_within": True},
            "ondemand!",
            id="what can be had goes before levels",
        ),
        pytest.param(
            "no fit", "no candidates 0", {}, "none", id="a flavor that waits is still better than one that never fits"
        ),
    ],
)
def test_the_flavor_taken(spot: str, ondemand: str, rules: dict[str, bool], chosen: str) -> None:
    lab = lab_with(spot, ondemand, **rules)
    lab.submit("w", "q", 4, priority=10)
    plan = lab.cycle()
    match chosen:
        case "none":
            assert admitted(plan) == {}
            assert preempted(plan) == {}
            assert "insufficient unused quota for gpu in flavor ondemand, 4 more needed" in passed(plan, "w").message
        case "spot!" | "ondemand!":
            assert preempted(plan).keys() == {f"on-{chosen[:-1]}"}
        case _:
            assert flavors(plan, "w") == chosen


@pytest.mark.parametrize(
    ("spot", "ondemand", "rules", "said"),
    [
        pytest.param("fit 0", "fit 0", {}, "", id="nothing to say when the first one just fits"),
        pytest.param("fit 1", "fit 0", {}, "main: spot(Fit;borrow=1)", id="borrowing is told"),
        pytest.param(
            "fit 1", "fit 0", BOTH, "main: spot(Fit;borrow=1)", id="and told when own quota was found further on"
        ),
        pytest.param(
            "preempt 0",
            "fit 0",
            {},
            "main: spot(preemptionMode=Preempt;insufficient unused quota for gpu in flavor spot, 4 more needed)",
            id="what was passed over is told with its reason",
        ),
        pytest.param(
            "no fit",
            "fit 0",
            {},
            "main: spot(NoFit;insufficient quota for gpu in flavor spot, previously considered podsets requests (0) + "
            "current podset request (4) > maximum capacity (0))",
            id="and what can never be",
        ),
    ],
)
def test_flavors_that_did_not_simply_fit_are_told(spot: str, ondemand: str, rules: dict[str, bool], said: str) -> None:
    lab = lab_with(spot, ondemand, **rules)
    lab.submit("w", "q", 4, priority=10)
    (given,) = lab.cycle().admissions
    assert given.considered == said


def test_a_scan_that_stopped_early_goes_on_behind_where_it_stopped() -> None:
    """Two heads want the same victim's room; the one that is skipped tries the next flavor in the next cycle."""
    lab = Lab(
        queue("a", {"spot": 4, "ondemand": 4}, "co", within="LowerPriority", reclaim="Any", preempt_stops=True),
        queue("b", {"spot": 4, "ondemand": 0}, "co", within="LowerPriority", reclaim="Any", preempt_stops=True),
        queue("c", {"spot": 0, "ondemand": 0}, "co"),
    )
    lab.run("victim", "c", 8)
    lab.submit("late", "a", 4, priority=1)
    lab.submit("early", "b", 4, priority=9)
    first = lab.cycle()
    assert preempted(first) == {"victim": "InCohortReclamation"}
    assert passed(first, "late").message == "Workload has overlapping preemption targets with another workload"
    lab.release(first)
    second = lab.cycle()
    assert admitted(second)["early"]["main"]["gpu"] == "spot"
    assert admitted(second)["late"]["main"]["gpu"] == "ondemand", "spot was tried; the scan went on"


def test_a_scan_that_saw_every_flavor_starts_from_the_first_again() -> None:
    lab = Lab(queue("q", {"spot": 2, "ondemand": 2}))
    lab.run("s", "q", 2)
    lab.run("o", "q", 2)
    lab.submit("w", "q", 2)
    lab.cycle()
    assert lab.engine.items["ns/w"].last.tried == () or not lab.engine.items["ns/w"].last.more_to_try()
    lab.finish("s")
    assert flavors(lab.cycle(), "w") == "spot"


def test_a_scan_that_was_overtaken_by_an_admission_in_its_queue_starts_from_the_first_flavor_again() -> None:
    lab = Lab(queue("q", {"spot": 4, "ondemand": 4}))
    lab.run("s", "q", 3)
    lab.run("o", "q", 2)
    lab.submit("w", "q", pod_sets=(PodSet("small", 1, (("gpu", 1),)), PodSet("big", 1, (("gpu", 4),))))
    lab.cycle()
    stopped_at_spot = ({"gpu": 0}, {"gpu": -1})
    assert lab.engine.items["ns/w"].last.tried == stopped_at_spot
    lab.run("urgent", "q", 2, priority=5)
    lab.cycle()
    assert lab.engine.items["ns/w"].last.tried == stopped_at_spot, "not on to ondemand, which is full by now"
