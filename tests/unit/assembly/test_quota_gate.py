"""The gate at the API: what it keeps of pods and workloads, also of what no controller of ours would have written."""

import asyncio
from pathlib import Path

from gpuaas.assembly.clusters import open_cluster
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import VirtualClock
from gpuaas.base.ids import SeededIds


def test_a_workload_that_cannot_be_read_holds_nothing_and_stops_nothing(tmp_path: Path) -> None:
    async def body() -> None:
        clock = VirtualClock()
        trust = Trust(tmp_path / "certificates", tmp_path / "users.json", clock)
        parts = await open_cluster("local", tmp_path / "store.db", trust, clock, SeededIds(), fsync=False)
        try:
            _ = parts.quota.book
            admission = {"podSetAssignments": [{"count": "many", "resourceUsage": {"nvidia.com/gpu": "a lot"}}]}
            conditions = [{"type": "QuotaReserved", "status": "True"}]
            for number, status in enumerate(
                [{"admission": admission, "conditions": conditions}, {"admission": [], "conditions": 7}, {}]
            ):
                name = f"w{number}"
                obj = {
                    "metadata": {"name": name, "namespace": "team", "uid": name},
                    "spec": {"podSets": 3},
                    "status": status,
                }
                parts.cluster.put_quietly(f"kueue.x-k8s.io/workloads/team/{name}", obj)
            await asyncio.sleep(0.05)
            parts.cluster.store.hasten()
            assert not parts.quota.is_overdrawn("team", "w0")
            watches = parts.cluster.store._watches["kueue.x-k8s.io/workloads/"]
            assert all(not watch.closed for watch in watches)
        finally:
            await parts.close()

    asyncio.run(body())
