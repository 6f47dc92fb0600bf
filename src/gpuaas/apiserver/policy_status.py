"""The status of ValidatingAdmissionPolicies: which of their expressions do not fit the kinds they are meant for.

Follows the policies in the store, as upstream's controller does: a policy works whatever its status says.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpuaas.apiserver.cluster import Cluster
from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Client, PatchKind, Resource
from gpuaas.machinery.schema.model import Schema
from gpuaas.store import Event

POLICIES: Final = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", False, "ValidatingAdmissionPolicy"
)
_PREFIX: Final = f"{POLICIES.group}/{POLICIES.plural}/"
_MANAGER: Final = "validatingadmissionpolicy-status"
_MOST_KINDS: Final = 10

View = Mapping[str, Any]


class PolicyStatus:
    def __init__(self, cluster: Cluster, client: Client) -> None:
        self._cluster, self._client = cluster, client
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        store = self._cluster.store
        for entry in store.list(_PREFIX):
            with self._cluster.aside.guard(_MANAGER, entry.obj):
                self._look_at(entry.obj)
        self._watch = store.watch(_PREFIX, store.revision, on_events=self._changed)
        self._watch.resume()

    def stop(self) -> None:
        self._watch.close()
        for task in self._tasks:
            task.cancel()

    def _changed(self, events: list[Event]) -> None:
        for event in events:
            if event.type != "DELETED":
                with self._cluster.aside.guard(_MANAGER, event.entry.obj):
                    self._look_at(event.entry.obj)

    def _look_at(self, policy: View) -> None:
        meta = policy["metadata"]
        seen = (policy.get("status") or {}).get("observedGeneration")
        if meta.get("deletionTimestamp") or seen == meta.get("generation"):
            return
        task = asyncio.ensure_future(self._report_on(policy))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report_on(self, policy: View) -> None:
        with self._cluster.aside.guard(_MANAGER, policy):
            await self._report(policy)

    async def _report(self, policy: View) -> None:
        meta = policy["metadata"]
        found = self._warnings(policy["spec"])
        status = {
            "observedGeneration": meta["generation"],
            "typeChecking": {"expressionWarnings": found} if found else {},
        }
        patch = {
            "apiVersion": POLICIES.api_version,
            "kind": POLICIES.kind,
            "metadata": {"name": meta["name"], "uid": meta["uid"]},
            "status": status,
        }
        try:
            await self._client.patch(
                POLICIES,
                meta["name"],
                patch,
                kind=PatchKind.APPLY,
                subresource="status",
                field_manager=_MANAGER,
                force=True,
            )
        except ApiError:
            return  # gone or changed meanwhile: the next event brings us here again

    def _warnings(self, spec: View) -> list[dict[str, str]]:
        from gpuaas.machinery.schema.typecheck import warnings  # few clusters have a policy

        kind = spec.get("paramKind") or {}
        params = self._cluster.catalogue.for_kind(kind.get("apiVersion", ""), kind.get("kind", ""))
        kinds = sorted(dict(self._kinds(spec)).items())
        return warnings(spec, kinds[:_MOST_KINDS], params[1].schema if params is not None else None)

    def _kinds(self, spec: View) -> Iterator[tuple[str, Schema]]:
        """Those the policy names; one that is for anything knows nothing."""
        for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
            groups, versions, plurals = (rule.get(key) or () for key in ("apiGroups", "apiVersions", "resources"))
            if "*" in (*groups, *versions, *plurals):
                continue
            for group, version, plural in ((g, v, p) for g in groups for v in versions for p in plurals):
                found = self._cluster.catalogue.find(group, version, plural)
                if found is not None:
                    kind = found[1].kind
                    yield f"{kind.group}/{kind.version}, Kind={kind.kind}", found[1].schema
