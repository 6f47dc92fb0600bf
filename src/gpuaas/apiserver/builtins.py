"""The built-in kinds in the catalogue: which of them share storage, and which version is kept.

Events are one thing in two groups; horizontal autoscalers are one thing in two versions.
"""

from collections.abc import Iterable

from gpuaas.api.kinds import Kind
from gpuaas.api.kubernetes.autoscalers import convert_autoscaler
from gpuaas.api.kubernetes.conversion import convert_event
from gpuaas.apiserver.catalogue import BuiltinVersion, Resource
from gpuaas.apiserver.cluster import Cluster
from gpuaas.apiserver.definitions import DefinitionVersion


def add_builtins(cluster: Cluster, kinds: Iterable[Kind]) -> None:
    autoscalers: dict[str, BuiltinVersion] = {}
    for kind in kinds:
        version = _version(cluster, kind)
        if kind.group == "autoscaling":
            autoscalers[kind.version] = version
        elif (kind.group, kind.plural) == ("events.k8s.io", "events"):
            cluster.catalogue.add(_events(cluster, version))
        else:
            cluster.catalogue.add(Resource({kind.version: version}, kind.version))
    if autoscalers:
        cluster.catalogue.add(Resource(autoscalers, "v2", convert=convert_autoscaler))


def _version(cluster: Cluster, kind: Kind) -> BuiltinVersion:
    found = DefinitionVersion if kind.kind == "CustomResourceDefinition" else BuiltinVersion
    return found(kind, cluster.schemas.named)


def _events(cluster: Cluster, newer: BuiltinVersion) -> Resource:
    """events.k8s.io is a view of the core group's events."""
    core = cluster.catalogue.find("", "v1", "events")
    assert core is not None
    return Resource({"v1": newer}, "v1", prefix=core[0].prefix, hub_version=core[1], convert=convert_event)
