"""The loop of deployments: claim the replica sets, take one step of the rollout, tell the status."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.base.numbers import natural
from gpuaas.client.protocol import Object
from gpuaas.client.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from gpuaas.controllers.deployments import plan, sizes
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import (
    Key,
    annotations_of,
    controller_of,
    controller_reference,
    is_controlled_by,
    is_deleting,
    key_of,
    labels_of,
    owners_of,
    uid_of,
)
from gpuaas.runtime.pods import ORPHANS, is_finished, orphan_index, selector_of, selects
from gpuaas.runtime.writes import merge_diff, namespace_is_ending


class DeploymentController(Controller):
    name = "deployment-controller"
    component = "deployment-controller"
    workers = 5

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._deployments = self.follow(deps.informers.of(DEPLOYMENTS))
        sets = deps.informers.of(REPLICA_SETS)
        sets.add_index(ORPHANS, orphan_index)
        self._sets = self.follow(sets, self._concerned)
        self._pods = self.follow(deps.informers.of(PODS), self._concerned_by_end)

    def _concerned(self, one: Mapping[str, Any]) -> Iterable[Key]:
        namespace = one["metadata"].get("namespace") or ""
        reference = controller_of(one)
        if reference is not None:
            return (Key(namespace, reference["name"]),) if reference["kind"] == "Deployment" else ()
        candidates = self._deployments.in_namespace(namespace)
        return [key_of(candidate) for candidate in candidates if selects(candidate, labels_of(one))]

    def _concerned_by_end(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        """A deployment that recreates waits for the last old pod to go."""
        reference = controller_of(pod)
        if reference is None or reference["kind"] != "ReplicaSet":
            return ()
        owner = self._sets.get(pod["metadata"].get("namespace") or "", reference["name"])
        return self._concerned(owner) if owner is not None else ()

    async def reconcile(self, key: Key) -> Requeue | None:
        deployment = self._deployments.get(*key)
        if deployment is None:
            return None
        if not deployment["spec"].get("selector"):
            message = "This deployment is selecting all pods. A non-empty selector is required."
            self.recorder.event(DEPLOYMENTS, deployment, WARNING, "SelectingAll", message)
            return None
        sets = await self._claim(deployment)
        return await _Step(self, deployment, sets).take()

    async def _claim(self, deployment: Object) -> list[Object]:
        selector = selector_of(deployment)
        candidates = self._sets.owned_by(uid_of(deployment))
        candidates += self._sets.indexed(ORPHANS, deployment["metadata"]["namespace"])
        claimed = []
        for one in candidates:
            fits = selector.matches(labels_of(one))
            if controller_of(one) is None:
                if fits and not is_deleting(one) and not is_deleting(deployment):
                    references = [*owners_of(one), controller_reference(deployment, DEPLOYMENTS)]
                    claimed.append(await self.patch_set(one, {"metadata": {"ownerReferences": references}}))
            elif not is_controlled_by(one, deployment):
                continue
            elif fits:
                claimed.append(one)
            elif not is_deleting(deployment):
                references = [ref for ref in owners_of(one) if ref["uid"] != uid_of(deployment)]
                await self.patch_set(one, {"metadata": {"ownerReferences": references or None}})
        return claimed

    def runs_pods(self, sets: Sequence[Object]) -> bool:
        if any((one.get("status") or {}).get("replicas", 0) for one in sets):
            return True
        return any(not is_finished(pod) for one in sets for pod in self._pods.owned_by(uid_of(one)))

    async def patch_set(self, one: Object, patch: Object) -> Object:
        metadata = {**patch.get("metadata", {}), "resourceVersion": one["metadata"]["resourceVersion"]}
        name, namespace = one["metadata"]["name"], one["metadata"]["namespace"]
        return await self.client.patch(REPLICA_SETS, name, {**patch, "metadata": metadata}, namespace)


class _Step:
    """One pass over one deployment. `deployment` is replaced as its status is written on the way."""

    def __init__(self, controller: DeploymentController, deployment: Object, sets: Sequence[Object]) -> None:
        self._controller = controller
        self._client = controller.client
        self._now = controller.clock.now()
        self._deployment = deployment
        self._sets = sets

    async def take(self) -> Requeue | None:
        deployment = self._deployment
        if is_deleting(deployment):
            new, old = await self._ensure_new(create=False)
            return await self._tell(plan.counts(deployment, new, old, self._now))
        await self._mark_paused()
        if deployment["spec"].get("paused"):
            return await self._scale(clean_up=True)
        revision = natural(annotations_of(deployment).get(plan.ROLLBACK_TO, ""))
        if revision is not None:
            return await self._roll_back(revision)
        new, old = await self._ensure_new(create=False)
        if sizes.is_scaling(deployment, [*old, *([new] if new else [])]):
            return await self._scale(clean_up=False)
        if sizes.is_rolling(deployment):
            return await self._roll()
        return await self._recreate(new, old)

    async def _roll(self) -> Requeue | None:
        new, old = await self._ensure_new(create=True)
        if new is None:
            return None
        changes = sizes.roll_up(self._deployment, new, old) or sizes.roll_down(self._deployment, new, old)
        for one, size in changes:
            await self._resize(one, size)
        if not changes:
            await self._clean_up(old)
        return await self._tell_rollout(new, old)

    async def _recreate(self, new: Object | None, old: list[Object]) -> Requeue | None:
        active = [one for one in old if sizes.wanted(one) > 0]
        for one in active:
            await self._resize(one, 0)
        if active or self._controller.runs_pods(old):
            return await self._tell_rollout(new, old)
        if new is None:
            new, old = await self._ensure_new(create=True)
            if new is None:
                return None
        if sizes.wanted(new) != sizes.wanted(self._deployment):
            await self._resize(new, sizes.wanted(self._deployment))
        else:
            await self._clean_up(old)
        return await self._tell_rollout(new, old)

    async def _scale(self, *, clean_up: bool) -> Requeue | None:
        new, old = await self._ensure_new(create=False)
        for one, size in sizes.scale(self._deployment, new, old):
            await self._resize(one, size)
        if clean_up:
            await self._remove(plan.superfluous(self._deployment, old))
        return await self._tell(plan.counts(self._deployment, new, old, self._now))

    async def _clean_up(self, old: Sequence[Object]) -> None:
        if plan.is_complete(self._deployment, self._deployment.get("status") or {}):
            await self._remove(plan.superfluous(self._deployment, old))

    async def _remove(self, sets: Iterable[Object]) -> None:
        for one in sets:
            try:
                await self._client.delete(REPLICA_SETS, one["metadata"]["name"], one["metadata"]["namespace"])
            except NotFound:
                continue

    # The new replica set

    async def _ensure_new(self, *, create: bool) -> tuple[Object | None, list[Object]]:
        new, old = plan.split(self._deployment, self._sets)
        if new is not None:
            new = await self._refresh(new, old)
        elif create:
            new = await self._create(old)
        self._sets = [*old, *([new] if new else [])]
        return new, old

    async def _refresh(self, new: Object, old: Sequence[Object]) -> Object:
        """Annotations and revision of a replica set that is (again) the new one."""
        deployment = self._deployment
        known = annotations_of(new)
        annotations = plan.set_annotations(deployment, known, plan.next_revision(old))
        min_ready = deployment["spec"].get("minReadySeconds") or 0
        if annotations != known or (new["spec"].get("minReadySeconds") or 0) != min_ready:
            patch = {
                "metadata": {"annotations": merge_diff(known, annotations)},
                "spec": {"minReadySeconds": min_ready},
            }
            return await self._controller.patch_set(new, patch)
        status = dict(deployment.get("status") or {})
        if plan.has_deadline(deployment) and plan.find(status, plan.PROGRESSING) is None:
            message = f'Found new replica set "{new["metadata"]["name"]}"'
            plan.set_condition(status, plan.PROGRESSING, "True", "FoundNewReplicaSet", message, self._now)
        await self._write_status(status, revision=known.get(plan.REVISION, ""))
        return new

    async def _create(self, old: Sequence[Object]) -> Object | None:
        deployment = self._deployment
        wanted = plan.new_replica_set(deployment, old)
        name, namespace = wanted["metadata"]["name"], wanted["metadata"]["namespace"]
        try:
            made = await self._client.create(REPLICA_SETS, wanted, namespace)
        except AlreadyExists:
            return await self._resolve_collision(name, namespace)
        except ApiError as error:
            if namespace_is_ending(error):
                return None
            await self._tell_failure(name, error)
            raise
        size = sizes.wanted(made)
        if size > 0:
            self._event(NORMAL, "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {size}")
        status = dict(deployment.get("status") or {})
        if plan.has_deadline(deployment):
            message = f'Created new replica set "{name}"'
            plan.set_condition(status, plan.PROGRESSING, "True", "NewReplicaSetCreated", message, self._now)
        await self._write_status(status, revision=annotations_of(made).get(plan.REVISION, ""))
        return made

    async def _resolve_collision(self, name: str, namespace: str) -> Object | None:
        """The name is taken: by what we wanted anyway, or by another template with the same hash. The server is asked: it
        may be one of our own that was made when the answer got lost, and our view need not know it yet."""
        known = await self._client.get(REPLICA_SETS, name, namespace)
        if is_controlled_by(known, self._deployment) and plan.same_template(known, self._deployment):
            return known
        status = dict(self._deployment.get("status") or {})
        status["collisionCount"] = status.get("collisionCount", 0) + 1
        await self._write_status(status)
        return None

    async def _tell_failure(self, name: str, error: ApiError) -> None:
        message = f'Failed to create new replica set "{name}": {error.message}'
        if plan.has_deadline(self._deployment):
            status = dict(self._deployment.get("status") or {})
            plan.set_condition(status, plan.PROGRESSING, "False", "ReplicaSetCreateError", message, self._now)
            await self._write_status(status)
        self._event(WARNING, "ReplicaSetCreateError", message)

    async def _resize(self, one: Object, size: int) -> None:
        before = sizes.wanted(one)
        annotations = merge_diff(
            annotations_of(one), {**annotations_of(one), **plan.size_annotations(self._deployment)}
        )
        if before == size and not annotations:
            return
        await self._controller.patch_set(one, {"metadata": {"annotations": annotations}, "spec": {"replicas": size}})
        if before != size:
            name, way = one["metadata"]["name"], "up" if size > before else "down"
            self._event(NORMAL, "ScalingReplicaSet", f"Scaled {way} replica set {name} from {before} to {size}")

    # Going back

    async def _roll_back(self, revision: int) -> Requeue | None:
        new, old = await self._ensure_new(create=True)
        everyone = [*old, *([new] if new else [])]
        revisions = sorted(map(plan.revision_of, everyone))
        target = revision or (revisions[-2] if len(revisions) > 1 else 0)
        found = next((one for one in everyone if plan.revision_of(one) == target), None) if target else None
        patch: Object = {"metadata": {"annotations": {plan.ROLLBACK_TO: None}}}
        name = self._deployment["metadata"]["name"]
        if found is None:
            missing = "Unable to find the revision to rollback to." if target else "Unable to find last revision."
            self._event(WARNING, "DeploymentRollbackRevisionNotFound", missing)
        elif plan.same_template(found, self._deployment):
            message = f'The rollback revision contains the same template as current deployment "{name}"'
            self._event(WARNING, "DeploymentRollbackTemplateUnchanged", message)
        else:
            patch = self._rollback_patch(found)
            self._event(NORMAL, "DeploymentRollback", f'Rolled back deployment "{name}" to revision {target}')
        await self._client.patch(DEPLOYMENTS, name, patch, self._deployment["metadata"]["namespace"])
        return None

    def _rollback_patch(self, found: Object) -> Object:
        template = found["spec"]["template"]
        metadata = template.get("metadata") or {}
        labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != plan.HASH}
        restored = {**template, "metadata": {**metadata, "labels": labels}}
        known = annotations_of(self._deployment)
        kept = {key: value for key, value in known.items() if key in plan.NOT_COPIED and key != plan.ROLLBACK_TO}
        back = {key: value for key, value in annotations_of(found).items() if key not in plan.NOT_COPIED}
        return {
            "metadata": {"annotations": merge_diff(known, {**kept, **back})},
            "spec": {"template": merge_diff(self._deployment["spec"]["template"], restored)},
        }

    # Status

    async def _mark_paused(self) -> None:
        """A pause stops the clock of the deadline, and resuming restarts it."""
        deployment = self._deployment
        status = dict(deployment.get("status") or {})
        known = plan.find(status, plan.PROGRESSING)
        if not plan.has_deadline(deployment) or (known and known["reason"] == "ProgressDeadlineExceeded"):
            return
        paused = bool(deployment["spec"].get("paused"))
        if paused == bool(known and known["reason"] == "DeploymentPaused"):
            return
        reason, message = (
            ("DeploymentPaused", "Deployment is paused") if paused else ("DeploymentResumed", "Deployment is resumed")
        )
        plan.set_condition(status, plan.PROGRESSING, "Unknown", reason, message, self._now)
        await self._write_status(status)

    async def _tell(self, status: Object) -> Requeue | None:
        await self._write_status(status)
        return None

    async def _tell_rollout(self, new: Object | None, old: Sequence[Object]) -> Requeue | None:
        status = plan.rollout_status(self._deployment, new, old, self._now)
        wait = plan.seconds_to_deadline(self._deployment, status, self._now)
        await self._write_status(status)
        return Requeue(wait) if wait is not None else None

    async def _write_status(self, status: Mapping[str, Any], revision: str = "") -> None:
        """Status and revision go together; the real controller, too, writes the annotation with the status."""
        deployment = self._deployment
        patch: Object = {}
        changes = merge_diff(deployment.get("status") or {}, status)
        if changes:
            patch["status"] = changes
        metadata: Object = {"resourceVersion": deployment["metadata"]["resourceVersion"]}
        if revision and annotations_of(deployment).get(plan.REVISION) != revision:
            metadata["annotations"] = {plan.REVISION: revision}
        elif not patch:
            return
        name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
        self._deployment = await self._client.patch(
            DEPLOYMENTS, name, {**patch, "metadata": metadata}, namespace, subresource="status"
        )

    def _event(self, type: str, reason: str, message: str) -> None:
        self._controller.recorder.event(DEPLOYMENTS, self._deployment, type, reason, message)
