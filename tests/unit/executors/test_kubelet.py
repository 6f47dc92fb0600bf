"""What is wrong with one pod stays with that pod."""

from typing import Any

import pytest

from gpuaas.client.resources import CONFIG_MAPS, EVENTS, PODS
from gpuaas.executors import simulated
from gpuaas.executors.heartbeat import NodeKeeper
from gpuaas.executors.kubelet import SET_ASIDE
from gpuaas.executors.nodes import NodeSpec
from gpuaas.executors.simulated import SimulatedKubelet
from gpuaas.runtime.controller import Controller, Deps
from gpuaas.runtime.pods import condition_of
from gpuaas.testing.objects import config_map, pod
from gpuaas.testing.time import Stage, scenario, stage

SPECS = [NodeSpec("n0")]


def keeper(deps: Deps) -> Controller:
    return NodeKeeper(deps, SPECS, "simulated")


def kubelet(deps: Deps) -> Controller:
    return SimulatedKubelet(deps, SPECS)


def shell_pod(name: str, text: str, policy: str = "Never", **container: Any) -> Any:
    made = pod(name, node="n0")
    made["spec"]["containers"][0] |= {"command": ["sh", "-c", text], **container}
    made["spec"]["restartPolicy"] = policy
    return made


def status(on: Stage, name: str) -> Any:
    return on.cluster.read(PODS, name, "default")["status"]


def events(on: Stage, name: str) -> dict[str, str]:
    found = on.cluster.all(EVENTS)
    return {one["reason"]: one["message"] for one in found if one["involvedObject"]["name"] == name}


@scenario
async def test_a_pod_whose_handling_fails_is_set_aside_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lives, broken = simulated.life_of, True

    def life_of(pod: Any, *more: Any) -> Any:
        if broken and pod["metadata"]["name"] == "poison":
            raise RecursionError("deeper than anyone thought")
        return lives(pod, *more)

    monkeypatch.setattr(simulated, "life_of", life_of)
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("poison", "true"))
        on.cluster.put(PODS, shell_pod("other", "true"))
        await on.advance(5)
        assert status(on, "other")["phase"] == "Succeeded"
        condition = condition_of(on.cluster.read(PODS, "poison", "default"), SET_ASIDE)
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("True", "CannotHandle")
        assert "RecursionError: deeper than anyone thought" in condition["message"]
        assert "RecursionError: deeper than anyone thought" in events(on, "poison")["SetAside"]
        written = on.cluster.revision
        await on.advance(3)
        assert on.cluster.revision - written < 5, "trying again writes nothing new"
        broken = False
        await on.advance(2000)
        assert status(on, "poison")["phase"] == "Succeeded"
        condition = condition_of(on.cluster.read(PODS, "poison", "default"), SET_ASIDE)
        assert condition is not None
        assert condition["status"] == "False"


@scenario
async def test_a_pod_of_more_containers_than_a_node_handles_is_refused() -> None:
    async with stage(keeper, kubelet) as on:
        many = shell_pod("many", "true")
        many["spec"]["containers"] = [{"name": f"c{number}", "image": "i"} for number in range(1001)]
        on.cluster.put(PODS, many)
        await on.advance(5)
        found = status(on, "many")
        assert (found["phase"], found["reason"]) == ("Failed", "TooManyContainers")
        assert found["message"] == "Pod was rejected: it has 1001 containers, at most 1000 are allowed"


DOUBLING = "A=xxxxxxxx; " + "A=$A$A$A$A$A; " * 9 + "echo hi"
LARGE = [{"name": f"V{number}", "value": "x" * 100_000} for number in range(30)]


@pytest.mark.parametrize(
    ("made", "reason", "code"),
    [
        (shell_pod("p", DOUBLING), "SimulationLimit", 1),
        (shell_pod("p", "true", env=LARGE), "StartError", 128),
    ],
    ids=["its script", "its environment"],
)
@scenario
async def test_a_container_past_a_limit_fails_and_says_which(made: Any, reason: str, code: int) -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, made)
        await on.advance(5)
        ended = status(on, "p")["containerStatuses"][0]["state"]["terminated"]
        assert (status(on, "p")["phase"], ended["reason"], ended["exitCode"]) == ("Failed", reason, code)
        assert "at most" in ended["message"]
        assert ended["message"] in events(on, "p")["Failed"]


@scenario
async def test_one_that_is_started_again_waits_longer_each_time() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(PODS, shell_pod("p", DOUBLING, policy="OnFailure"))
        await on.advance(100)
        found = status(on, "p")["containerStatuses"][0]
        assert found["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert found["lastState"]["terminated"]["reason"] == "SimulationLimit"
        assert 3 <= found["restartCount"] <= 5


@scenario
async def test_config_maps_count_towards_the_environment() -> None:
    async with stage(keeper, kubelet) as on:
        on.cluster.put(CONFIG_MAPS, config_map("large", data={f"K{n}": "x" * 100_000 for n in range(8)}))
        sources = [{"configMapRef": {"name": "large"}, "prefix": f"P{n}_"} for n in range(4)]
        on.cluster.put(PODS, shell_pod("p", "echo hi", envFrom=sources))
        await on.advance(5)
        ended = status(on, "p")["containerStatuses"][0]["state"]["terminated"]
        assert ended["reason"] == "StartError"
        assert "with env P2_K4, at most 2097152 are allowed" in ended["message"]


@scenario
async def test_an_init_container_past_a_limit_fails_the_pod() -> None:
    async with stage(keeper, kubelet) as on:
        made = shell_pod("p", "true")
        made["spec"]["initContainers"] = [{"name": "first", "image": "i", "command": ["sh", "-c", DOUBLING]}]
        on.cluster.put(PODS, made)
        await on.advance(5)
        assert status(on, "p")["phase"] == "Failed"
        ended = status(on, "p")["initContainerStatuses"][0]["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("SimulationLimit", 1)
        assert "at most 131072 are allowed" in ended["message"]
