"""Discovery: the groups, versions and resources of a cluster, plain (one document a version) and aggregated (one in all).

Everything is derived from the catalogue and kept until the catalogue changes.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from gpuaas.api.kinds import Kind, Object
from gpuaas.apiserver.catalogue import Catalogue, Resource
from gpuaas.base.numbers import natural

# Subresources whose kind is not the resource's own: (group, version, kind, verbs).
_SUBRESOURCES: Mapping[str, tuple[str, str, str, tuple[str, ...]]] = {
    "approval": ("", "", "", ("get", "patch", "update")),
    "attach": ("", "", "PodAttachOptions", ("create", "get")),
    "binding": ("", "", "Binding", ("create",)),
    "ephemeralcontainers": ("", "", "", ("get", "patch", "update")),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "exec": ("", "", "PodExecOptions", ("create", "get")),
    "finalize": ("", "", "", ("update",)),
    "log": ("", "", "", ("get",)),
    "pendingworkloads": ("", "", "PendingWorkloadsSummary", ("get",)),
    "portforward": ("", "", "PodPortForwardOptions", ("create", "get")),
    "proxy": ("", "", "{}ProxyOptions", ("create", "delete", "get", "patch", "update")),
    "resize": ("", "", "", ("get", "patch", "update")),
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
    "status": ("", "", "", ("get", "patch", "update")),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
}
# The order in which the real server names its groups; ours and the users' follow by name.
_GROUP_ORDER = (
    "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
    "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
    "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io",
)  # fmt: skip


# What the real server keeps in an older version than the one it prefers; clients compare the hash, not the version.
_STORED_AS = {
    "CustomResourceDefinition": "v1beta1",
    "MutatingAdmissionPolicy": "v1beta1",
    "MutatingAdmissionPolicyBinding": "v1beta1",
}


class Discovery:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._generation = -1
        self._groups: dict[str, dict[str, list[tuple[Resource, Kind]]]] = {}

    def groups(self) -> dict[str, dict[str, list[tuple[Resource, Kind]]]]:
        """Kinds by group and version, versions in order of preference, kinds by plural."""
        if self._generation != self._catalogue.generation:
            self._groups = self._arranged()
            self._generation = self._catalogue.generation
        return self._groups

    def is_builtin(self, group: str, version: str = "") -> bool:
        """Whether Kubernetes' own types live there: an unknown resource beside them gets a Status, elsewhere the path is unknown."""
        found = self.groups().get(group, {})
        lists = [found.get(version, [])] if version else list(found.values())
        return any(not resource.custom for kinds in lists for resource, _ in kinds)

    def _arranged(self) -> dict[str, dict[str, list[tuple[Resource, Kind]]]]:
        found: dict[str, dict[str, list[tuple[Resource, Kind]]]] = {}
        for resource in self._catalogue.resources():
            for name, version in resource.versions.items():
                found.setdefault(resource.group, {}).setdefault(name, []).append((resource, version.kind))
        order = {name: index for index, name in enumerate(_GROUP_ORDER)}
        groups = sorted(found, key=lambda group: (order.get(group, len(order)), group))
        return {
            group: {
                version: sorted(found[group][version], key=lambda pair: pair[1].plural)
                for version in sorted(found[group], key=version_priority, reverse=True)
            }
            for group in groups
        }

    def api_versions(self, address: str) -> Object:
        return {
            "kind": "APIVersions",
            "versions": list(self.groups().get("", {})),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }

    def group_list(self) -> Object:
        groups = [_group(name, versions) for name, versions in self.groups().items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def group(self, name: str) -> Object | None:
        versions = self.groups().get(name)
        if versions is None or not name:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}

    def resource_list(self, group: str, version: str) -> Object | None:
        kinds = self.groups().get(group, {}).get(version)
        if kinds is None:
            return None
        resources = [entry for resource, kind in kinds for entry in _plain(resource, kind)]
        document: Object = {"kind": "APIResourceList"}
        if group:
            document["apiVersion"] = "v1"
        return {**document, "groupVersion": f"{group}/{version}" if group else version, "resources": resources}

    def aggregated(self, *, core: bool) -> Object:
        items = [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": each,
                        "resources": [_aggregated(resource, kind) for resource, kind in kinds],
                        "freshness": "Current",
                    }
                    for each, kinds in versions.items()
                ],
            }
            for name, versions in self.groups().items()
            if (name == "") is core
        ]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }


def is_offered(subresource: str, verb: str) -> bool:
    """Whether a subresource answers to a verb; what is not in the table decides for itself."""
    known = _SUBRESOURCES.get(subresource)
    return known is None or verb in known[3]


def version_priority(version: str) -> tuple[int, int, int]:
    """Kubernetes' order of versions: v2 over v1 over v1beta2 over v1alpha1; anything else last."""
    head, stage, tail = version, 3, 0
    for mark, rank in (("beta", 2), ("alpha", 1)):
        if mark in version:
            head, _, end = version.partition(mark)
            stage, tail = rank, natural(end) or 0
    number = natural(head[1:])
    if not head.startswith("v") or number is None:
        return (0, 0, 0)
    return (stage, number, tail)


def _group(name: str, versions: Mapping[str, Any]) -> Object:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _subresources(kind: Kind, *, custom: bool) -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    """(name, group, version, kind, verbs) of each."""
    names = set(kind.subresources)
    if kind.status:
        names.add("status")
    if kind.scale is not None:
        names.add("scale")
    for name in sorted(names, reverse=custom):  # a definition says status before scale
        group, version, shown, verbs = _SUBRESOURCES.get(name, ("", "", "", ("get",)))
        yield name, group, version, (shown.format(kind.kind) or kind.kind), verbs


def _plain(resource: Resource, kind: Kind) -> Iterator[Object]:
    entry: Object = {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if not kind.virtual and "create" in kind.verbs:
        entry["storageVersionHash"] = _storage_hash(resource)
    yield entry
    for name, group, version, shown, verbs in _subresources(kind, custom=resource.custom):
        sub: Object = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        if group:
            sub |= {"group": group, "version": version}
        yield {**sub, "kind": shown, "verbs": list(verbs)}


def _aggregated(resource: Resource, kind: Kind) -> Object:
    # A definition's group and version are said; a built-in kind's are where it stands.
    own_group, own_version = (kind.group, kind.version) if resource.custom else ("", "")
    entry: Object = {
        "resource": kind.plural,
        "responseKind": {"group": own_group, "version": own_version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular or kind.kind.lower(),
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    subresources = [
        {
            "subresource": name,
            "responseKind": {
                "group": group or own_group,
                "version": version or own_version,
                "kind": shown,
            },
            "verbs": list(verbs),
        }
        for name, group, version, shown, verbs in _subresources(kind, custom=resource.custom)
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry


def _storage_hash(resource: Resource) -> str:
    hub = resource.hub.kind
    version = _STORED_AS.get(hub.kind, hub.version) if not resource.custom else hub.version
    digest = hashlib.sha256(f"{hub.group}/{version}/{hub.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()
