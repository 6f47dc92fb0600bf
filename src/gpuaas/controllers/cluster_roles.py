"""Aggregated cluster roles: their rules are the rules of the roles their selectors name, written into the object.

Who may do what is evaluated elsewhere (the API server's RBAC reads the rules this writes).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.selectors import from_label_selector
from gpuaas.client.protocol import Object, PatchKind
from gpuaas.client.resources import CLUSTER_ROLES
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, key_of, labels_of

FIELD_MANAGER = "clusterrole-aggregation-controller"


def aggregate(role: Mapping[str, Any], roles: Sequence[Object]) -> list[Object]:
    """The rules of all selected roles, in the order of selectors and names, each once."""
    rules: list[Object] = []
    for wanted in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        selector = from_label_selector(wanted)
        selected = [one for one in roles if selector is not None and selector.matches(labels_of(one))]
        for one in sorted(selected, key=lambda other: str(other["metadata"]["name"])):
            if one["metadata"]["name"] != role["metadata"]["name"]:
                rules += [rule for rule in one.get("rules") or () if rule not in rules]
    return rules


class ClusterRoleAggregationController(Controller):
    name = "clusterrole-aggregation-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._roles = deps.informers.of(CLUSTER_ROLES)
        self.follow(self._roles, self._concerned)

    def _concerned(self, _: Mapping[str, Any]) -> Iterable[Key]:
        return [key_of(role) for role in self._roles.all() if role.get("aggregationRule")]

    async def reconcile(self, key: Key) -> Requeue | None:
        role = self._roles.get(*key)
        if role is None or not role.get("aggregationRule"):
            return None
        rules = aggregate(role, self._roles.all())
        if rules == (role.get("rules") or []):
            return None
        patch = {
            "apiVersion": CLUSTER_ROLES.api_version,
            "kind": CLUSTER_ROLES.kind,
            # With its uid, so that a role deleted meanwhile is not created again.
            "metadata": {"name": key.name, "uid": role["metadata"]["uid"]},
            "rules": rules,
        }
        await self.client.patch(
            CLUSTER_ROLES, key.name, patch, kind=PatchKind.APPLY, field_manager=FIELD_MANAGER, force=True
        )
        return None
