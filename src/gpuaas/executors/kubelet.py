"""What the kubelets of simulated nodes and of this machine share: what is wrong with one pod stays with that pod.

A pod that cannot be handled at all (more containers than a limit allows) is refused as a kubelet refuses one. A pod
whose handling raises an unexpected error is set aside as any controller does (`runtime.aside`: log, event, ever rarer
retries), and its condition `gpuaas.dev/SetAside` gives the reason. When it can be handled again the condition becomes False.
"""

import contextlib
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import ApiError
from gpuaas.client.protocol import Object
from gpuaas.client.resources import PODS
from gpuaas.devices.allocate import RefusedError
from gpuaas.devices.budget import BudgetError
from gpuaas.devices.holding import ANNOTATION, NoDeviceError
from gpuaas.executors import statuses
from gpuaas.executors.devices import DeviceBook, annotation_patch
from gpuaas.executors.limits import MAX_CONTAINERS
from gpuaas.runtime.controller import Controller, Requeue
from gpuaas.runtime.events import WARNING
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import Key, is_deleting, uid_of
from gpuaas.runtime.pods import condition_of, is_finished
from gpuaas.runtime.writes import merge_diff

SET_ASIDE = "gpuaas.dev/SetAside"  # type of condition
_MANAGER = "kubelet"
_LOOK_FOR_DEVICES = 1.0
_LONGEST = 1024  # characters of an error that are shown


class Kubelet(Controller):
    """Subclasses follow pods as `_pods` and write `sync`."""

    component = "kubelet"
    _pods: Informer
    _nodes: Informer
    _devices: DeviceBook

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

    async def _take_devices(
        self, pod: Object, node: Mapping[str, Any], wishes: Mapping[str, str] | None = None
    ) -> Object | Requeue | None:
        """The pod with its devices in its annotation; or when to look again, where none are free; None where it was
        refused."""
        try:
            devices = self._devices.give(pod, node, wishes)
        except NoDeviceError as short:
            words = f"waiting for devices on node {node['metadata']['name']}: {short}"
            status = statuses.creating(pod, self._address(node), self.clock.now(), "ContainerCreating", words)
            if await self._write(pod, status):
                self.recorder.event(PODS, pod, WARNING, "DevicesUnavailable", words)
            return Requeue(_LOOK_FOR_DEVICES)
        except (RefusedError, BudgetError) as refusal:
            words = f"Allocate failed due to rpc error: code = Unknown desc = {refusal}, which is unexpected"
            reason = "UnexpectedAdmissionError"
            await self._write(pod, statuses.refused(pod, reason, f"Pod was rejected: {words}", self.clock.now()))
            self.recorder.event(PODS, pod, WARNING, reason, words)
            return None
        if not devices:
            return pod
        patch, metadata, given = annotation_patch(pod, devices), pod["metadata"], pod
        if patch is not None:
            given = await self.client.patch(
                PODS, metadata["name"], patch, metadata["namespace"], subresource="status", field_manager=_MANAGER
            )
            if slow := self._devices.wiring_trouble(devices, node):
                self.recorder.event(PODS, pod, WARNING, "CardsNotConnected", slow)
        latest = self._nodes.get("", node["metadata"]["name"])
        if _has_run(pod) or (latest is not None and self._devices.are_open(devices, latest)):
            return given
        # A change of a card closes it first and looks for holders after; a pod holds it first and then looks whether it is closed.
        self._devices.release(node["metadata"]["name"], uid_of(pod))
        nothing = {"metadata": {"uid": uid_of(pod), "annotations": {ANNOTATION: None}}}
        await self.client.patch(
            PODS, metadata["name"], nothing, metadata["namespace"], subresource="status", field_manager=_MANAGER
        )
        return Requeue(_LOOK_FOR_DEVICES)

    @abstractmethod
    def _address(self, node: Mapping[str, Any]) -> str: ...

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


def _has_run(pod: Any) -> bool:
    found = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(one.get("restartCount") or "waiting" not in (one.get("state") or {"waiting": 0}) for one in found)


def _is_set_aside(pod: Any) -> bool:
    found = condition_of(pod, SET_ASIDE)
    return found is not None and found["status"] == "True"
