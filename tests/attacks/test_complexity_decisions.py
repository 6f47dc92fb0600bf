"""What is decided from an object costs at most linearly by its size: rules, pod groups, topology requests, tolerations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.attacks.growth import growth

from gpuaas.kueue.integrations import pod_groups, topology
from gpuaas.machinery.jsonpatch import apply_json_patch
from gpuaas.machinery.schema.cel import CelError, compile_expression
from gpuaas.machinery.schema.cel.budget import BUDGET, Budget, Exhausted
from gpuaas.machinery.schema.cel.types import DYN, STRING, list_of, map_of
from gpuaas.nodefit.constraints import Tolerations, selects, untolerated

VARIABLES = {"self": map_of(STRING, DYN), "items": list_of(STRING)}


@pytest.mark.parametrize(
    "source",
    [
        "items.all(x, x != '')",
        "items.map(x, x + 'y').size() > 0",
        "items.exists(x, items.exists(y, x != y && y == 'none'))",  # all pairs: its budget ends it
        "items.isSorted()",
        "items.filter(x, x.matches('a+b')).size() == 0",
    ],
)
def test_a_rule_over_a_list(source: str) -> None:
    expression = compile_expression(source, VARIABLES)

    def run(items: list[str]) -> object:
        budget = Budget()
        budget.begin()
        try:
            return expression.run({"items": items, BUDGET: budget})
        except (CelError, Exhausted) as refusal:
            return refusal

    growth(lambda n: ["a" * 10] * n, run, 20_000).check(source)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("long", lambda n: " && ".join(["self.a == 'b'"] * n)),
        ("deep", lambda n: "(" * n + "true" + ")" * n),
        ("text", lambda n: "'" + "a" * n * 100 + "' == self.a"),
        ("negations", lambda n: "!" * n + "true"),
    ],
)
def test_a_rule_is_compiled(name: str, text: Any) -> None:
    def work(source: str) -> object:
        try:
            return compile_expression(source, VARIABLES)
        except Exception as refusal:
            return refusal

    growth(text, work, 500).check(f"CEL: {name}")


def group(size: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    pods = [
        {
            "metadata": {
                "name": f"p{n}",
                "uid": f"u{n}",
                "namespace": "team",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/queue-name": "q"},
                "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(size)},
            },
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        for n in range(size)
    ]
    return pods, {"metadata": {"name": "g"}, "spec": {"podSets": [{"name": "main", "count": size}]}}


def test_a_pod_group_is_fitted_to_its_workload() -> None:
    growth(group, lambda given: pod_groups.fit(given[0], given[1], 0.0), 2_000).check("pod group: fit")


def test_a_pod_group_is_checked() -> None:
    growth(group, lambda given: pod_groups.check_complete(given[0], "g"), 2_000).check("pod group: complete")


def test_layers_of_a_topology_request_are_read() -> None:
    def notes(size: int) -> dict[str, Any]:
        layers = json.dumps([{"topology": f"rack{n}", "size": 1} for n in range(size)])
        return {"annotations": {"kueue.x-k8s.io/podset-slice-required-topology-constraints": layers}}

    growth(notes, lambda given: (topology.errors("metadata", given), topology.request(given)), 2_000).check("layers")


def test_tolerations_are_held_against_taints() -> None:
    def both(size: int) -> tuple[Any, Any]:
        taints = [{"key": f"k{n}", "value": "v", "effect": "NoSchedule"} for n in range(size)]
        return taints, [{"key": f"k{n}", "operator": "Exists"} for n in reversed(range(size))]

    growth(both, lambda given: untolerated(given[0], Tolerations(given[1])), 5_000).check("tolerations")


def test_terms_of_node_affinity_are_held_against_labels() -> None:
    def spec(size: int) -> dict[str, Any]:
        terms = [{"matchExpressions": [{"key": f"k{n}", "operator": "Exists"}]} for n in range(size)]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        return {"affinity": {"nodeAffinity": required}}

    growth(spec, lambda given: selects(given, {"a": "b"}, "node"), 5_000).check("node affinity")


def test_the_patch_of_a_webhooks_answer() -> None:
    def patch(size: int) -> list[dict[str, Any]]:
        return [{"op": "add", "path": f"/metadata/annotations/a{n}", "value": "x"} for n in range(size)]

    def work(given: list[dict[str, Any]]) -> object:
        return apply_json_patch({"metadata": {"annotations": {}}}, given)

    growth(patch, work, 5_000).check("webhook's patch")
