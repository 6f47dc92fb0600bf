"""Jobs that have ended go by themselves, `ttlSecondsAfterFinished` after their end."""

from collections.abc import Mapping
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.protocol import Propagation
from gpuaas.client.resources import JOBS
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.metadata import Key, is_deleting, uid_of


def expires_at(job: Mapping[str, Any]) -> float | None:
    """None for a job that has not ended or has no such wish."""
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or is_deleting(job):
        return None
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return parse_rfc3339(condition["lastTransitionTime"]) + float(ttl)
    return None


class TtlAfterFinishedController(Controller):
    name = "ttl-after-finished-controller"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._jobs = self.follow(deps.informers.of(JOBS))

    async def reconcile(self, key: Key) -> Requeue | None:
        job = self._jobs.get(*key)
        expiry = expires_at(job) if job is not None else None
        if job is None or expiry is None:
            return None
        left = expiry - self.clock.now()
        if left > 0:
            return Requeue(left)
        try:
            # Asked again of the server: the wish may have changed a moment ago, and a deletion cannot be undone.
            latest = await self.client.get(JOBS, key.name, key.namespace)
            if uid_of(latest) == uid_of(job) and expires_at(latest) == expiry:
                await self.client.delete(
                    JOBS, key.name, key.namespace, propagation=Propagation.FOREGROUND, uid=uid_of(job)
                )
        except NotFound:
            pass
        return None
