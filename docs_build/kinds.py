"""The page of kinds, from the catalogue of a new cluster and from whoever follows what in it."""

import asyncio
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs_build.markdown import codes, table
from gpuaas.api.custom import platform
from gpuaas.api.kinds import ALL_VERBS, Kind
from gpuaas.apiserver.catalogue import Resource
from gpuaas.apiserver.discovery import version_priority
from gpuaas.apiserver.local import LocalClient, LocalDiscovery
from gpuaas.apiserver.subresources import CONNECTS
from gpuaas.assembly.clusters import ClusterParts, open_cluster
from gpuaas.assembly.trust import Trust
from gpuaas.assembly.visibility import mount_visibility
from gpuaas.base.clock import VirtualClock
from gpuaas.base.ids import SeededIds
from gpuaas.controllers import all_controllers
from gpuaas.controllers.kueue import KueueCore
from gpuaas.runtime.controller import Deps

Place = tuple[str, str]
"""Group and plural."""

_OURS: Final = ("gpuaas.dev", "kueue.x-k8s.io", "visibility.kueue.x-k8s.io", "kueue.openshift.io")
# What no controller follows and the server itself reads or writes: access, admission, definitions.
_OF_THE_SERVER: Final[dict[str, tuple[str, ...]]] = {
    "": ("events",),
    "admissionregistration.k8s.io": (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    ),
    "apiextensions.k8s.io": ("customresourcedefinitions",),
    "events.k8s.io": ("events",),
    "gpuaas.dev": ("preemptions",),
    "rbac.authorization.k8s.io": ("clusterrolebindings", "rolebindings", "roles"),
}
_INTRODUCTION: Final = """\
`kubectl api-resources` asks a server for this list, `kubectl explain KIND` for the fields of a kind. A kind that is not \
here is served as soon as somebody applies its CustomResourceDefinition.

What happens with objects of a kind:

- **acted on**: controllers, or the API server itself, read them and do something about it.
- **checked**: names, fields and defaults are as the original has them, and most rules; nothing acts on the objects.
- **stored**: whatever is in it is accepted, kept and given back; nothing looks into it.
- **answered**: it is a question; nothing is stored.

Objects can be created, read, listed, watched, updated, patched and deleted, one or many at a time, unless other verbs are \
named. Where there are several versions, objects are stored in the one in bold. Who uses a deprecated one gets a warning.

{connects} of pods, services and nodes are refused: there is no container and no server behind them."""
_SECTIONS: Final = {
    "Ours and Kueue's": "Queues, quotas and workloads, the ledger of preemptions, and who waits at which place.",
    "Integrations": "Jobs, notebooks, serving, fleets of clusters and hardware profiles of the projects people come from.",
    "Kubernetes' own": "As Kubernetes 1.36 serves them.",
    "Platforms people come from": "So that a folder of manifests can be applied as it is; the operators that would act on them are not here.",
}


@dataclass(frozen=True)
class _Served:
    resources: tuple[Resource, ...]
    acted_on: frozenset[Place]


def body() -> str:
    served = asyncio.run(_served())
    parts = [_INTRODUCTION.format(connects=codes(sorted(CONNECTS)))]
    for title, words in _SECTIONS.items():
        parts += [f"## {title}", words]
        members = [each for each in served.resources if _section(each) == title]
        parts.append(_table(sorted(members, key=_order), served.acted_on))
    return "\n\n".join(parts)


async def _served() -> _Served:
    """Of a cluster of its own, in which nothing is started."""
    with tempfile.TemporaryDirectory() as folder:
        home, clock = Path(folder), VirtualClock()
        trust = Trust(home / "pki", home / "users.json", clock)
        parts = await open_cluster("local", home / "local.db", trust, clock, SeededIds(), fsync=False)
        followed = _furnished(parts, clock)
        resources = tuple(parts.cluster.catalogue.resources())
        await parts.close()
    known = {(each.group, each.plural) for each in resources}
    own = {(group, plural) for group, plurals in _OF_THE_SERVER.items() for plural in plurals}
    if own - known or own & followed:
        raise ValueError(f"not the server's own any more: {sorted((own - known) | (own & followed))}")
    return _Served(resources, frozenset(followed | own))


def _furnished(parts: ClusterParts, clock: VirtualClock) -> set[Place]:
    """What is followed once every controller is made."""
    client = LocalClient(parts.cluster, parts.access.system_user("controllers"), "gpuaas")
    deps = Deps.over(client, clock, LocalDiscovery(parts.cluster))
    controllers = all_controllers(deps, configured=parts.configured)
    mount_visibility(parts.cluster, next(each for each in controllers if isinstance(each, KueueCore)))
    return {(each.group, each.plural) for each in deps.informers.resources}


def _section(resource: Resource) -> str:
    ours, integrations, kubernetes, platforms = _SECTIONS
    if resource.group in _OURS:
        return ours
    if _is_stored_only(resource):
        return platforms
    return integrations if resource.custom else kubernetes


def _is_stored_only(resource: Resource) -> bool:
    return any((each.group, each.plural) == (resource.group, resource.plural) for each in platform.KINDS)


def _order(resource: Resource) -> tuple[int, str, str]:
    return (_OURS.index(resource.group) if resource.group in _OURS else 0), resource.group, resource.name


def _table(resources: Iterable[Resource], acted_on: frozenset[Place]) -> str:
    headers = ("group", "kind", "resource", "scope", "versions", "subresources", "what happens")
    return table(headers, [_row(each, acted_on) for each in resources])


def _row(resource: Resource, acted_on: frozenset[Place]) -> tuple[str, ...]:
    kind = resource.versions[max(resource.versions, key=version_priority)].kind
    return (
        kind.group or "(core)",
        kind.kind,
        _names(kind),
        "namespace" if kind.namespaced else "cluster",
        ", ".join(_versions(resource)),
        codes(_subresources(kind)),
        _fate(resource, kind, acted_on),
    )


def _names(kind: Kind) -> str:
    said = codes((kind.plural, *kind.short_names))
    return f"{said}; in {codes(kind.categories)}" if kind.categories else said


def _versions(resource: Resource) -> Iterator[str]:
    several = len(resource.versions) > 1
    for name in sorted(resource.versions, key=version_priority, reverse=True):
        kind = resource.versions[name].kind
        shown = f"**{name}**" if several and kind is resource.hub.kind else name
        yield f"{shown} (deprecated)" if kind.deprecated else shown


def _subresources(kind: Kind) -> list[str]:
    status = ["status"] if kind.status else []
    scale = ["scale"] if kind.scale is not None else []
    return [*status, *scale, *(each for each in kind.subresources if each not in CONNECTS)]


def _fate(resource: Resource, kind: Kind, acted_on: frozenset[Place]) -> str:
    if kind.virtual or not kind.verbs:
        return "answered"
    if _is_stored_only(resource):
        fate = "stored"
    else:
        fate = "acted on" if (resource.group, resource.plural) in acted_on else "checked"
    return fate if {*kind.verbs} == {*ALL_VERBS} else f"{fate}; verbs: {', '.join(kind.verbs)}"
