"""The condition `Active` of MultiKueue's AdmissionChecks: whether their configuration and its clusters can be used."""

from collections.abc import Mapping
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.client.kueue import ADMISSION_CHECKS, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS
from gpuaas.kueue.multikueue import checks
from gpuaas.kueue.workload_state import conditions_of, holds
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, key_of
from gpuaas.runtime.writes import write_status

_BY_CONFIG = "multikueue-config"
_BY_CLUSTER = "cluster"


class MultiKueueChecks(Controller):
    name = "multikueue-checks"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        of = deps.informers.of
        self._checks = self.follow(of(ADMISSION_CHECKS))
        self._checks.add_index(_BY_CONFIG, lambda check: [checks.config_named(check)])
        self._configs = self.follow(of(MULTIKUEUE_CONFIGS), self._users)
        self._configs.add_index(_BY_CLUSTER, checks.clusters_of)
        self._clusters = self.follow(of(MULTIKUEUE_CLUSTERS), self._users_of_cluster, by=_active)

    def _users(self, config: Mapping[str, Any]) -> list[Key]:
        return [key_of(check) for check in self._checks.indexed(_BY_CONFIG, config["metadata"]["name"])]

    def _users_of_cluster(self, cluster: Mapping[str, Any]) -> list[Key]:
        configs = self._configs.indexed(_BY_CLUSTER, cluster["metadata"]["name"])
        return [key for config in configs for key in self._users(config)]

    async def reconcile(self, key: Key) -> Requeue | None:
        check = self._checks.get("", key.name)
        if check is None or not checks.is_ours(check):
            return None
        found = checks.active(
            check, lambda name: self._configs.get("", name), lambda name: self._clusters.get("", name)
        )
        known = conditions_of(check).get("Active") or {}
        status, generation = "True" if found.status else "False", check["metadata"].get("generation", 1)
        now = status, found.reason, found.message, generation
        if now == tuple(known.get(part) for part in ("status", "reason", "message", "observedGeneration")):
            return None
        condition = {
            "type": "Active",
            "status": status,
            "reason": found.reason,
            "message": found.message,
            "observedGeneration": generation,
            "lastTransitionTime": known["lastTransitionTime"]
            if known.get("status") == status
            else rfc3339(self.clock.now()),
        }
        shown = check.get("status") or {}
        others = [each for each in shown.get("conditions") or () if each["type"] != "Active"]
        await write_status(self.client, ADMISSION_CHECKS, check, {**shown, "conditions": [*others, condition]})
        return None


def _active(cluster: Mapping[str, Any]) -> Any:
    return cluster["metadata"].get("uid"), holds(cluster, "Active")
