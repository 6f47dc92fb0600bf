"""Pods on simulated nodes wait for the config maps and secrets they refer to, say for which, and go on when they come."""

from typing import Any

import pytest

from gpuaas.client.resources import CONFIG_MAPS, PODS, SECRETS
from gpuaas.executors.heartbeat import NodeKeeper
from gpuaas.executors.nodes import NodeSpec
from gpuaas.executors.references import refers
from gpuaas.executors.simulated import SimulatedKubelet
from gpuaas.runtime.controller import Controller, Deps
from gpuaas.testing.objects import config_map, pod, secret
from gpuaas.testing.time import Stage, scenario, stage

SPECS = [NodeSpec("n1")]
CREATING = {"reason": "ContainerCreating"}


def keeper(deps: Deps) -> Controller:
    return NodeKeeper(deps, SPECS, "simulated")


def kubelet(deps: Deps) -> Controller:
    return SimulatedKubelet(deps, SPECS)


def with_env(*env: Any, part: str = "containers", **more: Any) -> Any:
    made = pod("p", node="n1")
    made["spec"]["containers"][0]["command"] = ["sh", "-c", "sleep 1000"]
    if part == "initContainers":
        made["spec"]["initContainers"] = [{"name": "first", "image": "busybox", "command": ["true"]}]
    made["spec"][part][0] |= {"env": list(env), **more}
    return made


def with_volume(**volume: Any) -> Any:
    made = with_env()
    made["spec"]["volumes"] = [{"name": "conf", **volume}]
    return made


def key_of(kind: str, key: str = "k", **more: Any) -> Any:
    return {"name": "A", "valueFrom": {f"{kind}KeyRef": {"name": "conf", "key": key, **more}}}


def waiting(on: Stage, part: str = "containerStatuses") -> Any:
    status = on.cluster.read(PODS, "p", "default")["status"]
    assert status["phase"] == "Pending"
    return status[part][0]["state"]["waiting"]


def phase(on: Stage) -> str:
    return str(on.cluster.read(PODS, "p", "default")["status"]["phase"])


CONFIG, SECRET = (
    (CONFIG_MAPS, config_map("conf", data={"k": "v"})),
    (SECRETS, {**secret("conf"), "data": {"k": "dg=="}}),
)
EMPTY = (CONFIG_MAPS, config_map("conf"))
UNSET: list[tuple[str, Any, list[Any], str, Any]] = [
    ("env of a map", with_env(key_of("configMap")), [], 'configmap "conf" not found', CONFIG),
    ("env of a secret", with_env(key_of("secret")), [], 'secret "conf" not found', SECRET),
    ("a key of it", with_env(key_of("configMap")), [EMPTY], "couldn't find key k in ConfigMap default/conf", CONFIG),
    ("all of a map", with_env(envFrom=[{"configMapRef": {"name": "conf"}}]), [], 'configmap "conf" not found', CONFIG),
    ("all of a secret", with_env(envFrom=[{"secretRef": {"name": "conf"}}]), [], 'secret "conf" not found', SECRET),
]
_MOUNT = 'MountVolume.SetUp failed for volume "conf" : '
UNMOUNTED: list[tuple[str, Any, list[Any], str, Any]] = [
    ("map", with_volume(configMap={"name": "conf"}), [], 'configmap "conf" not found', CONFIG),
    ("secret", with_volume(secret={"secretName": "conf"}), [], 'secret "conf" not found', SECRET),
    (
        "a file of a map",
        with_volume(configMap={"name": "conf", "items": [{"key": "k", "path": "p"}]}),
        [EMPTY],
        "configmap references non-existent config key: k",
        CONFIG,
    ),
    (
        "projected",
        with_volume(projected={"sources": [{"configMap": {"name": "conf"}}, {"secret": {"name": "other"}}]}),
        [(SECRETS, {**secret("other"), "data": {}})],
        'configmap "conf" not found',
        CONFIG,
    ),
]


def by_name(cases: list[Any]) -> Any:
    return pytest.mark.parametrize(
        ("made", "there", "words", "missing"), [case[1:] for case in cases], ids=[case[0] for case in cases]
    )


