"""One object that cannot be handled is set aside, with one event; views, other listeners and other objects go on."""

from typing import Any

from gpuaas.base.errors import Invalid
from gpuaas.client.resources import CONFIG_MAPS
from gpuaas.runtime.controller import Controller, Deps, Requeue
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import Key
from gpuaas.runtime.quarantine import Aside, Fault
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import config_map
from gpuaas.testing.time import scenario, stage


class _Picky(Controller):
    name = "picky"

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self.view: Informer = self.follow(deps.informers.of(CONFIG_MAPS))
        self.view.add_index("part", lambda obj: (obj["data"]["part"],))
        self.view.subscribe(self._heard)
        self.done: list[str] = []
        self.heard: list[str] = []
        self.fails: Exception | None = None

    def _heard(self, _: Any, new: Any) -> None:
        self.heard.append(new["data"]["part"])

    async def reconcile(self, key: Key) -> Requeue | None:
        obj = self.view.get(*key)
        if obj is not None and self.fails is not None and key.name == "bad":
            raise self.fails
        self.done.append(key.name)
        return None


def _picky(made: list[_Picky]) -> Any:
    def factory(deps: Deps) -> Controller:
        made.append(_Picky(deps))
        return made[-1]

    return factory


@scenario
async def test_an_object_that_no_index_and_no_listener_can_read_is_marked_and_the_others_go_on() -> None:
    made: list[_Picky] = []
    cluster = FakeCluster()
    cluster.put(CONFIG_MAPS, config_map("bad"))
    cluster.put(CONFIG_MAPS, config_map("good", data={"part": "a"}))
    async with stage(_picky(made), cluster=cluster) as on:
        await on.advance(1)
        assert [one["metadata"]["name"] for one in made[0].view.indexed("part", "a")] == ["good"]
        assert made[0].heard == ["a"]
        assert sorted(made[0].done) == ["bad", "good"]
        said = [event for event in cluster.events("default") if "SetAside" in event]
        assert said
        assert all("bad" in event or "KeyError" in event for event in said)


@scenario
async def test_a_reconcile_that_fails_marks_its_object_once_and_waits_ever_longer() -> None:
    made: list[_Picky] = []
    cluster = FakeCluster()
    async with stage(_picky(made), cluster=cluster) as on:
        made[0].fails = ValueError("no such thing")
        cluster.put(CONFIG_MAPS, config_map("bad", data={"part": "a"}))
        await on.advance(3600)
        said = [event for event in cluster.events("default") if "SetAside" in event]
        assert len(said) == 1
        assert made[0].queue.failures(Key("default", "bad")) < 25
        made[0].fails = None
        await on.advance(2000)
        assert made[0].done == ["bad"]


@scenario
async def test_what_the_api_refuses_again_and_again_is_marked_too() -> None:
    made: list[_Picky] = []
    cluster = FakeCluster()
    async with stage(_picky(made), cluster=cluster) as on:
        made[0].fails = Invalid("", "ConfigMap", "bad", [])
        cluster.put(CONFIG_MAPS, config_map("bad", data={"part": "a"}))
        await on.settle()
        assert not [event for event in cluster.events("default") if "SetAside" in event], "it may pass"
        await on.advance(60)
        assert len([event for event in cluster.events("default") if "SetAside" in event]) == 1


def test_a_fault_is_told_once_and_again_after_it_was_gone() -> None:
    aside, heard = Aside(), []
    one = config_map("one")
    aside.note("part", one, KeyError("spec"))  # before anybody listens
    aside.listen(lambda fault: heard.append((fault.component, fault.obj["metadata"]["name"])))
    aside.note("part", one, KeyError("spec"))
    assert heard == [("part", "one")]
    aside.clear("part", one)
    aside.note("part", one, KeyError("spec"))
    aside.note("part", one, KeyError("status"))
    aside.note("other", one, KeyError("spec"))
    assert heard == [("part", "one")] * 3 + [("other", "one")]


def test_each_gives_what_can_be_read() -> None:
    aside = Aside()
    faults: list[Fault] = []
    aside.listen(faults.append)
    objects = [config_map("a", data={"part": "x"}), config_map("b"), config_map("c", data={"part": "y"})]
    assert list(aside.each("part", objects, lambda obj: obj["data"]["part"])) == ["x", "y"]
    assert [fault.obj["metadata"]["name"] for fault in faults] == ["b"]
    assert "KeyError: 'part'" in faults[0].message


@scenario
async def test_a_loop_that_ends_with_a_fault_begins_again_and_forgets_nothing() -> None:
    class Fragile(_Picky):
        async def run(self) -> None:
            if self.fails is not None:
                self.queue.add_after(Key("default", "later"), 5)
                await self.queue.close()
                raise self.fails
            await super().run()

    made: list[_Picky] = []

    def factory(deps: Deps) -> Controller:
        made.append(Fragile(deps))
        made[0].fails = RuntimeError("not now")
        return made[0]

    async with stage(factory) as on:
        await on.advance(0.5)
        made[0].fails = None
        on.cluster.put(CONFIG_MAPS, config_map("one", data={"part": "a"}))
        await on.advance(10)
        assert sorted(made[0].done) == ["later", "one"]
