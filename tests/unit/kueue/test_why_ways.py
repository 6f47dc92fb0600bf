"""The ways out that `why` shows: what they name is what would help, and they work as they stand."""

from __future__ import annotations

import pytest

from gpuaas.kueue.explain.why import Answer, why

from .pictures import AT, NOW, Object, ask, condition, configured, flavor, node, picture, reserved, stuck, workload

full = [reserved("a", 4, ("Admitted",)), reserved("b", 4, ("Admitted",), flavor="h200")]
WAYS: list[tuple[str, Answer, str]] = [
    (
        "the nearest queue",
        ask(workload(queue="lqq")),
        "kubectl label job mine -n ns kueue.x-k8s.io/queue-name=lq --overwrite",
    ),
    (
        "the nearest ClusterQueue",
        ask(workload(), local={"clusterQueue": "cqq"}),
        "delete LocalQueue lq and make it again for ClusterQueue cq: where it leads cannot be changed",
    ),
    ("resume the queue", ask(workload(), cluster={"stopPolicy": "Hold"}), "gpuaas resume clusterqueue cq"),
    ("resume the LocalQueue", ask(workload(), local={"stopPolicy": "Hold"}), "gpuaas resume localqueue lq -n ns"),
    ("resume the workload", ask(workload(spec={"active": False})), "gpuaas resume workload job-mine -n ns"),
    (
        "label the namespace",
        ask(workload(), cluster={"namespaceSelector": {"matchLabels": {"team": "a"}}}),
        "kubectl label namespace ns team=a",
    ),
    (
        "label the namespace as expressions ask",
        ask(
            workload(),
            cluster={
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "team", "operator": "In", "values": ["a", "b"]},
                        {"key": "tier", "operator": "Exists"},
                    ]
                }
            },
        ),
        "kubectl label namespace ns team=a tier=true",
    ),
    (
        "the name of a namespace is no label one can change",
        ask(workload(), cluster={"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}),
        "let it take ns: spec.namespaceSelector of ClusterQueue cq",
    ),
    ("ask for what there can be", ask(workload(gpus=9)), "ask for at most 4 nvidia.com/gpu"),
    (
        "ask for what the queue has",
        ask(workload(resource="amd.com/gpu")),
        "ask only for what the queue has: nvidia.com/gpu",
    ),
    (
        "see what a failed job wrote",
        ask(workload(conditions=[("Finished", "True", "Failed", "BackoffLimitExceeded")])),
        "gpuaas logs mine -n ns",
    ),
    ("who would have to leave", ask(workload(), *full), "1 workload(s) leaving: ns/job-a"),
    ("how much quota is missing", ask(workload(), *full), "2 more nvidia.com/gpu in l4"),
]


@pytest.mark.parametrize(("answer", "way"), [case[1:] for case in WAYS], ids=[case[0] for case in WAYS])
def test_a_way_out(answer: Answer, way: str) -> None:
    assert way in answer.ways
    assert len(answer.ways) <= 3


def test_what_a_check_stopped_is_not_let_in_by_being_active_alone() -> None:
    gone = ("Requeued", "False", "DeactivatedDueToAdmissionCheck", "rejected")
    answer = ask(workload(conditions=(("QuotaReserved", "False"), gone)))
    assert answer.reason == "BackingOff"
    assert answer.ways == ("gpuaas resume workload job-mine -n ns",)


def test_a_kind_that_is_not_dispatched_is_not_resumed_in_vain() -> None:
    words = (
        'The workload is deactivated due to AdmissionCheck in Rejected state: "mk" (No multikueue adapter found for x)'
    )
    job = workload(conditions=(("Evicted", "True", "Deactivated", words),))
    answer = ask({**job, "spec": {**job["spec"], "active": False}})
    assert answer.reason == "Deactivated"
    assert answer.ways == (
        "MultiKueue dispatches no jobs of this kind: submit it on a worker, or to a queue without the check",
    )


MISSING = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "h20", "resources": []}]}
IDLE = {"metadata": {"name": "budget"}, "spec": {"controllerName": "example.com/budget"}}


