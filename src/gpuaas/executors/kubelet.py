"""What the kubelets of simulated nodes and of this machine share: what is wrong with one pod stays with that pod.

A pod that cannot be handled at all (more containers than a limit allows) is refused as a kubelet refuses one. A pod
whose handling raises an unexpected error is set aside as any controller does (`runtime.aside`: log, event, ever rarer
retries), and its condition `gpuaas.dev/SetAside` gives the reason. When it can be handled again the condition becomes False.
"""

import contextlib
from abc import abstractmethod
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS
from gpuaas.executors import statuses
from gpuaas.executors.limits import MAX_CONTAINERS
from gpuaas.runtime.controller import Controller, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import Key, is_deleting, uid_of
from gpuaas.runtime.pods import condition_of, is_finished
from gpuaas.runtime.writes import merge_diff

SET_ASIDE = "gpuaas.dev/SetAside"  # type of condition
_MANAGER = "kubelet"
_LONGEST = 1024  # characters of an error that are shown


class Kubelet(Controller):
    """Subclasses follow pods as `_pods` and write `sync`."""

    component = "kubelet"
    _pods: Informer

    @abstractmethod
    async def sync(self, pod: Object) -> Requeue | None:
        """Bring about what the pod should be now; when to look again."""

    def subject_of(self, key: Any) -> Object | None:
        return self._pods.get(*key) if isinstance(key, Key) and key.namespace else None

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self._pods.get(*key)
        if pod is None:
            return None
        count = sum(len(pod["spec"].get(part) or ()) for part in ("containers", "initContainers"))
        if count > MAX_CONTAINERS and not is_finished(pod) and not is_deleting(pod):
            words = f"Pod was rejected: it has {count} containers, at most {MAX_CONTAINERS} are allowed"
            await self._write(pod, statuses.refused(pod, "TooManyContainers", words, self.clock.now()))
            self.recorder.event(PODS, pod, WARNING, "TooManyContainers", words)
            return None
        try:
            again = await self.sync(pod)
        except (ApiError, OSError):
            raise
        except Exception as error:
            await self._note_trouble(pod, f"{type(error).__name__}: {error}"[:_LONGEST])
            raise
        if _is_set_aside(pod):
            await self._note_recovery(key, uid_of(pod))
        return again

    async def _note_trouble(self, pod: Object, why: str) -> None:
        if _is_set_aside(pod):  # it is known already, and each write would bring the pod back here at once
            return
        words = f"{self.name} cannot handle this pod: {why}"
        with contextlib.suppress(ApiError):
            await self._write(pod, {**(pod.get("status") or {}), "conditions": self._conditions(pod, "True", words)})

    async def _note_recovery(self, key: Key, uid: str) -> None:
        pod = self._pods.get(*key)  # as it is by now
        if pod is not None and uid_of(pod) == uid and _is_set_aside(pod):
            await self._write(pod, {**(pod.get("status") or {}), "conditions": self._conditions(pod, "False", "")})

    def _conditions(self, pod: Object, status: str, message: str) -> list[Object]:
        others = [one for one in (pod.get("status") or {}).get("conditions") or () if one["type"] != SET_ASIDE]
        now = rfc3339(self.clock.now())
        reason = "CannotHandle" if status == "True" else "Handled"
        condition = {"type": SET_ASIDE, "status": status, "reason": reason, "message": message}
        return [*others, {**condition, "lastTransitionTime": now}]

    async def _write(self, pod: Object, status: Object) -> bool:
        """Whether there was anything to write."""
        patch = merge_diff(pod.get("status") or {}, status)
        if not patch:
            return False
        metadata = pod["metadata"]
        body = {"metadata": {"uid": uid_of(pod)}, "status": patch}
        await self.client.patch(
            PODS, metadata["name"], body, metadata["namespace"], subresource="status", field_manager=_MANAGER
        )
        return True


def _is_set_aside(pod: Any) -> bool:
    found = condition_of(pod, SET_ASIDE)
    return found is not None and found["status"] == "True"
