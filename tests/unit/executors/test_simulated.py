"""What simulated nodes promise: pods start, run, write and end in time, and not one second is slept for it."""

from typing import Any

import pytest

from gpuaas.apiserver.logs import LogOptions
from gpuaas.base.clock import VirtualClock
from gpuaas.client.resources import JOBS, LEASES, NODES, PODS, REPLICA_SETS
from gpuaas.controllers.jobs import JobController
from gpuaas.controllers.node_lifecycle import NodeLifecycleController
from gpuaas.controllers.pod_scheduler import PodScheduler
from gpuaas.controllers.replica_sets import ReplicaSetController
from gpuaas.executors import heartbeat
from gpuaas.executors.heartbeat import NodeKeeper
from gpuaas.executors.logs import Logs
from gpuaas.executors.nodes import NodeSpec
from gpuaas.executors.owners import Owners
from gpuaas.executors.simulated import SimulatedKubelet
from gpuaas.executors.simulated_logs import SimulatedLines
from gpuaas.runtime.controller import Controller, Deps
from gpuaas.runtime.pods import condition_of, is_ready
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import job, pod, replica_set
from gpuaas.testing.time import Stage, scenario, stage

SPECS = [NodeSpec("n0", instance_type="g6", gpu_product="NVIDIA-L4", gpu_count=4), NodeSpec("n1", address="10.0.0.2")]


def keeper(deps: Deps) -> Controller:
    return NodeKeeper(deps, SPECS, "simulated")


def kubelet(deps: Deps) -> Controller:
    return SimulatedKubelet(deps, SPECS)


def shell_pod(name: str, text: str, *, policy: str = "Never", node: str = "n1", **annotations: str) -> Any:
    made = pod(name, node=node, annotations={f"gpuaas.dev/{key}": value for key, value in annotations.items()})
    made["spec"]["containers"][0]["command"] = ["sh", "-c", text]
    return {**made, "spec": {**made["spec"], "restartPolicy": policy}}


def status(on: Stage, name: str = "p") -> Any:
    return on.cluster.read(PODS, name, "default")["status"]


def state(on: Stage, name: str = "p") -> Any:
    return status(on, name)["containerStatuses"][0]["state"]


@scenario
async def test_nodes_register_with_what_they_have_and_keep_their_leases() -> None:
    async with stage(keeper, NodeLifecycleController) as on:
        await on.advance(100)
        found = on.cluster.read(NODES, "n0")
        offers = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "200Gi", "pods": "110", "nvidia.com/gpu": "4"}
        assert found["status"]["allocatable"] == offers
        labels = found["metadata"]["labels"]
        assert labels["nvidia.com/gpu.product"] == "NVIDIA-L4"
        assert labels["nvidia.com/gpu.count"] == "4"
        assert labels["kubernetes.io/hostname"] == "n0"
        for old, new in (
            ("beta.kubernetes.io/os", "kubernetes.io/os"),
            ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
            ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
        ):
            assert labels[old] == labels[new], "manifests of old ask for the names of old; kubelets carry both"
        assert not found["spec"].get("taints")
        assert {one["metadata"]["name"] for one in on.cluster.all(LEASES)} == {"n0", "n1"}


class PutBack(VirtualClock):
    """A wall clock that can be put back, beside a monotonic one that cannot."""

    back = 0.0

    def now(self) -> float:
        return super().now() - self.back


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_is_put_back_a_day_holds_no_job_up(restarted: bool) -> None:
    clock = PutBack()
    cluster = FakeCluster(clock)

    @scenario
    async def run() -> None:
        async with stage(keeper, kubelet, cluster=cluster) as on:
            cluster.put(PODS, shell_pod("p", "sleep 100"))
            await on.advance(50)
            assert status(on)["phase"] == "Running"
            clock.back = 86_400.0
            if not restarted:
                await wait(on, 60)
                assert status(on)["phase"] == "Succeeded"
        if restarted:
            async with stage(keeper, kubelet, cluster=cluster) as on:
                await wait(on, 110)
                assert status(on)["phase"] == "Succeeded"

    async def wait(on: Stage, seconds: int) -> None:
        for _ in range(seconds):  # `advance` reckons with one clock only
            clock.advance(1.0)
            await on.settle()

    run()


