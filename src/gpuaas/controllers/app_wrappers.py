"""AppWrapper → the objects it wraps: made when it is let go, removed when it is suspended, has failed or is deleted.

Its phases are its operator's: Suspended, Resuming, Running, Suspending, Resetting (before another try), Succeeded,
Failed. How its pods do is seen by their label; the objects themselves are looked at every few seconds, since they can be
of any kind. What a user may wrap is decided at the API (assembly.app_wrappers).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.base.numbers import natural
from gpuaas.client.protocol import Object, Propagation, Resource
from gpuaas.client.resources import PODS
from gpuaas.kueue.integrations.app_wrapper import APP_WRAPPERS, pod_sets_of, value_at
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL
from gpuaas.runtime.metadata import (
    Key,
    annotations_of,
    controller_reference,
    finalizers_of,
    is_controlled_by,
    is_deleting,
)
from gpuaas.runtime.pods import is_finished, is_ready, phase_of
from gpuaas.runtime.writes import write_status

LABEL = "workload.codeflare.dev/appwrapper"
FINALIZER = LABEL
_NOTES = "workload.codeflare.dev.appwrapper/"
_OURS = "workload.codeflare.dev/appwrapper-controller"
_LOOK_AGAIN = 5.0
_RETRIES, _PAUSE, _GRACE = 3, 90.0, 60.0

View = Mapping[str, Any]


def wanted(wrapper: View, component: View) -> Object:
    """The object as it is to be made: marked, and with what admission adds to its pods."""
    made: Object = _copy(component["template"])
    metadata = made.setdefault("metadata", {})
    metadata["namespace"] = wrapper["metadata"]["namespace"]
    marks = {LABEL: wrapper["metadata"]["name"]}
    metadata["labels"] = {**marks, **(metadata.get("labels") or {})}
    metadata["ownerReferences"] = [controller_reference(wrapper, APP_WRAPPERS)]
    infos = component.get("podSetInfos") or ()
    for position, part in enumerate(pod_sets_of(component)):
        pod = value_at(made, part["path"])
        if isinstance(pod, dict) and isinstance(pod.get("spec"), dict):
            _add(pod, infos[position] if position < len(infos) else {}, marks)
    return made


def _add(pod: Object, info: View, marks: Mapping[str, str]) -> None:
    metadata, spec = pod.setdefault("metadata", {}), pod["spec"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **(info.get("labels") or {}), **marks}
    if info.get("annotations"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **info["annotations"]}
    if info.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **info["nodeSelector"]}
    if info.get("tolerations"):
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *info["tolerations"]]
    gates = list(spec.get("schedulingGates") or ())
    gates += [gate for gate in info.get("schedulingGates") or () if gate not in gates]
    if gates:
        spec["schedulingGates"] = gates


def _copy(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _copy(each) for key, each in value.items()}
        case list():
            return [_copy(each) for each in value]
    return value


@dataclass(slots=True)
class _NextStatus:
    """A status in the making."""

    status: Object
    now: float
    conditions: dict[str, Object] = field(default_factory=dict)

    def set_condition(self, kind: str, holds: bool, reason: str, message: str = "") -> None:
        state, known = "True" if holds else "False", self.conditions.get(kind)
        since = known["lastTransitionTime"] if known is not None and known["status"] == state else rfc3339(self.now)
        said = {"type": kind, "status": state, "reason": reason, "message": message}
        self.conditions[kind] = {**said, "lastTransitionTime": since}

    def since(self, kind: str) -> float:
        return parse_rfc3339(self.conditions[kind]["lastTransitionTime"]) if kind in self.conditions else self.now

    def whole(self) -> Object:
        return {**self.status, "conditions": list(self.conditions.values())}


class AppWrapperController(Controller):
    name = "appwrapper-controller"
    component = "appwrapper"
    tells_series = True
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._wrappers = self.follow(deps.informers.of(APP_WRAPPERS))
        self._pods = self.follow(deps.informers.of(PODS), _wrapper_of)
        self._pods.add_index(LABEL, lambda pod: map(str, _wrapper_of(pod)))
        self._discovery = deps.discovery

    async def reconcile(self, key: Key) -> Requeue | None:
        wrapper = self._wrappers.get(*key)
        if wrapper is None or not wrapper.get("spec") or (wrapper["spec"].get("managedBy") or _OURS) != _OURS:
            return None
        if is_deleting(wrapper):
            return await self._leave(wrapper)
        status = dict(wrapper.get("status") or {})
        draft = _NextStatus(status, self.clock.now(), {each["type"]: each for each in status.get("conditions") or ()})
        again = await self._step(wrapper, draft)
        await write_status(self.client, APP_WRAPPERS, wrapper, draft.whole())
        return again

    async def _leave(self, wrapper: Object) -> Requeue | None:
        if FINALIZER not in finalizers_of(wrapper):
            return None
        if not await self._remove_all(wrapper):
            return Requeue(1.0)
        left = [each for each in finalizers_of(wrapper) if each != FINALIZER]
        patch = {"metadata": {"finalizers": left or None}}
        await self.client.patch(APP_WRAPPERS, wrapper["metadata"]["name"], patch, wrapper["metadata"]["namespace"])
        return None

    async def _step(self, wrapper: Object, draft: _NextStatus) -> Requeue | None:
        suspended = bool(wrapper["spec"].get("suspend"))
        match draft.status.get("phase", ""):
            case "":
                parts = [
                    {"podSets": pod_sets_of(each), **_named(each)} for each in wrapper["spec"].get("components") or ()
                ]
                draft.status |= {"phase": "Suspended", "componentStatus": parts}
                return Requeue(0.0)
            case "Suspended" if not suspended:
                return await self._resume(wrapper, draft)
            case "Resuming" | "Running" | "Resetting" as phase if suspended:
                words = f"Externally suspended while in the {phase} phase"
                self.recorder.event(APP_WRAPPERS, wrapper, NORMAL, "ExternallySuspended", words, action="Suspending")
                draft.status["phase"] = "Suspending"
                return Requeue(0.0)
            case "Resuming":
                return await self._deploy(wrapper, draft)
            case "Running":
                return await self._watch(wrapper, draft)
            case "Suspending":
                return await self._suspend(wrapper, draft)
            case "Resetting":
                return await self._reset(wrapper, draft)
            case "Failed":
                return await self._clear(wrapper, draft)
        return None

    async def _resume(self, wrapper: Object, draft: _NextStatus) -> Requeue:
        if FINALIZER not in finalizers_of(wrapper):
            patch = {"metadata": {"finalizers": [*finalizers_of(wrapper), FINALIZER]}}
            await self.client.patch(APP_WRAPPERS, wrapper["metadata"]["name"], patch, wrapper["metadata"]["namespace"])
            return Requeue(0.0)
        for kind, holds in (
            ("QuotaReserved", True),
            ("ResourcesDeployed", True),
            ("PodsReady", False),
            ("Unhealthy", False),
        ):
            draft.set_condition(kind, holds, "Resuming", "Suspend is false")
        draft.status["phase"] = "Resuming"
        return Requeue(0.0)

    async def _deploy(self, wrapper: Object, draft: _NextStatus) -> Requeue:
        try:
            for component in wrapper["spec"].get("components") or ():
                await self._create(wrapper, wanted(wrapper, component))
        except ApiError as error:
            words = f"error creating components: {error.message}"
            draft.set_condition("Unhealthy", True, "CreateFailed", words)
            self.recorder.event(APP_WRAPPERS, wrapper, NORMAL, "CreateFailed", words[:1024], action="Unhealthy")
            draft.status["phase"] = "Failed"
            return Requeue(0.0)
        draft.status["phase"] = "Running"
        return Requeue(0.0)

    async def _watch(self, wrapper: Object, draft: _NextStatus) -> Requeue | None:
        found = [await self._find(wrapper, each) for each in wrapper["spec"].get("components") or ()]
        if None in found:
            there = sum(each is not None for each in found)
            words = f"Only found {there} deployed components, but was expecting {len(found)}"
            return self._fail(wrapper, draft, "MissingComponent", words, retry=False)
        failed = sum(_has_failed(each) for each in found if each is not None)
        if failed:
            return self._fail(wrapper, draft, "FailedComponent", f"Found {failed} failed components")
        expected = sum(
            int(part.get("replicas", 1)) for each in wrapper["spec"]["components"] for part in pod_sets_of(each)
        )
        key = str(Key(wrapper["metadata"]["namespace"], wrapper["metadata"]["name"]))
        pods = self._pods.indexed(LABEL, key)
        succeeded = sum(phase_of(pod) == "Succeeded" for pod in pods)
        ready = sum(is_ready(pod) and not is_finished(pod) for pod in pods)
        lost = sum(phase_of(pod) == "Failed" for pod in pods)
        pending = len(pods) - succeeded - ready - lost
        if succeeded >= expected and pending + ready + lost == 0:
            words = f"{succeeded} pods succeeded and no running, pending, or failed pods"
            draft.set_condition("QuotaReserved", False, "Succeeded", words)
            draft.set_condition("ResourcesDeployed", True, "Succeeded", words)
            draft.status["phase"] = "Succeeded"
            return None
        if lost:
            draft.set_condition("Unhealthy", True, "FoundFailedPods")
            if draft.now - draft.since("Unhealthy") >= _seconds(wrapper, "failureGracePeriodDuration", _GRACE):
                return self._fail(wrapper, draft, "FoundFailedPods", f"{lost} failed pods")
            return Requeue(_LOOK_AGAIN)
        draft.set_condition("Unhealthy", False, "FoundNoFailedPods")
        if ready + succeeded >= expected:
            draft.set_condition(
                "PodsReady", True, "SufficientPodsReady", f"{ready} pods running; {succeeded} pods succeeded"
            )
        else:
            words = f"{pending} pods pending; {ready} pods running; {succeeded} pods succeeded"
            draft.set_condition("PodsReady", False, "InsufficientPodsReady", words)
        return Requeue(_LOOK_AGAIN)

    def _fail(self, wrapper: Object, draft: _NextStatus, reason: str, words: str, *, retry: bool = True) -> Requeue:
        draft.set_condition("Unhealthy", True, reason, words)
        self.recorder.event(APP_WRAPPERS, wrapper, NORMAL, reason, words, action="Unhealthy")
        tries = int(draft.status.get("resettingCount") or 0)
        limit = natural(annotations_of(wrapper).get(f"{_NOTES}retryLimit", ""))
        if retry and tries < (_RETRIES if limit is None else limit):
            draft.status |= {"phase": "Resetting", "resettingCount": tries + 1}
        else:
            draft.status["phase"] = "Failed"
        return Requeue(0.0)

    async def _suspend(self, wrapper: Object, draft: _NextStatus) -> Requeue | None:
        if not await self._remove_all(wrapper):
            return Requeue(1.0)
        for kind in ("ResourcesDeployed", "QuotaReserved"):
            draft.set_condition(kind, False, "Suspended", "Suspend is true")
        for kind in ("PodsReady", "Unhealthy"):
            draft.set_condition(kind, False, "Suspended")
        draft.status["phase"] = "Suspended"
        return Requeue(0.0)

    async def _reset(self, wrapper: Object, draft: _NextStatus) -> Requeue:
        draft.set_condition("PodsReady", False, "Resetting")
        if not await self._remove_all(wrapper):
            return Requeue(1.0)
        draft.set_condition("ResourcesDeployed", False, "Resetting", "Resources deleted for resetting AppWrapper")
        pause = _seconds(wrapper, "retryPausePeriodDuration", _PAUSE)
        left = draft.since("ResourcesDeployed") + pause - draft.now
        if left > 0:
            return Requeue(left)
        draft.set_condition("ResourcesDeployed", True, "Resuming", "Reset complete; resuming")
        draft.status["phase"] = "Resuming"
        return Requeue(0.0)

    async def _clear(self, wrapper: Object, draft: _NextStatus) -> Requeue | None:
        if not await self._remove_all(wrapper):
            return Requeue(1.0)
        draft.set_condition("ResourcesDeployed", False, "Failed", "Resources deleted for failed AppWrapper")
        draft.set_condition("QuotaReserved", False, "Failed", "No resources deployed")
        return None

    # The objects themselves.

    async def _resource(self, template: View) -> Resource:
        group, _, version = str(template.get("apiVersion", "")).rpartition("/")
        kind = template.get("kind", "")
        for served in await self._discovery.resources():
            if (served.resource.group, served.resource.kind) == (group, kind) and served.resource.namespaced:
                known = served.resource
                return Resource(known.group, version, known.plural, True, known.kind)
        raise NotFound(group, kind, "")

    async def _create(self, wrapper: Object, obj: Object) -> None:
        resource, metadata = await self._resource(obj), obj["metadata"]
        try:
            await self.client.create(resource, obj, metadata["namespace"])
        except AlreadyExists:
            found = await self.client.get(resource, metadata.get("name", ""), metadata["namespace"])
            if not is_controlled_by(found, wrapper):
                raise

    async def _find(self, wrapper: Object, component: View) -> Object | None:
        template = component["template"]
        try:
            resource = await self._resource(template)
            found = await self.client.get(resource, template["metadata"]["name"], wrapper["metadata"]["namespace"])
        except NotFound:
            return None
        return found if is_controlled_by(found, wrapper) else None

    async def _remove_all(self, wrapper: Object) -> bool:
        """Whether nothing is left: not the objects, nor their pods."""
        gone = True
        for component in wrapper["spec"].get("components") or ():
            found = await self._find(wrapper, component)
            if found is None:
                continue
            gone = False
            if not is_deleting(found):
                resource, name = await self._resource(found), found["metadata"]["name"]
                namespace = wrapper["metadata"]["namespace"]
                await self.client.delete(resource, name, namespace, propagation=Propagation.FOREGROUND)
        key = str(Key(wrapper["metadata"]["namespace"], wrapper["metadata"]["name"]))
        return gone and not self._pods.indexed(LABEL, key)


def _named(component: View) -> Object:
    template = component["template"]
    return {
        "apiVersion": template.get("apiVersion", ""),
        "kind": template.get("kind", ""),
        "name": (template.get("metadata") or {}).get("name", ""),
    }


def _has_failed(obj: View) -> bool:
    status = obj.get("status") or {}
    if status.get("jobDeploymentStatus") == "Failed":
        return True
    conditions = status.get("conditions") or ()
    return any(each.get("type") == "Failed" and each.get("status") == "True" for each in conditions)


def _seconds(wrapper: View, name: str, default: float) -> float:
    """A duration such as `90s` or `1m` of its annotations."""
    said = annotations_of(wrapper).get(f"{_NOTES}{name}", "")
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(said[-1:], 0.0)
    number = natural(said[:-1])
    return number * unit if unit and number is not None else default


def _wrapper_of(obj: Mapping[str, Any]) -> Iterable[Key]:
    name = (obj["metadata"].get("labels") or {}).get(LABEL)
    return (Key(obj["metadata"]["namespace"], name),) if name else ()
