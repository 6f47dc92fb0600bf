"""A Placement against small fleets: who is chosen, in what order, in which groups, and what its conditions say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuaas.fleet.placement_cel import budget_of_round, compile_cel
from gpuaas.placement.schedule import Result, disabled, schedule
from gpuaas.placement.values import CLUSTER_SET_LABEL, Cluster, Fleet, Score

NOW = datetime(2026, 6, 1, tzinfo=UTC)
AN_HOUR_AGO = "2026-05-31T23:00:00Z"


def cluster(name: str, *, taints: tuple[dict[str, Any], ...] = (), cpu: str = "", **labels: str) -> Cluster:
    resources = {"cpu": cpu} if cpu else {}
    return Cluster.read(
        {
            "metadata": {"name": name, "labels": {CLUSTER_SET_LABEL: "gpu", **labels}},
            "spec": {"taints": list(taints)},
            "status": {
                "allocatable": resources,
                "capacity": resources,
                "clusterClaims": [{"name": "id.k8s.io", "value": name}],
            },
        }
    )


def fleet(*clusters: Cluster, **more: Any) -> Fleet:
    return Fleet(
        clusters={c.name: c for c in clusters},
        sets={"gpu": {"metadata": {"name": "gpu"}}},
        bindings={("gpus", "gpu"): {}},
        **more,
    )


def place(known: Fleet, **spec: Any) -> Result:
    placement = {"metadata": {"namespace": "gpus", "name": "p"}, "spec": spec}
    return schedule(placement, known, NOW, compile_cel)


def labelled(**labels: str) -> dict[str, Any]:
    return {"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}


def condition(result: Result, type_: str) -> tuple[str, str]:
    found = next(c for c in result.conditions if c.type == type_)
    return found.reason, found.message


def test_everything_of_the_bound_sets_is_chosen_where_nothing_is_asked() -> None:
    result = place(fleet(cluster("b"), cluster("a")))
    assert result.clusters == ("a", "b")
    assert condition(result, "PlacementSatisfied") == ("AllDecisionsScheduled", "All cluster decisions scheduled")


def test_predicates_are_alternatives_and_selectors_inside_one_all_hold() -> None:
    known = fleet(cluster("a", gpu="l4"), cluster("b", gpu="h200", region="eu"), cluster("c", gpu="h200"))
    both = {
        "requiredClusterSelector": {
            "labelSelector": {"matchLabels": {"gpu": "h200"}},
            "claimSelector": {"matchExpressions": [{"key": "id.k8s.io", "operator": "In", "values": ["c"]}]},
        }
    }
    assert place(known, predicates=[labelled(gpu="l4"), both]).clusters == ("a", "c")


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        (
            'managedCluster.metadata.labels["gpu"] == "l4"',
            ("a",),
        ),  # an error in b, which has no such label, is no match
        ('managedCluster.scores("usage").exists(s, s.name == "free" && s.value > 0)', ("b",)),
    ],
)
def test_a_cel_expression_reads_the_cluster_and_its_scores(expression: str, chosen: tuple[str, ...]) -> None:
    known = fleet(cluster("a", gpu="l4"), cluster("b"), scores={("b", "usage"): Score({"free": 5}, None)})
    predicates = [{"requiredClusterSelector": {"celSelector": {"celExpressions": [expression]}}}]
    assert place(known, predicates=predicates).clusters == chosen


NO_SELECT = {"key": "unreachable", "value": "", "effect": "NoSelect", "timeAdded": AN_HOUR_AGO}


@pytest.mark.parametrize(
    ("taint", "tolerations", "decided", "chosen"),
    [
        (NO_SELECT, [], (), ()),
        (NO_SELECT, [{"key": "unreachable", "operator": "Exists"}], (), ("a",)),
        (NO_SELECT, [{"key": "unreachable", "operator": "Equal"}], (), ("a",)),
        (NO_SELECT, [{"key": "other", "operator": "Exists"}], (), ()),
        (NO_SELECT, [{"key": "unreachable", "operator": "Exists", "tolerationSeconds": 60}], ("a",), ()),
        (NO_SELECT, [{"key": "unreachable", "operator": "Exists", "tolerationSeconds": 7200}], ("a",), ("a",)),
        (NO_SELECT, [{"key": "unreachable", "operator": "Exists", "tolerationSeconds": 10**18}], (), ("a",)),
        ({**NO_SELECT, "effect": "NoSelectIfNew"}, [], (), ()),
        ({**NO_SELECT, "effect": "NoSelectIfNew"}, [], ("a",), ("a",)),
        ({**NO_SELECT, "effect": "PreferNoSelect"}, [], (), ("a",)),
    ],
)
def test_taints(taint: Any, tolerations: Any, decided: tuple[str, ...], chosen: tuple[str, ...]) -> None:
    known = fleet(cluster("a", taints=(taint,)), decided={("gpus", "p"): decided})
    assert place(known, tolerations=tolerations).clusters == chosen


def test_a_placement_is_looked_at_again_when_a_toleration_or_a_score_runs_out() -> None:
    taint = {**NO_SELECT, "timeAdded": "2026-05-31T23:30:00Z"}
    tolerations = [{"key": "unreachable", "operator": "Exists", "tolerationSeconds": 7200}]
    known = fleet(cluster("a", taints=(taint,)), decided={("gpus", "p"): ("a",)})
    assert place(known, tolerations=tolerations).look_again == NOW + timedelta(minutes=90)
    known.scores["a", "usage"] = Score({"free": 1}, NOW + timedelta(minutes=5))
    scored = {"configurations": [add_on("usage", "free")]}
    result = place(known, tolerations=tolerations, prioritizerPolicy=scored)
    assert result.look_again == NOW + timedelta(minutes=5)


def add_on(resource: str, score: str, weight: int = 1) -> dict[str, Any]:
    coordinate = {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": score}}
    return {"scoreCoordinate": coordinate, "weight": weight}


def built_in(name: str, weight: int = 1) -> dict[str, Any]:
    return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight}


def test_the_best_score_wins_and_the_order_of_the_result_is_that_of_the_scores() -> None:
    scores = {("a", "usage"): Score({"free": 10}, None), ("b", "usage"): Score({"free": 90}, None)}
    known = fleet(cluster("a"), cluster("b"), cluster("c"), scores=scores)
    exact = {"mode": "Exact", "configurations": [add_on("usage", "free")]}
    assert place(known, prioritizerPolicy=exact).clusters == ("b", "a", "c")
    assert place(known, prioritizerPolicy=exact, numberOfClusters=1).rejected == {
        "a": "others have a higher score",
        "c": "others have a higher score",
    }


def test_a_score_that_is_out_of_date_counts_as_nothing() -> None:
    stale = Score({"free": 90}, NOW - timedelta(seconds=1))
    known = fleet(cluster("a"), cluster("b"), scores={("b", "usage"): stale})
    exact = {"mode": "Exact", "configurations": [add_on("usage", "free")]}
    result = place(known, prioritizerPolicy=exact)
    assert result.clusters == ("a", "b")
    assert result.weighed[0].expired == ("b/usage",)


def test_chosen_clusters_stay_and_crowded_ones_come_last() -> None:
    decided = {("gpus", "p"): ("b",), ("gpus", "q"): ("a",), ("other", "p"): ("a", "c")}
    known = fleet(cluster("a"), cluster("b"), cluster("c"), decided=decided)
    # Steady: b 100. Balance: b 100 (chosen by no other), a -100 (2 of 2), c 0 (1 of 2).
    assert place(known).totals == {"a": -100, "b": 200, "c": 0}


def test_the_most_allocatable_scores_best_and_a_cluster_that_reports_nothing_scores_nothing() -> None:
    known = fleet(cluster("a", cpu="2"), cluster("b", cpu="10"), cluster("c", cpu="5"), cluster("d"))
    exact = {"mode": "Exact", "configurations": [built_in("ResourceAllocatableCPU")]}
    assert place(known, prioritizerPolicy=exact).totals == {"a": -100, "b": 100, "c": -25, "d": 0}


@pytest.mark.parametrize(
    ("strategy", "groups"),
    [
        ({}, [("", "abcd")]),
        ({"clustersPerDecisionGroup": 3}, [("", "abc"), ("", "d")]),
        ({"clustersPerDecisionGroup": "30%"}, [("", "ab"), ("", "cd")]),
        ({"clustersPerDecisionGroup": "0%"}, [("", "abcd")]),
        (
            {
                "decisionGroups": [
                    {
                        "groupName": "canary",
                        "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "yes"}}},
                    }
                ],
                "clustersPerDecisionGroup": 2,
            },
            [("canary", "d"), ("", "ab"), ("", "c")],
        ),
    ],
)
def test_decision_groups(strategy: dict[str, Any], groups: list[tuple[str, str]]) -> None:
    known = fleet(cluster("a"), cluster("b"), cluster("c"), cluster("d", canary="yes"))
    result = place(known, decisionStrategy={"groupStrategy": strategy})
    assert [(group.name, "".join(group.clusters)) for group in result.groups] == groups


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {
                "predicates": [
                    {
                        "requiredClusterSelector": {
                            "labelSelector": {"matchExpressions": [{"key": "gpu", "operator": "Nearly"}]}
                        }
                    }
                ]
            },
            'Predicate:"Nearly" is not a valid label selector operator',
        ),
        (
            {"tolerations": [{"operator": "Equal"}]},
            "TaintToleration:If the key is empty, operator must be Exists.",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "TaintToleration:If the operator is Exists, the value should be empty.",
        ),
        (
            {"prioritizerPolicy": {"configurations": [built_in("Fastest")]}},
            ":incorrect builtin prioritizer: Fastest",
        ),
        (
            {"prioritizerPolicy": {"configurations": [{"weight": 1}]}},
            ":scoreCoordinate field is required",
        ),
        (
            {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "many"}}},
            ":many invalid type: string is not a percentage",
        ),
    ],
)
def test_what_is_misconfigured_is_named_and_chooses_nothing_new(spec: dict[str, Any], message: str) -> None:
    result = place(fleet(cluster("a")), **spec)
    assert condition(result, "PlacementMisconfigured") == ("Misconfigured", message)


@pytest.mark.parametrize(
    ("known", "spec", "expected"),
    [
        (
            Fleet(),
            {},
            ("NoManagedClusterSetBindings", "No valid ManagedClusterSetBindings found in placement namespace"),
        ),
        (
            fleet(cluster("a")),
            {"clusterSets": ["tpu"]},
            ("NoIntersection", "None of ManagedClusterSets [tpu] is bound to placement namespace"),
        ),
        (
            fleet(),
            {},
            ("AllManagedClusterSetsEmpty", "All ManagedClusterSets [gpu] have no member ManagedCluster"),
        ),
        (
            fleet(cluster("a")),
            {"predicates": [labelled(gpu="l4")]},
            ("NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate"),
        ),
        (
            fleet(cluster("a")),
            {"numberOfClusters": 3},
            ("NotAllDecisionsScheduled", "2 cluster decisions unscheduled"),
        ),
    ],
)
def test_why_not_all_decisions_are_scheduled(known: Fleet, spec: dict[str, Any], expected: tuple[str, str]) -> None:
    assert condition(place(known, **spec), "PlacementSatisfied") == expected


def test_a_placement_that_is_being_deleted_or_disabled_is_left_as_it_is() -> None:
    annotation = {"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"}
    assert disabled({"metadata": {"name": "p", "annotations": annotation}})
    assert disabled({"metadata": {"name": "p", "deletionTimestamp": AN_HOUR_AGO}})
    assert not disabled({"metadata": {"name": "p"}})


def test_all_expressions_of_a_placement_share_one_budget_over_all_clusters() -> None:
    """Each cluster with a budget of its own would hold the control plane up for a second, times clusters and expressions."""
    numbers = "[" + ",".join(map(str, range(60))) + "]"
    costly = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))"
    known, cheap = fleet_of(300), compile_cel("managedCluster.metadata.name.startsWith('c')", budget_of_round())
    assert all(cheap(each, known) for each in known.clusters.values())
    budget = budget_of_round()
    matchers = [compile_cel(f"{costly} && {number} >= 0", budget) for number in range(3)]
    matched = [matches(each, known) for matches in matchers for each in known.clusters.values()]
    assert sum(matched) <= 5
    assert not any(matched[300:])


def fleet_of(number: int) -> Fleet:
    names = [f"c{each}" for each in range(number)]
    return Fleet(clusters={name: Cluster.read({"metadata": {"name": name}}) for name in names})