@scenario
async def test_a_pod_is_created_runs_and_ends() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("p", "echo hi; sleep 5"))
        await on.settle()
        assert status(on)["phase"] == "Pending"
        assert state(on) == {"waiting": {"reason": "ContainerCreating"}}
        await on.advance(1)
        found = on.cluster.read(PODS, "p", "default")
        assert found["status"]["phase"] == "Running"
        assert is_ready(found)
        placed = condition_of(found, "PodScheduled")
        assert placed is not None, "a kubelet says so of every pod it has"
        assert placed["status"] == "True"
        assert found["status"]["podIP"] == "10.128.0.2"
        assert found["status"]["hostIP"] == "10.0.0.2"
        await on.advance(5)
        assert status(on)["phase"] == "Succeeded"
        assert state(on)["terminated"]["exitCode"] == 0
        assert state(on)["terminated"]["reason"] == "Completed"
        ready = condition_of(on.cluster.read(PODS, "p", "default"), "Ready")
        assert ready is not None
        assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")
        assert [line.split()[1] for line in on.cluster.events()] == ["Pulled", "Created", "Started"]


@pytest.mark.parametrize(
    ("wish", "phase", "reason"),
    [
        ("3", "Failed", "Error"),
        ("OOMKilled", "Failed", "OOMKilled"),
        ("ImagePullBackOff", "Pending", "ImagePullBackOff"),
    ],
)
@scenario
async def test_failures_on_request(wish: str, phase: str, reason: str) -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("p", "sleep 2", fail=wish))
        await on.advance(10)
        assert status(on)["phase"] == phase
        assert next(iter(state(on).values()))["reason"] == reason


@scenario
async def test_a_slow_start_is_waited_for() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("p", "sleep 2", **{"start-seconds": "60"}))
        await on.advance(59)
        assert status(on)["phase"] == "Pending"
        await on.advance(2)
        assert status(on)["phase"] == "Running"


@scenario
async def test_a_container_that_is_to_run_always_comes_back_after_a_pause() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("p", "sleep 2; exit 1", policy="Always"))
        await on.advance(3)
        assert state(on)["waiting"]["reason"] == "CrashLoopBackOff"
        assert status(on)["containerStatuses"][0]["restartCount"] == 1
        await on.advance(10)
        assert "running" in state(on)
        assert status(on)["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


@scenario
async def test_a_deleted_pod_ends_within_its_grace_and_goes() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("p", "sleep 1000", **{"stop-seconds": "10"}))
        await on.advance(5)
        on.cluster.remove(PODS, "p", "default")
        await on.advance(9)
        assert on.cluster.exists(PODS, "p", "default")
        await on.advance(2)
        assert not on.cluster.exists(PODS, "p", "default")
        assert "Normal Killing pod/p Stopping container main" in on.cluster.events()


@scenario
async def test_a_lost_node_falls_silent_with_its_pods_and_goes_on_when_it_is_back() -> None:
    async with stage(keeper, kubelet, NodeLifecycleController) as on:
        await on.settle()
        on.cluster.put(PODS, shell_pod("p", "sleep 30"))
        await on.advance(5)
        await on.cluster.patch(NODES, "n1", {"metadata": {"annotations": {"gpuaas.dev/lost": "true"}}})
        await on.advance(100)
        assert status(on)["phase"] == "Running"
        assert on.cluster.read(NODES, "n1")["spec"]["taints"][0]["key"] == "node.kubernetes.io/unreachable"
        await on.cluster.patch(NODES, "n1", {"metadata": {"annotations": {"gpuaas.dev/lost": None}}})
        await on.advance(5)
        assert not on.cluster.read(NODES, "n1")["spec"].get("taints")
        assert status(on)["phase"] == "Succeeded"


