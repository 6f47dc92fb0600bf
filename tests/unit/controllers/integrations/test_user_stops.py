"""A job its user stopped stays stopped, however the news of it overtake each other."""

from typing import Any

from gpuaas.base.clock import VirtualClock
from gpuaas.client.kueue import KUEUE, RESOURCE_FLAVORS, WORKLOADS
from gpuaas.client.resources import NAMESPACES
from gpuaas.controllers.integrations.held import POD_PRIORITY_CLASSES
from gpuaas.controllers.integrations.kinds import controller_for
from gpuaas.controllers.integrations.queueable import USER_STOPPED
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.kueue.integrations.notebook import NOTEBOOKS, STOPPED, Notebook
from gpuaas.testing.cluster import BUILT_IN, FakeCluster
from gpuaas.testing.objects import namespace
from gpuaas.testing.time import scenario, stage


@scenario
async def test_a_notebook_is_not_started_again_while_its_deactivated_workload_is_still_admitted() -> None:
    cluster = FakeCluster(VirtualClock(), resources=(*BUILT_IN, *KUEUE, NOTEBOOKS, POD_PRIORITY_CLASSES))
    async with stage(lambda deps: controller_for(Notebook())(deps, Configured()), cluster=cluster) as world:
        cluster.put(NAMESPACES, namespace("team"))
        cluster.put(RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
        pod = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
        meta = {
            "name": "nb",
            "namespace": "team",
            "labels": {"kueue.x-k8s.io/queue-name": "main"},
            "annotations": {STOPPED: "2026-01-01T00:00:00Z"},
        }
        made = cluster.put(NOTEBOOKS, {"metadata": meta, "spec": {"template": {"spec": pod}}})
        cluster.put(WORKLOADS, _admitted(made, pod))
        await world.advance(5)
        kept = cluster.read(NOTEBOOKS, "nb", "team")["metadata"]["annotations"]
        assert kept == {STOPPED: "2026-01-01T00:00:00Z"}


def _admitted(notebook: Any, pod: Any) -> Any:
    """Deactivated because its user stopped it; nobody has evicted it yet."""
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "Notebook",
        "name": "nb",
        "uid": notebook["metadata"]["uid"],
        "controller": True,
    }
    meta = {
        "name": "notebook-nb",
        "namespace": "team",
        "annotations": {USER_STOPPED: "true"},
        "ownerReferences": [owner],
    }
    sets = [{"name": "main", "count": 1, "template": {"spec": pod}}]
    given = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("QuotaReserved", "Admitted")
    ]
    return {
        "metadata": meta,
        "spec": {"queueName": "main", "active": False, "podSets": sets},
        "status": {"admission": {"clusterQueue": "q", "podSetAssignments": [given]}, "conditions": conditions},
    }
