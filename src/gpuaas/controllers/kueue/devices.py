"""The devices of the cluster as admission counts them: classes, claim templates and slices, followed as they change.

Workloads that wait are read again when something they ask for changes; what holds quota keeps what it was given.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from gpuaas.client.protocol import Object
from gpuaas.client.resources import CLAIM_TEMPLATES, DEVICE_CLASSES, DEVICE_SLICES
from gpuaas.engine.lifecycle import Flag, WorkloadState
from gpuaas.engine.values import Millis
from gpuaas.kueue.configuration.settings import ReasonRules
from gpuaas.kueue.dra.claims import CLAIMED
from gpuaas.kueue.dra.inventory import backing_classes, resource_of
from gpuaas.kueue.unadmitted import MISCONFIGURED
from gpuaas.kueue.workloads import UNCOUNTED, Reader, queueable
from gpuaas.runtime.informer import Informer

_BLAMED: Final = frozenset({UNCOUNTED, MISCONFIGURED})


class DeviceInventory:
    """`read_again` gets the workloads whose requests may count differently now, `forget` before it where what was
    read of others counts differently too."""

    def __init__(
        self,
        of: Callable[[Any], Informer],
        workloads: Informer,
        read_again: Callable[[Iterable[Object]], None],
        forget: Callable[[], None],
    ) -> None:
        self._classes, self._templates, self._slices = of(DEVICE_CLASSES), of(CLAIM_TEMPLATES), of(DEVICE_SLICES)
        self._workloads = workloads
        self._read_again, self._forget = read_again, forget
        self._backing: dict[str, str] = {}

    def follow(self) -> tuple[Informer, ...]:
        """Starts watching once `read_again` is set; returns the views in use."""
        self._classes.subscribe(self._class_changed)
        self._templates.subscribe(self._template_changed)
        self._slices.subscribe(self._slice_changed)
        return self._classes, self._templates, self._slices

    def template(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self._templates.get(namespace, name)

    def device_class(self, name: str) -> Mapping[str, Any] | None:
        return self._classes.get("", name)

    def backing(self, resource: str) -> str | None:
        return self._backing.get(resource)

    def slices(self) -> Iterable[Mapping[str, Any]]:
        return sorted(self._slices.all(), key=lambda each: str(each["metadata"]["name"]))

    def _class_changed(self, old: Object | None, new: Object | None) -> None:
        names = {resource_of(each) for each in (old, new) if each is not None} - {""}
        if names:
            self._backing = backing_classes(self._classes.all())
            self._forget()
        concerned = (each for each in self._workloads.all() if _claims(each) or names & _requested(each))
        if (old or {}).get("spec") != (new or {}).get("spec") or names:
            self._read_again(concerned)

    def _template_changed(self, old: Object | None, new: Object | None) -> None:
        meta = (new or old or {})["metadata"]
        place, name = meta["namespace"], meta["name"]
        self._read_again(
            each for each in self._workloads.all() if each["metadata"]["namespace"] == place and name in _claims(each)
        )

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        if (old or {}).get("spec") != (new or {}).get("spec"):
            self._read_again(each for each in self._workloads.all() if _claims(each))


def counted_life(obj: Object, state: WorkloadState, reader: Reader, reasons: ReasonRules, now: Millis) -> WorkloadState:
    """Where a workload stands by whether the devices that it claims can be counted: it gets a condition if not, and none any longer
    once they can be."""
    refused = reader.refusal(obj)
    if not refused or not queueable(obj):
        if state.requeued is None or state.requeued.status or state.requeued.reason != UNCOUNTED:
            return state
        blamed = state.reserved is not None and not state.reserved.status and state.reserved.reason in _BLAMED
        return replace(state, requeued=None, reserved=None if blamed else state.reserved)
    reason = MISCONFIGURED if reasons.granular else UNCOUNTED
    said = "DRA resource claims not supported" if refused == CLAIMED else refused
    return replace(
        state,
        reserved=_flag(state.reserved, reason, refused, now),
        requeued=_flag(state.requeued, UNCOUNTED, said, now),
    )


def _flag(found: Flag | None, reason: str, message: str, now: Millis) -> Flag:
    since = found.since if found is not None and not found.status else now
    return Flag(False, reason, message[:32_768], since)


def _pods(workload: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for each in (workload.get("spec") or {}).get("podSets") or ():
        yield (each.get("template") or {}).get("spec") or {}


def _claims(workload: Mapping[str, Any]) -> set[str]:
    """The names of the claim templates of its pods."""
    claims = (claim for pod in _pods(workload) for claim in pod.get("resourceClaims") or ())
    return {str(claim.get("resourceClaimTemplateName") or "") for claim in claims}


def _requested(workload: Mapping[str, Any]) -> set[str]:
    return {
        name
        for pod in _pods(workload)
        for key in ("initContainers", "containers")
        for container in pod.get(key) or ()
        for name in (container.get("resources") or {}).get("requests") or ()
    }
