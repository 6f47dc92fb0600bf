"""What a container is given of its cards: variables by sharing and by what the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuaas.devices.holding import Held
from gpuaas.executors.gpu_environment import Provision, container_variables

POD = Path("/pods/uid")
LIBRARY = Provision(Path("/native/budget.so"))
GIB = 1 << 30


def share(card: str = "GPU-1", budget: int = 12 * 1024, sharing: str = "time-slicing", number: int = 0) -> Held:
    return Held(
        "main", "nvidia.com/gpu", f"{card}::{number}", card, memory=143771, shares=4, budget=budget, sharing=sharing
    )


WHOLE = Held("main", "nvidia.com/gpu", "GPU-1", "GPU-1", memory=143771)


def test_a_container_without_devices_sees_none() -> None:
    found = container_variables((), "main", {"CUDA_VISIBLE_DEVICES": "0"}, POD, LIBRARY)
    assert found == {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}


def test_a_whole_card_has_nothing_but_its_name() -> None:
    found = container_variables((WHOLE,), "main", {}, POD, LIBRARY)
    assert found == {"NVIDIA_VISIBLE_DEVICES": "GPU-1", "CUDA_VISIBLE_DEVICES": "GPU-1"}


def test_a_share_gets_the_library_before_its_own() -> None:
    found = container_variables((share(),), "main", {"LD_PRELOAD": "/mine.so"}, POD, LIBRARY)
    assert found["LD_PRELOAD"] == "/native/budget.so:/mine.so"
    assert found["GPUAAS_GPU_MEMORY"] == str(12 * GIB)
    assert found["GPUAAS_GPU_MEMORY_FILE"].startswith("/pods/uid/gpu-memory-")
    assert "PYTORCH_ALLOC_CONF" not in found  # the library shows the budget as the card: a part of it would be less


def test_containers_with_the_same_card_share_one_account() -> None:
    one, other = share(), Held("other", "nvidia.com/gpu", "GPU-1::1", "GPU-1", memory=143771, budget=1024)
    files = {
        container_variables((one, other), name, {}, POD, LIBRARY)["GPUAAS_GPU_MEMORY_FILE"]
        for name in ("main", "other")
    }
    assert len(files) == 1
    assert container_variables((one, other), "main", {}, POD, LIBRARY)["GPUAAS_GPU_MEMORY"] == str(13 * GIB)


def test_budgets_stand_in_the_order_of_the_devices() -> None:
    found = container_variables((share("GPU-2", 1024), share("GPU-1", 2048)), "main", {}, POD, LIBRARY)
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-2,GPU-1"
    assert found["GPUAAS_GPU_MEMORY"] == f"{GIB},{2 * GIB}"


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({}, {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.085", "XLA_PYTHON_CLIENT_MEM_FRACTION": ".085"}),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".085"}),
        ({"XLA_PYTHON_CLIENT_MEM_FRACTION": ".5", "PYTORCH_ALLOC_CONF": ""}, {}),
    ],
)
def test_without_a_library_frameworks_are_given_their_part_unless_they_have_a_setting(
    own: dict[str, str], told: dict[str, str]
) -> None:
    found = container_variables((share(),), "main", own, POD, Provision())
    assert {name: value for name, value in found.items() if "VISIBLE" not in name} == told


def test_mps_gets_its_pipe_and_its_limit() -> None:
    provision = Provision(None, {"GPU-1": Path("/mps/pipe")})
    found = container_variables((share(sharing="mps"),), "main", {}, POD, provision)
    assert found["CUDA_MPS_PIPE_DIRECTORY"] == "/mps/pipe"
    assert found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=12288M"
