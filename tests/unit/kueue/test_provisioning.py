"""What is asked of an autoscaler for a workload, and what its answer makes of the check."""

from typing import Any

import pytest

from gpuaas.kueue import provisioning
from gpuaas.kueue.provisioning import CLASS, CONSUMES, NOT_ACTIVE, NOT_NEEDED

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
NAME = "wl-check-1"


def pod_set(name: str = "main", count: int = 2, **requests: str) -> Object:
    resources = {"requests": requests or {GPU: "1"}}
    return {
        "name": name,
        "count": count,
        "template": {"spec": {"containers": [{"name": name, "resources": resources}]}},
    }


def workload(*pod_sets: Object, counts: dict[str, int] | None = None, **conditions: str) -> Object:
    sets = pod_sets or (pod_set(),)
    given = [{"name": s["name"], "count": (counts or {}).get(s["name"], s["count"])} for s in sets]
    said = [{"type": kind, "status": status} for kind, status in {"QuotaReserved": "True", **conditions}.items()]
    return {
        "metadata": {"name": "wl", "namespace": "team"},
        "spec": {"podSets": list(sets)},
        "status": {"admission": {"clusterQueue": "q", "podSetAssignments": given}, "conditions": said},
    }


def config(**spec: Any) -> Object:
    retry = {"backoffLimitCount": 2, "backoffBaseSeconds": 60, "backoffMaxSeconds": 100}
    return {"metadata": {"name": "c"}, "spec": {"provisioningClassName": "queued", "retryStrategy": retry, **spec}}


def request(name: str = NAME, details: Object | None = None, **conditions: str) -> Object:
    """Conditions by name: their words, true unless they begin with `not `."""
    made = provisioning.request_for(workload(), name, config(), provisioning.parts(workload(), config()))
    said = [
        {"type": kind, "status": "False" if words.startswith("not ") else "True", "message": words.removeprefix("not ")}
        for kind, words in conditions.items()
    ]
    return {**made, "status": {"conditions": said, "provisioningClassDetails": details or {}}}


def check(state: str = "Pending", message: str = "", **more: Any) -> Object:
    return {"name": "check", "state": state, "message": message, **more}


ANSWERS: list[tuple[str, Object, Object, Object]] = [
    ("a new request says nothing yet", check(message="old words"), request(), check()),
    (
        "when it is expected is passed on",
        check(),
        request(Accepted="yes", Provisioned="not in 5 minutes"),
        check(message="in 5 minutes"),
    ),
    ("an accepted one without a word leaves the check as it is", check(message="x"), request(Accepted="yes"), check(message="x")),
    (
        "nodes that are there make the check ready and tell the pods",
        check(),
        request(Provisioned="here"),
        check("Ready", "here", podSetUpdates=[{"name": "main", "annotations": {CONSUMES: NAME, CLASS: "queued"}}]),
    ),
    (
        "a failure is tried again after a while",
        check(),
        request(Failed="no nodes"),
        check("Retry", "Retrying after failure: no nodes", requeueAfterSeconds=60),
    ),
    (
        "twice as long each time, up to the most",
        check(retryCount=1),
        request("wl-check-2", Failed="no nodes"),
        check("Retry", "Retrying after failure: no nodes", requeueAfterSeconds=100, retryCount=1),
    ),
    (
        "a failure that was answered already is only told",
        check(retryCount=1),
        request(Failed="no nodes"),
        check(message="Retrying after failure: no nodes", retryCount=1),
    ),
    (
        "after so many tries the check is rejected",
        check(retryCount=2),
        request("wl-check-3", Failed="no nodes"),
        check("Rejected", "no nodes", retryCount=2),
    ),
    (
        "nodes that were kept too long are asked for again",
        check("Ready"),
        request(Provisioned="here", BookingExpired="too late"),
        check("Retry", "Retrying after booking expired: too late", requeueAfterSeconds=60),
    ),
    (
        "nodes that were taken away reject it",
        check("Ready"),
        request(Provisioned="here", CapacityRevoked="gone"),
        check("Rejected", "gone"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "answer", "after"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_an_answer_becomes_the_state_of_the_check(before: Object, answer: Object, after: Object) -> None:
    assert provisioning.judged(workload(), before, config(), answer) == after


def test_an_admitted_workload_does_not_mind_that_its_booking_expired() -> None:
    ready = check("Ready")
    assert provisioning.judged(workload(Admitted="True"), ready, config(), request(BookingExpired="late")) is ready


def test_what_is_judged_twice_stays_the_same() -> None:
    for answer in (row[2] for row in ANSWERS):
        once = provisioning.judged(workload(), check(), config(), answer)
        assert provisioning.judged(workload(), once, config(), answer) == once


def test_without_its_configuration_the_check_is_not_active() -> None:
    assert provisioning.judged(workload(), check("Ready"), None, None) == check("Pending", NOT_ACTIVE)


@pytest.mark.parametrize(
    ("found", "settings"),
    [
        (workload(pod_set(memory="1Gi")), config(managedResources=[GPU])),
        (workload(counts={"main": 0}), config()),
    ],
    ids=["whose pods use nothing that is managed", "without pods"],
)
def test_a_workload_needs_no_request(found: Object, settings: Object) -> None:
    assert not provisioning.is_needed(found, settings)
    assert provisioning.judged(found, check(), settings, None) == check("Ready", NOT_NEEDED)


def test_details_of_the_answer_become_node_selectors() -> None:
    selector = [
        {"key": "zone", "valueFromProvisioningClassDetail": "Zone"},
        {"key": "x", "valueFromProvisioningClassDetail": "Unknown"},
    ]
    answer = request(details={"Zone": "a"}, Provisioned="here")
    ready = provisioning.judged(workload(), check(), config(podSetUpdates={"nodeSelector": selector}), answer)
    assert [each["nodeSelector"] for each in ready["podSetUpdates"]] == [{"zone": "a"}]


def test_a_request_passes_parameters_of_the_configuration_and_of_the_job() -> None:
    found = workload()
    found["metadata"]["annotations"] = {"provreq.kueue.x-k8s.io/ValidUntilSeconds": "60", "other": "x"}
    made = provisioning.request_for(found, NAME, config(parameters={"p": "1"}), provisioning.parts(found, config()))
    assert made["metadata"] == {"name": NAME, "namespace": "team", "labels": {"kueue.x-k8s.io/managed": "true"}}
    assert made["spec"] == {
        "provisioningClassName": "queued",
        "parameters": {"p": "1", "ValidUntilSeconds": "60"},
        "podSets": [{"podTemplateRef": {"name": "ppt-wl-check-1-main"}, "count": 2}],
    }


MERGES = [
    ("nothing without a policy", None, [("a", 1), ("b", 2), ("c", 3)]),
    ("pods with the same template", "IdenticalPodTemplates", [("a", 1), ("b", 2), ("c", 3)]),
    ("pods with the same needs", "IdenticalWorkloadSchedulingRequirements", [("a", 3), ("c", 3)]),
]


@pytest.mark.parametrize(("policy", "parts"), [row[1:] for row in MERGES], ids=[row[0] for row in MERGES])
def test_what_is_asked_for_as_one(policy: str | None, parts: list[tuple[str, int]]) -> None:
    """`a` and `b` ask for the same in other words, in containers of other names."""
    found = workload(pod_set("a", 1, cpu="1"), pod_set("b", 2, cpu="1000m"), pod_set("c", 3, cpu="2"))
    settings = config(podSetMergePolicy=policy)
    assert [(each.name, each.count) for each in provisioning.parts(found, settings)] == parts


def test_a_template_has_what_the_flavor_adds_and_requests_where_there_are_only_limits() -> None:
    asked = pod_set()
    asked["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1"},
        "limits": {"cpu": "2", GPU: "1"},
    }
    found = workload(asked)
    found["status"]["admission"]["podSetAssignments"][0]["flavors"] = {GPU: "l4"}
    flavor = {"spec": {"nodeLabels": {"gpu": "l4"}, "tolerations": [{"key": "gpu"}]}}
    [part] = provisioning.parts(found, config())
    made = provisioning.template_for(found, NAME, part, lambda _: flavor)
    spec = made["template"]["spec"]
    assert made["metadata"]["name"] == "ppt-wl-check-1-main"
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"gpu": "l4"}, [{"key": "gpu"}])
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", GPU: "1"}


