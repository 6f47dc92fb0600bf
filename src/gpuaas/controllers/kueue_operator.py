"""OpenShift's Kueue object, named cluster: what it says is in force as soon as it is seen, and its status says so.

Without the object, and again once it is deleted, what the server was started with holds. An object that cannot be
followed changes nothing: what was in force stays, and the status says why.
"""

from gpuaas.base.clock import rfc3339
from gpuaas.client.kueue import KUEUES
from gpuaas.client.protocol import Object
from gpuaas.kueue.configuration.file import ConfigurationError
from gpuaas.kueue.configuration.operator import follow
from gpuaas.kueue.configuration.settings import Configured
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, is_deleting
from gpuaas.runtime.writes import write_status

NAME = "cluster"


class KueueOperator(Controller):
    name = "kueue-operator"
    component = "kueue-operator"

    def __init__(self, deps: Deps, configured: Configured | None = None) -> None:
        super().__init__(deps)
        self._configured = configured or Configured()
        self._kueues = self.follow(deps.informers.of(KUEUES))

    async def reconcile(self, key: Key) -> Requeue | None:
        if key.name != NAME:
            return None
        obj = self._kueues.get("", NAME)
        if obj is None or is_deleting(obj):
            self._configured.become(self._configured.started_with)
            return None
        try:
            warnings = follow(obj, self._configured)
        except ConfigurationError as error:
            await self._tell(obj, (), str(error))
            return None
        await self._tell(obj, warnings, "")
        return None

    async def _tell(self, obj: Object, warnings: tuple[str, ...], problem: str) -> None:
        status = {**(obj.get("status") or {}), "observedGeneration": obj["metadata"].get("generation", 1)}
        status["readyReplicas"] = 1
        before = {each["type"]: each for each in status.get("conditions") or ()}
        now = rfc3339(self.clock.now())
        for each in _conditions(warnings, problem):
            known = before.get(each["type"])
            since = known["lastTransitionTime"] if known and known["status"] == each["status"] else now
            before[each["type"]] = {**each, "lastTransitionTime": since}
        status["conditions"] = list(before.values())
        await write_status(self.client, KUEUES, obj, status)


def _conditions(warnings: tuple[str, ...], problem: str) -> list[Object]:
    """As operators of OpenShift tell how they do."""
    if problem:
        return [
            {"type": "Available", "status": "True", "reason": "AsExpected", "message": ""},
            {"type": "Degraded", "status": "True", "reason": "InvalidConfiguration", "message": problem},
            {"type": "Progressing", "status": "False", "reason": "AsExpected", "message": ""},
        ]
    said = "The configuration is in force" + "".join(f"; {each}" for each in warnings)
    return [
        {"type": "Available", "status": "True", "reason": "AsExpected", "message": said},
        {"type": "Degraded", "status": "False", "reason": "AsExpected", "message": ""},
        {"type": "Progressing", "status": "False", "reason": "AsExpected", "message": ""},
    ]
