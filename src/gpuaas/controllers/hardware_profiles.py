"""Hardware profiles that follow from something else: those of the dashboard's old kind in their new form, and the ones a
cluster begins with.

A converted profile belongs to the old one (it goes with it, and follows its changes); one that a user made is left
alone. The first profiles are made once, from the nodes there are, in a cluster that has none; the namespace remembers it,
so that what an administrator deletes stays deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.client.protocol import Object, Resource
from gpuaas.client.resources import NAMESPACES, NODES
from gpuaas.profiles import legacy
from gpuaas.profiles.defaults import default_profiles
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, annotations_of, is_deleting, uid_of

PROFILES: Final = Resource("infrastructure.opendatahub.io", "v1", "hardwareprofiles", True, "HardwareProfile")
OLD_PROFILES: Final = Resource(legacy.OLD_GROUP, "v1alpha1", "hardwareprofiles", True, "HardwareProfile")
APPLICATIONS: Final = "redhat-ods-applications"
READER: Final = "hardware-profile-readers"
ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "roles", True, "Role")
ROLE_BINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", True, "RoleBinding")
MADE: Final = "gpuaas.dev/default-profiles"
_SETTLED: Final = 2.0  # seconds without news of nodes: a fleet is made node by node
_ONCE: Final = Key("", "default-profiles")


class ConvertedProfiles(Controller):
    name = "converted-profiles"
    patient = True

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._old = self.follow(deps.informers.of(OLD_PROFILES))

    async def reconcile(self, key: Key) -> Requeue | None:
        old = self._old.get(*key)
        if old is None or is_deleting(old):
            return None
        wanted = converted(old)
        try:
            found = await self.client.get(PROFILES, key.name, key.namespace)
        except NotFound:
            await self.client.create(PROFILES, wanted, key.namespace)
            return None
        owners = found["metadata"].get("ownerReferences") or ()
        if not any(one.get("uid") == uid_of(old) for one in owners):
            return None  # a user wrote the new form
        notes = wanted["metadata"].get("annotations") or {}
        stale = any(annotations_of(found).get(name) != text for name, text in notes.items())
        if stale or found.get("spec") != wanted["spec"]:
            metadata = {**found["metadata"], "annotations": {**annotations_of(found), **notes}}
            await self.client.update(PROFILES, {**found, "metadata": metadata, "spec": wanted["spec"]}, key.namespace)
        return None


def converted(old: Mapping[str, Any]) -> Object:
    """The new form, owned by the old one."""
    read, _ = legacy.convert(old)
    metadata = old["metadata"]
    owner = {"apiVersion": OLD_PROFILES.api_version, "kind": OLD_PROFILES.kind, "name": metadata["name"]}
    notes = {key: text for key, text in annotations_of(read).items() if "last-applied" not in key}
    return {
        "apiVersion": PROFILES.api_version,
        "kind": PROFILES.kind,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "ownerReferences": [{**owner, "uid": metadata["uid"]}],
            **({"labels": dict(metadata["labels"])} if metadata.get("labels") else {}),
            **({"annotations": notes} if notes else {}),
        },
        "spec": read["spec"],
    }


class DefaultProfiles(Controller):
    name = "default-profiles"
    patient = True

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._nodes = self.follow(deps.informers.of(NODES), _once, delay=_SETTLED, by=_offers)
        self._done = False

    async def reconcile(self, key: Key) -> Requeue | None:
        if self._done:
            return None
        nodes = list(self._nodes.all())
        if not nodes:
            return None
        try:
            namespace = await self.client.get(NAMESPACES, APPLICATIONS)
        except NotFound:
            namespace = None
        self._done = namespace is not None and MADE in annotations_of(namespace)
        if self._done or (await self.client.list(PROFILES, limit=1)).items:
            self._done = True
            return None
        await self._make(nodes, namespace)
        self._done = True
        return None

    async def _make(self, nodes: list[Object], namespace: Object | None) -> None:
        if namespace is None:
            try:
                made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APPLICATIONS}}
                await self.client.create(NAMESPACES, made)
            except AlreadyExists:
                pass
        for profile in default_profiles(nodes):
            try:
                await self.client.create(PROFILES, profile, APPLICATIONS)
            except AlreadyExists:
                continue
        try:
            await self.client.patch(NAMESPACES, APPLICATIONS, {"metadata": {"annotations": {MADE: "made"}}})
        except ApiError:
            return  # then they are there, which says the same


class ProfileReaders(Controller):
    """Lets every signed-in user read the profiles of the namespaces that all share, as Open Data Hub's dashboard does."""

    name = "profile-readers"
    patient = True

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._namespaces = self.follow(deps.informers.of(NAMESPACES), _shared, by=is_deleting)

    async def reconcile(self, key: Key) -> Requeue | None:
        namespace = self._namespaces.get(*key)
        if namespace is None or is_deleting(namespace):
            return None
        rule = {"apiGroups": [PROFILES.group], "resources": [PROFILES.plural], "verbs": ["get", "list", "watch"]}
        role = {"apiVersion": ROLES.api_version, "kind": ROLES.kind, "metadata": {"name": READER}, "rules": [rule]}
        binding = {
            "apiVersion": ROLE_BINDINGS.api_version,
            "kind": ROLE_BINDINGS.kind,
            "metadata": {"name": READER},
            "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": READER},
            "subjects": [{"kind": "Group", "apiGroup": ROLES.group, "name": "system:authenticated"}],
        }
        for resource, obj in ((ROLES, role), (ROLE_BINDINGS, binding)):
            try:
                await self.client.create(resource, obj, key.name)
            except AlreadyExists:
                continue
        return None


def _shared(namespace: Mapping[str, Any]) -> Iterable[Key]:
    name = namespace["metadata"]["name"]
    return (Key("", name),) if name in (APPLICATIONS, "opendatahub") else ()


def _once(_node: Mapping[str, Any]) -> Iterable[Key]:
    return (_ONCE,)


def _offers(node: Mapping[str, Any]) -> Any:
    """Beats of a node's heart say nothing new."""
    return (
        (node.get("status") or {}).get("allocatable"),
        node["metadata"].get("labels"),
        (node.get("spec") or {}).get("taints"),
    )
