"""Which labels the workload of a pod group takes from its pods."""

from typing import Any

import pytest

from gpuaas.kueue.integrations.integration import CannotCompose
from gpuaas.kueue.integrations.pod_groups import shared_labels


def pod(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "p", "labels": labels}}


def test_they_come_from_whichever_pod_has_them() -> None:
    assert shared_labels([pod(other="x"), pod(team="a"), pod()], ["team", "project"]) == {"team": "a"}


def test_pods_that_disagree_make_no_group() -> None:
    with pytest.raises(CannotCompose, match="pods have different label values"):
        shared_labels([pod(team="a"), pod(team="b")], ["team"])
