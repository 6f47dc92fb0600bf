"""What of a job its worker gets."""

from __future__ import annotations

from typing import Any

from gpuaas.kueue.multikueue.adapters import ADAPTERS
from gpuaas.kueue.multikueue.copies import remote_job


def test_a_hardware_profile_stays_on_the_hub_which_has_applied_it() -> None:
    notes = {
        "opendatahub.io/hardware-profile-name": "one-l4",
        "opendatahub.io/hardware-profile-namespace": "shared",
        "team": "a",
    }
    container = {"name": "main", "image": "x", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    template = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team", "uid": "1", "annotations": notes},
        "spec": {"suspend": True, "template": template},
    }
    workload = {"metadata": {"name": "job-train"}, "spec": {"podSets": []}}
    adapter = next(each for each in ADAPTERS.values() if each.framework == "batch/job")
    made = remote_job(adapter, job, workload, "multikueue", "hub")
    kept = {key for key in made["metadata"]["annotations"] if not key.startswith(("gpuaas.dev/", "kueue.x-k8s.io/"))}
    assert kept == {"team"}
    assert made["spec"]["template"]["spec"]["containers"] == [container]