@pytest.mark.parametrize(
    ("spec", "checks", "way"),
    [
        ({"resourceGroups": [MISSING]}, [], "make ResourceFlavor h20, or name another in ClusterQueue cq: h200"),
        ({"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}}, [], "make AdmissionCheck budget"),
        (
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}},
            [IDLE],
            "run example.com/budget, which has to say that AdmissionCheck budget is active, or take it out of cq",
        ),
        ({}, [], "kubectl describe clusterqueue cq"),
    ],
)
def test_what_makes_a_queue_active_again(spec: Object, checks: list[Object], way: str) -> None:
    seen = picture(asked := workload(), cluster=spec, checks=checks)
    seen.cluster_queues[0]["status"]["conditions"] = [condition("Active", "False", "NotReady", "Can't admit")]
    assert why(seen, asked, NOW).ways[0] == way


@pytest.mark.parametrize(
    ("selector", "way"),
    [
        ({}, "make LocalQueue lq in namespace ns for one of: cq"),
        ({"matchLabels": {"team": "x"}}, "let a ClusterQueue take namespace ns (spec.namespaceSelector): none does"),
    ],
)
def test_a_namespace_without_a_queue_is_told_which_would_take_it(selector: Object, way: str) -> None:
    seen = picture(asked := workload(), cluster={"namespaceSelector": selector})
    seen.local_queues.clear()
    assert why(seen, asked, NOW).ways == (way,)


def test_pods_that_no_node_could_ever_hold_are_told_before_they_get_quota() -> None:
    answer = ask(workload(gpus=4), *full, nodes=[node("n1", "L4"), node("n2", "H200")])
    assert not [line for line in answer.evidence if "none of the nodes" in line]
    small = [node("n1", "L4"), node("n2", "H200")]
    for each in small:
        each["status"]["allocatable"]["nvidia.com/gpu"] = "2"
    answer = ask(workload(gpus=4), *full, nodes=small)
    assert answer.reason == "WaitingForQuota"
    assert (
        "a pod of main asks for 4 nvidia.com/gpu, and none of the nodes it may go to has more than 2" in answer.evidence
    )
    assert answer.ways[0] == "less nvidia.com/gpu in each pod, and more pods"


@pytest.mark.parametrize(("there", "who"), [(True, "ns/job-high"), (False, "a workload (UID: uid-high, JobUID: x)")])
def test_who_took_its_place_goes_by_name_while_it_is_there(there: bool, who: str) -> None:
    words = "Preempted to accommodate a workload (UID: uid-high, JobUID: x) due to prioritization in the ClusterQueue"
    asked = workload(conditions=(("Evicted", "True", "Preempted", f"{words}; preemptor path: /cq"),))
    answer = ask(asked, *full, *([reserved("high", 0, ("Admitted",))] if there else []))
    said = f"Preempted to accommodate {who} due to prioritization in the ClusterQueue"
    assert f"evicted at {AT} (Preempted): {said}" in answer.evidence


def test_a_taint_of_a_flavor_is_named_to_who_does_not_tolerate_it() -> None:
    seen = picture(asked := workload(selector={"gpu": "H200"}))
    seen.flavors[1]["spec"]["nodeTaints"] = [{"key": "gpu", "value": "big", "effect": "NoSchedule"}]
    answer = why(seen, asked, NOW)
    assert answer.ways[0] == "tolerate gpu=big:NoSchedule in its pods, to use h200"


def test_a_level_that_its_topology_does_not_have_is_answered_with_those_it_has() -> None:
    asked = workload()
    asked["spec"]["podSets"][0]["topologyRequest"] = {"required": "block"}
    racks = {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "host"}]}}
    seen = picture(asked, topologies=[racks])
    for each in seen.flavors:
        each["spec"]["topologyName"] = "racks"
    answer = why(seen, asked, NOW)
    assert answer.sentence == "no flavor of ClusterQueue cq suits its pods: h200, l4 have quota, but do not match"
    assert answer.ways[1] == "ask for a level that Topology racks of l4 has: rack, host"


@pytest.mark.parametrize(
    ("selector", "ways"),
    [
        (None, ("make it again with the node selector gpu=H200: nodes of flavor h200 are large enough",)),
        ({"gpu": "L4"}, ()),
    ],
)
def test_nodes_of_another_flavor_that_would_hold_it_are_named(selector: Object | None, ways: tuple[str, ...]) -> None:
    asked = reserved("mine", 4, ("Admitted",), selector=selector)
    small = node("n1", "L4")
    small["status"]["allocatable"]["nvidia.com/gpu"] = "2"
    pods = [stuck("p", "owner-mine", FULL, asking(4, "L4"))]
    answer = ask(asked, nodes=[small, node("n2", "H200")], pods=pods)
    assert answer.ways[1:] == ways


