"""The stream: what changed and no more, to all who look, without a gap after a break, and nothing kept for the slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from gpuaas.apiserver.http import StreamWriter
from gpuaas.base.clock import VirtualClock
from gpuaas.base.errors import Unavailable
from gpuaas.web import stream as limits
from gpuaas.web.sessions import Credential, Session
from gpuaas.web.stream import Hub, Source, TooMany


class Writer(StreamWriter):
    """What a browser would hear."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[str, int | None, Any]] = []
        self.gone: Any = None

    def write(self, data: bytes) -> None:
        assert not self.closed
        for event in data.decode().split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in event.split("\n"))
            number = int(fields["id"]) if "id" in fields else None
            self.heard.append((fields["event"], number, json.loads(fields["data"])))

    def close(self) -> None:
        self.closed = True
        if self.gone is not None:
            self.gone()

    def fragments(self) -> list[dict[str, str]]:
        return [data for name, _, data in self.heard if name == "fragments"]

    def last_id(self) -> int:
        return max((number for _, number, _ in self.heard if number is not None), default=0)


class Shown:
    """A page over a store of numbered changes."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.session = Session(b"key", Credential("local"), "ada", "csrf", 0.0, 0.0)
        self.over: set[str] = set()
        self.hub = Hub(self.clock, lambda session: session.name in self.over and self.end(session))
        self.parts = {"free": "8", "jobs": "none"}
        self.revision = 10  # of the store
        self.changed = 10  # of what the page follows
        self.renders = 0
        self.fails: Exception | None = None
        self.open_to_render = asyncio.Event()
        self.open_to_render.set()

    def end(self, session: Session) -> bool:
        ends, session.ends = session.ends, set()
        for each in ends:
            each()
        return True

    def source(self, key: str = "page") -> Source:
        return Source(
            (key,),
            self.session,
            self.quick if key == "quick" else self.render,
            lambda: self.changed,
            lambda: self.revision,
        )

    async def render(self) -> Mapping[str, str]:
        self.renders += 1
        await self.open_to_render.wait()
        if self.fails is not None:
            raise self.fails
        return dict(self.parts)

    async def quick(self) -> Mapping[str, str]:
        return dict(self.parts)

    def open(self, since: int, key: str = "page", *, http1: bool = False) -> Writer:
        writer = Writer()
        writer.gone = self.hub.stream(self.source(key), since, http1=http1).start(writer)
        return writer

    def change(self, **parts: str) -> None:
        self.revision += 1
        self.changed = self.revision
        self.parts |= parts

    async def later(self, seconds: float) -> None:
        """Time passes in small steps, and everybody does what is due."""
        for _ in range(round(seconds / 0.05)):
            self.clock.advance(0.05)
            for _ in range(4):
                await asyncio.sleep(0)


async def _scenario(story: Any) -> None:
    shown = Shown()
    try:
        await story(shown)
    finally:
        await shown.hub.stop()


def play(story: Any) -> None:
    asyncio.run(_scenario(story))


def test_only_what_changed_is_sent() -> None:
    async def story(shown: Shown) -> None:
        writer = shown.open(10)
        await shown.later(1)
        assert writer.fragments() == [], "the browser has the page of this revision"
        shown.change(free="7")
        await shown.later(1)
        shown.change()
        await shown.later(1)
        assert writer.fragments() == [{"free": "7"}]
        assert writer.last_id() == 11

    play(story)


def test_a_page_that_is_older_than_the_store_gets_what_it_lacks() -> None:
    async def story(shown: Shown) -> None:
        writer = shown.open(9)
        await shown.later(1)
        assert writer.fragments() == [{"free": "8", "jobs": "none"}]

    play(story)


def test_what_the_page_does_not_follow_sends_nothing() -> None:
    """Between the page and its stream, and later: leases are renewed all the time."""

    async def story(shown: Shown) -> None:
        shown.revision += 5
        writer = shown.open(10)
        await shown.later(1)
        shown.renders = 0
        for _ in range(20):
            shown.revision += 1
            await shown.later(0.25)
        assert writer.fragments() == []
        assert shown.renders == 0

    play(story)


def test_a_break_leaves_no_gap() -> None:
    async def story(shown: Shown) -> None:
        first = shown.open(10)
        shown.change(free="7")
        await shown.later(1)
        first.close()
        shown.change(jobs="one")
        await shown.later(1)
        again = shown.open(first.last_id())
        await shown.later(1)
        assert again.fragments() == [{"jobs": "one"}]

    play(story)


@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_a_break_longer_than_the_channel_remembers_gives_the_whole(seconds: float) -> None:
    async def story(shown: Shown) -> None:
        first = shown.open(10)
        await shown.later(1)
        first.close()
        await shown.later(seconds)
        shown.change(jobs="one")
        again = shown.open(10)
        await shown.later(1)
        assert again.fragments()[-1]["jobs"] == "one"

    play(story)


def test_bursts_are_coalesced_to_four_a_second() -> None:
    async def story(shown: Shown) -> None:
        writer = shown.open(10)
        await shown.later(1)
        shown.renders = 0
        for number in range(100):
            shown.change(free=str(number))
            await shown.later(0.05)
        assert shown.renders <= 5 * 4 + 1
        await shown.later(1)
        assert writer.fragments()[-1] == {"free": "99"}
        assert len(writer.fragments()) <= 5 * 4 + 2

    play(story)


def test_tabs_of_one_address_share_a_render() -> None:
    async def story(shown: Shown) -> None:
        writers = [shown.open(10) for _ in range(20)]
        await shown.later(1)
        shown.renders = 0
        shown.change(free="7")
        await shown.later(0.3)
        assert shown.renders == 1
        assert all(each.fragments() == [{"free": "7"}] for each in writers)

    play(story)


def test_a_slow_reader_is_passed_over_and_catches_up_with_the_newest() -> None:
    async def story(shown: Shown) -> None:
        slow, quick = shown.open(10), shown.open(10)
        await shown.later(1)
        assert slow.on_pause is not None
        assert slow.on_resume is not None
        slow.on_pause()
        for number in range(5):
            shown.change(free=str(number))
            await shown.later(1)
        assert slow.fragments() == []
        assert len(quick.fragments()) == 5
        slow.on_resume()
        assert slow.fragments() == [{"free": "4"}]

    play(story)


def test_a_reader_without_room_for_long_is_dropped() -> None:
    async def story(shown: Shown) -> None:
        slow = shown.open(10)
        await shown.later(1)
        assert slow.on_pause is not None
        slow.on_pause()
        await shown.later(limits.SLOW + 1)
        assert slow.closed
        assert len(shown.hub) == 0

    play(story)


def test_a_change_that_the_store_does_not_know_of_is_sent_too() -> None:
    """Places in a queue come from the engine."""

    async def story(shown: Shown) -> None:
        writer = shown.open(10)
        await shown.later(1)
        shown.parts["jobs"] = "second in the queue"
        await shown.later(15)
        assert writer.fragments() == [{"jobs": "second in the queue"}]
        other = shown.open(10)
        await shown.later(1)
        assert other.fragments() == [{"jobs": "second in the queue"}]

    play(story)


def test_signs_of_life_come_while_nothing_changes() -> None:
    async def story(shown: Shown) -> None:
        writer = shown.open(10)
        await shown.later(65)
        beats = [name for name, _, _ in writer.heard if name == "beat"]
        assert 5 <= len(beats) <= 7

    play(story)


def test_the_end_of_the_session_ends_its_streams() -> None:
    async def story(shown: Shown) -> None:
        writers = [shown.open(10), shown.open(10, "another page")]
        await shown.later(1)
        shown.over.add("ada")
        await shown.later(5)
        assert all(each.closed and each.heard[-1][0] == "end" for each in writers)
        assert len(shown.hub) == 0

    play(story)


def test_a_page_that_cannot_be_shown_any_more_is_asked_for_again() -> None:
    async def story(shown: Shown) -> None:
        writer = shown.open(10)
        await shown.later(1)
        shown.fails = Unavailable("gone")
        shown.change()
        await shown.later(1)
        assert writer.heard[-1][0] == "reload"
        assert writer.closed

    play(story)


def test_streams_are_bounded_for_a_session_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(shown: Shown) -> None:
        for number in range(limits.MOST_OF_SESSION):
            shown.open(10, str(number))
        with pytest.raises(TooMany, match=f"limit is {limits.MOST_OF_SESSION}"):
            shown.open(10)
        monkeypatch.setattr(limits, "MOST", limits.MOST_OF_SESSION)
        shown.session = Session(b"other", Credential("local"), "bob", "csrf", 0.0, 0.0)
        with pytest.raises(TooMany, match="limit of this server"):
            shown.open(10)

    play(story)


def test_one_user_with_many_sessions_leaves_streams_to_others() -> None:
    async def story(shown: Shown) -> None:
        def another(number: int, name: str) -> None:
            shown.session = Session(str(number).encode(), Credential("local"), name, "csrf", 0.0, 0.0)

        writers = []
        for number in range(limits.MOST_OF_USER):
            if number % limits.MOST_OF_SESSION == 0:
                another(number, "ada")
            writers.append(shown.open(10, str(number)))
        another(-1, "ada")
        with pytest.raises(TooMany, match=f"has {limits.MOST_OF_USER} streams"):
            shown.open(10)
        another(-2, "bob")
        shown.open(10)
        writers[0].close()
        another(-3, "ada")
        shown.open(10)

    play(story)


def test_without_readers_nothing_is_rendered() -> None:
    async def story(shown: Shown) -> None:
        shown.open(10).close()
        await shown.later(1)
        shown.renders = 0
        for _ in range(10):
            shown.change(free="x")
            await shown.later(1)
        assert shown.renders == 0

    play(story)


def test_a_page_that_takes_long_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATIENCE", 0.01)

    async def story(shown: Shown) -> None:
        shown.open_to_render.clear()
        slow, quick = shown.open(9), shown.open(9, "quick")
        await asyncio.sleep(0.05)
        await shown.later(1)
        shown.change(free="7")
        await asyncio.sleep(0.05)
        await shown.later(1)
        assert quick.fragments()[-1] == {"free": "7"}
        assert shown.renders == 1, "a render that is under way is not begun again"
        assert slow.fragments() == []
        shown.open_to_render.set()
        await shown.later(1)
        assert slow.fragments()[-1]["free"] == "7"

    play(story)


def test_addresses_opened_one_after_the_other_are_not_all_remembered() -> None:
    async def story(shown: Shown) -> None:
        for number in range(200):
            shown.open(10, f"page {number}").close()
            await shown.later(0.1)
        assert shown.hub.channels <= 10

    play(story)


def test_over_http1_a_browser_keeps_connections_free() -> None:
    """It has six for all its windows: the oldest stream gives way, and gets what it missed when it comes back."""

    async def story(shown: Shown) -> None:
        writers = [shown.open(10, f"window {number}", http1=True) for number in range(6)]
        await shown.later(1)
        assert [each.closed for each in writers] == [True, True, False, False, False, False]
        assert writers[0].heard[-1][0] == "crowded"
        shown.change(free="7")
        await shown.later(1)
        again = shown.open(10, "window 0", http1=True)
        await shown.later(1)
        assert again.fragments()[-1]["free"] == "7"
        assert writers[2].closed
        assert sum(not each.closed for each in (*writers, again)) == 4
        for each in (*writers, again):
            if not each.closed:
                each.close()
        assert not shown.hub._crowds
        assert len(shown.hub) == 0

    play(story)
