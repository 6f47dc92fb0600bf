"""The loop of jobs: count, judge, make or remove pods, and write the status in the order that loses no pod.

First the status learns the uids of pods that have ended (and why the job ends, if it does), then their finalizers come
off, then the uids become counts and the job is Complete or Failed. Killed anywhere in between, the next pass goes on.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import NotFound
from gpuaas.client.protocol import Object
from gpuaas.client.resources import JOBS, PODS
from gpuaas.controllers.jobs import verdict
from gpuaas.controllers.jobs.indexes import format_indexes
from gpuaas.controllers.jobs.policies import match_failure
from gpuaas.controllers.jobs.tally import FINALIZER, INDEX, Tally, failure_counts, index_of, is_tracked
from gpuaas.controllers.jobs.verdict import End, Failures
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, controller_of, is_deleting, key_of, labels_of, uid_of
from gpuaas.runtime.pod_budget import TooManyWaiting
from gpuaas.runtime.pods import (
    ORPHANS,
    PodControl,
    is_ready,
    orphan_index,
    phase_of,
    pod_from_template,
    selector_of,
    selects,
)
from gpuaas.runtime.values import without_zeros

BATCH = 0.1  # seconds: pods of one job end together, and one pass counts them all
MOST_UNCOUNTED = 500
TRACKED = "tracked"  # index of pods: those with our finalizer, by namespace/job
OURS = "kubernetes.io/job-controller"
HELD_BACK = "PodsHeldBack"  # condition: the budget of pods that wait for a node is spent
_ENDED = (verdict.COMPLETE, verdict.FAILED)


class JobController(Controller):
    name = "job-controller"
    component = "job-controller"
    workers = 5
    patient = True

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._jobs = self.follow(deps.informers.of(JOBS))
        pods = deps.informers.of(PODS)
        pods.add_index(ORPHANS, orphan_index)
        pods.add_index(TRACKED, _tracked_index)
        self._pods = self.follow(pods, self._concerned, delay=BATCH)
        self.control = PodControl(self.client, self.recorder, JOBS)
        self.failures: dict[str, Failures] = {}  # by uid of the job; lost with the process, as in the real controller

    def _concerned(self, pod: Mapping[str, Any]) -> Iterable[Key]:
        namespace = pod["metadata"]["namespace"]
        reference = controller_of(pod)
        if reference is not None:
            return (Key(namespace, reference["name"]),) if reference["kind"] == "Job" else ()
        keys = [key_of(job) for job in self._jobs.in_namespace(namespace) if selects(job, labels_of(pod))]
        if is_tracked(pod):
            keys.append(Key(namespace, ""))  # without a job: only the finalizer is removed
        return keys

    async def reconcile(self, key: Key) -> Requeue | None:
        job = self._jobs.get(*key)
        await self._release_strays(key, job)
        if job is None or (job["spec"].get("managedBy") or OURS) != OURS:
            return None
        if has_ended(job):
            self.failures.pop(uid_of(job), None)
            return None
        pods = self._pods.owned_by(uid_of(job)) + self._pods.indexed(ORPHANS, key.namespace)
        claimed = await self.control.claim(job, selector_of(job), pods, finalizer=FINALIZER)
        return await _Pass(self, job, claimed).run()

    async def _release_strays(self, key: Key, job: Object | None) -> None:
        """Pods of a job that is gone or over must not be held by our finalizer."""
        for pod in self._pods.indexed(TRACKED, str(key)):
            reference = controller_of(pod)
            owned = job is not None and reference is not None and reference["uid"] == uid_of(job)
            if not owned or (job is not None and has_ended(job)):
                await self.untrack(pod)

    async def untrack(self, pod: Object) -> None:
        """Take our finalizer off the pod as it is now: it may have been deleted since it was counted."""
        latest = self._pods.get(*key_of(pod))
        if latest is None or uid_of(latest) != uid_of(pod) or not is_tracked(latest):
            return
        pod = latest
        finalizers = [name for name in pod["metadata"].get("finalizers") or () if name != FINALIZER]
        patch = {
            "uid": uid_of(pod),
            "resourceVersion": pod["metadata"]["resourceVersion"],
            "finalizers": finalizers or None,
        }
        try:
            await self.client.patch(PODS, pod["metadata"]["name"], {"metadata": patch}, pod["metadata"]["namespace"])
        except NotFound:
            return


class _Pass:
    """One pass over one job."""

    def __init__(self, controller: JobController, job: Object, pods: Sequence[Object]) -> None:
        self._controller = controller
        self._job = job
        self._now = controller.clock.now()
        self._status: Object = dict(job.get("status") or {})
        self._status.setdefault("uncountedTerminatedPods", {})
        if not job["spec"].get("suspend"):
            self._status.setdefault("startTime", rfc3339(self._now))
        self._tally = Tally(job, pods, self._now, dict(self._status))
        self._active = len(self._tally.active)
        self._ready = self._tally.ready
        self._terminating = self._tally.terminating
        self._waits: list[float] = []

    async def run(self) -> Requeue | None:
        tally, uid = self._tally, uid_of(self._job)
        failures = verdict.count_failures(self._controller.failures.get(uid, Failures()), tally)
        end = verdict.find_end(tally)
        error: Exception | None = None
        if end is not None:
            error = await self._delete(tally.active, untrack=False)
            if error is not None:
                end = None
        else:
            if not is_deleting(self._job):
                error = await self._go_on(failures)
            if verdict.is_complete(tally, self._active):
                end = End(True, "CompletionsReached", "Reached expected number of succeeded pods")
            elif not is_deleting(self._job):
                self._mark_suspended()
        await self._count(end, failures)
        if error is not None:
            raise error
        deadline = verdict.seconds_to_deadline(tally)
        if deadline is not None and end is None:
            self._waits.append(max(deadline, 0.0))
        return Requeue(min(self._waits)) if self._waits else None

    async def _go_on(self, failures: Failures) -> Exception | None:
        plan = verdict.decide(self._tally, failures)
        if plan.wait is not None:
            self._waits.append(plan.wait)
        if plan.delete:
            return await self._delete(plan.delete, untrack=True)
        if plan.create:
            return await self._create(plan)
        return None

    async def _delete(self, pods: Sequence[Object], *, untrack: bool) -> Exception | None:
        """`untrack` where the pods are not to be counted as failed."""

        async def remove(pod: Object) -> None:
            if untrack and is_tracked(pod):
                await self._controller.untrack(pod)
            await self._controller.control.delete(self._job, pod)

        results = await asyncio.gather(*map(remove, pods), return_exceptions=True)
        gone = [pod for pod, result in zip(pods, results, strict=True) if result is None]
        self._active -= len(gone)
        self._terminating += len(gone)
        self._ready -= sum(map(is_ready, gone))
        return next((result for result in results if isinstance(result, Exception)), None)

    async def _create(self, plan: verdict.Plan) -> Exception | None:
        indexes: Sequence[int | None] = plan.indexes if self._tally.indexed else [None] * plan.create
        pods = [self._pod(index) for index in indexes]
        before = len(self._controller_pods())
        try:
            self._active += await self._controller.control.create_many(self._job, pods)
        except Exception as error:
            self._active += max(0, len(self._controller_pods()) - before)
            if isinstance(error, TooManyWaiting):
                self._set(HELD_BACK, "True", "TooManyPodsWaiting", error.message)
            return error
        self._set(HELD_BACK, "False", "PodsCreated", "The pods that were wanted last were created")
        return None

    def _controller_pods(self) -> list[Object]:
        return self._controller.informers.of(PODS).owned_by(uid_of(self._job))

    def _pod(self, index: int | None) -> Object:
        pod = pod_from_template(self._job["spec"]["template"], self._job, JOBS)
        metadata = pod["metadata"]
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
        if index is None:
            return pod
        name = self._job["metadata"]["name"]
        metadata["labels"] = {**(metadata.get("labels") or {}), INDEX: str(index)}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), INDEX: str(index)}
        if self._tally.limits_each_index:
            metadata["annotations"].update(failure_counts(self._job, self._tally.awaiting_replacement.get(index)))
        tail = f"-{index}-"
        metadata["generateName"] = name[: 58 - len(tail)] + tail
        pod["spec"] = {**_with_index_variable(pod["spec"]), "hostname": f"{name}-{index}"}
        return pod

    def _mark_suspended(self) -> None:
        suspended = self._tally.suspended
        reason, message = ("Suspended", "Job suspended") if suspended else ("Resumed", "Job resumed")
        if not self._set(verdict.SUSPENDED, "True" if suspended else "False", f"Job{reason}", message):
            return
        self._event(NORMAL, reason, message)
        if suspended:
            self._status.pop("startTime", None)
        else:
            self._status["startTime"] = rfc3339(self._now)

    # Counting

    async def _count(self, end: End | None, failures: Failures) -> None:
        self._status.update(active=self._active, ready=self._ready, terminating=self._terminating)
        finished = self._note_finished(end)
        if self._tally.indexed:
            self._status["completedIndexes"] = format_indexes(self._tally.succeeded_indexes)
            self._status["succeeded"] = len(self._tally.succeeded_indexes)
            if self._tally.limits_each_index:
                self._status["failedIndexes"] = format_indexes(self._tally.failed_indexes)
        if end is not None:
            if not self._status.get("startTime") and self._job["spec"].get("completions") != 0:
                # Suspended before its start was noted: what has run has begun, or the API would refuse its end.
                self._status["startTime"] = rfc3339(self._now)
            kind = verdict.SUCCESS_CRITERIA_MET if end.succeeded else verdict.FAILURE_TARGET
            self._set(kind, "True", end.reason, end.message)
        if await self._write():
            self._controller.failures[uid_of(self._job)] = failures
        await asyncio.gather(*map(self._controller.untrack, finished))
        held = {uid_of(pod) for pod in self._tally.pods if is_tracked(pod)} - {uid_of(pod) for pod in finished}
        self._settle_counts(held)
        if end is not None and self._is_settled():
            self._finish(end)
        await self._write()
        if end is not None and has_ended({"status": self._status}):
            self._tell_end(end)

    def _note_finished(self, end: End | None) -> list[Object]:
        """Put the uids of ended pods into the status; the pods whose finalizer may then come off."""
        self._settle_counts({uid_of(pod) for pod in self._tally.pods if is_tracked(pod)})
        uncounted = self._status["uncountedTerminatedPods"]
        succeeded, failed = list(uncounted.get("succeeded") or ()), list(uncounted.get("failed") or ())
        finished: list[Object] = []
        for pod in sorted(self._tally.pods, key=index_of):
            if not is_tracked(pod) or not self._may_untrack(pod, end):
                continue
            finished.append(pod)
            uid = uid_of(pod)
            if phase_of(pod) == "Succeeded" and uid not in failed:
                if not self._tally.indexed and uid not in succeeded:
                    succeeded.append(uid)
            elif self._counts_as_failed(pod, end) and uid not in failed:
                failed.append(uid)
            if len(succeeded) + len(failed) >= MOST_UNCOUNTED:
                self._waits.append(0.0)
                break
        fields = {"succeeded": succeeded, "failed": failed}
        self._status["uncountedTerminatedPods"] = {part: uids for part, uids in fields.items() if uids}
        return finished

    def _may_untrack(self, pod: Object, end: End | None) -> bool:
        if is_deleting(self._job) or end is not None or phase_of(pod) == "Succeeded":
            return True
        if not self._tally.is_failed(pod):
            return False
        if not self._tally.limits_each_index:
            return True
        waiting = self._tally.awaiting_replacement.get(index_of(pod))
        return waiting is None or uid_of(waiting) != uid_of(pod)

    def _counts_as_failed(self, pod: Object, end: End | None) -> bool:
        # When the job fails, pods that still ran have failed with it.
        if not self._tally.is_failed(pod) and (end is None or end.succeeded):
            return False
        if self._tally.indexed and not self._tally.is_valid(index_of(pod)):
            return False
        return match_failure(self._tally.spec.get("podFailurePolicy"), pod).counts

    def _settle_counts(self, held: set[str]) -> None:
        """Uids whose finalizer is gone become numbers."""
        uncounted = self._status["uncountedTerminatedPods"]
        left: Object = {}
        for part in ("succeeded", "failed"):
            known = uncounted.get(part) or ()
            still = [uid for uid in known if uid in held]
            if len(still) != len(known):
                self._status[part] = self._status.get(part, 0) + len(known) - len(still)
            if still:
                left[part] = still
        self._status["uncountedTerminatedPods"] = left

    def _is_settled(self) -> bool:
        return not self._status["uncountedTerminatedPods"] and self._terminating == 0 and 0.0 not in self._waits

    def _finish(self, end: End) -> None:
        self._set(verdict.COMPLETE if end.succeeded else verdict.FAILED, "True", end.reason, end.message)
        if end.succeeded:
            self._status["completionTime"] = rfc3339(self._now)

    def _tell_end(self, end: End) -> None:
        if not end.succeeded:
            self._event(WARNING, end.reason, end.message)
            return
        completions = self._tally.completions
        if completions is not None and self._status.get("succeeded", 0) > completions:
            message = "Too many succeeded pods running after completion count reached"
            self._event(WARNING, "TooManySucceededPods", message)
        self._event(NORMAL, "Completed", "Job completed")

    def _set(self, kind: str, value: str, reason: str, message: str) -> bool:
        """Whether the condition changed; one that was never there does not become False."""
        conditions = list(self._status.get("conditions") or ())
        moment = rfc3339(self._now)
        condition = {
            "type": kind,
            "status": value,
            "lastProbeTime": moment,
            "lastTransitionTime": moment,
            "reason": reason,
            "message": message,
        }
        for at, known in enumerate(conditions):
            if known["type"] == kind:
                if all(known.get(part) == condition[part] for part in ("status", "reason", "message")):
                    return False
                conditions[at] = condition
                break
        else:
            if value == "False":
                return False
            conditions.append(condition)
        self._status["conditions"] = conditions
        return True

    async def _write(self) -> bool:
        always = ("ready", "terminating", "uncountedTerminatedPods", "failedIndexes")
        status = without_zeros(self._status, *always)
        if (self._job.get("status") or {}) == status:
            return False
        whole, namespace = {**self._job, "status": status}, self._job["metadata"]["namespace"]
        self._job = await self._controller.client.update(JOBS, whole, namespace, subresource="status")
        return True

    def _event(self, type: str, reason: str, message: str) -> None:
        self._controller.recorder.event(JOBS, self._job, type, reason, message)


def has_ended(job: Mapping[str, Any]) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(one["type"] in _ENDED and one["status"] == "True" for one in conditions)


def _tracked_index(pod: Mapping[str, Any]) -> Iterable[str]:
    if not is_tracked(pod):
        return ()
    reference = controller_of(pod)
    if reference is not None and reference["kind"] != "Job":
        return ()
    return (f"{pod['metadata']['namespace']}/{reference['name'] if reference else ''}",)


def _with_index_variable(spec: Mapping[str, Any]) -> Object:
    """Every container learns its index from the variable JOB_COMPLETION_INDEX."""
    variable = {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
    }
    changed = dict(spec)
    for part in ("initContainers", "containers"):
        if spec.get(part):
            changed[part] = [_with_variable(container, variable) for container in spec[part]]
    return changed


def _with_variable(container: Mapping[str, Any], variable: Object) -> Object:
    known = container.get("env") or []
    if any(one["name"] == variable["name"] for one in known):
        return dict(container)
    return {**container, "env": [*known, variable]}
