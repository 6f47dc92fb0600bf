"""`gpuaas profiles create` and `--profile`: the manifests they make, and what they refuse."""

from __future__ import annotations

from typing import Any

import click
import pytest

from gpuaas.cli.context import WrongOption
from gpuaas.cli.profile_choice import applied
from gpuaas.cli.profiles import profile_for
from gpuaas.profiles import offered


def made(**options: Any) -> dict[str, Any]:
    profile = profile_for("p", **options)
    return {**profile, "metadata": {**profile["metadata"], "namespace": "shared"}}


def counts(profile: dict[str, Any]) -> dict[str, tuple[Any, Any, Any]]:
    listed = profile["spec"]["identifiers"]
    return {one["identifier"]: (one["minCount"], one["defaultCount"], one["maxCount"]) for one in listed}


@pytest.mark.parametrize(
    ("text", "found"), [("4", (4, 4, 4)), ("1-4", (1, 1, 4)), ("1-2-4", (1, 2, 4)), ("500m-1", ("500m", "500m", 1))]
)
def test_amounts_are_a_number_a_range_or_a_range_with_a_default(text: str, found: Any) -> None:
    assert counts(made(cpu=text))["cpu"] == found


@pytest.mark.parametrize("text", ["", "x", "4-1", "1-2-3-4", "0", "-1", "2-1-4"])
def test_amounts_that_are_none(text: str) -> None:
    with pytest.raises(WrongOption, match="an amount such as 4"):
        made(cpu=text)


def test_what_is_made_is_offered_by_the_dashboard() -> None:
    profile = made(cpu="1-2-4", memory="2Gi-4Gi-8Gi", gpus="1", queue="q", display_name="One", description="d")
    assert offered.warnings(profile) == []
    assert offered.title(profile) == "One"
    assert profile["spec"]["scheduling"] == {"type": "Queue", "kueue": {"localQueueName": "q"}}


def test_a_product_and_taints_are_node_settings() -> None:
    profile = made(gpus="NVIDIA-L4:1", tolerations=("nvidia.com/gpu", "team=a"))
    assert profile["spec"]["scheduling"]["node"] == {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists"},
            {"key": "team", "operator": "Equal", "value": "a"},
        ],
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queue": "q", "gpus": "NVIDIA-L4:1"}, "the queue's flavors choose the nodes"),
        ({"queue": "q", "tolerations": ("a",)}, "the queue's flavors choose the nodes"),
        ({"priority": "high"}, "only a queue has priorities"),
    ],
)
def test_a_queue_and_node_settings_exclude_each_other(options: Any, words: str) -> None:
    with pytest.raises(WrongOption, match=words):
        made(**options)


def job(requests: Any = None) -> dict[str, Any]:
    notes = {"opendatahub.io/hardware-profile-name": "p", "opendatahub.io/hardware-profile-namespace": "shared"}
    container = {"name": "main", "resources": {"requests": requests or {}}}
    return {"metadata": {"annotations": notes}, "spec": {"template": {"spec": {"containers": [container]}}}}


def test_a_submitted_manifest_holds_what_the_profile_gives() -> None:
    """So that it also runs where no webhook fills it in."""
    found = applied(made(cpu="1-2-4", memory="4Gi", gpus="1", queue="q"), ("batch", "jobs"), job(), "team")
    wanted = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    resources = found["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources == {"requests": wanted, "limits": wanted}
    assert found["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "q"}


def test_an_amount_beyond_the_profile_is_refused_before_it_is_sent() -> None:
    with pytest.raises(WrongOption, match=r"must be at most 4 \(maxCount of hardware profile 'p'\)"):
        applied(made(cpu="1-2-4"), ("batch", "jobs"), job({"cpu": "8"}), "team")


def test_a_profile_that_cannot_be_read_is_named() -> None:
    broken = made()
    broken["spec"]["identifiers"][0]["defaultCount"] = "lots"
    with pytest.raises(click.ClickException, match="hardware profile 'shared/p' cannot be read"):
        applied(broken, ("batch", "jobs"), job(), "team")
