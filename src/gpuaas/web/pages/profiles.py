"""The hardware profiles of a namespace: what one gets, how many are free for the visitor, and why others are hidden."""

from __future__ import annotations

from typing import Final

from gpuaas.base.errors import ApiError
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import JOBS, NODES, PODS
from gpuaas.views import profiles
from gpuaas.views.profiles import ProfileRow
from gpuaas.web.page import Context, Page, Visit
from gpuaas.web.pages.parts import address, allowed

PROFILES: Final = Resource("infrastructure.opendatahub.io", "v1", "hardwareprofiles", True, "HardwareProfile")
SHARED: Final = ("redhat-ods-applications", "opendatahub")
_CONFIGS: Final = Resource("opendatahub.io", "v1alpha", "odhdashboardconfigs", True, "OdhDashboardConfig")
_CONFIG: Final = "odh-dashboard-config"


async def _load(visit: Visit) -> Context:
    places = visit.views.namespaces(visit.user, "create", JOBS)
    namespace = visit.query.get("namespace") or ("default" if "default" in places else next(iter(places), ""))
    rows = await profile_rows(visit, namespace)
    return {
        "namespace": namespace,
        "offered": [row for row in rows if not row.hidden],
        "hidden": [row for row in rows if row.hidden],
        "places": [(name, None, visit.url(address("/profiles", namespace=name)), name == namespace) for name in places],
    }


async def profile_rows(visit: Visit, namespace: str) -> list[ProfileRow]:
    """As far as the visitor may see them."""
    found: list[Object] = []
    for place in dict.fromkeys((namespace, *SHARED)):
        if place and visit.may("list", PROFILES, place):
            found += await visit.api.list(PROFILES, place)
    queues = await visit.api.list(LOCAL_QUEUES, namespace) if visit.may("list", LOCAL_QUEUES, namespace) else []
    local = {one["metadata"]["name"]: one["spec"].get("clusterQueue", "") for one in queues}
    quotas = allowed(lambda: visit.views.queues(visit.user, namespace)) if namespace else None
    gpus = allowed(lambda: visit.views.gpus(visit.user, details=True))
    around = profiles.Surroundings(local, quotas or (), gpus or (), gpus is not None)
    return profiles.rows(found, around, await _order(visit))


async def _order(visit: Visit) -> list[str]:
    for place in SHARED:
        if not visit.may("get", _CONFIGS, place, _CONFIG):
            continue
        try:
            found = await visit.api.get(_CONFIGS, _CONFIG, place)
        except ApiError:
            continue
        return [str(name) for name in (found.get("spec") or {}).get("hardwareProfileOrder") or ()]
    return []


PAGE = Page(
    "profiles",
    "/profiles",
    "Hardware profiles",
    "profiles.html",
    _load,
    nav="Profiles",
    fragments=("offered",),
    follows=(PROFILES, LOCAL_QUEUES, CLUSTER_QUEUES, NODES, PODS),
)
