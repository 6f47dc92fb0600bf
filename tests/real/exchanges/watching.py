"""Watch streams: what is sent, from where, and when it is refused."""

from __future__ import annotations

from typing import Any

from tests.real.wire import MERGE, TABLE, Wire, case


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"w": "1", **labels}}}


@case
def watch_all_changes(w: Wire) -> None:
    path = w.path("configmaps")

    def changes() -> None:
        w.prepare("POST", path, config_map("a"))
        w.prepare("PATCH", f"{path}/a", {"data": {"k": "1"}}, MERGE)
        w.prepare("PATCH", f"{path}/a", {"data": {"k": "1"}}, MERGE)
        w.prepare("DELETE", f"{path}/a")

    w.watch(path, changes, labelSelector="w")


@case
def watch_from_a_revision(w: Wire) -> None:
    path = w.path("configmaps")
    first = w.prepare("POST", path, config_map("a")).json()["metadata"]["resourceVersion"]
    w.prepare("PATCH", f"{path}/a", {"data": {"k": "1"}}, MERGE)
    second = w.prepare("POST", path, config_map("b")).json()["metadata"]["resourceVersion"]
    w.watch(path, _nothing, labelSelector="w", resourceVersion=first)
    w.watch(path, _nothing, labelSelector="w", resourceVersion=second)
    w.watch(path, _nothing, labelSelector="w", resourceVersion="0")
    w.watch(path, _nothing, labelSelector="w")
    w.watch(path, lambda: w.prepare("DELETE", f"{path}/a"), labelSelector="w", resourceVersion=second)


@case
def watch_selected(w: Wire) -> None:
    """An object that enters the selection is added, one that leaves it is deleted."""
    path = w.path("configmaps")

    def changes() -> None:
        w.prepare("POST", path, config_map("a", on="no"))
        w.prepare("PATCH", f"{path}/a", {"metadata": {"labels": {"on": "yes"}}}, MERGE)
        w.prepare("PATCH", f"{path}/a", {"data": {"x": "y"}}, MERGE)
        w.prepare("PATCH", f"{path}/a", {"metadata": {"labels": {"on": "no"}}}, MERGE)
        w.prepare("PATCH", f"{path}/a", {"data": {"x": "z"}}, MERGE)
        w.prepare("DELETE", f"{path}/a")

    w.watch(path, changes, labelSelector="on=yes")
    w.watch(path, changes, fieldSelector="metadata.name=a")
    w.watch(path, changes, fieldSelector="metadata.name=b")


@case
def watch_pod_fields(w: Wire) -> None:
    path = w.path("pods")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "by-hand", "containers": [{"name": "c", "image": "x"}]},
    }

    def changes() -> None:
        w.prepare("POST", path, pod)
        w.prepare("PATCH", f"{path}/p/status", {"status": {"phase": "Running"}}, MERGE)
        w.prepare("PATCH", f"{path}/p/status", {"status": {"phase": "Succeeded"}}, MERGE)
        w.prepare("DELETE", f"{path}/p?gracePeriodSeconds=0")

    w.watch(path, changes, fieldSelector="status.phase=Running")


@case
def watch_initial_events(w: Wire) -> None:
    """The streaming list: initial events, then a bookmark that says so."""
    path = w.path("configmaps")
    w.prepare("POST", path, config_map("a"))
    query = {"labelSelector": "w", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    events = w.watch(path, _nothing, **query, allowWatchBookmarks="true")
    marks = [event["object"] for event in events if event["type"] == "BOOKMARK"]
    ends = [mark for mark in marks if "k8s.io/initial-events-end" in mark["metadata"].get("annotations", {})]
    w.note("the bookmark that ends the list", marks=w.normal.value([{**mark, "metadata": {}} for mark in ends]))
    w.get(path, watch="true", sendInitialEvents="true")
    w.get(path, watch="true", sendInitialEvents="true", resourceVersionMatch="Exact")
    w.get(path, watch="true", sendInitialEvents="maybe", timeoutSeconds=1)
    w.get(path, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")


@case
def watch_as_table(w: Wire) -> None:
    path = w.path("configmaps")
    w.prepare("POST", path, config_map("a"))
    w.send("GET", path, query={"watch": "true", "timeoutSeconds": "1", "labelSelector": "w"}, accept=TABLE)
    partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    w.send("GET", path, query={"watch": "true", "timeoutSeconds": "1", "labelSelector": "w"}, accept=partial)


@case
def watch_refused(w: Wire) -> None:
    path = w.path("configmaps")
    w.get(path, watch="true", resourceVersion="nonsense")
    w.get(path, watch="true", resourceVersion="-1")
    w.get(path, watch="true", labelSelector="bad selector!")
    w.get(path, watch="true", fieldSelector="data.x=1")
    w.get(path, watch="true", timeoutSeconds="x")
    w.get(path, watch="maybe", timeoutSeconds=1, labelSelector="none=here")
    w.get(path, watch="true", timeoutSeconds=1, labelSelector="none=here")
    w.get(path, watch="1", timeoutSeconds=1, labelSelector="none=here")
    w.get(f"{path}/a", watch="true", timeoutSeconds=1)


@case
def watch_old_paths(w: Wire) -> None:
    w.prepare("POST", w.path("configmaps"), config_map("a"))
    w.get(f"/api/v1/watch/namespaces/{w.ns}/configmaps/a", timeoutSeconds=1)
    w.get(f"/api/v1/watch/namespaces/{w.ns}/configmaps", timeoutSeconds=1, labelSelector="w")


@case
def watch_future_revision(w: Wire) -> None:
    w.get(w.path("configmaps"), watch="true", resourceVersion="999999999", timeoutSeconds=1)
    w.get(w.path("configmaps"), resourceVersion="999999999", timeoutSeconds=1)


@case
def watch_across_namespaces(w: Wire) -> None:
    path = w.path("configmaps")
    w.watch("/api/v1/configmaps", lambda: w.prepare("POST", path, config_map("across")), labelSelector="w,x=across")
    w.watch(
        "/api/v1/configmaps",
        lambda: w.prepare("PATCH", f"{path}/across", {"metadata": {"labels": {"x": "across"}}}, MERGE),
        labelSelector="x=across",
    )


def _nothing() -> None:
    """The watch alone."""
