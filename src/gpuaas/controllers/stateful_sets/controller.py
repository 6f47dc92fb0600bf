"""The loop of stateful sets."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.errors import AlreadyExists, ApiError, NotFound, Unavailable
from gpuaas.client.protocol import Object
from gpuaas.client.resources import CLAIMS, CONTROLLER_REVISIONS, PODS, STATEFUL_SETS
from gpuaas.controllers.stateful_sets import identity, plan
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.failed_pods import FailedPods
from gpuaas.runtime.metadata import Key, controller_of, is_deleting, key_of, labels_of, uid_of
from gpuaas.runtime.pods import ORPHANS, PodControl, orphan_index, phase_of, seconds_to_available, selector_of, selects
from gpuaas.runtime.revisions import Revisions, template_of
from gpuaas.runtime.writes import namespace_is_ending, write_status

_BURST = 500  # pods created by one pass


class StatefulSetController(Controller):
    name = "statefulset-controller"
    component = "statefulset-controller"
    workers = 5

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._sets = self.follow(deps.informers.of(STATEFUL_SETS))
        pods = deps.informers.of(PODS)
        pods.add_index(ORPHANS, orphan_index)
        self._pods = self.follow(pods, self._concerned)
        self._claims = self.follow(deps.informers.of(CLAIMS), lambda _: ())
        revisions = self.follow(deps.informers.of(CONTROLLER_REVISIONS), lambda _: ())
        self._revisions = Revisions(self.client, revisions, STATEFUL_SETS)
        self._control = PodControl(self.client, self.recorder, STATEFUL_SETS)
        self._failed = FailedPods()

    def _concerned(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        namespace = pod["metadata"]["namespace"]
        reference = controller_of(pod)
        if reference is not None:
            return (Key(namespace, reference["name"]),) if reference["kind"] == "StatefulSet" else ()
        candidates = self._sets.in_namespace(namespace)
        return [key_of(one) for one in candidates if selects(one, labels_of(pod))]

    async def reconcile(self, key: Key) -> Requeue | None:
        stateful_set = self._sets.get(*key)
        if stateful_set is None:
            return None
        if is_deleting(stateful_set):
            self._failed.forget(uid_of(stateful_set))
        candidates = self._pods.owned_by(uid_of(stateful_set)) + self._pods.indexed(ORPHANS, key.namespace)

        def is_member(pod: Object) -> bool:
            return identity.is_member(stateful_set, pod)

        pods = await self._control.claim(stateful_set, selector_of(stateful_set), candidates, accepts=is_member)
        known = self._revisions.of(stateful_set)
        status = stateful_set.get("status") or {}
        update, collisions = await self._revisions.current(stateful_set, known, status.get("collisionCount") or 0)
        current = next((one for one in known if one["metadata"]["name"] == status.get("currentRevision")), update)
        names = current["metadata"]["name"], update["metadata"]["name"]
        now = self.clock.now()
        situation = plan.Situation(stateful_set, pods, *names, now)
        steps = plan.decide(situation)
        pause = self._failed.wait(uid_of(stateful_set), pods, now)
        held = [pod for pod in steps.delete if pause and phase_of(pod) == "Failed"]
        steps.delete = [pod for pod in steps.delete if pod not in held]
        error = await self._apply(situation, steps, template_of(current), template_of(update))
        new_status = plan.decide_status(situation, collisions, steps.updating)
        await write_status(self.client, STATEFUL_SETS, stateful_set, new_status)
        live = {*names, *map(identity.revision_of, pods)}
        await self._revisions.trim(known, live, stateful_set["spec"].get("revisionHistoryLimit"))
        if error is not None:
            raise error
        wait = seconds_to_available(pods, situation.min_ready, now) if situation.min_ready else None
        waits = [each for each in (wait, pause if held else None) if each is not None]
        return Requeue(min(waits)) if waits else None

    async def _apply(
        self, situation: plan.Situation, steps: plan.Plan, current: Object, update: Object
    ) -> ApiError | None:
        stateful_set = situation.stateful_set

        def made(ordinal: int) -> Object:
            if plan.uses_current(situation, ordinal):
                return identity.new_pod(stateful_set, current, situation.current, ordinal)
            return identity.new_pod(stateful_set, update, situation.update, ordinal)

        try:
            if not is_deleting(stateful_set):
                await self._keep_up(stateful_set, situation.pods)
            await asyncio.gather(
                *(self._create(stateful_set, made(ordinal), ordinal) for ordinal in steps.create[:_BURST])
            )
            await asyncio.gather(*(self._delete(stateful_set, pod) for pod in steps.delete))
        except ApiError as error:
            return error
        return None

    async def _keep_up(self, stateful_set: Mapping[str, Any], pods: Sequence[Object]) -> None:
        """Pods that wait keep their claims, and every pod its name."""
        for pod in pods:
            if phase_of(pod) == "Pending" and identity.in_range(stateful_set, pod):
                await self._make_claims(stateful_set, pod["metadata"]["name"], identity.ordinal_of(pod))
            await self._own_claims(stateful_set, pod)
            patch = identity.mended(stateful_set, pod)
            if patch is not None:
                await self.client.patch(PODS, pod["metadata"]["name"], patch, pod["metadata"]["namespace"])
                self._tell(stateful_set, "Update", pod["metadata"]["name"])

    async def _create(self, stateful_set: Mapping[str, Any], pod: Object, ordinal: int) -> None:
        name = pod["metadata"]["name"]
        try:
            await self._make_claims(stateful_set, name, ordinal)
            made = await self.client.create(PODS, pod, stateful_set["metadata"]["namespace"])
        except AlreadyExists:
            raise
        except ApiError as error:
            if not namespace_is_ending(error):
                self._tell(stateful_set, "Create", name, error)
                raise
            return
        await self._own_claims(stateful_set, made)
        self._tell(stateful_set, "Create", name)

    async def _delete(self, stateful_set: Mapping[str, Any], pod: Object) -> None:
        name = pod["metadata"]["name"]
        try:
            await self.client.delete(PODS, name, pod["metadata"]["namespace"], uid=uid_of(pod))
        except NotFound:
            pass
        except ApiError as error:
            self._tell(stateful_set, "Delete", name, error)
            raise
        self._tell(stateful_set, "Delete", name)

    async def _make_claims(self, stateful_set: Mapping[str, Any], pod: str, ordinal: int) -> None:
        namespace = stateful_set["metadata"]["namespace"]
        for claim in identity.claims_of(stateful_set, ordinal):
            name = claim["metadata"]["name"]
            known = self._claims.get(namespace, name)
            if known is not None:
                if is_deleting(known):
                    raise Unavailable(f"pvc {name} is being deleted")
                continue
            where = f"Claim {name} Pod {pod} in StatefulSet {stateful_set['metadata']['name']}"
            try:
                await self.client.create(CLAIMS, claim, namespace)
            except AlreadyExists:
                continue
            except ApiError as error:
                where = f"Claim {name} for Pod {pod} in StatefulSet {stateful_set['metadata']['name']}"
                message = f"Create {where} failed error: {error.message}"
                self.recorder.event(STATEFUL_SETS, stateful_set, WARNING, "FailedCreate", message)
                raise
            self.recorder.event(STATEFUL_SETS, stateful_set, NORMAL, "SuccessfulCreate", f"Create {where} success")

    async def _own_claims(self, stateful_set: Mapping[str, Any], pod: Mapping[str, Any]) -> None:
        namespace = stateful_set["metadata"]["namespace"]
        for claim in identity.claims_of(stateful_set, identity.ordinal_of(pod)):
            known = self._claims.get(namespace, claim["metadata"]["name"])
            owners = identity.claim_owners(stateful_set, pod, known) if known is not None else None
            if known is not None and owners is not None:
                metadata = {"resourceVersion": known["metadata"]["resourceVersion"], "ownerReferences": owners or None}
                await self.client.patch(CLAIMS, known["metadata"]["name"], {"metadata": metadata}, namespace)

    def _tell(self, stateful_set: Mapping[str, Any], verb: str, pod: str, error: ApiError | None = None) -> None:
        what = f"{verb} Pod {pod} in StatefulSet {stateful_set['metadata']['name']}"
        if error is None:
            self.recorder.event(STATEFUL_SETS, stateful_set, NORMAL, f"Successful{verb}", f"{what} successful")
        else:
            message = f"{what} failed error: {error.message}"
            self.recorder.event(STATEFUL_SETS, stateful_set, WARNING, f"Failed{verb}", message)
