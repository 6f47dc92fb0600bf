"""Queues of a cluster: whether jobs can be admitted at all."""

from typing import TYPE_CHECKING, Any

from gpuaas.cli.doctor.finding import Finding
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES

if TYPE_CHECKING:
    from gpuaas.client.http import HttpClient


async def check_queues(client: "HttpClient") -> list[Finding]:
    listed = await client.list(CLUSTER_QUEUES)
    local = await client.list(LOCAL_QUEUES)
    return queue_findings(listed.items, local.items)


def queue_findings(cluster_queues: list[Any], local_queues: list[Any]) -> list[Finding]:
    """Pure: the findings of these objects."""
    if not cluster_queues:
        message = "there is no ClusterQueue, so no job can be admitted"
        fix = "gpuaas apply -f FILE  # ResourceFlavor, ClusterQueue and LocalQueue, as in examples/private-ai/base"
        return [Finding("red", "queues-exist", message, fix)]
    findings: list[Finding] = []
    used = {queue.get("spec", {}).get("clusterQueue", "") for queue in local_queues}
    for queue in cluster_queues:
        name = queue["metadata"]["name"]
        active = _condition(queue, "Active")
        if active and active.get("status") == "False":
            message = f"ClusterQueue {name} admits nothing: {active.get('message') or active.get('reason')}"
            findings.append(Finding("red", "queues-active", message, f"kubectl describe clusterqueue {name}"))
        elif name not in used:
            message = f"no LocalQueue points to ClusterQueue {name}, so no job can be submitted to it"
            fix = f"kubectl create -f - <<< '{_local_queue(name)}'"
            findings.append(Finding("yellow", "queues-reachable", message, fix))
    known = {queue["metadata"]["name"] for queue in cluster_queues}
    for queue in local_queues:
        wanted = queue.get("spec", {}).get("clusterQueue", "")
        if wanted not in known:
            name, namespace = queue["metadata"]["name"], queue["metadata"]["namespace"]
            message = f"LocalQueue {namespace}/{name} names ClusterQueue {wanted}, which does not exist"
            fix = f"kubectl -n {namespace} delete localqueue {name}"
            findings.append(Finding("red", "queues-reachable", message, fix))
    number = len(cluster_queues)
    words = "1 ClusterQueue admits jobs" if number == 1 else f"{number} ClusterQueues admit jobs"
    return findings or [Finding("green", "queues-active", words)]


def _local_queue(name: str) -> str:
    return (
        '{"apiVersion":"kueue.x-k8s.io/v1beta1","kind":"LocalQueue",'
        f'"metadata":{{"name":"{name}","namespace":"default"}},"spec":{{"clusterQueue":"{name}"}}}}'
    )


def _condition(obj: Any, kind: str) -> dict[str, Any] | None:
    conditions = obj.get("status", {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == kind), None)
