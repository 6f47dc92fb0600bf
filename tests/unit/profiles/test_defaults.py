"""The profiles a cluster begins with: from the nodes there are."""

from __future__ import annotations

from typing import Any

from gpuaas.profiles import offered
from gpuaas.profiles.defaults import default_profiles

TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}


def node(product: str, *, cpu: str = "16", memory: str = "64Gi", taints: Any = (), **resources: str) -> Any:
    offers = {name.replace("__", "/").replace("_", "-"): amount for name, amount in resources.items()}
    allocatable = {"cpu": cpu, "memory": memory, **offers}
    labels = {"nvidia.com/gpu.product": product} if product else {}
    return {"metadata": {"labels": labels}, "spec": {"taints": list(taints)}, "status": {"allocatable": allocatable}}


def l4(count: str, **more: Any) -> Any:
    return node("NVIDIA-L4", **{"nvidia.com__gpu": count}, **more)


def amounts(profile: Any) -> dict[str, Any]:
    return {one["identifier"]: one["defaultCount"] for one in profile["spec"]["identifiers"]}


def test_without_gpus_there_is_one_profile() -> None:
    assert [offered.name_of(p) for p in default_profiles([node("")])] == ["default-profile"]


def test_one_gpu_and_a_whole_node_of_each_product() -> None:
    names = [offered.name_of(p) for p in default_profiles([l4("1"), l4("4", cpu="48", memory="192Gi")])]
    assert names == ["default-profile", "l4-1gpu", "l4-4gpu"]


def test_the_share_fits_as_often_as_a_node_has_gpus() -> None:
    """Of two kinds of nodes the smaller share: four times it fits on the large one, once on the small one."""
    one = default_profiles([l4("1"), l4("4", cpu="48", memory="192Gi")])[1]
    assert amounts(one) == {"cpu": 10, "memory": "43Gi", "nvidia.com/gpu": 1}


def test_slices_are_profiles_too() -> None:
    nodes = [node("NVIDIA-A100-SXM4-80GB", cpu="96", memory="960Gi", **{"nvidia.com__mig_1g.10gb": "7"})]
    found = default_profiles(nodes)[1]
    assert offered.name_of(found) == "a100-sxm4-80gb-mig-1g-10gb"
    assert amounts(found)["nvidia.com/mig-1g.10gb"] == 1


def test_taints_of_the_nodes_are_tolerated_and_the_product_is_selected() -> None:
    scheduling = default_profiles([l4("1", taints=[TAINT])])[1]["spec"]["scheduling"]
    assert scheduling["node"] == {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
    }


def test_the_dashboard_would_offer_each_of_them() -> None:
    profiles = default_profiles([l4("4", cpu="48", memory="192Gi", taints=[TAINT])])
    assert [offered.warnings(profile) for profile in profiles] == [[], [], []]


def test_an_unreadable_node_is_passed_over() -> None:
    assert len(default_profiles([node("NVIDIA-L4", cpu="lots", **{"nvidia.com__gpu": "x"})])) == 1