@scenario
async def test_a_large_fleet_renews_more_seldom_stays_ready_and_a_lost_node_is_found_as_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeat, "RENEWALS", 0.04)  # two nodes are many: each renews every 50 seconds
    async with stage(keeper, NodeLifecycleController) as on:
        renewals = set[tuple[str, str]]()
        for _ in range(400):
            await on.advance(1)
            for lease in on.cluster.all(LEASES):
                renewals.add((lease["metadata"]["name"], lease["spec"]["renewTime"]))
            assert not any(one["spec"].get("taints") for one in on.cluster.all(NODES))
        assert {lease["spec"]["leaseDurationSeconds"] for lease in on.cluster.all(LEASES)} == {200}
        for name in ("n0", "n1"):
            times = sorted(at for of, at in renewals if of == name)
            assert 7 <= len(times) <= 10
        assert not {at for of, at in renewals if of == "n0"} & {
            at for of, at in renewals if of == "n1" and at > times[0]
        }
        await on.cluster.patch(NODES, "n1", {"metadata": {"annotations": {"gpuaas.dev/lost": "true"}}})
        await on.advance(101)
        assert on.cluster.read(NODES, "n1")["spec"]["taints"][0]["key"] == "node.kubernetes.io/unreachable"
        assert not on.cluster.read(NODES, "n0")["spec"].get("taints")
        await on.cluster.patch(NODES, "n1", {"metadata": {"annotations": {"gpuaas.dev/lost": None}}})
        await on.advance(5)
        assert not on.cluster.read(NODES, "n1")["spec"].get("taints")


@scenario
async def test_a_pod_is_ready_no_sooner_than_its_probe_asks() -> None:
    async with stage(keeper, kubelet) as on:
        for name, probe in (
            ("late", {"httpGet": {"port": 80}, "initialDelaySeconds": 15}),
            ("never", {"exec": {"command": ["/bin/false"]}}),
        ):
            one = shell_pod(name, "sleep 1000", policy="Always")
            one["spec"]["containers"][0]["readinessProbe"] = probe
            on.cluster.put(PODS, one)
        await on.advance(5)
        late = on.cluster.read(PODS, "late", "default")
        assert (late["status"]["phase"], is_ready(late)) == ("Running", False)
        assert late["status"]["containerStatuses"][0]["started"] is True
        await on.advance(12)
        late = on.cluster.read(PODS, "late", "default")
        assert is_ready(late)
        ready, begun = condition_of(late, "Ready"), late["status"]["containerStatuses"][0]["state"]["running"]
        assert ready is not None
        assert ready["lastTransitionTime"] > begun["startedAt"]
        assert not is_ready(on.cluster.read(PODS, "never", "default"))


@scenario
async def test_a_pod_does_not_outlive_its_deadline_even_if_that_comes_later() -> None:
    async with stage(keeper, kubelet) as on:
        one = shell_pod("p", "sleep 1000", policy="Always")
        one["spec"]["activeDeadlineSeconds"] = 30
        on.cluster.put(PODS, one)
        await on.advance(20)
        assert status(on)["phase"] == "Running"
        await on.cluster.patch(PODS, "p", {"spec": {"activeDeadlineSeconds": 25}}, "default")
        await on.advance(4)
        assert status(on)["phase"] == "Running"
        await on.advance(2)
        assert (status(on)["phase"], status(on)["reason"]) == ("Failed", "DeadlineExceeded")
        assert state(on)["terminated"]["exitCode"] == 137


def with_init(policy: str, *texts: str) -> Any:
    one = shell_pod("p", "sleep 1000", policy=policy)
    commands = [(f"init{number}", ["sh", "-c", text]) for number, text in enumerate(texts, 1)]
    one["spec"]["initContainers"] = [{"name": name, "image": "i", "command": words} for name, words in commands]
    return one


@scenario
async def test_init_containers_take_their_time() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, with_init("Never", "sleep 5", "sleep 10"))
        await on.advance(14)
        assert status(on)["phase"] == "Pending"
        await on.advance(2)
        assert status(on)["phase"] == "Running"
        assert [one["state"]["terminated"]["exitCode"] for one in status(on)["initContainerStatuses"]] == [0, 0]


