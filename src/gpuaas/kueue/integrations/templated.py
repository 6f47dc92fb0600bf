"""Jobs made of several pod templates, each with a count: one pod set for each, in the job's order.

A kind says where its templates are (`parts`) and puts changed ones back (`with_templates`); starting, stopping and
the rules about topology follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.base.fielderrors import FieldError, child
from gpuaas.kueue.integrations import topology
from gpuaas.kueue.integrations.integration import Find, Finish, Suspendable
from gpuaas.kueue.integrations.podsets import Info, expect, injected, restored

Object = dict[str, Any]
View = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    count: int
    template: Object
    path: str
    """Of the template's metadata."""
    index_label: str = ""
    group_label: str = ""
    group_count: int | None = None
    added: tuple[Object, ...] = ()
    """Containers the kind's own operator will add."""


class Templated(Suspendable, ABC):
    @abstractmethod
    def parts(self, job: View, find: Find) -> list[Part]: ...

    @abstractmethod
    def with_templates(self, job: View, templates: Sequence[Object]) -> Object: ...

    def unsuspended(self, job: View) -> Object:
        return {**job, "spec": {**job["spec"], "suspend": False}}

    def pod_sets(self, job: View, find: Find) -> list[Object]:
        return [_pod_set(part) for part in self.parts(job, find)]

    def started(self, job: View, infos: Sequence[Info]) -> Object:
        parts = self.parts(job, _nothing)
        expect(infos, len(parts))
        changed = [injected(part.template, info) for part, info in zip(parts, infos, strict=True)]
        return self.unsuspended(self.with_templates(job, changed))

    def restored(self, job: View, infos: Sequence[Info]) -> Object:
        parts = self.parts(job, _nothing)
        if len(parts) != len(infos):
            return dict(job)  # another shape than was admitted: nothing to put back
        changed = [restored(part.template, info) for part, info in zip(parts, infos, strict=True)]
        return self.with_templates(job, changed)

    def create_errors(self, job: View, find: Find) -> list[FieldError]:
        parts = self.parts(job, find)
        found = [
            error for part in parts for error in topology.errors(part.path, part.template.get("metadata"), part.count)
        ]
        if found:
            return found
        paths = {part.name: child(part.path, "annotations") for part in parts}
        return topology.group_errors([_pod_set(part) for part in parts], paths)


def _pod_set(part: Part) -> Object:
    template = part.template
    if part.added:
        spec = template.get("spec") or {}
        template = {**template, "spec": {**spec, "containers": [*(spec.get("containers") or ()), *part.added]}}
    found: Object = {"name": part.name, "count": part.count, "template": template}
    asked = topology.request(
        part.template.get("metadata"),
        index_label=part.index_label,
        group_label=part.group_label,
        group_count=part.group_count,
    )
    if asked is not None:
        found["topologyRequest"] = asked
    return found


def _nothing(*_: Any) -> None:
    return None


def finish_by(job: View, succeeded: str, failed: str) -> Finish | None:
    """The end as conditions of the job tell it."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in (succeeded, failed):
            return Finish(condition.get("message", ""), condition["type"] == succeeded)
    return None


def count_of(value: Any, default: int) -> int:
    return default if value is None else int(value)