@pytest.mark.parametrize(
    ("controller", "way"),
    [
        ("example.com/budget", "example.com/budget has to agree: kubectl describe admissioncheck budget"),
        (
            "kueue.x-k8s.io/provisioning-request",
            "a cluster autoscaler has to answer: kubectl get provreq -n ns",
        ),
        ("", "kubectl describe admissioncheck budget"),
    ],
)
def test_who_has_to_agree_is_named(controller: str, way: str) -> None:
    status = {"admissionChecks": [{"name": "budget", "state": "Pending"}]}
    asked = reserved("mine", 2)
    asked["status"] |= status
    known = [{"metadata": {"name": "budget"}, "spec": {"controllerName": controller}}] if controller else []
    assert ask(asked, checks=known).ways == (way,)


def test_what_holders_are_said_to_hold_adds_up() -> None:
    many = [reserved(name, 1, ("Admitted",)) for name in "abcd"]
    answer = ask(workload(gpus=1), *many, reserved("e", 4, ("Admitted",), flavor="h200"))
    assert "  held by cq: 4 (its own: 4): ns/job-a 1, ns/job-b 1, ns/job-c 1, others 1" in answer.evidence


def test_a_limit_that_keeps_free_quota_away_is_named() -> None:
    limited = {"name": "l4", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "2", "borrowingLimit": "1"}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [limited]}]
    seen = picture(asked := workload(gpus=4), cluster={"cohortName": "co", "resourceGroups": groups})
    other = {"name": "l4", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [other]}]
    seen.cluster_queues.append({"metadata": {"name": "rich"}, "spec": {"cohortName": "co", "resourceGroups": groups}})
    answer = why(seen, asked, NOW)
    assert "  7 more free, kept from it by the borrowingLimit of ClusterQueue cq: 1" in answer.evidence
    assert answer.ways[1] == "a borrowingLimit of 2 instead of 1 nvidia.com/gpu in l4 of ClusterQueue cq"


def growing(gpus: int) -> Object:
    """The larger slice of a job that has two pods of one GPU each."""
    asked = workload("grown", 1)
    asked["metadata"]["annotations"] = {"kueue.x-k8s.io/workload-slice-replacement-for": "ns/job-small"}
    asked["spec"]["podSets"][0]["count"] = gpus
    return asked


@pytest.mark.parametrize(
    ("gpus", "others", "sentence", "ways"),
    [
        (
            9,
            [],
            "it asks for 9 nvidia.com/gpu (it has 2); ClusterQueue cq can never give more than 4 of one flavor",
            ("ask for at most 4 nvidia.com/gpu", "5 more nvidia.com/gpu in l4", "4 instead of 9 pods in main"),
        ),
        (
            5,
            [],
            "it asks for 5 nvidia.com/gpu (it has 2); ClusterQueue cq can never give more than 4 of one flavor",
            ("ask for at most 4 nvidia.com/gpu", "1 more nvidia.com/gpu in l4", "4 instead of 5 pods in main"),
        ),
        (
            4,
            [reserved("a", 1, ("Admitted",))],
            "it asks for 2 nvidia.com/gpu more than the 2 it has, and 1 of ClusterQueue cq's l4 is free",
            ("1 more nvidia.com/gpu in l4", "1 workload(s) leaving: ns/job-a", "3 instead of 4 pods in main"),
        ),
    ],
)
def test_a_job_that_grows_is_told_of_all_it_asks_for(
    gpus: int, others: list[Object], sentence: str, ways: tuple[str, ...]
) -> None:
    answer = ask(growing(gpus), reserved("small", 2, ("Admitted",)), *others)
    assert (answer.sentence, answer.ways) == (sentence, ways)
    assert answer.reason == ("ExceedsMaxQuota" if gpus > 4 else "WaitingForQuota")


