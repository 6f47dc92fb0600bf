"""The gate at the API: what it keeps of pods and workloads, also of what no controller of ours would have written."""

import asyncio
from pathlib import Path

from gpuaas.assembly.clusters import open_cluster
from gpuaas.assembly.trust import Trust
from gpuaas.base.clock import VirtualClock
from gpuaas.base.ids import SeededIds
from gpuaas.kueue.coverage import Account

GPU = "nvidia.com/gpu"

RESERVED = [{"type": "QuotaReserved", "status": "True"}]
UNREADABLE = (
    {"admission": {"podSetAssignments": [{"count": "many", "resourceUsage": {GPU: "a lot"}}]}, "conditions": RESERVED},
    {"admission": {"podSetAssignments": [{"count": 1, "resourceUsage": 5}]}, "conditions": 7},
    {},
)
READABLE = {
    "admission": {"podSetAssignments": [{"name": "main", "count": 1, "resourceUsage": {GPU: "1"}}]},
    "conditions": RESERVED,
}


def test_a_workload_that_cannot_be_read_holds_nothing_and_stops_nothing(tmp_path: Path) -> None:
    async def body() -> None:
        clock = VirtualClock()
        trust = Trust(tmp_path / "certificates", tmp_path / "users.json", clock)
        parts = await open_cluster("local", tmp_path / "store.db", trust, clock, SeededIds(), fsync=False)
        try:
            _ = parts.quota.book
            put = parts.cluster.put_quietly
            for number, status in enumerate((*UNREADABLE, READABLE)):
                metadata = {"name": f"w{number}", "namespace": "team", "uid": f"w{number}"}
                spec = {"podSets": 3 if status is not READABLE else [{"name": "main", "count": 1}]}
                put(f"kueue.x-k8s.io/workloads/team/w{number}", {"metadata": metadata, "spec": spec, "status": status})
            parts.cluster.store.hasten()
            accounts = [Account("team", f"w{number}") for number in range(len(UNREADABLE) + 1)]
            short = [parts.quota.book.shortage(account, {GPU: 1}, lambda _: False) for account in accounts]
            assert short == [*(f"workload {account.name} holds no quota" for account in accounts[:-1]), ""]
        finally:
            await parts.close()

    asyncio.run(body())
