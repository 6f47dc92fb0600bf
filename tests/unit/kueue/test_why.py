"""What `why` says, case by case: the word, the sentence, the evidence that must be there, and a way out."""

from __future__ import annotations

import pytest

from gpuaas.kueue.explain.snapshot import Picture, engine_of, pods_of, state_of
from gpuaas.kueue.explain.why import Answer, why, why_no_workload

from .pictures import AT, NOW, Object, ask, condition, configured, node, picture, reserved, stuck, workload

full = [reserved("a", 4, ("Admitted",)), reserved("b", 4, ("Admitted",), flavor="h200")]
CASES: list[tuple[str, Answer, str, str, str]] = [
    (
        "the quota is used by others",
        ask(workload(), *full),
        "WaitingForQuota",
        "it asks for 2 nvidia.com/gpu, and none of ClusterQueue cq's l4 is free",
        "  held by cq: 4 (its own: 4): ns/job-a 4",
    ),
    (
        "it asks for more than there ever is",
        ask(workload(gpus=9)),
        "ExceedsMaxQuota",
        "it asks for 9 nvidia.com/gpu; ClusterQueue cq can never give more than 4 of one flavor",
        "l4/nvidia.com/gpu: asked 9, free 4 (nominal 4, used 0, borrowable 0)",
    ),
    (
        "no flavor suits its node selector",
        ask(workload(selector={"gpu": "B200"})),
        "NoMatchingFlavor",
        "no flavor of ClusterQueue cq suits its pods: h200, l4 have quota, but do not match",
        "flavor l4 doesn't match node affinity",
    ),
    (
        "its queue has no quota for what it asks",
        ask(workload(resource="amd.com/gpu")),
        "NoMatchingFlavor",
        "it asks for amd.com/gpu, and ClusterQueue cq has no quota for that at all",
        "",
    ),
    (
        "it fits, behind others",
        ask(workload()),
        "BehindOthersInQueue",
        "it fits now: ClusterQueue cq looks at it next, with none before it",
        "position 1 in ClusterQueue cq, none before it",
    ),
    (
        "its LocalQueue does not exist",
        ask(workload(queue="lqq")),
        "QueueMissing",
        "LocalQueue lqq doesn't exist in namespace ns",
        "queues in ns: lq",
    ),
    (
        "its ClusterQueue does not exist",
        ask(workload(), local={"clusterQueue": "cqq"}),
        "QueueMissing",
        "its LocalQueue lq leads to ClusterQueue cqq, which does not exist",
        "",
    ),
    (
        "the ClusterQueue is stopped",
        ask(workload(), cluster={"stopPolicy": "Hold"}),
        "QueueStopped",
        "clusterqueue cq is stopped (Hold)",
        "",
    ),
    (
        "the ClusterQueue does not select the namespace",
        ask(workload(), cluster={"namespaceSelector": {"matchLabels": {"team": "a"}}}),
        "NamespaceMismatch",
        "ClusterQueue cq does not take workloads of namespace ns",
        "it selects team=a",
    ),
    (
        "the ClusterQueue selects no namespace",
        ask(workload(), cluster={"namespaceSelector": None}),
        "NamespaceMismatch",
        "ClusterQueue cq does not take workloads of namespace ns",
        "it selects no namespace at all",
    ),
    (
        "a flavor of its queue matches no node",
        ask(workload(), *full, nodes=[node("n1", "L40S"), node("n2", "H200")]),
        "WaitingForQuota",
        "it asks for 2 nvidia.com/gpu, and none of ClusterQueue cq's l4 is free",
        "flavor l4 matches none of 2 nodes: they have gpu=H200|L40S, it wants L4",
    ),
    (
        "its user deactivated it",
        ask(workload(spec={"active": False}, conditions=[("Evicted", "True", "Deactivated", "The workload is deactivated")])),
        "Deactivated",
        "it was deactivated, and stays so until it is resumed: The workload is deactivated",
        "",
    ),
    (
        "it is being evicted",
        ask(reserved("mine", 2, ("Evicted", "True", "Preempted", "Preempted to accommodate a workload (UID: u)"))),
        "Preempted",
        "Preempted to accommodate a workload (UID: u)",
        "",
    ),
    (
        "it was evicted and waits again",
        ask(workload(conditions=[("Evicted", "True", "Preempted", "Preempted by x; preemptor path: /a")]), *full),
        "WaitingForQuota",
        "it asks for 2 nvidia.com/gpu, and none of ClusterQueue cq's l4 is free",
        f"evicted at {AT} (Preempted): Preempted by x",
    ),
    (
        "a check is pending",
        ask(reserved("mine", 2, status={"admissionChecks": [{"name": "budget", "state": "Pending", "message": "asked"}]})),
        "WaitingForChecks",
        "ClusterQueue cq reserved quota for it; it waits for budget",
        "check budget: Pending asked",
    ),
    (
        "it runs",
        ask(reserved("mine", 2, ("Admitted",), ("PodsReady",))),
        "Admitted",
        f"it was admitted by ClusterQueue cq at {AT}",
        "pod set main: 1 pods on flavor l4",
    ),
    (
        "it has failed",
        ask(workload(conditions=[("Finished", "True", "Failed", "BackoffLimitExceeded")])),
        "Failed",
        "it has finished: BackoffLimitExceeded",
        "",
    ),
    (
        "who may not see quotas gets what the workload says",
        ask(
            workload(conditions=[("QuotaReserved", "False", "Pending", "couldn't assign flavors")]),
            hidden=frozenset({"cluster_queues"}),
        ),
        "Pending",
        "couldn't assign flavors",
        "you may not list cluster queues: there is no more to see",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "reason", "sentence", "evidence"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_dominant_reason(answer: Answer, reason: str, sentence: str, evidence: str) -> None:
    assert (answer.reason, answer.sentence) == (reason, sentence)
    assert evidence in ("", *answer.evidence)


def test_several_pod_sets_are_added_up_and_holders_named_once() -> None:
    asked = workload(gpus=2, sets=("head", "workers"))
    answer = ask(asked, reserved("a", 3, ("Admitted",)), reserved("b", 3, ("Admitted",), flavor="h200"))
    assert answer.sentence == "it asks for 4 nvidia.com/gpu, and 1 of ClusterQueue cq's l4 is free"
    assert len(answer.evidence) == len(set(answer.evidence))
    assert sum("held by" in line for line in answer.evidence) == 2, "one for each flavor"


def test_pods_are_found_through_what_stands_in_between() -> None:
    between = {"metadata": {"name": "s", "namespace": "ns", "uid": "set", "ownerReferences": [{"uid": "owner-mine"}]}}
    pods = [stuck("p", "set", ""), stuck("other", "owner-other", "")]
    found = pods_of(Picture(pods=pods, owners=[between]), workload())
    assert [each["metadata"]["name"] for each in found] == ["p"]


@pytest.mark.parametrize("fair", [False, True])
def test_the_engine_that_answers_shares_fairly_where_the_cluster_does(fair: bool) -> None:
    seen = picture(workload())
    if fair:
        seen.cluster_queues[0]["status"]["fairSharing"] = {"weightedShare": 0}
    assert (engine_of(seen).config.fair_sharing is not None) is fair


JOB = {"metadata": {"name": "j", "namespace": "ns"}}
QUEUED = {"metadata": {**JOB["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "lq"}}}
LABELS = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "pord"}
UNKNOWN: list[tuple[str, Object, str, str]] = [
    (
        "it runs and names no queue",
        JOB,
        "NoQueue",
        """kubectl patch job j -n ns --type merge -p '{"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}, "spec": {"suspend": true}}'""",
    ),
    ("its user suspended it", {**JOB, "spec": {"suspend": True}}, "Suspended", "kubectl label job j -n ns kueue.x-k8s.io/queue-name=lq --overwrite"),
    ("its workload is not there yet", QUEUED, "NoWorkload", "look again in a moment"),
    ("it runs although it names a queue", {**QUEUED, "spec": {"suspend": False}}, "NotManaged", "kubectl label namespace ns kueue.openshift.io/managed=true"),
    ("its priority does not exist", {"metadata": {**JOB["metadata"], "labels": LABELS}}, "PriorityClassMissing", "kubectl label job j -n ns kueue.x-k8s.io/priority-class=prod --overwrite"),
    (
        "its user stopped the notebook",
        {"metadata": {**JOB["metadata"], "annotations": {"kubeflow-resource-stopped": "x"}}},
        "StoppedByUser",
        "kubectl annotate job j -n ns kubeflow-resource-stopped-",
    ),
]  # fmt: skip


def test_a_job_that_has_finished_needs_no_queue_any_more() -> None:
    done = {
        **QUEUED,
        "spec": {"suspend": False},
        "status": {"conditions": [condition("Complete", message="All is done")]},
    }
    answer = why_no_workload(done, "Job", [])
    assert (answer.state, answer.reason, answer.ways) == ("Succeeded", "Succeeded", ())
    assert answer.sentence == "it has finished: All is done"


@pytest.mark.parametrize(("job", "reason", "way"), [case[1:] for case in UNKNOWN], ids=[case[0] for case in UNKNOWN])
def test_a_job_no_queue_knows(job: Object, reason: str, way: str) -> None:
    answer = why_no_workload(job, "Job", [{"metadata": {"name": "lq"}}], priorities=["dev", "prod"])
    assert answer.reason == reason
    assert way in answer.ways


STATES: list[tuple[str, Object]] = [
    ("Pending", workload()),
    ("Reserved", reserved("w", 1)),
    ("Admitted", reserved("w", 1, ("Admitted",))),
    ("Running", reserved("w", 1, ("Admitted",), ("PodsReady",))),
    ("Evicted", reserved("w", 1, ("Admitted",), ("Evicted",))),
    ("Pending", workload(conditions=[("Evicted",), ("QuotaReserved", "False")])),
    ("Inactive", workload(spec={"active": False})),
    ("Succeeded", workload(conditions=[("Finished", "True", "Succeeded")])),
    ("Failed", workload(conditions=[("Finished", "True", "Failed")])),
]


@pytest.mark.parametrize(("state", "seen"), STATES)
def test_one_word_for_the_state(state: str, seen: Object) -> None:
    assert state_of(seen) == state


def test_what_the_configuration_makes_of_requests_is_what_is_missing() -> None:
    """A MIG slice counts as a part of a GPU, where the configuration says so."""
    slices = workload("mine", 20, resource="nvidia.com/mig-1g.5gb")
    rule = "{input: nvidia.com/mig-1g.5gb, strategy: Replace, outputs: {nvidia.com/gpu: '0.25'}}"
    whole = picture(reserved("other", 4), reserved("third", 4, flavor="h200"), slices)
    assert why(whole, slices, NOW).reason == "NoMatchingFlavor"  # nothing is known of the rule
    whole.configuration = configured(f"resources: {{transformations: [{rule}]}}")
    answer = why(whole, slices, NOW)
    assert answer.reason == "ExceedsMaxQuota"
    assert any("asked 5" in line for line in answer.evidence)


def test_excluded_resources_are_not_missing() -> None:
    mine = workload("mine", 3, resource="example.com/dongle")
    whole = picture(mine, configuration=configured("resources: {excludeResourcePrefixes: [example.com/]}"))
    assert why(whole, mine, NOW).reason == "BehindOthersInQueue"


@pytest.mark.parametrize("known", [True, False], ids=["as configured", "as the statuses show"])
def test_who_used_less_lately_is_before_who_came_earlier(known: bool) -> None:
    """Admission fair sharing: the order is by what LocalQueues have used, and so is the position."""
    first, second = workload("early", 4, queue="greedy"), workload("late", 4, queue="modest")
    second["metadata"]["creationTimestamp"] = "2026-11-15T12:30:00Z"
    whole = picture(
        reserved("other", 4), reserved("third", 4, flavor="h200"), first, second,
        cluster={"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}},
    )  # fmt: skip
    used = {"greedy": "100", "modest": "1"}
    for name, amount in used.items():
        told = {"consumedResources": {"nvidia.com/gpu": amount}, "lastUpdate": AT}
        queue = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}
        whole.local_queues.append({**queue, "status": {"fairSharing": {"admissionFairSharingStatus": told}}})
    if known:
        whole.configuration = configured("admissionFairSharing: {usageHalfLifeTime: 10m}")
    engine = engine_of(whole)
    waiting = [item.key for item in engine.forest.queues["cq"].pending.ordered()]
    assert waiting == ["ns/job-late", "ns/job-early"]
    assert any("position 2" in line for line in why(whole, first, NOW).evidence)


def test_what_others_hold_counts_even_where_their_workloads_cannot_be_seen() -> None:
    mine = workload("mine", 2)
    whole = picture(mine, reserved("seen", 1))
    told = [
        {"name": "l4", "resources": [{"name": "nvidia.com/gpu", "total": "4"}]},  # one of them is "seen"'s
        {"name": "h200", "resources": [{"name": "nvidia.com/gpu", "total": "4"}]},
    ]
    whole.cluster_queues[0]["status"]["flavorsReservation"] = told
    assert why(whole, mine, NOW).reason == "BehindOthersInQueue"  # all there is, as far as one can see
    whole.partial = frozenset({"workloads"})
    answer = why(whole, mine, NOW)
    assert answer.reason == "WaitingForQuota"
    assert any("l4/nvidia.com/gpu: asked 2, free 0" in line for line in answer.evidence)
    assert "  held by cq: 4 (its own: 4): jobs of other namespaces 3, ns/job-seen 1" in answer.evidence
    assert "whose leaving would help: jobs of other namespaces" in answer.ways
    assert not any("priority" in way for way in answer.ways)
    whole.cluster_queues[0]["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority"}
    assert not any("priority" in way for way in why(whole, mine, NOW).ways), "whoever it is: no priority is higher"