@scenario
async def test_an_init_container_that_fails_ends_a_pod_that_is_not_to_be_restarted() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, with_init("Never", "true", "exit 3", "true"))
        await on.advance(5)
        found = status(on)
        assert found["phase"] == "Failed"
        states = [one["state"] for one in found["initContainerStatuses"]]
        assert [list(each) for each in states] == [["terminated"], ["terminated"], ["waiting"]]
        assert states[1]["terminated"]["exitCode"] == 3
        assert state(on) == {"waiting": {"reason": "PodInitializing"}}
        initialized = condition_of(on.cluster.read(PODS, "p", "default"), "Initialized")
        assert initialized is not None
        assert initialized["message"] == "containers with incomplete status: [init2 init3]"


@scenario
async def test_an_init_container_that_fails_is_tried_again_and_again() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, with_init("Always", "false"))
        await on.advance(100)
        found = status(on)
        assert found["phase"] == "Pending"
        (init,) = found["initContainerStatuses"]
        assert init["restartCount"] >= 3
        assert init["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert init["lastState"]["terminated"]["exitCode"] == 1


@scenario
async def test_what_comes_to_a_running_pod_is_seen() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("p", "sleep 1000"))
        await on.advance(2)
        made = on.cluster.read(PODS, "p", "default")["metadata"].get("generation")
        assert status(on).get("observedGeneration") == made
        look = {"name": "look", "image": "busybox"}
        await on.cluster.patch(PODS, "p", {"spec": {"ephemeralContainers": [look]}}, "default")
        await on.advance(2)
        (shown,) = status(on)["ephemeralContainerStatuses"]
        assert (shown["name"], list(shown["state"])) == ("look", ["running"])
        assert status(on).get("observedGeneration") == on.cluster.read(PODS, "p", "default")["metadata"].get(
            "generation"
        )
        on.cluster.writes.clear()
        await on.advance(100)
        assert [write for write in on.cluster.writes if write.resource == "pods"] == []


