"""Where quota decides who may have a node: the scheduler asks first and spares who is admitted, and what is left ends."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.resources import NODES, PODS
from gpuaas.controllers.integrations.uncovered_pods import LONGEST_GRACE, PATIENCE, UncoveredPods
from gpuaas.controllers.pod_scheduler import PodScheduler
from gpuaas.runtime.pods import condition_of
from gpuaas.testing.objects import node, pod
from gpuaas.testing.time import Stage, scenario, stage

GPU = "nvidia.com/gpu"


class Book:
    """Quota as a test says it is."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self.admitted: set[str] = set()
        self.left: dict[str, list[str]] = {}  # by workload, names of pods it does not cover
        self.managed = True
        self.asked = 0
        self._version = 0
        self._listeners: list[Callable[[str], None]] = []

    def change(self) -> None:
        self._version += 1
        for notify in self._listeners:
            notify("default")

    def refusal(self, pod: Mapping[str, Any]) -> str:
        self.asked += 1
        return self.refused.get(pod["metadata"]["name"], "")

    def is_admitted(self, uid: str) -> bool:
        return uid in self.admitted

    def version(self, namespace: str) -> int:
        return self._version

    def subscribe(self, notify: Callable[[str], None]) -> None:
        self._listeners.append(notify)

    def must_cover(self, namespace: str) -> bool:
        return self.managed

    def is_overdrawn(self, namespace: str, workload: str) -> bool:
        return bool(self.left.get(workload))

    def excess(self, namespace: str, workload: str, pods: Sequence[str]) -> Sequence[str]:
        return pods[: len(self.left.get(workload, ()))]


def machine(cards: int) -> Any:
    made = node("a")
    made["status"]["allocatable"] = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: str(cards)}
    return made


def wants(name: str, cards: int, priority: int = 0, **more: Any) -> Any:
    made = pod(name, requests={GPU: str(cards)}, **more)
    made["spec"]["priority"] = priority
    return made


def placed(on: Stage, name: str) -> str:
    return str(on.cluster.read(PODS, name, "default")["spec"].get("nodeName", ""))


@scenario
async def test_a_pod_without_quota_waits_with_words_until_quota_changes() -> None:
    book = Book()
    book.refused["p"] = "workload w: quota for nvidia.com/gpu is exceeded"
    async with stage(PodScheduler, quota=book) as on:
        on.cluster.put(NODES, machine(8))
        on.cluster.put(PODS, wants("p", 2))
        await on.advance(600)
        condition = condition_of(on.cluster.read(PODS, "p", "default"), "PodScheduled")
        assert condition is not None
        assert (placed(on, "p"), condition["message"]) == ("", book.refused["p"])
        assert book.asked == 1
        book.refused.clear()
        book.change()
        await on.settle()
        assert placed(on, "p") == "a"


@scenario
async def test_a_pod_without_quota_makes_nobody_leave() -> None:
    book = Book()
    book.refused["important"] = "no admitted workload covers this pod"
    async with stage(PodScheduler, quota=book) as on:
        on.cluster.put(NODES, machine(8))
        on.cluster.put(PODS, wants("first", 8))
        await on.settle()
        on.cluster.put(PODS, wants("important", 8, 1_000_000))
        await on.advance(60)
        assert (placed(on, "first"), placed(on, "important")) == ("a", "")


@scenario
async def test_pods_of_admitted_workloads_stay_whatever_the_priority_of_others() -> None:
    book = Book()
    async with stage(PodScheduler, quota=book) as on:
        on.cluster.put(NODES, machine(8))
        for name in ("admitted", "plain"):
            on.cluster.put(PODS, wants(name, 4))
        await on.settle()
        book.admitted.add(on.cluster.read(PODS, "admitted", "default")["metadata"]["uid"])
        on.cluster.put(PODS, wants("whole", 8, 2_000_001_000))
        await on.advance(60)
        assert (placed(on, "admitted"), placed(on, "plain"), placed(on, "whole")) == ("a", "a", "")
        on.cluster.put(PODS, wants("half", 4, 2_000_001_000))
        await on.advance(60)
        assert not on.cluster.read(PODS, "admitted", "default")["metadata"].get("deletionTimestamp")
        assert not on.cluster.exists(PODS, "plain", "default") or on.cluster.read(PODS, "plain", "default")[
            "metadata"
        ].get("deletionTimestamp")


def running(name: str, grace: int = 30) -> Any:
    made = wants(name, 1, node="a", phase="Running", annotations={"kueue.x-k8s.io/workload": "w"})
    made["spec"]["terminationGracePeriodSeconds"] = grace
    return made


def leaving(on: Stage, name: str) -> int | None:
    metadata = on.cluster.read(PODS, name, "default")["metadata"]
    grace = metadata.get("deletionGracePeriodSeconds")
    return int(grace) if metadata.get("deletionTimestamp") else None


@scenario
async def test_what_quota_does_not_cover_has_a_while_to_end_and_is_ended() -> None:
    book = Book()
    book.left["w"] = ["p"]
    async with stage(UncoveredPods, quota=book) as on:
        on.cluster.serve(WORKLOADS)
        on.cluster.put(PODS, running("p", grace=90_000))
        await on.advance(PATIENCE - 1)
        assert leaving(on, "p") is None
        await on.advance(2)
        assert leaving(on, "p") == LONGEST_GRACE
        assert on.cluster.events() == [
            "Warning QuotaGivenBack pod/p No admitted workload covers this pod any more: its quota was given back"
        ]


@scenario
async def test_pods_that_are_covered_and_namespaces_without_quota_are_left_alone() -> None:
    for left, managed in (([], True), (["p"], False)):
        book = Book()
        book.left["w"], book.managed = left, managed
        async with stage(UncoveredPods, quota=book) as on:
            on.cluster.serve(WORKLOADS)
            on.cluster.put(PODS, running("p"))
            await on.advance(10 * PATIENCE)
            assert leaving(on, "p") is None
