"""The loop of cron jobs: clean up old jobs, note which ended, and start one when its time has come.

Of several times missed only the last is made up for, and only within `startingDeadlineSeconds`. A job's name carries
its time, so that a pass repeated after a crash makes no second one.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from gpuaas.base.clock import parse_rfc3339, rfc3339
from gpuaas.base.errors import AlreadyExists, ApiError, NotFound
from gpuaas.client.protocol import Object, Propagation
from gpuaas.client.resources import CRON_JOBS, JOBS
from gpuaas.controllers.cron_jobs.schedule import Schedule, load_zone, parse_schedule
from gpuaas.runtime.controller import Controller, Deps, Requeue, owner_key
from gpuaas.runtime.events import NORMAL, WARNING
from gpuaas.runtime.metadata import Key, controller_of, controller_reference, is_controlled_by, is_deleting, uid_of
from gpuaas.runtime.values import without_zeros
from gpuaas.runtime.writes import namespace_is_ending, write_status

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
DELTA = 0.1  # wake a moment after the time, never before
MANY_MISSED = 100


class Missed(NamedTuple):
    since: float
    last: float | None  # the latest time that has come
    times: int  # 0 where at most one has come


def find_missed(cron_job: Mapping[str, Any], schedule: Schedule, now: float, *, with_deadline: bool) -> Missed:
    """Which times have come since the last job was started (or the cron job was made)."""
    started = (cron_job.get("status") or {}).get("lastScheduleTime")
    since = parse_rfc3339(started or cron_job["metadata"]["creationTimestamp"])
    deadline = cron_job["spec"].get("startingDeadlineSeconds")
    if with_deadline and deadline is not None:
        since = max(since, now - float(deadline))
    first = schedule.next(since)
    if first is not None and now < first:
        return Missed(since, None, 0)
    second = schedule.next(first) if first is not None else None
    # A time that never comes, such as 31 February, is as little a schedule as two times that are one.
    if first is None or second is None or (step := round(second - first)) < 1:
        raise ValueError("time difference between two schedules is less than 1 second")
    if now < second:
        return Missed(since, first, 0)
    count = int(now - first) // step + 1
    # Jump near the end instead of walking through what may be years of minutes.
    last: float | None = None
    moment = schedule.next(first + (count - 2) * step)
    while moment is not None and moment <= now:
        last, moment = moment, schedule.next(moment)
    return Missed(since, last, count)


def seconds_to_next(cron_job: Mapping[str, Any], schedule: Schedule, now: float) -> float | None:
    try:
        missed = find_missed(cron_job, schedule, now, with_deadline=False)
        base = missed.last if missed.last is not None else (missed.since if missed.times == 0 else now)
    except ValueError:
        base = now
    moment = schedule.next(base)
    return None if moment is None else moment + DELTA - now


def superfluous(jobs: Sequence[Object], condition: str, limit: int | None) -> list[Object]:
    """The oldest ended jobs beyond the limit."""
    if limit is None:
        return []
    ended = [job for job in jobs if finished(job) == condition]
    ended.sort(key=lambda job: ((job.get("status") or {}).get("startTime") or "9", job["metadata"]["name"]))
    return ended[: max(0, len(ended) - limit)]


def finished(job: Mapping[str, Any]) -> str:
    """`Complete`, `Failed`, or "" for a job that goes on."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return ""


def new_job(cron_job: Mapping[str, Any], moment: float) -> Object:
    template = cron_job["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    local = datetime.fromtimestamp(moment, load_zone(cron_job["spec"].get("timeZone") or ""))
    stamp = local.isoformat().replace("+00:00", "Z")
    metadata: Object = {
        "name": job_name(cron_job, moment),
        "namespace": cron_job["metadata"]["namespace"],
        "annotations": {**(given.get("annotations") or {}), SCHEDULED: stamp},
        "ownerReferences": [controller_reference(cron_job, CRON_JOBS)],
    }
    if given.get("labels"):
        metadata["labels"] = dict(given["labels"])
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template.get("spec") or {}}


def job_name(cron_job: Mapping[str, Any], moment: float) -> str:
    return f"{cron_job['metadata']['name']}-{int(moment) // 60}"


class CronJobController(Controller):
    name = "cronjob-controller"
    component = "cronjob-controller"
    workers = 5

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._cron_jobs = self.follow(deps.informers.of(CRON_JOBS))
        self._jobs = self.follow(deps.informers.of(JOBS), owner_key("CronJob"))

    async def reconcile(self, key: Key) -> Requeue | None:
        cron_job = self._cron_jobs.get(*key)
        if cron_job is None:
            return None
        mine = [job for job in self._jobs.in_namespace(key.namespace) if _belongs(job, cron_job)]
        turn = _Turn(self, cron_job, mine)
        await turn.clean_up()
        try:
            return await turn.run()
        finally:
            await write_status(self.client, CRON_JOBS, cron_job, without_zeros(turn.status))