@scenario
async def test_a_pod_that_was_put_on_a_node_whose_port_is_taken_is_rejected() -> None:
    async with stage(keeper, kubelet) as on:
        for name in ("first", "second", "other"):
            one = shell_pod(name, "sleep 1000", policy="Always")
            one["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 81 if name == "other" else 80}]
            on.cluster.put(PODS, one)
            await on.advance(2)
        found = {name: status(on, name) for name in ("first", "second", "other")}
        assert [found[name]["phase"] for name in found] == ["Running", "Failed", "Running"]
        assert found["second"]["reason"] == "NodePorts"


@scenario
async def test_pods_put_on_a_node_past_the_scheduler_are_taken_as_far_as_there_is_room() -> None:
    async with stage(keeper, kubelet) as on:
        for name in ("a", "b", "c"):  # at once: whoever is looked at first is counted before the next
            on.cluster.put(PODS, {**pod(name, node="n1", requests={"cpu": "3"})})
        await on.advance(2)
        found = {name: status(on, name) for name in ("a", "b", "c")}
        assert sorted(each["phase"] for each in found.values()) == ["Failed", "Running", "Running"]
        (name,) = (name for name, each in found.items() if each["phase"] == "Failed")
        words = "Node didn't have enough resource: cpu, requested: 3000, used: 6000, capacity: 8000"
        assert (found[name]["reason"], found[name]["message"]) == ("OutOfcpu", f"Pod was rejected: {words}")
        assert f"Warning OutOfcpu pod/{name} {words}" in on.cluster.events()
        on.cluster.put(PODS, {**pod("d", node="n1", requests={"cpu": "2"})})
        await on.advance(2)
        assert status(on, "d")["phase"] == "Running", "who was turned away takes no room"


@scenario
async def test_whom_the_scheduler_placed_is_turned_away_only_where_somebody_went_past_it() -> None:
    async with stage(keeper, kubelet) as on:
        for name in ("past", "placed"):
            made = pod(name, node="n1", requests={"cpu": "5"})
            if name == "placed":
                made["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
            on.cluster.put(PODS, made)
            await on.advance(2)
        assert (status(on, "past")["phase"], status(on, "placed")["reason"]) == ("Running", "OutOfcpu")


@scenario
async def test_a_job_counts_pods_its_node_turns_away_as_failed() -> None:
    async with stage(keeper, kubelet, JobController) as on:
        made = job("train", backoffLimit=1)
        made["spec"]["template"]["spec"] |= {"nodeName": "n1", "nodeSelector": {"zone": "elsewhere"}}
        on.cluster.put(JOBS, made)
        await on.advance(100)
        found = on.cluster.read(JOBS, "train", "default")["status"]
        assert found["failed"] == 2
        assert [each["reason"] for each in found["conditions"] if each["type"] == "Failed"] == ["BackoffLimitExceeded"]
        assert {each["status"]["reason"] for each in on.cluster.all(PODS)} == {"NodeAffinity"}


@scenario
async def test_a_set_whose_pods_are_turned_away_replaces_them_ever_more_rarely() -> None:
    async with stage(keeper, kubelet, ReplicaSetController) as on:
        made = replica_set("web", 2)
        made["spec"]["template"]["spec"] |= {"nodeName": "n1", "nodeSelector": {"zone": "elsewhere"}}
        on.cluster.put(REPLICA_SETS, made)
        await on.advance(10)
        early = len(on.cluster.all(PODS))
        await on.advance(90)
        assert 4 <= early <= 12
        assert early < len(on.cluster.all(PODS)) <= 2 * early + 4


@scenario
async def test_the_run_time_may_stand_on_the_job() -> None:
    async with stage(keeper, kubelet, NodeLifecycleController, PodScheduler, JobController) as on:
        made = job("train")
        made["metadata"]["annotations"] = {"gpuaas.dev/run-seconds": "60"}
        on.cluster.put(JOBS, made)
        await on.advance(55)
        assert on.cluster.read(JOBS, "train", "default")["status"]["active"] == 1
        await on.advance(10)
        assert on.cluster.read(JOBS, "train", "default")["status"]["succeeded"] == 1


@scenario
async def test_a_kubelet_that_comes_back_takes_up_what_runs() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("p", "sleep 30"))
        await on.advance(10)
        cluster = on.cluster
    async with stage(keeper, kubelet, cluster=cluster) as on:
        await on.advance(15)
        assert status(on)["phase"] == "Running"
        assert status(on)["containerStatuses"][0]["restartCount"] == 0
        await on.advance(10)
        assert status(on)["phase"] == "Succeeded"


async def read(on: Stage, **options: Any) -> list[str]:
    informers = on.deps.informers
    lines = SimulatedLines(Owners(on.deps.client, on.deps.discovery), informers.of(PODS), on.clock, 1.0)
    logs = Logs({"simulated": lines}, informers.of(NODES))
    found = on.cluster.read(PODS, "p", "default")
    return [piece.decode() async for piece in logs.read(found, LogOptions(**options))]


@scenario
async def test_logs_are_cut_as_asked() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("p", "echo one; sleep 5; echo two; sleep 5; echo three; sleep 100"))
        await on.advance(8)
        assert await read(on) == ["one\n", "two\n"]
        await on.advance(8)
        assert await read(on) == ["one\n", "two\n", "three\n"]
        assert await read(on, tail_lines=1) == ["three\n"]
        assert await read(on, since=on.clock.now() - 7) == ["three\n"]
        assert await read(on, limit_bytes=6) == ["one\n", "tw"]
        assert await read(on, timestamps=True, tail_lines=1) == ["2026-01-01T00:00:10.000000000Z three\n"]


@scenario
async def test_logs_of_one_that_has_ended_are_whole_and_following_them_ends() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("p", "echo one; sleep 5; echo two"))
        await on.advance(60)
        assert await read(on, follow=True) == ["one\n", "two\n"]


