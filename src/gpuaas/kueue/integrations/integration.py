"""What a kind must be able to say about itself and have done to it, so that Kueue can hold it.

Three interfaces, each the one before and more: every kind that is held is an `Integration`, which the API asks what it is
called and allows. A `Queueable` has workloads made of it and is judged by how its pods do. A `Suspendable` is stopped and
started by a switch of its own; pods, which are stopped by deletion, are only queueable, and sets held by their pods neither.

Jobs are plain objects and are never changed in place: `suspended`, `started` and `restored` give the job as it should
become. `Find` looks other objects up (a training runtime, say).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.base.fielderrors import FieldError
from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations.podsets import Info

Object = dict[str, Any]
View = Mapping[str, Any]
Find = Callable[[Resource, str, str], "Object | None"]
"""(resource, namespace, name)"""


@dataclass(frozen=True, slots=True)
class Finish:
    message: str
    success: bool


class CannotCompose(Exception):
    """No workload can be made of the job as it is; it has to be changed first."""


class Integration:
    framework = ""
    """The name configuration and events know it by."""
    resource: Resource
    webhook = ""
    """The last part of its webhooks' names: v<webhook>.kb.io."""
    elastic = False
    """May grow and shrink while it runs, if its job says so; see `slices`."""

    def priority_class(self, job: View) -> str | None:
        """A pod priority class the job itself names; None leaves it to the templates."""
        return None


class Queueable(Integration, ABC):
    prebuilt = True
    """May use a workload made beforehand."""
    steps = False
    """Is stopped in steps: its templates can be restored only once it has no start time."""

    @abstractmethod
    def pod_sets(self, job: View, find: Find) -> list[Object]: ...

    @abstractmethod
    def is_suspended(self, job: View) -> bool: ...

    @abstractmethod
    def is_active(self, job: View) -> bool:
        """Whether pods of it may still run."""

    @abstractmethod
    def finished(self, job: View) -> Finish | None: ...

    @abstractmethod
    def pods_ready(self, job: View) -> bool: ...

    def reclaimable(self, job: View, find: Find) -> dict[str, int]:
        """Pods that will not run again, by pod set."""
        return {}

    def on_hold(self, job: View) -> bool:
        return False

    def is_wanted(self, job: View) -> bool:
        """False while its user has stopped it: then its workload is deactivated."""
        return True

    def slice_name_part(self, job: View) -> str:
        """What tells the slices of an elastic job apart, in their names."""
        return str(job["metadata"].get("generation", 1))

    def slice_notes(self, job: View, pod_sets: Sequence[View], find: Find) -> dict[str, str]:
        """What an elastic job is annotated with."""
        return {}


class Suspendable(Queueable, ABC):
    needs: tuple[Resource, ...] = ()
    """What `pod_sets` looks up besides the job."""
    children: tuple[Resource, ...] = ()
    """Of these, news of those the job controls are the job's."""
    stops_itself = False
    """Its user may stop it by the very switch that suspends it; then its templates are restored afterwards."""
    defaults_all = False
    """Whether `default` concerns jobs of no queue too."""
    checks_only_held = False
    """Its webhook looks only at jobs that are or were held."""

    def handles(self, job: View) -> bool:
        """False for jobs of the kind that run elsewhere or belong to others."""
        return True

    def is_suspended(self, job: View) -> bool:
        return bool((job.get("spec") or {}).get("suspend"))

    def suspended(self, job: View) -> Object:
        return {**job, "spec": {**job["spec"], "suspend": True}}

    @abstractmethod
    def started(self, job: View, infos: Sequence[Info]) -> Object:
        """Unsuspended, with what its pods need; raises CannotStart."""

    @abstractmethod
    def restored(self, job: View, infos: Sequence[Info]) -> Object:
        """Its templates as they were; `infos` is never empty."""

    # At the API.

    def default(self, job: Object) -> None:
        """Changes a new job that will be held, beyond suspending it."""

    def create_errors(self, job: View, find: Find) -> list[FieldError]:
        return []

    def update_errors(self, job: View, old: View, find: Find) -> list[FieldError]:
        return self.create_errors(job, find)
