"""What a rollout promises: never too many pods, never too few available, a history, and words for how it gets on."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.client.protocol import PatchKind
from gpuaas.client.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from gpuaas.controllers.deployments import DeploymentController, plan, sizes
from gpuaas.controllers.replica_sets import ReplicaSetController
from gpuaas.runtime.metadata import annotations_of
from gpuaas.testing.objects import deployment
from gpuaas.testing.time import Stage, scenario, stage

Object = dict[str, Any]
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def _set(
    name: str, size: int, able: int, *, age: int = 0, desired: int | None = None, most: int | None = None
) -> Object:
    annotations = {}
    if desired is not None:
        annotations[sizes.DESIRED] = str(desired)
    if most is not None:
        annotations[sizes.MAXIMUM] = str(most)
    return {
        "metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:{59 - age:02}:00Z", "annotations": annotations},
        "spec": {"replicas": size},
        "status": {"replicas": size, "availableReplicas": able},
    }


def _wanted(size: int, surge: int | str = 1, unavailable: int | str = 1) -> Object:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"spec": {"replicas": size, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}}


def _sizes(answer: sizes.Sizes) -> dict[str, int]:
    return {one["metadata"]["name"]: size for one, size in answer}


@pytest.mark.parametrize(
    ("what", "wanted", "new", "old", "up", "down"),
    [
        ("nothing to do", _wanted(3), _set("n", 3, 3), [], {}, {}),
        ("the new one grows by the surge", _wanted(3), _set("n", 0, 0), [_set("o", 3, 3)], {"n": 1}, {"o": 2}),
        ("at the limit it waits", _wanted(3), _set("n", 1, 0), [_set("o", 3, 3)], {}, {"o": 2}),
        ("old ones go as new ones can", _wanted(3), _set("n", 1, 1), [_set("o", 3, 3)], {}, {"o": 1}),
        ("new ones that do not come up keep the old", _wanted(3), _set("n", 2, 0), [_set("o", 2, 2)], {}, {}),
        ("sick old ones go first", _wanted(4, 0, 1), _set("n", 0, 0), [_set("o", 4, 2)], {}, {"o": 3}),
        (
            "the older of two goes first",
            _wanted(4, 1, 0),
            _set("n", 2, 2),
            [_set("a", 2, 2, age=9), _set("b", 1, 1)],
            {},
            {"a": 1},
        ),
        ("a new one that is too large shrinks", _wanted(2), _set("n", 5, 5), [], {"n": 2}, {}),
        (
            "percentages round up for surge, down for missing",
            _wanted(3, "25%", "25%"),
            _set("n", 0, 0),
            [_set("o", 3, 3)],
            {"n": 1},
            {},
        ),
    ],
)
def test_rolling(
    what: str, wanted: Object, new: Object, old: list[Object], up: dict[str, int], down: dict[str, int]
) -> None:
    assert _sizes(sizes.roll_up(wanted, new, old)) == up, what
    assert _sizes(sizes.roll_down(wanted, new, old)) == down, what


@given(
    size=st.integers(1, 40),
    surge=st.integers(0, 10),
    missing=st.integers(0, 10),
    new=st.tuples(st.integers(0, 40), st.floats(0, 1)),
    old=st.lists(st.tuples(st.integers(0, 40), st.floats(0, 1)), max_size=4),
)
def test_a_step_never_breaks_the_bounds(
    size: int, surge: int, missing: int, new: tuple[int, float], old: list[tuple[int, float]]
) -> None:
    wanted = _wanted(size, surge, missing)
    fresh = _set("new", min(new[0], size), int(min(new[0], size) * new[1]))
    others = [_set(f"old{n}", count, int(count * part), age=n) for n, (count, part) in enumerate(old)]
    total = sum(map(sizes.wanted, [fresh, *others]))
    for _, target in sizes.roll_up(wanted, fresh, others):
        assert target <= size
        assert total - sizes.wanted(fresh) + target <= max(total, size + sizes.max_surge(wanted))
    before = sizes.available([fresh, *others])
    after = before
    for one, target in sizes.roll_down(wanted, fresh, others):
        assert 0 <= target < sizes.wanted(one)
        after -= max(0, sizes.available([one]) - target)
    assert after >= min(before, size - sizes.max_unavailable(wanted))


@pytest.mark.parametrize(
    ("what", "wanted", "new", "old", "answer"),
    [
        ("one active set takes it all", _wanted(5), _set("n", 3, 3), [], {"n": 5}),
        ("with none active the newest is meant", _wanted(5), None, [_set("a", 0, 0, age=5), _set("b", 0, 0)], {"b": 5}),
        ("a saturated new one empties the old", _wanted(3), _set("n", 3, 3, desired=3), [_set("o", 1, 1)], {"o": 0}),
        (
            "mid rollout both grow in proportion",
            _wanted(10, 3, 2),
            _set("n", 3, 0, most=8),
            [_set("o", 5, 5, most=8)],
            {"n": 5, "o": 8},
        ),
        (
            "mid rollout both shrink in proportion",
            _wanted(4, 0, 1),
            _set("n", 4, 0, most=10),
            [_set("o", 6, 6, most=10)],
            {"n": 2, "o": 2},
        ),
        ("to zero everything goes", _wanted(0), _set("n", 2, 2, most=4), [_set("o", 2, 2, most=4)], {"n": 0, "o": 0}),
    ],
)
def test_scaling(what: str, wanted: Object, new: Object | None, old: list[Object], answer: dict[str, int]) -> None:
    assert _sizes(sizes.scale(wanted, new, old)) == answer, what


def test_revisions_only_go_up_and_remember_where_they_were() -> None:
    owner = {"metadata": {"annotations": {"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"}}}
    first = plan.set_annotations(owner, {}, 1)
    assert first == {"note": "x", plan.REVISION: "1"}
    again = plan.set_annotations(owner, first, 3)
    assert (again[plan.REVISION], again[plan.HISTORY]) == ("3", "1")
    once_more = plan.set_annotations(owner, again, 5)
    assert once_more[plan.HISTORY] == "1,3"
    assert plan.set_annotations(owner, once_more, 4)[plan.REVISION] == "5"


async def _come_up(on: Stage) -> None:
    """Let pods start until nothing more happens."""
    for _ in range(12):
        for pod in on.cluster.all(PODS):
            if pod.get("status", {}).get("phase") != "Running":
                on.cluster.set_status(PODS, pod["metadata"]["name"], "default", phase="Running", conditions=[READY])
        await on.settle()


def _conditions(on: Stage) -> dict[str, str]:
    status = on.cluster.read(DEPLOYMENTS, "web", "default")["status"]
    return {one["type"]: f"{one['status']} {one['reason']}" for one in status["conditions"]}


async def _new_image(on: Stage, image: str) -> None:
    path = "/spec/template/spec/containers/0/image"
    patch = [{"op": "replace", "path": path, "value": image}]
    await on.cluster.patch(DEPLOYMENTS, "web", patch, "default", kind=PatchKind.JSON)
    await on.settle()


def _spread(on: Stage) -> list[tuple[str, int]]:
    """Revision and size of every replica set."""
    sets = on.cluster.all(REPLICA_SETS)
    return sorted((annotations_of(one)[plan.REVISION], one["spec"]["replicas"]) for one in sets)


@scenario
async def test_a_new_deployment_comes_up_and_says_so() -> None:
    async with stage(DeploymentController, ReplicaSetController) as on:
        on.cluster.put(DEPLOYMENTS, deployment("web", 3))
        await on.settle()
        assert len(on.cluster.all(PODS)) == 3
        assert _conditions(on) == {
            "Progressing": "True ReplicaSetUpdated",
            "Available": "False MinimumReplicasUnavailable",
        }
        (replica_set,) = on.cluster.all(REPLICA_SETS)
        name = replica_set["metadata"]["name"]
        assert name.startswith("web-")
        assert replica_set["spec"]["selector"]["matchLabels"]["pod-template-hash"] == name.removeprefix("web-")
        await _come_up(on)
        assert _conditions(on) == {
            "Progressing": "True NewReplicaSetAvailable",
            "Available": "True MinimumReplicasAvailable",
        }
        assert annotations_of(on.cluster.read(DEPLOYMENTS, "web", "default"))[plan.REVISION] == "1"
        assert (
            on.cluster.events()[0]
            == f"Normal ScalingReplicaSet deployment/web Scaled up replica set {name} from 0 to 3"
        )


@scenario
async def test_a_rollout_keeps_pods_available_and_ends_with_the_new_template() -> None:
    async with stage(DeploymentController, ReplicaSetController) as on:
        on.cluster.put(DEPLOYMENTS, deployment("web", 4))
        await _come_up(on)
        await _new_image(on, "two")
        assert _spread(on) == [("1", 3), ("2", 2)], "one more, one fewer, and then it waits for the new ones"
        await _come_up(on)
        assert _spread(on) == [("1", 0), ("2", 4)]
        assert {pod["spec"]["containers"][0]["image"] for pod in on.cluster.all(PODS)} == {"two"}


@scenario
async def test_going_back_to_an_old_template_takes_up_its_replica_set_under_a_new_revision() -> None:
    async with stage(DeploymentController, ReplicaSetController) as on:
        on.cluster.put(DEPLOYMENTS, deployment("web", 2))
        await _come_up(on)
        await _new_image(on, "two")
        await _come_up(on)
        await _new_image(on, "busybox")
        await _come_up(on)
        assert _spread(on) == [("2", 0), ("3", 2)]


@scenario
async def test_the_rollback_annotation_restores_a_revision() -> None:
    async with stage(DeploymentController, ReplicaSetController) as on:
        on.cluster.put(DEPLOYMENTS, deployment("web", 2))
        await _come_up(on)
        await _new_image(on, "two")
        await _come_up(on)
        for revision, reason in (("1", "DeploymentRollback "), ("9", "DeploymentRollbackRevisionNotFound")):
            patch = {"metadata": {"annotations": {plan.ROLLBACK_TO: revision}}}
            await on.cluster.patch(DEPLOYMENTS, "web", patch, "default")
            await _come_up(on)
            assert any(reason in event for event in on.cluster.events())
            assert plan.ROLLBACK_TO not in annotations_of(on.cluster.read(DEPLOYMENTS, "web", "default"))
        image = on.cluster.read(DEPLOYMENTS, "web", "default")["spec"]["template"]["spec"]["containers"][0]["image"]
        assert image == "busybox"


@scenario
async def test_recreate_waits_for_the_last_old_pod() -> None:
    async with stage(DeploymentController, ReplicaSetController) as on:
        on.cluster.put(DEPLOYMENTS, deployment("web", 2, strategy={"type": "Recreate"}))
        await on.settle()
        for pod in on.cluster.all(PODS):
            spec = {**pod["spec"], "nodeName": "n"}
            running = {**pod, "spec": spec, "status": {"phase": "Running", "conditions": [READY]}}
            on.cluster.put(PODS, running)
        await on.settle()
        await _new_image(on, "two")
        assert _spread(on) == [("1", 0)], "the old pods are still stopping"
        for pod in on.cluster.all(PODS):
            await on.cluster.delete(PODS, pod["metadata"]["name"], "default", grace=0)
        await on.settle()
        assert _spread(on) == [("1", 0), ("2", 2)]


@scenario
async def test_a_pause_stops_rollouts_but_not_scaling() -> None:
    async with stage(DeploymentController, ReplicaSetController) as on:
        on.cluster.put(DEPLOYMENTS, deployment("web", 2))
        await _come_up(on)
        await on.cluster.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}}, "default")
        await _new_image(on, "two")
        await on.cluster.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 3}}, "default")
        await on.settle()
        assert _spread(on) == [("1", 3)]
        assert _conditions(on)["Progressing"] == "Unknown DeploymentPaused"
        await on.cluster.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}}, "default")
        await _come_up(on)
        assert _spread(on) == [("1", 0), ("2", 3)]


@scenario
async def test_a_rollout_without_progress_is_called_overdue_after_its_deadline() -> None:
    async with stage(DeploymentController, ReplicaSetController) as on:
        on.cluster.put(DEPLOYMENTS, deployment("web", 2, progressDeadlineSeconds=60))
        await on.advance(30)
        assert _conditions(on)["Progressing"] == "True ReplicaSetUpdated"
        await on.advance(60)
        assert _conditions(on)["Progressing"] == "False ProgressDeadlineExceeded"


@scenario
async def test_history_is_kept_to_its_limit() -> None:
    async with stage(DeploymentController, ReplicaSetController) as on:
        on.cluster.put(DEPLOYMENTS, deployment("web", 1, revisionHistoryLimit=1))
        await _come_up(on)
        for number in range(4):
            await _new_image(on, f"v{number}")
            await _come_up(on)
        assert _spread(on) == [("4", 0), ("5", 1)]
