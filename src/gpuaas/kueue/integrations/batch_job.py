"""batch/v1 Job: one pod set, as many pods as run at once; may be admitted with fewer (`job-min-parallelism`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuaas.base.fielderrors import FieldError, forbidden, invalid, keyed
from gpuaas.base.numbers import natural
from gpuaas.client.resources import JOBS
from gpuaas.kueue.integrations import keys, topology
from gpuaas.kueue.integrations.integration import Find, Finish, Suspendable
from gpuaas.kueue.integrations.jobs import annotations_of, is_elastic
from gpuaas.kueue.integrations.podsets import Info, expect, injected, restored
from gpuaas.kueue.integrations.rules import ANNOTATIONS, integer_complaint
from gpuaas.kueue.integrations.slices import gated

Object = dict[str, Any]
View = Mapping[str, Any]

JOB_NAME = "batch.kubernetes.io/job-name"
INDEX = "batch.kubernetes.io/job-completion-index"
_CONTROLLERS_OWN = ("job-name", "controller-uid", JOB_NAME, "batch.kubernetes.io/controller-uid")
_TEMPLATE = "spec.template.metadata"


class BatchJob(Suspendable):
    framework = "batch/job"
    resource = JOBS
    webhook = "job"
    elastic = True
    steps = True

    def pod_sets(self, job: View, find: Find) -> list[Object]:
        template = job["spec"]["template"]
        metadata = template.get("metadata") or {}
        labels = {
            key: value
            for key, value in (metadata.get("labels") or {}).items()
            if key == JOB_NAME or key not in _CONTROLLERS_OWN
        }
        pod_set: Object = {
            "name": keys.MAIN,
            "template": {**template, "metadata": _tidy({**metadata, "labels": labels})},
            "count": pods_count(job),
        }
        least = min_count(job)
        if least is not None:
            pod_set["minCount"] = least
        asked = topology.request(metadata, index_label=INDEX)
        if asked is not None:
            pod_set["topologyRequest"] = asked
        return [pod_set]

    def is_suspended(self, job: View) -> bool:
        return bool(job["spec"].get("suspend")) and annotations_of(job).get(keys.STOPPING) != "true"

    def is_active(self, job: View) -> bool:
        return bool((job.get("status") or {}).get("active"))

    def started(self, job: View, infos: Sequence[Info]) -> Object:
        expect(infos, 1)
        spec = {**job["spec"], "suspend": False, "template": injected(job["spec"]["template"], infos[0])}
        return {**job, "spec": _resized(job, spec, infos[0].count)}

    def restored(self, job: View, infos: Sequence[Info]) -> Object:
        """What the Job controller itself put on the template stays."""
        template = job["spec"]["template"]
        labels = (template.get("metadata") or {}).get("labels") or {}
        own = {key: labels[key] for key in _CONTROLLERS_OWN if key in labels}
        info = replace(infos[0], labels={**infos[0].labels, **own})
        spec = {**job["spec"], "template": restored(template, info)}
        return {**job, "spec": _resized(job, spec, info.count)}

    def finished(self, job: View) -> Finish | None:
        for condition in (job.get("status") or {}).get("conditions") or ():
            if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
                return Finish(condition.get("message", ""), condition["type"] == "Complete")
        return None

    def pods_ready(self, job: View) -> bool:
        status = job.get("status") or {}
        uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
        done: int = status.get("succeeded", 0) + status.get("ready", 0) + len(uncounted)
        return done >= pods_count(job)

    def reclaimable(self, job: View, find: Find) -> dict[str, int]:
        spec, status = job["spec"], job.get("status") or {}
        parallelism = _or(spec.get("parallelism"), 1)
        completions = _or(spec.get("completions"), parallelism)
        ended = status.get("succeeded", 0)
        if spec.get("completionMode") == "Indexed":
            ended = _ended_indexes(status, completions)
        left = max(completions - ended, 0)
        return {keys.MAIN: parallelism - left} if parallelism > 1 and ended > 0 and left < parallelism else {}

    def default(self, job: Object) -> None:
        if is_elastic(job):
            job["spec"] = {**job["spec"], "template": gated(job["spec"]["template"])}

    def create_errors(self, job: View, find: Find) -> list[FieldError]:
        return [*_partial_errors(job), *_equal_errors(job), *_topology_errors(job)]

    def update_errors(self, job: View, old: View, find: Find) -> list[FieldError]:
        found: list[FieldError] = []
        if annotations_of(job).get(keys.MIN_PARALLELISM) != annotations_of(old).get(keys.MIN_PARALLELISM):
            found += _partial_errors(job)
        found += _equal_errors(job)
        found += self._partial_update_errors(job, old)
        return found + _topology_errors(job)

    def _partial_update_errors(self, job: View, old: View) -> list[FieldError]:
        found: list[FieldError] = []
        resized = _or(old["spec"].get("parallelism"), 1) != _or(job["spec"].get("parallelism"), 1)
        if keys.MIN_PARALLELISM in annotations_of(old) and not old["spec"].get("suspend") and resized:
            words = "cannot change when partial admission is enabled and the job is not suspended"
            found.append(forbidden("spec.parallelism", words))
        if not self.is_suspended(old) and not self.is_suspended(job) and _keeps_equal(old) != _keeps_equal(job):
            words = "field is immutable while the job is not suspended"
            found.append(forbidden(keyed(ANNOTATIONS, keys.EQUAL_COMPLETIONS), words))
        return found


def pods_count(job: View) -> int:
    parallelism = _or(job["spec"].get("parallelism"), 1)
    return min(parallelism, _or(job["spec"].get("completions"), parallelism))


def min_count(job: View) -> int | None:
    text = annotations_of(job).get(keys.MIN_PARALLELISM)
    return None if text is None or integer_complaint(text) else int(text)


def _resized(job: View, spec: Object, count: int) -> Object:
    if min_count(job) is None:
        return spec
    return {**spec, "parallelism": count, **({"completions": count} if _keeps_equal(job) else {})}


def _keeps_equal(job: View) -> bool:
    try:
        return topology.parse_bool(annotations_of(job).get(keys.EQUAL_COMPLETIONS, "false"))
    except ValueError:
        return False


def _ended_indexes(status: View, completions: int) -> int:
    ended: set[int] = set()
    for text in (status.get("completedIndexes"), status.get("failedIndexes")):
        for part in (text or "").split(","):
            first, _, last = part.partition("-")
            start, end = natural(first), natural(last or first)
            if start is not None and end is not None:
                ended.update(range(start, min(end, completions - 1) + 1))
    return len(ended)


def _partial_errors(job: View) -> list[FieldError]:
    text = annotations_of(job).get(keys.MIN_PARALLELISM)
    if text is None:
        return []
    path = keyed(ANNOTATIONS, keys.MIN_PARALLELISM)
    words = integer_complaint(text)
    found: list[FieldError] = []
    if words:
        found.append(invalid(path, text, words))
    elif not 0 < int(text) < pods_count(job):
        found.append(invalid(path, int(text), f"should be between 0 and {pods_count(job) - 1}"))
    if is_elastic(job):
        found.append(invalid(path, text, "partial admission and elastic job cannot be used together"))
    return found


def _equal_errors(job: View) -> list[FieldError]:
    text = annotations_of(job).get(keys.EQUAL_COMPLETIONS)
    if text is None:
        return []
    path, spec = keyed(ANNOTATIONS, keys.EQUAL_COMPLETIONS), job["spec"]
    try:
        wanted = topology.parse_bool(text)
    except ValueError as error:
        return [invalid(path, text, str(error))]
    found: list[FieldError] = []
    if wanted and spec.get("completionMode", "NonIndexed") == "NonIndexed":
        found.append(invalid(path, text, "should not be enabled for NonIndexed jobs"))
    if wanted and _or(spec.get("parallelism"), 1) != _or(spec.get("completions"), 1):
        words = f"should be equal to parallelism when {keys.EQUAL_COMPLETIONS} annotation is true"
        found.append(invalid("spec.completions", spec.get("completions"), words))
    return found


def _topology_errors(job: View) -> list[FieldError]:
    metadata = job["spec"]["template"].get("metadata")
    found = topology.errors(_TEMPLATE, metadata, pods_count(job))
    if found or not is_elastic(job):
        return found
    for kind, key in (("required", keys.REQUIRED_TOPOLOGY), ("preferred", keys.PREFERRED_TOPOLOGY)):
        if key in ((metadata or {}).get("annotations") or {}):
            path = f"{_TEMPLATE}.annotations.{key}"
            return [forbidden(path, f"{kind} topology is not supported with elastic jobs")]
    return []


def _tidy(metadata: Object) -> Object:
    return {key: value for key, value in metadata.items() if value}


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