@pytest.mark.parametrize(
    ("least", "at_most", "fewer"),
    [
        (2, "", ", and lower kueue.x-k8s.io/job-min-parallelism, which is 2"),
        (5, *[", and lower kueue.x-k8s.io/job-min-parallelism, which is 5"] * 2),
        (None, "", ""),
    ],
)
def test_nobody_is_told_to_take_fewer_pods_than_a_job_says_it_needs(
    least: int | None, at_most: str, fewer: str
) -> None:
    asked = workload(gpus=1)
    asked["spec"]["podSets"][0] |= {"count": 9} | ({"minCount": least} if least else {})
    answer = ask(asked, reserved("a", 3, ("Admitted",)), reserved("b", 3, ("Admitted",), flavor="h200"))
    assert answer.ways[0] == f"ask for at most 4 nvidia.com/gpu{at_most}"
    assert answer.ways[2].startswith(f"1 instead of 9 pods in main{fewer}")
    may = f"pod set main may start with fewer: {least} of 9 pods at least"
    assert (may in answer.evidence) is (least is not None)
    never = ask(asked, configuration=configured("featureGates: {PartialAdmission: false}"))
    assert may not in never.evidence


def test_nobody_passes_who_waits_first_in_a_strict_queue() -> None:
    late = workload("late", 1)
    late["metadata"]["creationTimestamp"] = "2026-11-15T12:00:05Z"
    answer = ask(
        late,
        workload("first", 4),
        reserved("a", 1, ("Admitted",)),
        reserved("b", 1, ("Admitted",), flavor="h200"),
        cluster={"queueingStrategy": "StrictFIFO"},
    )
    assert (
        answer.sentence
        == "it would fit, but ClusterQueue cq is StrictFIFO: no workload overtakes ns/job-first, which waits itself"
    )
    assert answer.ways == (
        "what helps that one: gpuaas why job-first -n ns",
        "BestEffortFIFO as spec.queueingStrategy of ClusterQueue cq",
    )


def test_pods_that_need_not_be_in_one_place_fit_sooner() -> None:
    asked = workload(gpus=4)
    asked["spec"]["podSets"][0] |= {"count": 2, "topologyRequest": {"required": "rack"}}
    racks = {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}
    nodes = [node(f"n{rack}", "L4") for rack in "ab"]
    for each in nodes:
        each["metadata"]["labels"]["rack"] = each["metadata"]["name"]
        each["status"]["conditions"] = [condition("Ready")]
    quota = {"name": "l4", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [quota]}]
    seen = picture(asked, cluster={"resourceGroups": groups}, nodes=nodes, topologies=[racks])
    seen.flavors[0]["spec"]["topologyName"] = "racks"
    answer = why(seen, asked, NOW)
    assert answer.reason == "TopologyPlacementFailed"
    assert answer.ways[-1] == (
        "kueue.x-k8s.io/podset-preferred-topology: rack instead of required: as few of them as hold its pods"
    )


def test_where_no_node_has_the_flavor_that_is_what_to_change() -> None:
    asked = workload()
    asked["spec"]["podSets"][0]["topologyRequest"] = {"preferred": "rack"}
    racks = {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}
    seen = picture(asked, nodes=[node("n1", "L40S")], topologies=[racks])
    for each in seen.flavors:
        each["spec"]["topologyName"] = "racks"
    answer = why(seen, asked, NOW)
    assert answer.reason == "TopologyPlacementFailed"
    assert answer.ways == (
        "give ResourceFlavor l4, ResourceFlavor h200 labels that nodes have, or add nodes with its labels",
    )


@pytest.mark.parametrize(
    ("classes", "way"),
    [
        ({}, "priority 1 instead of 0"),
        (
            {"prod": 1000, "dev": 100, "idle": -5},
            "priority 1 instead of 0: kubectl label job mine -n ns kueue.x-k8s.io/priority-class=dev --overwrite",
        ),
    ],
)
def test_a_higher_priority_is_the_lowest_class_that_does(classes: dict[str, int], way: str) -> None:
    known = [{"metadata": {"name": name}, "value": value} for name, value in classes.items()]
    lower = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    assert way in ask(workload(), *full, cluster=lower, priorities=known).ways


