"""Admission webhooks: what they are asked, in which order, and what becomes of their answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.real.reviews import Reviewer, reviewing
from tests.real.wire import MERGE, Wire, case

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["jobs"]}
WIDGETS = {"configmaps": "v1", "jobs": "batch/v1"}

Answer = Callable[[str, dict[str, Any]], dict[str, Any]]


class Judge:
    def __init__(self, w: Wire, reviewer: Reviewer) -> None:
        self._w = w
        self._reviewer = reviewer
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self._paths: set[str] = set()
        self.answer: Answer = lambda path, request: {}

    def hook(self, name: str, path: str, rule: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {
            "name": name,
            "clientConfig": {"url": f"{self._reviewer.url}/{path}", "caBundle": self._reviewer.trusted},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._w.ns}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }

    def register(self, kind: str, *hooks: dict[str, Any]) -> None:
        """And wait until it is heard of: the real server learns of it a moment later."""
        self._paths |= {hook["clientConfig"]["url"].rpartition("/")[2] for hook in hooks} - {"ask"}
        name = f"{self._w.ns}-{kind}"
        meta = {"metadata": {"name": name}}
        answer = self._w.prepare("POST", f"{GROUP}/{kind}webhookconfigurations", {**meta, "webhooks": list(hooks)})
        assert answer.status == 201, answer.body

    def heard(self, resource: str, body: dict[str, Any]) -> None:
        def asked() -> bool:
            self._w.prepare("POST", self._w.path(resource, WIDGETS[resource]) + "?dryRun=All", body)
            return {path for path, _ in self.seen} >= self._paths

        self._w.until(asked)
        self.seen.clear()

    def unregister(self, *kinds: str) -> None:
        for kind in kinds:
            self._w.prepare("DELETE", f"{GROUP}/{kind}webhookconfigurations/{self._w.ns}-{kind}")

    def tell(self, step: str) -> None:
        """Write down what was asked since the last time; judges are asked side by side, in no order."""
        seen, self.seen = self.seen, []
        for path, request in sorted(seen, key=lambda each: each[0]) if "any order" in step else seen:
            request.pop("uid")
            user = request["userInfo"].get("username")
            request["userInfo"] = "<user>" if user else ""
            self._w.note(f"{step}: {path} is asked", request=self._w.normal.value(request))


@contextmanager
def judging(w: Wire) -> Iterator[Judge]:
    def respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
        judge.seen.append((path, request))
        return {"uid": request["uid"], "allowed": True, **judge.answer(path, request)}

    with reviewing(respond) as reviewer:
        judge = Judge(w, reviewer)
        try:
            yield judge
        finally:
            judge.unregister("mutating", "validating")


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def config(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


@case
def webhooks_that_judge(w: Wire) -> None:
    path = w.path("configmaps")
    with judging(w) as judge:
        w.prepare("POST", path, config("before", a="1"))
        judge.register("validating", judge.hook("a.b.c", "one", MAPS))
        judge.heard("configmaps", config("x"))
        judge.answer = lambda _, request: {"warnings": ["look out"]}
        w.post(path, config("c", a="1"), fieldManager="me")
        w.post(path, {"metadata": {"generateName": "c-"}}, dryRun="All")
        judge.tell("created")
        w.put(f"{path}/c", config("c", a="2"))
        w.patch(f"{path}/c", {"data": {"b": "3"}}, MERGE)
        w.apply(f"{path}/c", {"apiVersion": "v1", "kind": "ConfigMap", **config("c", d="4")}, "other")
        judge.tell("changed")
        w.delete(f"{path}/c")
        judge.tell("deleted")
        for status in (
            None,
            {"message": "not today"},
            {"reason": "Forbidden"},
            {"code": 403, "reason": "Forbidden", "message": "no", "details": {"name": "x", "causes": [{"field": "a"}]}},
            {"code": 201, "message": "strange"},
            {"code": 422, "reason": "Invalid", "message": "data: Required value"},
        ):
            judge.answer = lambda _, request, s=status: {"allowed": False, **({"status": s} if s else {})}  # type: ignore[misc]
            w.post(path, config("d"))
        w.delete(f"{path}/before")
        w.delete(path)
        w.patch(f"{path}/before", {"data": {"a": "1"}}, MERGE)


@case
def webhooks_that_change(w: Wire) -> None:
    path = w.path("configmaps")

    def answer(name: str, request: dict[str, Any]) -> dict[str, Any]:
        if request["operation"] == "DELETE" or name == "judge":
            return {}
        count = len(request["object"].get("data") or {})
        return patch({"op": "add", "path": f"/data/n{count}", "value": name})

    with judging(w) as judge:
        judge.register(
            "mutating",
            judge.hook("a.b.c", "first", MAPS, reinvocationPolicy="IfNeeded"),
            judge.hook("d.e.f", "second", MAPS),
        )
        judge.register("validating", judge.hook("g.h.i", "judge", MAPS))
        judge.answer = answer
        judge.heard("configmaps", config("x", a="1"))
        w.post(path, {"metadata": {"generateName": "c-", "labels": {"a": "b"}}, "data": {"a": "1"}}, dryRun="All")
        w.post(path, config("c", a="1"))
        judge.tell("created")
        w.patch(f"{path}/c", {"data": {"z": "3"}}, MERGE)
        w.apply(f"{path}/c", {"apiVersion": "v1", "kind": "ConfigMap", **config("c", d="4")}, "other")
        judge.tell("changed")
        for change in (
            {"op": "add", "path": "/metadata/labels", "value": {"-bad-": "x"}},
            {"op": "replace", "path": "/nowhere/at/all", "value": 1},
            {"op": "add", "path": "/data/n", "value": 7},
            {"op": "add", "path": "/unknown", "value": 7},
            {"op": "remove", "path": "/metadata/managedFields"},
            {"op": "test", "path": "/data/a", "value": "2"},
        ):
            judge.answer = lambda name, request, c=change: patch(c) if name == "first" else {}  # type: ignore[misc]
            w.post(path, config("e", a="1"), dryRun="All")


@case
def webhooks_of_jobs(w: Wire) -> None:
    path = w.path("jobs", "batch/v1")
    spec = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}
    with judging(w) as judge:
        judge.register("mutating", judge.hook("a.b.c", "first", JOBS))
        judge.answer = lambda name, request: patch({"op": "add", "path": "/spec/suspend", "value": True})
        judge.heard("jobs", {"metadata": {"name": "x"}, "spec": spec})
        w.post(path, {"metadata": {"name": "j"}, "spec": spec})


@case
def webhooks_that_do_not_answer(w: Wire) -> None:
    path = w.path("configmaps")
    nobody = {"url": "https://127.0.0.1:9/ask"}
    with judging(w) as judge:
        judge.register(
            "validating",
            judge.hook("a.b.c", "one", MAPS, clientConfig=nobody, failurePolicy="Ignore"),
            judge.hook("d.e.f", "two", MAPS, clientConfig=nobody, timeoutSeconds=3, matchConditions=[
                {"name": "n", "expression": "object == null || object.metadata.name == 'fails'"}
            ]),
            judge.hook("g.h.i", "three", MAPS),
        )  # fmt: skip
        judge.heard("configmaps", config("x"))
        w.post(path, config("passes"))
        w.post(path, config("fails"))
        w.delete(f"{path}/passes")
        judge.answer = lambda name, request: {"uid": "other"}
        w.note("another uid", status=str(w.prepare("POST", path, config("y")).status))
        judge.answer = lambda name, request: patch({"op": "add", "path": "/data", "value": {}})
        w.post(path, config("z"))
