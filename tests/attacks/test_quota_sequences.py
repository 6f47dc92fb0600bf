"""A few of the random sequences of module quota; `python -m tests.attacks.quota --count 10000` runs as many as wanted."""

import asyncio
import logging

import pytest
from tests.attacks.quota import run

COUNT = 150


@pytest.mark.parametrize("everywhere", [False, True], ids=["managed namespace", "manageJobsWithoutQueueName"])
def test_no_sequence_gets_around_quota(everywhere: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    arena = asyncio.run(run(range(COUNT), everywhere))
    assert arena.bindings > 3 * COUNT  # that many pods had to get a node, or nothing was tried
    assert sum(arena.refusals.values()) > COUNT // 4
