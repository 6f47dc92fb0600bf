"""Keeps the Deployment, the Service and the status of each InferenceService as modules wanted and status decide.

The Deployment is replaced as a whole when what is asked for changes, so that fields taken away go too. What the server
refuses (a container without an image, the queue of a service that runs) becomes the reason in the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import AlreadyExists, ApiError, BadRequest, Forbidden, Invalid
from gpuaas.client.protocol import Object
from gpuaas.client.resources import DEPLOYMENTS, PODS, SERVICES
from gpuaas.controllers.inference_services.status import wanted_status
from gpuaas.controllers.inference_services.wanted import (
    CLUSTER_RUNTIMES,
    INFERENCE_SERVICES,
    LABEL,
    RUNTIMES,
    SHAPE,
    Problem,
    predictor_name,
    wanted_deployment,
    wanted_service,
)
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, annotations_of, controller_of, is_deleting, labels_of, uid_of
from gpuaas.runtime.pods import condition_of, is_ready, phase_of
from gpuaas.runtime.writes import namespace_is_ending, write_status

_BY_SERVICE: Final = "inference-service"
_TOGETHER: Final = 0.05  # seconds: news of pods that come at once are looked at once
_LATER: Final = 30.0  # seconds until a refused write is tried again: a quota of the namespace may have changed


class InferenceServiceController(Controller):
    name = "inferenceservice-controller"
    component = "inferenceservice-controller"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._services = self.follow(deps.informers.of(INFERENCE_SERVICES))
        self._deployments = self.follow(deps.informers.of(DEPLOYMENTS), owner_key("InferenceService"))
        self._endpoints = self.follow(deps.informers.of(SERVICES), owner_key("InferenceService"))
        self._pods = self.follow(deps.informers.of(PODS), service_of, by=_what_counts, delay=_TOGETHER)
        self._pods.add_index(_BY_SERVICE, lambda pod: map(str, service_of(pod)))
        self._runtimes = self.follow(deps.informers.of(RUNTIMES), self._in_namespace)
        self._cluster_runtimes = self.follow(deps.informers.of(CLUSTER_RUNTIMES), self._everywhere)

    def _in_namespace(self, runtime: Mapping[str, Any]) -> Iterable[Key]:
        namespace = runtime["metadata"]["namespace"]
        return [Key(namespace, one["metadata"]["name"]) for one in self._services.in_namespace(namespace)]

    def _everywhere(self, _runtime: Mapping[str, Any]) -> Iterable[Key]:
        return [Key(one["metadata"]["namespace"], one["metadata"]["name"]) for one in self._services.all()]

    async def reconcile(self, key: Key) -> Requeue | None:
        service = self._services.get(*key)
        if service is None or not service.get("spec") or is_deleting(service):
            return None
        wanted = wanted_deployment(service, self._known_runtimes(key.namespace))
        refused = None
        if not isinstance(wanted, Problem):
            refused = await self._ensure(service, wanted)
        deployment = self._deployments.get(key.namespace, predictor_name(service))
        problem = wanted if isinstance(wanted, Problem) else refused
        pods = self._pods.indexed(_BY_SERVICE, str(key))
        status = wanted_status(service, problem, deployment, pods, rfc3339(self.clock.now()))
        kept = {name: value for name, value in (service.get("status") or {}).items() if name not in status}
        await write_status(self.client, INFERENCE_SERVICES, service, {**kept, **status})
        return Requeue(_LATER) if refused is not None else None

    def _known_runtimes(self, namespace: str) -> list[Object]:
        """In the order of their names, so that the same one is chosen each time."""
        own, common = self._runtimes.in_namespace(namespace), self._cluster_runtimes.all()
        return [one for group in (own, common) for one in sorted(group, key=lambda each: str(each["metadata"]["name"]))]

    async def _ensure(self, service: Object, wanted: Object) -> Problem | None:
        """The Deployment and the Service; the problem where one cannot be had."""
        namespace, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
        known = self._deployments.get(namespace, name)
        try:
            if known is None:
                await self.client.create(DEPLOYMENTS, wanted, namespace)
                self.recorder.event(
                    INFERENCE_SERVICES, service, NORMAL, "CreatedDeployment", f"Created Deployment {name}"
                )
            elif not _is_owned(known, service):
                return Problem("NameTaken", f"Deployment {name} exists and does not belong to this InferenceService")
            else:
                await self._bring_in_line(known, wanted)
            return await self._ensure_service(service, wanted)
        except AlreadyExists:
            return None  # the informers will show it
        except (Invalid, Forbidden, BadRequest) as error:
            return self._refused(service, error)

    def _refused(self, service: Object, error: ApiError) -> Problem | None:
        if namespace_is_ending(error):
            return None
        self.recorder.event(INFERENCE_SERVICES, service, WARNING, "DeploymentRefused", error.message[:1000])
        return Problem("DeploymentRefused", error.message[:1000])

    async def _bring_in_line(self, known: Object, wanted: Object) -> None:
        name, namespace = known["metadata"]["name"], known["metadata"]["namespace"]
        if annotations_of(known).get(SHAPE) != annotations_of(wanted)[SHAPE]:
            notes = {**annotations_of(known), **annotations_of(wanted)}
            metadata = {**known["metadata"], "labels": wanted["metadata"]["labels"], "annotations": notes}
            await self.client.update(DEPLOYMENTS, {**known, "metadata": metadata, "spec": wanted["spec"]}, namespace)
        elif known["spec"].get("replicas") != wanted["spec"]["replicas"]:
            await self.client.patch(DEPLOYMENTS, name, {"spec": {"replicas": wanted["spec"]["replicas"]}}, namespace)

    async def _ensure_service(self, service: Object, deployment: Object) -> Problem | None:
        wanted = wanted_service(service, deployment)
        name, namespace = wanted["metadata"]["name"], wanted["metadata"]["namespace"]
        known = self._endpoints.get(namespace, name)
        if known is None:
            await self.client.create(SERVICES, wanted, namespace)
        elif not _is_owned(known, service):
            return Problem("NameTaken", f"Service {name} exists and does not belong to this InferenceService")
        elif _target(known) != _target(wanted):
            await self.client.patch(SERVICES, name, {"spec": {"ports": wanted["spec"]["ports"]}}, namespace)
        return None


def _target(service: Mapping[str, Any]) -> list[Any]:
    return [port.get("targetPort") for port in service["spec"].get("ports") or ()]


def _is_owned(obj: Mapping[str, Any], service: Mapping[str, Any]) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == uid_of(service)


def service_of(pod: Mapping[str, Any]) -> Iterable[Key]:
    name = labels_of(pod).get(LABEL)
    return (Key(pod["metadata"].get("namespace") or "", name),) if name else ()


def _what_counts(pod: Mapping[str, Any]) -> Any:
    """What the status says of a pod."""
    waiting = [
        (one.get("state") or {}).get("waiting") for one in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    placed = condition_of(pod, "PodScheduled") or {}
    return (
        phase_of(pod),
        is_ready(pod),
        is_deleting(pod),
        pod["spec"].get("schedulingGates"),
        waiting,
        (placed.get("status"), placed.get("reason"), placed.get("message")),
    )
