"""Pages without a server: a visit over rows made from hand-made objects, and a page rendered as the server renders it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tests.unit.apiserver.security.conftest import binding, policy, role, rule, user
from tests.unit.views.objects import Object, cluster_queue

from gpuaas.apiserver.security.rbac import Rbac
from gpuaas.apiserver.views import Views
from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, PREEMPTIONS, WORKLOADS
from gpuaas.client.protocol import Resource
from gpuaas.client.resources import EVENTS, NODES, PODS
from gpuaas.views.notebooks import NOTEBOOKS
from gpuaas.views.snapshot import Snapshot
from gpuaas.web.page import Page, Visit
from gpuaas.web.pages.profiles import PROFILES
from gpuaas.web.render import Renderer
from gpuaas.web.routes import named

NOW = 1_794_744_060.0  # 2026-11-15T12:01:00Z
ADMIN = policy(role("all", rule("*", "*", "*")), binding("a", "ClusterRole", "all", ["User:ann"]))
_RENDERER = Renderer()


class Api:
    """The API as a page asks it, over lists of objects."""

    def __init__(self, objects: Mapping[Resource, Sequence[Object]], logs: Mapping[str, str]) -> None:
        self._objects = objects
        self._logs = logs

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        for obj in self._objects.get(resource, ()):
            meta = obj["metadata"]
            if (meta["name"], meta.get("namespace", "")) == (name, namespace):
                return obj
        raise NotFound(resource.group, resource.plural, name)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 500
    ) -> list[Object]:
        found = [each for each in self._objects.get(resource, ()) if each["metadata"].get("namespace", "") == namespace]
        if fields:
            found = [each for each in found if fields == f"involvedObject.name={each['involvedObject']['name']}"]
        return found[:limit]

    async def create(self, resource: Resource, obj: Object, namespace: str = "", *, dry_run: bool = False) -> Object:
        return obj

    async def notebook_link(self, namespace: str, name: str) -> str:
        return f"http://{name}--{namespace}.localhost:1/.gpuaas/open/secret"

    async def log(self, pod: str, namespace: str, *, container: str = "", tail_lines: int = 100) -> str:
        return self._logs.get(pod, "")


class Fake:
    """One cluster from lists of objects; `visit` is a request to it."""

    def __init__(
        self,
        *,
        rbac: Rbac = ADMIN,
        positions: Mapping[str, int] | None = None,
        why: Mapping[str, Mapping[str, Any]] | None = None,
        logs: Mapping[str, str] | None = None,
        **lists: list[Object],
    ) -> None:
        kinds = {
            "workloads": WORKLOADS,
            "local_queues": LOCAL_QUEUES,
            "cluster_queues": CLUSTER_QUEUES,
            "cohorts": COHORTS,
            "preemptions": PREEMPTIONS,
            "nodes": NODES,
            "pods": PODS,
            "events": EVENTS,
            "notebooks": NOTEBOOKS,
            "profiles": PROFILES,
        }
        self.snapshot = Snapshot(lambda: NOW)
        for name, objects in lists.items():
            if name not in ("events", "notebooks", "profiles"):
                self.snapshot.take_all(kinds[name], objects)
        explained = why or {}

        def explain(namespace: str, name: str, _: Any) -> Mapping[str, Any]:
            usual = {"reason": "WaitingForQuota", "sentence": f"{name} waits for quota", "evidence": [], "waysOut": []}
            return explained.get(f"{namespace}/{name}", usual)

        self.views = Views(self.snapshot, rbac, lambda: positions or {}, explain)
        self.api = Api({kinds[name]: objects for name, objects in lists.items()}, logs or {})

    def visit(self, path: str = "/", query: Mapping[str, str] | None = None, who: str = "ann", **parts: str) -> Visit:
        asks = user(who)
        return Visit(
            user=asks, cluster="local", base="/ui", path=path, parts=parts, query=query or {}, now=NOW,
            views=self.views, may=partial(_may, self.views, asks), api=self.api, csrf="c", theme="auto",
        )  # fmt: skip

    def load(
        self, page: Page, query: Mapping[str, str] | None = None, who: str = "ann", **parts: str
    ) -> dict[str, Any]:
        found = page.load(self.visit(page.path, query, who, **parts))
        return dict(asyncio.run(_awaited(found)) if inspect.isawaitable(found) else found)

    def html(
        self, page: Page, query: Mapping[str, str] | None = None, who: str = "ann", theme: str = "auto", **parts: str
    ) -> str:
        loaded = self.load(page, query, who, **parts)
        visit = self.visit(page.path, query, who, **parts)
        return _RENDERER.page(page.template, {**names(visit, page, theme), **loaded})

    def fragment(self, page: Page, name: str, /, query: Mapping[str, str] | None = None, **parts: str) -> str:
        loaded = self.load(page, query, **parts)
        visit = self.visit(page.path, query, **parts)
        return _RENDERER.fragment(page.template, name, {**names(visit, page), **loaded})


def names(visit: Visit, page: Page, theme: str = "auto") -> dict[str, Any]:
    from gpuaas.web.pages import PAGES

    return {
        "visit": visit, "page": page, "page_name": page.name, "title": named(page.title, visit.parts), "theme": theme,
        "next_theme": "dark", "notices": [], "stream": "", "revision": 0, "url": visit.url,
        "static": lambda name: f"/ui/static/{name}", "act": lambda *_, **__: None,
        "nav": [(each.nav, visit.url(each.path), each is page) for each in PAGES if each.nav],
    }  # fmt: skip


def preemption(
    name: str,
    victim: str,
    preemptor: str,
    *,
    ago: float = 60.0,
    gpus: int = 2,
    ran: int = 300,
    rule: str = "InCohortReclamation",
) -> Object:
    """`victim` and `preemptor`: `queue/job`; the namespace is the queue's name."""
    return {
        "metadata": {"name": name, "namespace": victim.partition("/")[0]},
        "spec": {
            "at": rfc3339(NOW - ago), "victim": _party(victim), "preemptor": _party(preemptor), "rule": rule,
            "message": "", "freed": {"nvidia.com/gpu": str(gpus), "cpu": "4"}, "ranSeconds": ran,
            "gpuSecondsLost": gpus * ran,
        },
    }  # fmt: skip


def queue(
    name: str, *, nominal: int = 8, used: int = 0, borrowed: int = 0, cohort: str = "all", flavor: str = "h200"
) -> Object:
    made = cluster_queue(name)
    quota = {"name": "nvidia.com/gpu", "nominalQuota": str(nominal)}
    amounts = {"name": "nvidia.com/gpu", "total": str(used), "borrowed": str(borrowed)}
    made["spec"]["cohortName"] = cohort
    made["spec"]["resourceGroups"][0]["flavors"] = [{"name": flavor, "resources": [quota]}]
    made["status"]["flavorsReservation"] = [{"name": flavor, "resources": [amounts]}]
    return made


async def _awaited(found: Any) -> Any:
    return await found


def _may(views: Views, who: Any, verb: str, resource: Resource, namespace: str = "", name: str = "") -> bool:
    return views.may(who, verb, resource, namespace, name)


def _party(text: str) -> Object:
    where, _, job = text.partition("/")
    return {
        "namespace": where, "name": f"job-{job}", "uid": f"uid-{where}-job-{job}", "clusterQueue": where,
        "priority": 0, "owner": f"Job/{job}",
    }  # fmt: skip


Town = Fake
"""The name that tests of other pages import."""
