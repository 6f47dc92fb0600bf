"""Rows of profiles: how many are free now, what limits that, and why one is not offered."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.views.profiles import ProfileRow, Surroundings, rows
from gpuaas.views.rows import GpuRow, NodeGpus, QueueRow

CPU = {"displayName": "CPU", "identifier": "cpu", "minCount": 1, "defaultCount": 2, "maxCount": 4}
MEMORY = {"displayName": "M", "identifier": "memory", "minCount": "1Gi", "defaultCount": "4Gi", "maxCount": "8Gi"}
GPU = {"displayName": "GPU", "identifier": "nvidia.com/gpu", "minCount": 1, "defaultCount": 2, "maxCount": 4}


def profile(name: str = "p", *identifiers: Any, queue: str = "", selector: Any = None, **notes: str) -> Any:
    spec: dict[str, Any] = {"identifiers": list(identifiers or (CPU, MEMORY, GPU))}
    if queue:
        spec["scheduling"] = {"type": "Queue", "kueue": {"localQueueName": queue}}
    if selector:
        spec["scheduling"] = {"type": "Node", "node": {"nodeSelector": selector}}
    annotations = {f"opendatahub.io/{key.replace('_', '-')}": text for key, text in notes.items()}
    return {"metadata": {"name": name, "namespace": "n", "annotations": annotations}, "spec": spec}


def quota(flavor: str, resource: str, nominal: str, used: str = "0") -> QueueRow:
    return QueueRow("cq", "", flavor, resource, nominal, used, "0", 0, "Active", None, None, 0)


def gpus(*free: int, product: str = "NVIDIA-L4", resource: str = "nvidia.com/gpu") -> GpuRow:
    nodes = [NodeGpus(f"n{index}", 8, 8 - each, each) for index, each in enumerate(free)]
    return GpuRow(product, resource, len(nodes), 8 * len(nodes), 0, sum(free), nodes)


def row(one: Any, around: Surroundings, *features: str) -> ProfileRow:
    return rows([one], around, features=features)[0]


QUOTAS = (quota("f", "cpu", "16", "8"), quota("f", "memory", "64Gi", "32Gi"), quota("f", "nvidia.com/gpu", "8", "2"))


def around(*quotas: QueueRow, nodes: Any = None, queues: Any = None) -> Surroundings:
    return Surroundings(queues or {"q": "cq"}, quotas, nodes or (), nodes is not None)


def test_quota_limits_by_the_scarcest_resource() -> None:
    found = row(profile(queue="q"), around(*QUOTAS))
    assert (found.free, found.holds_back) == (3, "quota of q")


def test_cards_limit_by_what_single_nodes_can_hold() -> None:
    """Three free cards on each of two nodes are two pairs, not three."""
    found = row(profile(queue="q"), around(*QUOTAS, nodes=(gpus(3, 3),)))
    assert (found.free, found.holds_back) == (2, "free cards")


def test_without_single_nodes_the_sum_counts() -> None:
    summed = GpuRow("NVIDIA-L4", "nvidia.com/gpu", 2, 16, 9, 7, [])
    assert row(profile(), around(nodes=(summed,))).free == 3


def test_flavors_of_one_resource_group_add_up() -> None:
    more = tuple(
        QueueRow("cq", "", "g", r.resource, r.nominal, r.used, "0", 0, "Active", None, None, 0) for r in QUOTAS
    )
    assert row(profile(queue="q"), around(*QUOTAS, *more)).free == 6


def test_a_resource_that_the_queue_does_not_cover_lets_nothing_start() -> None:
    assert row(profile(queue="q"), around(QUOTAS[0])).free == 0


def test_other_products_do_not_count_for_a_profile_that_selects_one() -> None:
    nodes = (gpus(8, product="NVIDIA-H200"), gpus(2))
    assert row(profile(selector={"nvidia.com/gpu.product": "NVIDIA-L4"}), around(nodes=nodes)).free == 1


def test_where_nothing_may_be_seen_no_number_is_made_up() -> None:
    assert row(profile(), around()).free is None


@pytest.mark.parametrize(
    ("one", "surroundings", "words"),
    [
        (profile(disabled="true"), around(), "it is disabled (annotation opendatahub.io/disabled)"),
        (profile(queue="other"), around(), "this namespace has no queue other"),
        (profile(), around(nodes=(gpus(1, resource="nvidia.com/mig-1g.10gb"),)), "no node offers nvidia.com/gpu"),
        (
            profile("p", {**CPU, "minCount": 5}),
            around(),
            "Minimum allowed value cannot exceed the maximum allowed value (if specified).",
        ),
    ],
)
def test_why_a_profile_is_hidden(one: Any, surroundings: Surroundings, words: str) -> None:
    assert row(one, surroundings).hidden == words


def test_a_profile_for_serving_is_hidden_from_workbenches_alone() -> None:
    serving = profile("p", CPU, MEMORY, dashboard_feature_visibility='["model-serving"]')
    assert row(serving, around(), "workbench").hidden
    assert not row(serving, around(), "model-serving").hidden
    assert not row(serving, around()).hidden


def test_a_gpu_only_profile_is_offered() -> None:
    assert not row(profile("p", GPU), around(nodes=(gpus(4),))).hidden


def test_the_administrators_order_comes_first_and_hidden_ones_last() -> None:
    listed = [
        profile("gpu-10", CPU, MEMORY),
        profile("gpu-2", CPU, MEMORY),
        profile("a", disabled="true"),
        profile("z"),
    ]
    found = rows(listed, around(), order=["z", "gone", "z"])
    assert [one.profile for one in found] == ["z", "gpu-2", "gpu-10", "a"]
