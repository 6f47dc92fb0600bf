"""What a stateful set promises: pods with names that stay, in order, with their claims."""

import json
from typing import Any

from gpuaas.client.protocol import PatchKind
from gpuaas.client.resources import CLAIMS, CONTROLLER_REVISIONS, PODS, STATEFUL_SETS
from gpuaas.controllers.claim_protection import ClaimProtectionController
from gpuaas.controllers.garbage import GarbageCollector
from gpuaas.controllers.stateful_sets import StatefulSetController
from gpuaas.runtime.metadata import owners_of
from gpuaas.testing.objects import stateful_set
from gpuaas.testing.time import Stage, scenario, stage

Object = dict[str, Any]
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
DATA = [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]


def _names(on: Stage) -> list[str]:
    return [pod["metadata"]["name"] for pod in on.cluster.all(PODS)]


async def _ready(on: Stage, name: str) -> None:
    on.cluster.set_status(PODS, name, "default", phase="Running", conditions=[READY])
    await on.settle()


async def _all_ready(on: Stage) -> None:
    for _ in range(8):
        await on.settle()
        for pod in on.cluster.all(PODS):
            if pod.get("status", {}).get("phase") != "Running":
                await _ready(on, pod["metadata"]["name"])


def _status(on: Stage) -> Object:
    status: Object = on.cluster.read(STATEFUL_SETS, "db", "default")["status"]
    return status


@scenario
async def test_pods_come_one_after_the_other_each_with_its_claim() -> None:
    async with stage(StatefulSetController) as on:
        on.cluster.put(STATEFUL_SETS, stateful_set("db", 3, volumeClaimTemplates=DATA))
        await on.settle()
        assert _names(on) == ["db-0"], "the next waits until this one is available"
        await _ready(on, "db-0")
        assert _names(on) == ["db-0", "db-1"]
        await _all_ready(on)
        assert _names(on) == ["db-0", "db-1", "db-2"]
        assert [claim["metadata"]["name"] for claim in on.cluster.all(CLAIMS)] == [
            "data-db-0",
            "data-db-1",
            "data-db-2",
        ]
        first = on.cluster.read(PODS, "db-0", "default")
        assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("db-0", "db")
        assert first["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
        assert first["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
        assert (_status(on)["readyReplicas"], _status(on)["currentReplicas"]) == (3, 3)
        assert on.cluster.events()[:2] == [
            "Normal SuccessfulCreate statefulset/db Create Claim data-db-0 Pod db-0 in StatefulSet db success",
            "Normal SuccessfulCreate statefulset/db Create Pod db-0 in StatefulSet db successful",
        ]


@scenario
async def test_scaling_down_takes_the_last_first_and_keeps_the_claims() -> None:
    async with stage(StatefulSetController) as on:
        on.cluster.put(STATEFUL_SETS, stateful_set("db", 3, volumeClaimTemplates=DATA))
        await _all_ready(on)
        await on.cluster.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}}, "default")
        await on.settle()
        assert _names(on) == ["db-0"]
        deleted = [write.key for write in on.cluster.writes if write.verb == "delete"]
        assert deleted == ["default/db-2", "default/db-1"]
        assert len(on.cluster.all(CLAIMS)) == 3


@scenario
async def test_in_parallel_nobody_waits() -> None:
    async with stage(StatefulSetController) as on:
        on.cluster.put(STATEFUL_SETS, stateful_set("db", 3, podManagementPolicy="Parallel"))
        await on.settle()
        assert _names(on) == ["db-0", "db-1", "db-2"]
        await on.cluster.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}}, "default")
        await on.settle()
        assert _names(on) == ["db-0"]


@scenario
async def test_an_update_goes_from_the_last_to_the_partition_and_keeps_a_history() -> None:
    async with stage(StatefulSetController) as on:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        on.cluster.put(STATEFUL_SETS, stateful_set("db", 3, updateStrategy=rolling))
        await _all_ready(on)
        patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "two"}]
        await on.cluster.patch(STATEFUL_SETS, "db", patch, "default", kind=PatchKind.JSON)
        await on.settle()
        await _all_ready(on)
        images = [pod["spec"]["containers"][0]["image"] for pod in on.cluster.all(PODS)]
        assert images == ["busybox", "two", "two"]
        assert [one["revision"] for one in on.cluster.all(CONTROLLER_REVISIONS)] in ([1, 2], [2, 1])
        for one in on.cluster.all(CONTROLLER_REVISIONS):
            assert json.dumps(one["data"]) == json.dumps(one["data"], sort_keys=True), "as Go would write it"
        assert _status(on)["currentRevision"] != _status(on)["updateRevision"]
        whole = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        await on.cluster.patch(STATEFUL_SETS, "db", whole, "default")
        await on.settle()
        await _all_ready(on)
        assert _status(on)["currentRevision"] == _status(on)["updateRevision"]
        assert _status(on)["updatedReplicas"] == 3


@scenario
async def test_a_pod_that_ended_is_replaced_under_its_name() -> None:
    async with stage(StatefulSetController) as on:
        on.cluster.put(STATEFUL_SETS, stateful_set("db", 1))
        await _all_ready(on)
        before = on.cluster.read(PODS, "db-0", "default")["metadata"]["uid"]
        on.cluster.set_status(PODS, "db-0", "default", phase="Failed")
        await on.settle()
        assert on.cluster.read(PODS, "db-0", "default")["metadata"]["uid"] != before


@scenario
async def test_claims_go_with_the_set_only_where_that_was_asked_for() -> None:
    async with stage(StatefulSetController, GarbageCollector, ClaimProtectionController) as on:
        for name, policy in (("kept", "Retain"), ("gone", "Delete")):
            spec = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": policy, "whenScaled": "Retain"}}
            on.cluster.put(STATEFUL_SETS, stateful_set(name, 1, volumeClaimTemplates=DATA, **spec))
        await on.settle()
        assert [len(owners_of(claim)) for claim in on.cluster.all(CLAIMS)] == [1, 0]
        for name in ("kept", "gone"):
            on.cluster.remove(STATEFUL_SETS, name, "default")
        await on.settle()
        assert [claim["metadata"]["name"] for claim in on.cluster.all(CLAIMS)] == ["data-kept-0"]


@scenario
async def test_a_deleted_claim_stays_while_a_pod_uses_it() -> None:
    async with stage(StatefulSetController, ClaimProtectionController) as on:
        on.cluster.put(STATEFUL_SETS, stateful_set("db", 1, volumeClaimTemplates=DATA))
        await on.settle()
        await on.cluster.patch(
            CLAIMS, "data-db-0", {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}, "default"
        )
        on.cluster.remove(CLAIMS, "data-db-0", "default")
        await on.settle()
        assert on.cluster.exists(CLAIMS, "data-db-0", "default")
        on.cluster.remove(STATEFUL_SETS, "db", "default")
        on.cluster.remove(PODS, "db-0", "default")
        await on.settle()
        assert not on.cluster.exists(CLAIMS, "data-db-0", "default")
