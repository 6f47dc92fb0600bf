"""Kubeflow's Notebook: one pod, held by the annotation that stops a notebook.

Upstream has no such integration; there a notebook's StatefulSet is held. A notebook its user stopped carries the same
annotation with another value: then its workload is deactivated, and active again when the user starts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.client.protocol import Resource
from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.integration import Find, Finish, Suspendable
from gpuaas.kueue.integrations.jobs import annotations_of
from gpuaas.kueue.integrations.podsets import Info, expect, injected, restored

Object = dict[str, Any]
View = Mapping[str, Any]

NOTEBOOKS = Resource("kubeflow.org", "v1", "notebooks", True, "Notebook")
STOPPED = "kubeflow-resource-stopped"
BY_KUEUE = "kueue.x-k8s.io/suspended"


class Notebook(Suspendable):
    framework = "kubeflow.org/notebook"
    resource = NOTEBOOKS
    webhook = "notebook"
    prebuilt = False
    stops_itself = True

    def pod_sets(self, job: View, find: Find) -> list[Object]:
        template = (job.get("spec") or {}).get("template") or {}
        return [{"name": keys.MAIN, "count": 1, "template": {"spec": dict(template.get("spec") or {})}}]

    def is_suspended(self, job: View) -> bool:
        return STOPPED in annotations_of(job)

    def is_wanted(self, job: View) -> bool:
        return annotations_of(job).get(STOPPED, BY_KUEUE) == BY_KUEUE

    def is_active(self, job: View) -> bool:
        status = job.get("status") or {}
        return bool(status.get("readyReplicas")) or "running" in (status.get("containerState") or {})

    def suspended(self, job: View) -> Object:
        return _annotated(job, {**annotations_of(job), STOPPED: annotations_of(job).get(STOPPED, BY_KUEUE)})

    def started(self, job: View, infos: Sequence[Info]) -> Object:
        expect(infos, 1)
        left = {key: value for key, value in annotations_of(job).items() if key != STOPPED}
        return _with_template(_annotated(job, left), injected(job["spec"]["template"], infos[0]))

    def restored(self, job: View, infos: Sequence[Info]) -> Object:
        return _with_template(job, restored(job["spec"]["template"], infos[0]))

    def finished(self, job: View) -> Finish | None:
        return None

    def pods_ready(self, job: View) -> bool:
        return bool((job.get("status") or {}).get("readyReplicas"))


def _with_template(job: View, template: View) -> Object:
    """A notebook's template has no metadata of its own."""
    return {**job, "spec": {**job["spec"], "template": {"spec": template["spec"]}}}


def _annotated(job: View, annotations: Mapping[str, str]) -> Object:
    metadata = {key: value for key, value in job["metadata"].items() if key != "annotations"}
    return {**job, "metadata": {**metadata, **({"annotations": dict(annotations)} if annotations else {})}}