async def _waits_and_goes_on(made: Any, there: list[Any], waits: Any, event: str, missing: Any) -> None:
    async with stage(keeper, kubelet) as on:
        for resource, obj in there:
            on.cluster.put(resource, obj)
        on.cluster.put(PODS, made)
        await on.advance(60)
        assert waiting(on) == waits
        assert on.cluster.events() == [event]
        on.cluster.put(*missing)
        await on.settle()
        assert phase(on) == "Running"


@by_name(UNSET)
@scenario
async def test_a_container_is_not_created_without_its_environment(
    made: Any, there: list[Any], words: str, missing: Any
) -> None:
    waits = {"reason": "CreateContainerConfigError", "message": words}
    await _waits_and_goes_on(made, there, waits, f"Warning Failed pod/p Error: {words}", missing)


@by_name(UNMOUNTED)
@scenario
async def test_nothing_starts_before_its_volumes_are_mounted(
    made: Any, there: list[Any], words: str, missing: Any
) -> None:
    await _waits_and_goes_on(made, there, CREATING, f"Warning FailedMount pod/p {_MOUNT}{words}", missing)


@pytest.mark.parametrize(
    "made",
    [
        with_env(key_of("configMap", optional=True), envFrom=[{"secretRef": {"name": "conf", "optional": True}}]),
        with_volume(configMap={"name": "conf", "optional": True}),
        with_volume(projected={"sources": [{"secret": {"name": "conf", "optional": True}}]}),
    ],
)
@scenario
async def test_what_is_optional_is_not_waited_for(made: Any) -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, made)
        await on.advance(1)
        assert phase(on) == "Running"


@scenario
async def test_an_init_container_without_its_environment_keeps_the_others_back() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, with_env(key_of("secret"), part="initContainers"))
        await on.advance(5)
        assert waiting(on, "initContainerStatuses")["reason"] == "CreateContainerConfigError"
        assert waiting(on) == {"reason": "PodInitializing"}
        on.cluster.put(*SECRET)
        await on.advance(1)
        assert phase(on) == "Running"


@scenario
async def test_init_containers_are_over_when_only_the_others_lack_theirs() -> None:
    async with stage(keeper, kubelet) as on:
        made = with_env(key_of("secret"))
        made["spec"]["initContainers"] = [{"name": "first", "image": "busybox", "command": ["true"]}]
        on.cluster.put(PODS, made)
        await on.advance(5)
        first = on.cluster.read(PODS, "p", "default")["status"]["initContainerStatuses"][0]
        assert first["state"]["terminated"]["exitCode"] == 0
        assert waiting(on)["reason"] == "CreateContainerConfigError"


@scenario
async def test_volumes_come_before_environments_and_each_is_told_once() -> None:
    async with stage(keeper, kubelet) as on:
        made = with_volume(configMap={"name": "conf"})
        made["spec"]["containers"][0]["env"] = [key_of("secret")]
        on.cluster.put(PODS, made)
        await on.advance(5)
        on.cluster.put(CONFIG_MAPS, config_map("unrelated"))
        await on.advance(5)
        assert waiting(on) == CREATING
        on.cluster.put(*CONFIG)
        await on.advance(5)
        assert waiting(on)["message"] == 'secret "conf" not found'
        told = [line.split(" ", 2)[1] for line in on.cluster.events()]
        assert told == ["FailedMount", "Failed"]


@scenario
async def test_a_pod_that_waits_may_be_deleted_and_has_its_deadline() -> None:
    async with stage(keeper, kubelet) as on:
        made = with_volume(secret={"secretName": "conf"})
        on.cluster.put(PODS, made)
        late = with_volume(secret={"secretName": "conf"})
        late["metadata"] |= {"name": "late", "uid": "late"}
        late["spec"]["activeDeadlineSeconds"] = 30
        on.cluster.put(PODS, late)
        await on.advance(5)
        await on.cluster.delete(PODS, "p", "default")
        await on.advance(60)
        (left,) = on.cluster.all(PODS)
        assert (left["metadata"]["name"], left["status"]["reason"]) == ("late", "DeadlineExceeded")
        on.cluster.put(*SECRET)
        await on.advance(5)
        assert on.cluster.read(PODS, "late", "default")["status"]["phase"] == "Failed"


def test_the_certificate_every_pod_mounts_is_not_looked_for() -> None:
    sources = [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "kube-root-ca.crt"}}]
    assert not refers(with_volume(projected={"sources": sources})["spec"])
