"""What the pods of a job say, counted: who runs, who succeeded, who failed, and which indexes are done.

A `Tally` is a picture of one moment, made from the job, its pods and the clock; it changes nothing. A pod that still
has the tracking finalizer has not been counted in the status, unless its uid is among `uncountedTerminatedPods`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpuaas.base.clock import parse_rfc3339
from gpuaas.base.numbers import natural
from gpuaas.client.protocol import Object
from gpuaas.controllers.jobs.indexes import parse_indexes
from gpuaas.controllers.jobs.policies import match_failure
from gpuaas.runtime.metadata import annotations_of, finalizers_of, is_deleting, uid_of
from gpuaas.runtime.pods import condition_of, is_active, is_ready, is_terminating, phase_of

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"


@dataclass(frozen=True)
class Tally:
    job: Mapping[str, Any]
    pods: Sequence[Object]
    now: float
    status: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.job["spec"]
        return spec

    @cached_property
    def completions(self) -> int | None:
        completions: int | None = self.spec.get("completions")
        return completions

    @property
    def parallelism(self) -> int:
        parallelism = self.spec.get("parallelism")
        return 1 if parallelism is None else int(parallelism)

    @property
    def indexed(self) -> bool:
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def limits_each_index(self) -> bool:
        return self.indexed and self.spec.get("backoffLimitPerIndex") is not None

    @property
    def replaces_only_failed(self) -> bool:
        policy = self.spec.get("podReplacementPolicy")
        return policy == "Failed" or self.spec.get("podFailurePolicy") is not None

    @cached_property
    def active(self) -> list[Object]:
        return [pod for pod in self.pods if is_active(pod)]

    @cached_property
    def ready(self) -> int:
        return sum(map(is_ready, self.active))

    @cached_property
    def terminating(self) -> int:
        return sum(map(is_terminating, self.pods))

    @cached_property
    def uncounted_succeeded(self) -> list[str]:
        return list((self.status.get("uncountedTerminatedPods") or {}).get("succeeded") or ())

    @cached_property
    def uncounted_failed(self) -> list[str]:
        return list((self.status.get("uncountedTerminatedPods") or {}).get("failed") or ())

    @cached_property
    def newly_succeeded(self) -> list[Object]:
        return self._uncounted(self.uncounted_succeeded, lambda pod: phase_of(pod) == "Succeeded")

    @cached_property
    def newly_failed(self) -> list[Object]:
        return self._uncounted(self.uncounted_failed, self.is_failed)

    @cached_property
    def succeeded(self) -> int:
        if self.indexed:
            return len(self.succeeded_indexes)
        return int(self.status.get("succeeded", 0)) + len(self.newly_succeeded) + len(self.uncounted_succeeded)

    @cached_property
    def failed(self) -> int:
        counting = sum(match_failure(self.spec.get("podFailurePolicy"), pod).counts for pod in self.newly_failed)
        return int(self.status.get("failed", 0)) + counting + len(self.uncounted_failed)

    @cached_property
    def succeeded_before(self) -> set[int]:
        return parse_indexes(self.status.get("completedIndexes"), self.completions or 0)

    @cached_property
    def succeeded_indexes(self) -> set[int]:
        new = {index_of(pod) for pod in self.pods if phase_of(pod) == "Succeeded" and is_tracked(pod)}
        return self.succeeded_before | {index for index in new if self.is_valid(index)}

    @cached_property
    def failed_indexes(self) -> set[int]:
        known = parse_indexes(self.status.get("failedIndexes"), self.completions or 0)
        new = {index_of(pod) for pod in self.pods if is_tracked(pod) and self._fails_index(pod)}
        return known | {index for index in new if self.is_valid(index)}

    @cached_property
    def awaiting_replacement(self) -> dict[int, Object]:
        """By index, the last failed pod; it stays until its successor carries on the count of failures."""
        taken = self.succeeded_indexes | self.failed_indexes | {index_of(pod) for pod in self.active}
        waiting: dict[int, Object] = {}
        for pod in self._uncounted((), self.is_failed):
            index = index_of(pod)
            if index in taken:
                continue
            known = waiting.get(index)
            if known is None or _is_later(pod, known):
                waiting[index] = pod
        return waiting

    def is_valid(self, index: int) -> bool:
        return 0 <= index < (self.completions or 0)

    def is_failed(self, pod: Mapping[str, Any]) -> bool:
        if phase_of(pod) == "Failed":
            return True
        if self.replaces_only_failed:
            return False
        # A deleted pod may never get to say that it failed.
        return is_deleting(pod) and phase_of(pod) != "Succeeded"

    def _fails_index(self, pod: Object) -> bool:
        if not self.is_failed(pod):
            return False
        failure = match_failure(self.spec.get("podFailurePolicy"), pod)
        if failure.fails_index:
            return True
        return failure.counts and _count(pod, FAILURE_COUNT) >= self.spec["backoffLimitPerIndex"]

    def _uncounted(self, counted: Sequence[str], holds: Callable[[Object], bool]) -> list[Object]:
        return [
            pod
            for pod in self.pods
            if is_tracked(pod)
            and uid_of(pod) not in counted
            and (not self.indexed or self.is_valid(index_of(pod)))
            and holds(pod)
        ]


def is_tracked(pod: Mapping[str, Any]) -> bool:
    return FINALIZER in finalizers_of(pod)


def index_of(pod: Mapping[str, Any]) -> int:
    """-1 where the pod has none."""
    text = annotations_of(pod).get(INDEX, "")
    number = natural(text)
    return -1 if number is None else number


def failure_counts(job: Mapping[str, Any], replaced: Object | None) -> dict[str, str]:
    """The annotations that tell a new pod of an index how often that index has failed."""
    if replaced is None:
        return {FAILURE_COUNT: "0"}
    failures, ignored = _count(replaced, FAILURE_COUNT), _count(replaced, IGNORED_COUNT)
    if match_failure(job["spec"].get("podFailurePolicy"), replaced).counts:
        failures += 1
    else:
        ignored += 1
    counts = {FAILURE_COUNT: str(failures)}
    if ignored:
        counts[IGNORED_COUNT] = str(ignored)
    return counts


def total_failures(pod: Object) -> int:
    return _count(pod, FAILURE_COUNT) + _count(pod, IGNORED_COUNT)


def finished_at(pod: Mapping[str, Any]) -> float:
    """When the last container ended, or the best guess at it."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") or "" for one in statuses]
    if ends and all(ends):
        return max(map(parse_rfc3339, ends))
    ready = condition_of(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_rfc3339(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        return parse_rfc3339(metadata["deletionTimestamp"]) - (metadata.get("deletionGracePeriodSeconds") or 0)
    return parse_rfc3339(metadata["creationTimestamp"])


def _is_later(pod: Object, known: Object) -> bool:
    return total_failures(known) <= total_failures(pod) and finished_at(pod) >= finished_at(known)


def _count(pod: Mapping[str, Any], annotation: str) -> int:
    text = annotations_of(pod).get(annotation, "")
    return natural(text) or 0
