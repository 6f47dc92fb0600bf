"""Status, scale, binding, eviction: each writes its own part and nothing else."""

from __future__ import annotations

from typing import Any

from tests.real.wire import MERGE, Wire, case

TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "busybox"}]},
}


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    whole = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": whole}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    # No scheduler takes it: what is seen is what was written.
    whole = {"schedulerName": "by-hand", "containers": [{"name": "c", "image": "busybox"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


@case
def status_subresource(w: Wire) -> None:
    w.settled = True
    path = w.path("deployments", "apps/v1")
    w.post(path, {**deployment("d"), "status": {"replicas": 9}})
    live = w.get(f"{path}/d/status").json()
    w.put(f"{path}/d/status", {**live, "status": {"replicas": 1, "readyReplicas": 1}, "spec": {"replicas": 99}})
    live["status"] = {"replicas": 1, "readyReplicas": 1}
    live["spec"]["replicas"] = 50
    live["metadata"]["labels"] = {"changed": "yes"}
    w.put(f"{path}/d/status", live)
    w.patch(f"{path}/d/status", {"status": {"readyReplicas": 2}, "spec": {"paused": True}}, MERGE)
    w.patch(f"{path}/d/status", {"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}}, MERGE)
    w.put(f"{path}/d", {**deployment("d", replicas=3), "status": {"replicas": 7}})
    w.patch(f"{path}/d/status", {"status": {"replicas": -1}}, MERGE)
    w.apply(
        f"{path}/d/status",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"observedGeneration": 2}},
        "controller",
    )
    w.get(f"{path}/d")
    w.delete(f"{path}/d/status")
    w.get(w.path("configmaps/kube-root-ca.crt/status"))


@case
def scale_subresource(w: Wire) -> None:
    w.settled = True
    path = w.path("deployments", "apps/v1")
    w.prepare("POST", path, deployment("d"))
    scale = w.get(f"{path}/d/scale").json()
    w.put(f"{path}/d/scale", {**scale, "spec": {"replicas": 5}})
    w.put(f"{path}/d/scale", {**scale, "spec": {"replicas": 6}})
    w.patch(f"{path}/d/scale", {"spec": {"replicas": 7}}, MERGE, fieldManager="scaler")
    w.patch(f"{path}/d/scale", {"spec": {"replicas": -7}}, MERGE)
    w.patch(f"{path}/nothere/scale", {"spec": {"replicas": 7}}, MERGE)
    w.get(f"{path}/d")


@case
def binding_subresource(w: Wire) -> None:
    path = w.path("pods")
    target = {"apiVersion": "v1", "kind": "Node", "name": "somewhere"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
    w.prepare("POST", path, pod("p"))
    w.post(f"{path}/p/binding", {**binding, "target": {}})
    w.post(f"{path}/p/binding", {**binding, "metadata": {"name": "q"}})
    w.post(f"{path}/p/binding", binding)
    w.get(f"{path}/p")
    w.post(f"{path}/p/binding", binding)
    w.post(f"{path}/nothere/binding", {**binding, "metadata": {"name": "nothere"}})
    w.delete(f"{path}/p")
    w.get(f"{path}/p")
    w.delete(f"{path}/p", gracePeriodSeconds=5)
    w.delete(f"{path}/p", gracePeriodSeconds=0)
    w.get(f"{path}/p")
    w.post(w.path("pods"), pod("gated", schedulingGates=[{"name": "example.com/g"}]))
    w.post(f"{path}/gated/binding", {**binding, "metadata": {"name": "gated"}})


@case
def eviction_subresource(w: Wire) -> None:
    path = w.path("pods")
    w.prepare("POST", path, pod("p"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    w.post(f"{path}/nothere/eviction", {**eviction, "metadata": {"name": "nothere"}})
    w.post(f"{path}/p/eviction", {**eviction, "metadata": {"name": "q"}})
    w.post(f"{path}/p/eviction", eviction, dryRun="All")
    w.post(f"{path}/p/eviction", eviction)
    w.get(f"{path}/p")


@case
def pod_defaults(w: Wire) -> None:
    w.post(w.path("pods"), pod("plain"))
    w.post(w.path("pods"), pod("host", hostNetwork=True, dnsPolicy="Default"))
    w.post(w.path("pods"), pod("gone", nodeName="somewhere"))
    w.post(w.path("pods"), {**pod("withstatus"), "status": {"phase": "Running"}})
    w.post(w.path("pods"), pod("overhead", runtimeClassName="none"))
    w.post(w.path("pods"), pod("user", automountServiceAccountToken=False, enableServiceLinks=False))


@case
def generation(w: Wire) -> None:
    """The generation counts changes of the wish, not of labels or status."""
    w.settled = True
    path = w.path("deployments", "apps/v1")
    w.post(path, deployment("d"))
    for patch in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"replicas": 9}}, {"spec": {"replicas": 9}}):
        w.patch(f"{path}/d", patch, MERGE)
    w.patch(f"{path}/d/status", {"status": {"replicas": 9}}, MERGE)
    w.patch(f"{path}/d", {"metadata": {"generation": 77}}, MERGE)
    w.patch(f"{path}/d", {"metadata": {"annotations": {"a": "b"}}}, MERGE)


@case
def logs_and_streams(w: Wire) -> None:
    path = w.path("pods")
    w.prepare("POST", path, pod("p"))
    w.get(f"{path}/nothere/log", accept="*/*")
    w.get(f"{path}/p/log", accept="*/*")
    w.get(f"{path}/p/log", accept="*/*", container="nosuch")
    w.get(f"{path}/p/log", accept="*/*", tailLines=-1)
    w.get(f"{path}/p/log", accept="*/*", tailLines="x")
    w.get(f"{path}/p/log", accept="*/*", sinceSeconds=5, sinceTime="2020-01-01T00:00:00Z")
    w.get(f"{path}/nothere/exec", accept="*/*", command="true")
