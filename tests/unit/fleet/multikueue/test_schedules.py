"""Random histories with faults, each by its seed: no job is lost, none runs on two clusters, and the state comes to rest.

The suite runs some hundred; `GPUAAS_SCHEDULES=5000 pytest …/test_schedules.py` runs more.
"""

from __future__ import annotations

import asyncio
import os

import pytest
from tests.unit.fleet.multikueue.schedules import run

_ALL = int(os.environ.get("GPUAAS_SCHEDULES", "120"))
_EACH = 20


@pytest.mark.parametrize("first", range(0, _ALL, _EACH))
def test_no_job_is_lost_and_none_runs_twice(first: int) -> None:
    wrong = [line for seed in range(first, min(first + _EACH, _ALL)) for line in asyncio.run(run(seed))]
    assert not wrong, "\n".join(wrong)