@scenario
async def test_what_is_written_into_a_nodes_capacity_can_be_had() -> None:
    async with stage(keeper) as on:
        await on.settle()
        node = on.cluster.read(NODES, "n0")
        capacity = node["status"]["capacity"] | {"example.com/dongle": "4", "nvidia.com/gpu": "8"}
        on.cluster.put(NODES, {**node, "status": {**node["status"], "capacity": capacity}})
        await on.settle()
        offered = on.cluster.read(NODES, "n0")["status"]["allocatable"]
        assert offered["example.com/dongle"] == "4"
        assert offered["nvidia.com/gpu"] == "4", "of those it knows what it has"


@scenario
async def test_a_pod_that_waits_for_others_is_ready_when_they_have_said_so() -> None:
    async with stage(keeper, kubelet) as on:
        made = shell_pod("p", "sleep 1000")
        made["metadata"]["generation"] = 1
        made["spec"]["readinessGates"] = [{"conditionType": "example.com/lb"}]
        on.cluster.put(PODS, made)
        await on.advance(5)
        ready = condition_of(on.cluster.read(PODS, "p", "default"), "Ready")
        assert ready is not None
        assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("False", "ReadinessGatesNotReady", 1)
        assert ready["message"] == 'corresponding condition of pod readiness gate "example.com/lb" does not exist.'
        for said in ("False", "True", "False"):
            found = on.cluster.read(PODS, "p", "default")
            others = [one for one in found["status"]["conditions"] if one["type"] != "example.com/lb"]
            conditions = [*others, {"type": "example.com/lb", "status": said}]
            on.cluster.put(PODS, {**found, "status": {**found["status"], "conditions": conditions}})
            await on.settle()
            assert is_ready(on.cluster.read(PODS, "p", "default")) is (said == "True")
        ready = condition_of(on.cluster.read(PODS, "p", "default"), "Ready")
        assert ready is not None
        assert ready["message"] == 'the status of pod readiness gate "example.com/lb" is not "True", but False'


@pytest.mark.parametrize(
    ("hook", "impatient", "seconds"),
    [
        ({"sleep": {"seconds": 10}}, False, 10),
        ({"exec": {"command": ["sh", "-c", "sleep 7"]}}, False, 7),
        ({"exec": {"command": ["sh", "-c", "while true; do sleep 1; done"]}}, False, 30),
        ({"sleep": {"seconds": 50}}, False, 30),
        ({"sleep": {"seconds": 20}}, True, 6),
        ({"httpGet": {"port": 80}}, False, 0),
    ],
)
@scenario
async def test_a_pod_is_given_the_time_its_hooks_need_up_to_its_grace(hook: Any, impatient: bool, seconds: int) -> None:
    async with stage(keeper, kubelet) as on:
        made = shell_pod("p", "sleep 1000")
        made["spec"]["containers"][0]["lifecycle"] = {"preStop": hook}
        on.cluster.put(PODS, made)
        await on.advance(5)
        await on.cluster.delete(PODS, "p", "default", grace=30)
        if impatient:
            await on.advance(4)
            await on.cluster.delete(PODS, "p", "default", grace=2)
            seconds -= 4
        if seconds:
            await on.advance(seconds - 0.5)
            assert on.cluster.exists(PODS, "p", "default")
        await on.advance(1)
        assert not on.cluster.exists(PODS, "p", "default")


@scenario
async def test_a_pod_deleted_before_it_started_has_ended_while_its_finalizers_keep_it() -> None:
    async with stage(kubelet) as on:
        on.cluster.put(NODES, {"metadata": {"name": "n1"}, "spec": {}})
        made = shell_pod("p", "sleep 100")
        made["metadata"]["finalizers"] = ["example.com/stays"]
        on.cluster.put(PODS, made)
        await on.deps.client.delete(PODS, "p", "default", grace=0)
        await on.advance(5)
        assert status(on)["phase"] == "Failed"
