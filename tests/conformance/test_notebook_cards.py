"""Notebooks on a machine with cards (a driver of ours): each gets its own by a profile, and one that stops makes room."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conformance.service import Service, eventually
from tests.conformance.test_cards import cards, library, machine, needs_driver
from tests.conformance.test_notebooks import command, opened, program_in

__all__ = ["library", "machine"]  # fixtures

PROFILES = "/apis/infrastructure.opendatahub.io/v1/hardwareprofiles"


def rows(service: Service) -> dict[str, dict[str, str]]:
    return {row["notebook"]: row for row in json.loads(command(service, "notebook", "list", "-o", "json"))}


def visible(service: Service, name: str) -> str:
    """What a cell of the notebook reads of its environment."""
    found = json.loads(opened(service, name).ask(f"/notebook/default/{name}/env")[2])
    assert found["NVIDIA_VISIBLE_DEVICES"] == found["CUDA_VISIBLE_DEVICES"]
    return str(found["NVIDIA_VISIBLE_DEVICES"])


@needs_driver
@pytest.mark.usefixtures("machine")
def test_each_notebook_sees_its_own_card_and_a_stopped_one_makes_room(machine: Path, tmp_path: Path) -> None:
    cards(machine, 2)
    program_in(tmp_path)
    with Service(tmp_path / "home", "--no-fsync") as service:
        made = lambda: {one["metadata"]["name"] for one in service.ask("GET", PROFILES).json()["items"]}  # noqa: E731
        eventually(lambda: "h200-1gpu" in made(), lambda: f"no profile was made of the cards: {made()}")
        for name in ("a", "b", "c"):
            command(service, "notebook", "--profile", "h200-1gpu", "--name", name, "--memory", "1Gi")
        assert {visible(service, "a"), visible(service, "b")} == {"GPU-0", "GPU-1"}
        waits = rows(service)["c"]
        assert (waits["state"], waits["profile"], waits["gpus"]) == ("Queued", "h200-1gpu", "1 gpu")
        freed = visible(service, "a")
        command(service, "notebook", "stop", "a")
        eventually(lambda: rows(service)["c"]["state"] == "Ready", "the third never ran")
        assert visible(service, "c") == freed, "on the card that became free"
        for name in ("a", "b", "c"):
            service.ask("DELETE", f"/apis/kubeflow.org/v1/namespaces/default/notebooks/{name}")
        eventually(lambda: not any((service.home / "sockets").iterdir()), "sockets are left")