class _Turn:
    """One pass over one cron job; `status` is what it will say afterwards."""

    def __init__(self, controller: CronJobController, cron_job: Object, jobs: Sequence[Object]) -> None:
        self._controller = controller
        self._client = controller.client
        self._now = controller.clock.now()
        self._cron_job = cron_job
        self._spec = cron_job["spec"]
        self._jobs = jobs
        self.status: Object = dict(cron_job.get("status") or {})

    @property
    def _active(self) -> list[Object]:
        return list(self.status.get("active") or ())

    async def clean_up(self) -> None:
        for condition, limit in (
            ("Complete", self._spec.get("successfulJobsHistoryLimit")),
            ("Failed", self._spec.get("failedJobsHistoryLimit")),
        ):
            for job in superfluous(self._jobs, condition, limit):
                await self._delete(job["metadata"]["name"], uid_of(job))

    async def run(self) -> Requeue | None:
        await self._note_ends()
        if is_deleting(self._cron_job) or self._spec.get("suspend"):
            return None
        schedule = self._schedule()
        if schedule is None:
            return None
        try:
            missed = find_missed(self._cron_job, schedule, self._now, with_deadline=True)
        except ValueError as error:
            self._event(WARNING, "InvalidSchedule", f"invalid schedule: {self._spec['schedule']} : {error}")
            return None
        if missed.times > MANY_MISSED:
            message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._event(WARNING, "TooManyMissedTimes", message)
        if missed.last is not None and self._may_start(missed.last):
            await self._start(missed.last)
        # Counted from the status as it will be, not as it was.
        wait = seconds_to_next({**self._cron_job, "status": self.status}, schedule, self._now)
        return Requeue(wait) if wait is not None else None

    async def _note_ends(self) -> None:
        listed = {one["uid"] for one in self._active}
        for job in self._jobs:
            name, end = job["metadata"]["name"], finished(job)
            if not end:
                if uid_of(job) not in listed:
                    message = f"Saw a job that the controller did not create or forgot: {name}"
                    self._event(WARNING, "UnexpectedJob", message)
                continue
            if uid_of(job) in listed:
                self._forget(uid_of(job))
                self._event(NORMAL, "SawCompletedJob", f"Saw completed job: {name}, condition: {end}")
            completed = (job.get("status") or {}).get("completionTime")
            if end == "Complete" and completed and completed > self.status.get("lastSuccessfulTime", ""):
                self.status["lastSuccessfulTime"] = completed
        present = set(map(uid_of, self._jobs))
        for one in self._active:
            if one["uid"] in present:
                continue
            try:
                await self._client.get(JOBS, one["name"], one["namespace"])
            except NotFound:
                self._event(NORMAL, "MissingJob", f"Active job went missing: {one['name']}")
                self._forget(one["uid"])

    def _schedule(self) -> Schedule | None:
        zone = self._spec.get("timeZone") or ""
        try:
            load_zone(zone)
        except ValueError as error:
            self._event(WARNING, "UnknownTimeZone", f'invalid timeZone: "{zone}": {error}')
            return None
        text = self._spec["schedule"]
        try:
            return parse_schedule(text, zone)
        except ValueError as error:
            self._event(WARNING, "UnparseableSchedule", f'unparseable schedule: "{text}" : {error}')
            return None

    def _may_start(self, moment: float) -> bool:
        deadline = self._spec.get("startingDeadlineSeconds")
        if deadline is not None and moment + deadline < self._now:
            when = datetime.fromtimestamp(moment, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            self._event(WARNING, "MissSchedule", f"Missed scheduled time to start a job: {when}")
            return False
        name = job_name(self._cron_job, moment)
        if any(one["name"] == name for one in self._active) or self.status.get("lastScheduleTime") == rfc3339(moment):
            return False
        if self._spec.get("concurrencyPolicy") == "Forbid" and self._active:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._event(NORMAL, "JobAlreadyActive", message)
            return False
        return True

    async def _start(self, moment: float) -> None:
        if self._spec.get("concurrencyPolicy") == "Replace":
            for one in self._active:
                await self._delete(one["name"], one["uid"])
        namespace = self._cron_job["metadata"]["namespace"]
        job = new_job(self._cron_job, moment)
        try:
            made = await self._client.create(JOBS, job, namespace)
            self._event(NORMAL, "SuccessfulCreate", f"Created job {made['metadata']['name']}")
        except AlreadyExists:
            made = await self._client.get(JOBS, job["metadata"]["name"], namespace)
            if not is_controlled_by(made, self._cron_job):
                return
        except ApiError as error:
            if not namespace_is_ending(error):
                self._event(WARNING, "FailedCreate", f"Error creating job: {error.message}")
            raise
        self.status["active"] = [*self._active, _reference(made)]
        self.status["lastScheduleTime"] = rfc3339(moment)

    async def _delete(self, name: str, uid: str) -> None:
        namespace = self._cron_job["metadata"]["namespace"]
        try:
            await self._client.delete(JOBS, name, namespace, propagation=Propagation.BACKGROUND, uid=uid)
        except NotFound:
            pass
        except ApiError as error:
            self._event(WARNING, "FailedDelete", f"Deleted job: {error.message}")
            raise
        self._forget(uid)
        self._event(NORMAL, "SuccessfulDelete", f"Deleted job {name}")

    def _forget(self, uid: str) -> None:
        self.status["active"] = [one for one in self._active if one["uid"] != uid]

    def _event(self, type: str, reason: str, message: str) -> None:
        self._controller.recorder.event(CRON_JOBS, self._cron_job, type, reason, message)


def _belongs(job: Mapping[str, Any], cron_job: Mapping[str, Any]) -> bool:
    reference = controller_of(job)
    return reference is not None and reference["uid"] == uid_of(cron_job)


def _reference(job: Mapping[str, Any]) -> Object:
    metadata = job["metadata"]
    return {
        "kind": "Job",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": "batch/v1",
        "resourceVersion": metadata["resourceVersion"],
    }