ATTEMPTS = [
    ("the first", check(), None, 1),
    ("the one after those before", check(retryCount=2), None, 3),
    ("none while one is under way", check(), request(), None),
    ("none once it is ready", check("Ready"), None, None),
    ("none before the workload has come back", check("Retry"), request(Failed="x"), None),
    ("another after a failure", check(), request(Failed="x"), 2),
    ("another when it came too late", check(), request(BookingExpired="x"), 2),
]


@pytest.mark.parametrize(("state", "last", "attempt"), [row[1:] for row in ATTEMPTS], ids=[row[0] for row in ATTEMPTS])
def test_the_next_request_is(state: Object, last: Object | None, attempt: int | None) -> None:
    assert provisioning.next_attempt(workload(), state, last) == attempt


def test_the_last_request_that_says_what_the_configuration_does_counts() -> None:
    other = request("wl-check-3")
    other["spec"]["provisioningClassName"] = "another"
    all_of_them = [request("wl-check-1"), request("wl-check-2"), other, request("wl-checks-9"), request("w-check-9")]
    found = provisioning.newest(all_of_them, "wl", "check", config())
    assert found is not None
    assert found["metadata"]["name"] == "wl-check-2"


def test_long_names_are_cut_and_stay_different() -> None:
    names = {provisioning.request_name("w" * 250, "check", attempt) for attempt in (1, 2)}
    assert len(names) == 2
    assert all(len(name) == 253 for name in names)
    assert {provisioning.attempt_of(name, "w" * 250, "check") for name in names} == {1, 2}


REFERENCES = [
    (None, "missing parameters reference"),
    ({"apiGroup": "x", "kind": "ProvisioningRequestConfig", "name": "c"}, 'wrong group "x", expecting "kueue.x-k8s.io": '),
    ({"apiGroup": "kueue.x-k8s.io", "kind": "X", "name": "c"}, 'wrong kind "X", expecting "ProvisioningRequestConfig": '),
    ({"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "c"}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "words"), REFERENCES)
def test_a_check_must_name_its_configuration(reference: Object | None, words: str) -> None:
    found = provisioning.parameters_problem({"spec": {"parameters": reference}})
    assert found.startswith(words)
    assert bool(found) == bool(words)
