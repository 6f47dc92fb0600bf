"""Why a job waits, explained in the server: from the informers' objects and the live engine, as far as a user may see.

What a user may list everywhere counts as a whole, what only in the job's namespace in part, the rest is hidden, as when
the user's own client asks for the lists. The engine knows more: names of workloads in namespaces that the user may not
read are taken out of what it explains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuaas.base.errors import NotFound
from gpuaas.client.kueue import (
    PRIORITY_CLASSES,
    WORKLOADS,
)
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import PODS
from gpuaas.engine.engine import Engine
from gpuaas.engine.explain import Explanation
from gpuaas.engine.values import Millis
from gpuaas.kueue.configuration.settings import Configuration
from gpuaas.kueue.explain.hidden_usage import hidden
from gpuaas.kueue.explain.snapshot import Picture
from gpuaas.kueue.explain.why import why
from gpuaas.runtime.informer import Informers
from gpuaas.views.snapshot import BETWEEN, PICTURED

MayList = Callable[[Resource, str], bool]
"""Whether the user may list a resource in a namespace, "" for everywhere."""


def explain_workload(
    informers: Informers,
    engine: Engine,
    configuration: Configuration,
    namespace: str,
    name: str,
    may_list: MayList,
    now: Millis,
) -> Mapping[str, Any]:
    """As `gpuaas why -o json` shows it."""
    informer = informers.known(WORKLOADS)
    workload = None if informer is None else informer.get(namespace, name)
    if workload is None:
        raise NotFound(WORKLOADS.group, WORKLOADS.plural, name)

    def explain(key: str, at: Millis) -> Explanation | None:
        found = engine.explain(key, at)
        if found is None or may_list(WORKLOADS, ""):
            return found
        return hidden(found, lambda where: may_list(WORKLOADS, where))

    picture = _picture(informers, configuration, namespace, may_list)
    return why(picture, workload, now, explain).as_object()


def _picture(informers: Informers, configuration: Configuration, namespace: str, may_list: MayList) -> Picture:
    lists: dict[str, list[Object]] = {}
    hides, partial = set[str](), set[str]()
    for name, resource in PICTURED.items():
        if may_list(resource, ""):
            lists[name] = _known(informers, resource)
        elif resource.namespaced and may_list(resource, namespace):
            lists[name] = _known(informers, resource, namespace)
            partial.add(name)
        else:
            hides.add(name)
    if may_list(PRIORITY_CLASSES, ""):
        lists["priorities"] = _known(informers, PRIORITY_CLASSES)
    if may_list(PODS, namespace):
        lists["pods"] = _known(informers, PODS, namespace)
    lists["owners"] = [
        obj for resource in BETWEEN if may_list(resource, namespace) for obj in _known(informers, resource, namespace)
    ]
    return Picture(**lists, hidden=frozenset(hides), partial=frozenset(partial), configuration=configuration)


def _known(informers: Informers, resource: Resource, namespace: str = "") -> list[Object]:
    informer = informers.known(resource)
    if informer is None:
        return []
    return informer.in_namespace(namespace) if namespace else informer.all()
