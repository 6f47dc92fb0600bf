"""From a workload to its job and back: by the annotations that name it, else by its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuaas.client.resources import PODS
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.jobs import annotations_of, prebuilt_of
from gpuaas.kueue.multikueue.names import HUB_WORKLOAD

View = Mapping[str, Any]


class Job(NamedTuple):
    group: str
    version: str
    kind: str
    names: tuple[str, ...]
    """One; of a group of pods, all."""

    @property
    def described(self) -> str:
        """As Go prints a GroupVersionKind."""
        return f"{self.group}/{self.version}, Kind={self.kind}"


def job_of(workload: View) -> Job | None:
    metadata = workload["metadata"]
    notes = metadata.get("annotations") or {}
    named = notes.get(keys.JOB_OWNER_KIND, "")
    if named and notes.get(keys.JOB_OWNER_NAME):
        version, _, kind = named.partition(", Kind=")
        group, _, version = version.rpartition("/")
        return Job(group, version, kind, (notes[keys.JOB_OWNER_NAME],))
    owners = metadata.get("ownerReferences") or ()
    if not owners:
        return None
    owner = next((each for each in owners if each.get("controller")), owners[0])
    group, _, version = owner.get("apiVersion", "").rpartition("/")
    alike = [each["name"] for each in owners if each.get("kind") == owner["kind"]]
    names = tuple(alike) if owner["kind"] == PODS.kind else (owner["name"],)
    return Job(group, version, owner["kind"], names)


def workload_named(job: View) -> str:
    """The workload a remote job was made for."""
    return prebuilt_of(job) or annotations_of(job).get(HUB_WORKLOAD, "")
