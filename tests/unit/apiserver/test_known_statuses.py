"""Statuses that our own parts write alike are looked at once, and end up as if each had been looked at."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from tests.unit.apiserver.conftest import MERGE, Api

from gpuaas.apiserver.custom import CustomVersion
from gpuaas.apiserver.known_statuses import KnownStatuses
from gpuaas.apiserver.local import LocalClient
from gpuaas.base.errors import Conflict, Denied, Invalid
from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.protocol import Object

PATH = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
ADMISSION = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 1}]}


@pytest.fixture
def client(api: Api) -> LocalClient:
    return LocalClient(api.parts.cluster, api.parts.access.system_user("test"), "tester")


def made(api: Api, client: LocalClient, name: str) -> Object:
    spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": POD}}]}
    obj: Object = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    found: Object = api.run(client.create(WORKLOADS, obj, "default"))
    return found


def write(api: Api, client: LocalClient, obj: Object, status: Object, manager: str = "") -> Object:
    whole = {**obj, "status": status}
    found: Object = api.run(client.update(WORKLOADS, whole, "default", subresource="status", field_manager=manager))
    return found


def said(kind: str, message: Any, since: Any = "2026-01-01T00:00:00Z", status: str = "True") -> Object:
    return {"type": kind, "status": status, "reason": "Why", "message": message, "lastTransitionTime": since}


def counted(number: Any) -> Object:
    return {"accumulatedPastExecutionTimeSeconds": number}


def evicted(number: Any) -> Object:
    return {"schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": number}]}}


def told(api: Api, client: LocalClient, name: str, seed: int) -> list[Any]:
    """What is kept after each of a few statuses: words, times, states and managers come and go."""
    chance, obj, kept = random.Random(seed), made(api, client, name), []
    conditions: dict[str, Object] = {}
    for step in range(6):
        api.clock.advance(chance.choice((0, 1)))
        now = f"2026-01-01T00:00:0{step}Z"
        kind = chance.choice(("QuotaReserved", "Requeued", "Evicted"))
        match chance.randrange(4):
            case 0:
                conditions.pop(kind, None)
            case 1 if kind in conditions:
                conditions[kind] = {**conditions[kind], "message": chance.choice(("one", "two", ""))}
            case 2 if kind in conditions:
                conditions[kind] = {**conditions[kind], "lastTransitionTime": now}
            case _:
                conditions[kind] = said(kind, chance.choice(("one", "two")), now)
        status: Object = {"conditions": list(conditions.values())}
        if chance.random() < 0.7:
            status["accumulatedPastExecutionTimeSeconds"] = chance.choice((0, 1, 7))
        reasons = chance.sample(("One", "Two"), chance.choice((0, 1, 2)))
        counts = [{"reason": reason, "underlyingCause": "", "count": chance.choice((1, 2))} for reason in reasons]
        if counts:
            status["schedulingStats"] = {"evictions": counts}
        if "QuotaReserved" in conditions:
            status["admission"] = ADMISSION
        obj = write(api, client, obj, status, chance.choice(("ann", "ben")))
        entries = obj["metadata"]["managedFields"]
        times = sorted({entry["time"] for entry in entries})
        kept.append((obj["status"], [{**entry, "time": times.index(entry["time"])} for entry in entries]))
    return kept


@pytest.mark.parametrize("seed", range(12))
def test_what_is_kept_is_what_a_look_at_each_would_leave(
    api: Api, client: LocalClient, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    first, again = told(api, client, f"first-{seed}", seed), told(api, client, f"again-{seed}", seed)
    monkeypatch.setattr(KnownStatuses, "change", lambda *_: None)
    plain = told(api, client, f"plain-{seed}", seed)
    assert msgspec.json.encode(again) == msgspec.json.encode(plain) == msgspec.json.encode(first)


def test_a_status_like_one_before_is_neither_read_nor_checked_again(
    api: Api, client: LocalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = made(api, client, "one-of-two"), made(api, client, "two-of-two")
    write(api, client, one, {"conditions": [said("Requeued", "now")]})
    monkeypatch.setattr(CustomVersion, "read", None)
    monkeypatch.setattr(CustomVersion, "_check", None)
    kept = write(api, client, two, {"conditions": [said("Requeued", "later", "2026-02-02T00:00:00Z")]})
    assert kept["status"]["conditions"][0]["message"] == "later"


def test_numbers_that_decide_nothing_do_not_either(
    api: Api, client: LocalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    objs = [made(api, client, f"number-{number}") for number in range(2)]
    for number, obj in enumerate(objs):
        if number:
            monkeypatch.setattr(CustomVersion, "read", None)
            monkeypatch.setattr(CustomVersion, "_check", None)
        for seconds in (5, 6):
            # A list that was not there is looked at with its numbers.
            stats = {**evicted(1 if seconds == 5 else 6 * (number + 1)), **counted(seconds + number)}
            obj = write(api, client, obj, {"conditions": [said("Requeued", "now")], **stats})
        assert obj["status"]["schedulingStats"]["evictions"][0]["count"] == 6 * (number + 1)
        assert obj["status"]["accumulatedPastExecutionTimeSeconds"] == 6 + number


def test_nulls_and_fields_nobody_knows_are_left_out_as_ever(api: Api, client: LocalClient) -> None:
    right = {"conditions": [said("Requeued", "now")]}
    for number, odd in enumerate(({"clusterName": None}, {"nobody": 1}, {"requeueState": {"count": 1.0}})):
        write(api, client, made(api, client, f"right-{number}"), right)
        kept = write(api, client, made(api, client, f"odd-{number}"), {**right, **odd})
        counted = {"requeueState": {"count": 1}} if "requeueState" in odd else {}
        assert msgspec.json.encode(kept["status"]) == msgspec.json.encode({**right, **counted})


def test_what_is_wrong_is_refused_though_one_like_it_was_right(api: Api, client: LocalClient) -> None:
    right = {"conditions": [said("Requeued", "now")]}
    write(api, client, made(api, client, "good"), right)
    write(api, client, made(api, client, "counted"), {**counted(1), **evicted(1), **right})
    bad = made(api, client, "bad")
    for wrong, refusal in (
        ({"conditions": [said("Requeued", "now", "yesterday")]}, Invalid),
        ({"conditions": [said("Requeued", 7)]}, Invalid),
        ({"conditions": [said("Requeued", "x" * 40_000)]}, Invalid),
        ({"conditions": [said("QuotaReserved", "now")]}, Denied),  # with no admission
        ({**evicted(-1), "conditions": [said("Requeued", "now")]}, Invalid),
        ({**counted(2**31), "conditions": [said("Requeued", "now")]}, Invalid),
        ({**counted(True), "conditions": [said("Requeued", "now")]}, Invalid),
    ):
        with pytest.raises(refusal):
            write(api, client, bad, wrong)


def test_rules_that_look_at_annotations_are_asked_of_those_that_have_others(api: Api, client: LocalClient) -> None:
    status = {"clusterName": "east", "conditions": [said("Requeued", "now")]}
    replaces = {"metadata": {"annotations": {"kueue.x-k8s.io/workload-slice-replacement-for": "default/other"}}}
    free = made(api, client, "slice")
    free = api.send("PATCH", f"{PATH}/slice", replaces, MERGE).body
    write(api, client, free, status)
    with pytest.raises(Denied, match="nominatedClusterNames"):
        write(api, client, made(api, client, "no-slice"), status)


def test_who_has_not_seen_the_newest_is_told_so(api: Api, client: LocalClient) -> None:
    old = made(api, client, "seen")
    write(api, client, old, {"conditions": [said("Requeued", "now")]})
    with pytest.raises(Conflict):
        write(api, client, old, {"conditions": [said("Requeued", "then")]})


@pytest.mark.parametrize(("says", "since"), [(True, False), (False, True), (True, True)])
def test_who_changes_only_words_or_only_times_owns_only_those(
    api: Api, client: LocalClient, says: bool, since: bool
) -> None:
    owned = []
    for number, (words, time) in enumerate(((True, True), (True, False), (False, True), (says, since))):
        obj = made(api, client, f"changed-{says}-{since}-{number}".lower())
        obj = write(api, client, obj, {"conditions": [said("Requeued", "now")]}, "ann")
        condition = said("Requeued", "then" if words else "now", f"202{6 + time}-01-01T00:00:00Z")
        obj = write(api, client, obj, {"conditions": [condition]}, "ben")
        by_ben = next(entry["fieldsV1"] for entry in obj["metadata"]["managedFields"] if entry["manager"] == "ben")
        owned.append(set(by_ben["f:status"]["f:conditions"]['k:{"type":"Requeued"}']))
    assert owned[-1] == {name for name, changed in (("f:message", says), ("f:lastTransitionTime", since)) if changed}
