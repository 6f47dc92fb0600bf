"""Admission fair sharing: decay, penalties, and the LocalQueue that used less going first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuaas.engine.changes import Admitted, Released
from gpuaas.engine.usage_share import Ledger, UsageConfig, decay
from gpuaas.engine.values import Check, LocalQueue

from .builders import Lab, admitted, queue

MINUTE = 60_000
CONFIG = UsageConfig(half_life=10 * MINUTE, sampling=5 * MINUTE)


def test_the_numbers_of_the_reference() -> None:
    assert decay(5 * MINUTE, 10 * MINUTE) == pytest.approx(0.29289, abs=1e-5)
    ledger = Ledger(CONFIG)
    ledger.penalize("ns/q", "w", {"cpu": 4.0})
    assert ledger.usage(None, "ns/q") == pytest.approx(1.17157, abs=1e-5)
    ledger = Ledger(CONFIG)
    ledger.load("ns/q", {"cpu": 8.0}, 0)
    ledger.sample("ns/q", {"cpu": 4.0}, 5 * MINUTE)
    assert ledger.consumed("ns/q")["cpu"] == pytest.approx(6.82843, abs=1e-5)


def test_without_a_half_life_every_sample_starts_from_nothing() -> None:
    ledger = Ledger(UsageConfig())
    ledger.load("ns/q", {"cpu": 8.0}, 0)
    ledger.sample("ns/q", {"cpu": 4.0}, MINUTE)
    assert ledger.usage(None, "ns/q") == 0


def test_weights_divide_usage_and_resources_weigh_as_configured() -> None:
    ledger = Ledger(UsageConfig(half_life=MINUTE, weights=(("cpu", 0.5),)))
    ledger.load("ns/q", {"cpu": 4.0, "gpu": 1.0}, 0)
    assert ledger.usage(LocalQueue("ns", "q", "cq", weight=2.0), "ns/q") == (0.5 * 4 + 1) / 2
    assert ledger.usage(LocalQueue("ns", "q", "cq", weight=0.0), "ns/q") == float("inf")


@pytest.fixture
def shared() -> Lab:
    """Two LocalQueues, busy and idle, on one ClusterQueue that orders by usage."""
    lab = Lab(usage_sharing=CONFIG)
    lab.tell(queue("cq", 10, usage_based=True, within="LowerPriority"))
    lab.tell(LocalQueue("ns", "busy", "cq"), LocalQueue("ns", "idle", "cq"))
    return lab


def test_the_queue_that_used_less_goes_first_even_against_priority(shared: Lab) -> None:
    shared.run("first", "busy", 6)
    shared.submit("more", "busy", 4, priority=100)
    shared.submit("less", "idle", 4)
    assert set(admitted(shared.cycle())) == {"less"}


def test_usage_decays_until_the_order_turns(shared: Lab) -> None:
    assert shared.engine.ledger is not None
    shared.engine.ledger.load("ns/busy", {"gpu": 8.0}, shared.now)
    shared.engine.ledger.load("ns/idle", {"gpu": 1.0}, shared.now)
    shared.submit("b", "busy", 10, priority=1)
    shared.submit("i", "idle", 10)
    with shared.engine.what_if() as trial:
        assert [a.key for a in trial.cycle(shared.now).admissions] == ["ns/i"]
    shared.engine.ledger.load("ns/idle", {"gpu": 9.0}, shared.now)
    assert set(admitted(shared.cycle())) == {"b"}


def test_a_trial_leaves_no_penalty_behind(shared: Lab) -> None:
    shared.submit("w", "busy", 4)
    assert shared.engine.ledger is not None
    with shared.engine.what_if() as trial:
        trial.cycle(shared.now)
        assert shared.engine.local_usage("ns/busy") > 0
    assert shared.engine.local_usage("ns/busy") == 0


def test_victims_come_from_the_queue_that_used_more(shared: Lab) -> None:
    shared.run("i", "idle", 5, priority=0)
    shared.run("b", "busy", 5, priority=5)
    assert shared.engine.ledger is not None
    shared.engine.ledger.load("ns/busy", {"gpu": 50.0}, shared.now)
    shared.submit("w", "idle", 5, priority=9)
    plan = shared.cycle()
    assert [p.key for p in plan.preemptions] == ["ns/b"], "usage before priority"


def test_samples_are_taken_when_due(shared: Lab) -> None:
    shared.run("w", "busy", 10)
    assert shared.engine.ledger is not None
    at = shared.now
    shared.engine.sample_usage(at + 5 * MINUTE)
    once = shared.engine.ledger.consumed("ns/busy")["gpu"]
    shared.engine.sample_usage(at + 6 * MINUTE)
    assert shared.engine.ledger.consumed("ns/busy")["gpu"] == once, "not due yet"
    shared.engine.sample_usage(at + 10 * MINUTE)
    assert shared.engine.ledger.consumed("ns/busy")["gpu"] > once


def test_a_queue_that_used_nothing_says_so_of_every_resource(shared: Lab) -> None:
    assert shared.engine.ledger is not None
    shared.engine.sample_usage(shared.now + 5 * MINUTE)
    assert shared.engine.ledger.consumed("ns/idle") == {"gpu": 0.0}


@pytest.fixture
def checked() -> Lab:
    """The same, with a check to wait for."""
    lab = Lab(usage_sharing=CONFIG)
    lab.tell(queue("cq", 10, usage_based=True, checks=(Check("ready"),)))
    lab.tell(LocalQueue("ns", "busy", "cq"), LocalQueue("ns", "idle", "cq"))
    return lab


def penalties(lab: Lab, key: str) -> dict[str, dict[str, float]]:
    assert lab.engine.ledger is not None
    found = lab.engine.ledger.memento().get(key)
    return {} if found is None else found.penalties


def test_what_was_paid_becomes_use_once_the_checks_are_ready(checked: Lab) -> None:
    checked.submit("w", "busy", 4)
    checked.cycle()
    paid = checked.engine.local_usage("ns/busy")
    assert penalties(checked, "ns/busy") == {"ns/w": {"gpu": pytest.approx(paid)}}
    checked.tell(Admitted("ns/w", checked.now))
    assert penalties(checked, "ns/busy") == {}
    assert checked.engine.local_usage("ns/busy") == pytest.approx(paid)
    checked.tell(Admitted("ns/w", checked.now + 5 * MINUTE))
    assert checked.engine.local_usage("ns/busy") == pytest.approx(paid), "once"


def test_who_is_sent_back_before_it_ran_has_paid_and_pays_no_second_time(checked: Lab) -> None:
    checked.submit("w", "busy", 4)
    checked.cycle()
    paid = checked.engine.local_usage("ns/busy")
    checked.tell(Released("ns/w"))
    assert checked.engine.local_usage("ns/busy") == pytest.approx(paid)
    checked.cycle()
    assert checked.engine.local_usage("ns/busy") == pytest.approx(paid)


def test_who_goes_to_another_queue_leaves_nothing_to_pay(checked: Lab) -> None:
    checked.submit("w", "busy", 4)
    checked.cycle()
    checked.tell(Released("ns/w", replace(checked.engine.items["ns/w"].workload, queue="idle")))
    assert penalties(checked, "ns/busy") == {}


def test_a_sample_never_goes_back_in_time() -> None:
    ledger = Ledger(CONFIG)
    ledger.load("ns/q", {"cpu": 8.0}, 5 * MINUTE)
    ledger.sample("ns/q", {"cpu": 4.0}, 4 * MINUTE)
    assert ledger.consumed("ns/q") == {"cpu": 8.0}