def test_no_way_out_asks_for_a_label_nobody_can_change() -> None:
    only = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}
    asked = workload()
    seen = picture(asked, cluster=only)
    seen.local_queues.append({"metadata": {"name": "ours", "namespace": "ns"}, "spec": {"clusterQueue": "open"}})
    seen.cluster_queues.append({"metadata": {"name": "open"}, "spec": {"namespaceSelector": {}}})
    assert why(seen, asked, NOW).ways == (
        "kubectl label job mine -n ns kueue.x-k8s.io/queue-name=ours --overwrite",
        "let it take ns: spec.namespaceSelector of ClusterQueue cq",
    )


def test_admitted_but_no_node_can_take_it() -> None:
    """The first workbench of the seed: its node selector says one instance type, its quota another."""
    words = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    pods = [stuck("p1", "owner-mine", f"{words} preemption: 0/2 nodes are available"), stuck("p2", "owner-mine", words)]
    answer = ask(reserved("mine", 2, ("Admitted",)), pods=pods)
    assert (answer.state, answer.reason) == ("Admitted", "AdmittedButUnplaceable")
    assert answer.evidence[0] == f"pod p1 and 1 more: {words}"
    assert "pod set main: 1 pods on flavor l4" in answer.evidence
    assert answer.ways == ("make the job's node selector and the flavor's node labels agree",)


TAINTED = (
    "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s)."
)
FULL = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node affinity/selector."


def asking(gpus: int, product: str) -> Object:
    containers = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}]
    return {"nodeSelector": {"gpu": product}, "containers": containers}


ANEW = "after that, to let this one start again: gpuaas delete workload job-mine -n ns"
PLACES: list[tuple[str, str, Object, str, tuple[str, ...]]] = [
    (
        "a taint on nodes it could not go to anyhow is not in its way",
        TAINTED,
        asking(2, "B200"),
        "l4",
        ("make the job's node selector and the flavor's node labels agree",),
    ),
    (
        "a taint on nodes it could go to is",
        TAINTED,
        asking(2, "H200"),
        "h200",
        ("put a toleration for the taint gpu=full:NoSchedule into the flavor, so that every job gets it", ANEW),
    ),
    (
        "a taint on other nodes does not make room on its own",
        f"{FULL} 1 node(s) had untolerated taint(s).",
        asking(4, "L4"),
        "l4",
        ("add a node that the flavor selects, or free one: its quota is larger than what the nodes have",),
    ),
    (
        "a taint that it tolerates is not in its way",
        TAINTED,
        {**asking(2, "H200"), "tolerations": [{"operator": "Exists"}]},
        "h200",
        ("make the job's node selector and the flavor's node labels agree",),
    ),
    (
        "its flavor matches no node",
        TAINTED,
        asking(2, "B200"),
        "b200",
        ("give ResourceFlavor b200 labels that nodes have, or add a node with its labels", ANEW),
    ),
    (
        "its nodes are full",
        FULL,
        asking(4, "L4"),
        "l4",
        ("add a node that the flavor selects, or free one: its quota is larger than what the nodes have",),
    ),
    (
        "its flavor's nodes have none of what it asks for",
        FULL.replace("nvidia.com/gpu", "amd.com/gpu"),
        {"nodeSelector": {"gpu": "L4"}, "containers": [{"resources": {"requests": {"amd.com/gpu": "1"}}}]},
        "l4",
        ("give the flavor labels of nodes that have amd.com/gpu: none of those it may go to has any", ANEW),
    ),
    (
        "a pod is larger than any node",
        FULL,
        asking(8, "L4"),
        "l4",
        (
            "less nvidia.com/gpu in each pod, and more pods: one asks for 8, and none of the nodes it may go to has more "
            "than 4",
        ),
    ),
]


@pytest.mark.parametrize(
    ("words", "pod", "given", "ways"), [case[1:] for case in PLACES], ids=[case[0] for case in PLACES]
)
def test_ways_out_for_pods_that_no_node_takes(words: str, pod: Object, given: str, ways: tuple[str, ...]) -> None:
    asked = reserved("mine", 2, ("Admitted",), flavor=given)
    seen = picture(asked, pods=[stuck("p", "owner-mine", words, pod)])
    seen.flavors.append(flavor("b200", "B200"))
    seen.nodes[1]["spec"] = {"taints": [{"key": "gpu", "value": "full", "effect": "NoSchedule"}]}
    assert why(seen, asked, NOW).ways == ways
