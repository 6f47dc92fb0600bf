"""Which homes and stores a start refuses, because they do not hold what they held."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from gpuaas.assembly.home import NEW_CLUSTER, Home, Unusable
from gpuaas.assembly.identity import KEY, check_before_opening, check_opened, identity_of
from gpuaas.base.clock import VirtualClock
from gpuaas.store import Store

NOTHING: frozenset[str] = frozenset()
ACCEPTED = frozenset({NEW_CLUSTER})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make()
    return made


class TestBeforeOpening:
    def test_a_new_home_is_fine(self, home: Home) -> None:
        check_before_opening(home, "local", NOTHING)

    def test_a_new_cluster_in_an_old_home_is_fine(self, home: Home) -> None:
        home.remember_identities({"local": "u1"})
        home.remember_port(1)
        check_before_opening(home, "other", NOTHING)

    @pytest.mark.parametrize("content", [None, b""])
    def test_a_store_that_has_gone_is_refused(self, home: Home, content: bytes | None) -> None:
        home.remember_identities({"local": "u1"})
        if content is not None:
            home.store("local").write_bytes(content)
        with pytest.raises(Unusable, match=r"cluster local \(uid u1\).*gpuaas restore.*--accept new-cluster"):
            check_before_opening(home, "local", NOTHING)
        check_before_opening(home, "local", ACCEPTED)

    def test_a_home_that_knows_no_identities_yet_but_has_served(self, home: Home) -> None:
        home.remember_port(1)
        with pytest.raises(Unusable, match="is missing"):
            check_before_opening(home, "local", NOTHING)
        home.store("other").write_bytes(b"x")
        check_before_opening(home, "local", NOTHING)


def test_known_clusters_include_those_whose_store_has_gone(home: Home) -> None:
    home.remember_identities({"b": "u1"})
    home.store("a").touch()
    assert home.known_clusters() == ["a", "b"]


@pytest.mark.parametrize("text", ["", "[]", "x"])
def test_a_damaged_list_of_identities_is_made_again(home: Home, text: str) -> None:
    (home.path / "clusters.json").write_text(text)
    assert home.identities() == {}
    home.remember_identities({"local": "u1"})
    assert home.identities() == {"local": "u1"}


@pytest.mark.parametrize(
    ("expected", "found", "says"),
    [("", "", ""), ("", "u1", ""), ("u1", "u1", ""), ("u1", "", "holds no cluster"), ("u1", "u2", r"\(uid u2\)")],
)
def test_the_store_has_to_hold_the_cluster_of_the_home(home: Home, expected: str, found: str, says: str) -> None:
    async def scenario() -> None:
        store = await Store.open(home.store("local"), clock=VirtualClock(), fsync=False)
        try:
            if found:
                obj = {"metadata": {"name": "kube-system", "uid": found}}
                await store.put(KEY, lambda _: (msgspec.json.encode(obj), obj))
            assert identity_of(store) == found
            if expected:
                home.remember_identities({"local": expected})
            if says:
                with pytest.raises(Unusable, match=says):
                    check_opened(home, "local", store, NOTHING)
                check_opened(home, "local", store, ACCEPTED)
            else:
                check_opened(home, "local", store, NOTHING)
        finally:
            await store.close()

    asyncio.run(scenario())
