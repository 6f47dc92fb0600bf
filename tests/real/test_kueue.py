"""Kubernetes with upstream Kueue: our examples and our commands work there, and our queues answer as Kueue's do.

Everything but the differential cases runs with no gpuaas server anywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real import nodes, queues
from tests.real.cluster import RealCluster, real_cluster

from gpuaas.cli.stories import tell
from gpuaas.client.http import from_kubeconfig

pytestmark = pytest.mark.real

EXAMPLES = Path(__file__).parents[2] / "examples"
CASES = {case.name: case for case in queues.load()}
PATIENCE = 60.0  # a step takes milliseconds, or a while on a busy machine


@pytest.fixture(scope="module")
def cluster(real_parts: None) -> Iterator[RealCluster]:
    with real_cluster() as made:
        yield made


@pytest.mark.parametrize("name", ["private-ai", "sla"])
def test_the_stories_happen_there_too(name: str, cluster: RealCluster) -> None:
    folder = EXAMPLES / name
    with nodes.added(cluster.side, (folder / "fleet.yaml").read_text()):
        steps = asyncio.run(_tell(cluster.kubeconfig, name, folder))
    assert steps >= 7


async def _tell(kubeconfig: Path, name: str, folder: Path) -> int:
    async with from_kubeconfig(kubeconfig) as client:
        return await tell(name, client, folder, PATIENCE)
