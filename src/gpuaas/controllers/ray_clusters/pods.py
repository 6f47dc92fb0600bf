"""The pods and the service of a Ray cluster: names, labels, and the command that starts Ray. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.client.protocol import Object, Resource
from gpuaas.runtime.metadata import controller_reference
from gpuaas.runtime.pods import pod_from_template

RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", True, "RayCluster")
CLUSTER, NODE_TYPE, GROUP = "ray.io/cluster", "ray.io/node-type", "ray.io/group"
HEAD, WORKER, HEAD_GROUP = "head", "worker", "headgroup"
_MOST = 2_147_483_647
_PORTS = (("gcs-server", 6379), ("dashboard", 8265), ("client", 10001), ("metrics", 8080), ("serve", 8000))

View = Mapping[str, Any]


def groups_of(cluster: View) -> Sequence[View]:
    found: Sequence[View] = cluster["spec"].get("workerGroupSpecs") or ()
    return found


def wanted_workers(group: View) -> int:
    """Within the bounds of the group, times the hosts each worker has."""
    if group.get("suspend"):
        return 0
    least, most = group.get("minReplicas") or 0, group.get("maxReplicas")
    wanted = group.get("replicas")
    kept = min(max(least if wanted is None else wanted, least), _MOST if most is None else most)
    return int(kept * (group.get("numOfHosts") or 1))


def service_name(cluster: View) -> str:
    asked = (cluster["spec"].get("headGroupSpec") or {}).get("headService") or {}
    return (asked.get("metadata") or {}).get("name") or f"{cluster['metadata']['name']}-head-svc"


def head_pod(cluster: View) -> Object:
    pod = _pod(cluster, cluster["spec"]["headGroupSpec"], HEAD, HEAD_GROUP)
    pod["metadata"]["name"] = f"{cluster['metadata']['name'][:50]}-head".lower()
    del pod["metadata"]["generateName"]
    return pod


def worker_pod(cluster: View, group: View) -> Object:
    pod = _pod(cluster, group, WORKER, group["groupName"])
    prefix = f"{cluster['metadata']['name']}-{group['groupName']}"
    pod["metadata"]["generateName"] = f"{prefix[:50]}-worker-".lower()
    return pod


def head_service(cluster: View) -> Object:
    """Without an address of its own, like KubeRay's, unless another type is asked for."""
    group = cluster["spec"]["headGroupSpec"]
    name = cluster["metadata"]["name"]
    labels = {
        CLUSTER: name,
        NODE_TYPE: HEAD,
        "ray.io/identifier": f"{name}-head",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    ports = [{"name": one, "port": port, "targetPort": port, "protocol": "TCP"} for one, port in _PORTS]
    spec: Object = {"selector": labels, "ports": ports, "publishNotReadyAddresses": True}
    kind = group.get("serviceType")
    if kind:
        spec["type"] = kind
    else:
        spec["clusterIP"] = "None"
    metadata: Object = {
        "name": service_name(cluster),
        "namespace": cluster["metadata"]["namespace"],
        "labels": labels,
        "ownerReferences": [controller_reference(cluster, RAY_CLUSTERS)],
    }
    if cluster["spec"].get("headServiceAnnotations"):
        metadata["annotations"] = dict(cluster["spec"]["headServiceAnnotations"])
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _pod(cluster: View, group: View, node_type: str, group_name: str) -> Object:
    pod = pod_from_template(group["template"], cluster, RAY_CLUSTERS)
    name = cluster["metadata"]["name"]
    pod["metadata"]["labels"] = {
        "ray.io/is-ray-node": "yes",
        "ray.io/identifier": f"{name}-{node_type}",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
        **(pod["metadata"].get("labels") or {}),
        CLUSTER: name,
        NODE_TYPE: node_type,
        GROUP: group_name,
    }
    ray, *others = pod["spec"]["containers"]
    pod["spec"] = {**pod["spec"], "containers": [_started(cluster, ray, group, node_type), *others]}
    if node_type == HEAD:
        pod["spec"]["restartPolicy"] = pod["spec"].get("restartPolicy") or "Always"
    return pod


def _started(cluster: View, container: View, group: View, node_type: str) -> Object:
    """The first container runs Ray; a command of its own comes before."""
    address = f"{service_name(cluster)}.{cluster['metadata']['namespace']}.svc.cluster.local"
    parameters = {"block": "true", "dashboard-agent-listen-port": "52365", "metrics-export-port": "8080"}
    parameters |= {"dashboard-host": "0.0.0.0"} if node_type == HEAD else {"address": f"{address}:6379"}
    parameters |= group.get("rayStartParams") or {}
    words = " ".join(f"--{key}" if value == "true" else f"--{key}={value}" for key, value in sorted(parameters.items()))
    start = f"ray start {'--head ' if node_type == HEAD else ''}{words}"
    own = " ".join([*(container.get("command") or ()), *(container.get("args") or ())])
    script = f"ulimit -n 65536; {f'{own} && ' if own else ''}{start}"
    environment = [*(container.get("env") or ())]
    known = {one["name"] for one in environment}
    for key, value in (("FQ_RAY_IP", address), ("RAY_IP", service_name(cluster)), ("RAY_PORT", "6379")):
        if key not in known:
            environment.append({"name": key, "value": value})
    return {**container, "command": ["/bin/bash", "-c", "--"], "args": [script], "env": environment}
