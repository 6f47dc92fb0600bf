"""The pages with 10,000 jobs that wait: first byte and first paint, event to page, and what open pages cost the server.

Streams are read by a client in this process over the plain port. CPU is the server's own, with 20 writes a second, with
and without open pages; the difference between the two is what the pages cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from bench import cli
from bench.show import progress, table
from bench.sides import cpu_seconds
from gpuaas.client.http import from_kubeconfig
from gpuaas.client.kubeconfig import load
from gpuaas.client.resources import JOBS

PAGES = ("/", "/jobs", "/quota", "/nodes", "/search?q=waits-7")
TIMES = 11
PEOPLE, TABS = 50, 4
WRITES = 20.0  # a second
SECONDS = 15.0
EVENTS = 20


def measure(jobs: int = cli.PENDING) -> dict[str, Any]:
    with cli._cluster(1) as home:
        progress(f"web: {jobs} jobs")
        asyncio.run(cli._submit(home / "kubeconfig", jobs))
        cli._settle(home)
        browser = _Browser(home)
        found: dict[str, Any] = {"jobs": jobs, "pages": {each: browser.first_bytes(each) for each in PAGES}}
        progress("web: first paint")
        found["paint_s"] = _paint(browser)
        progress("web: event to page")
        found["event_s"] = asyncio.run(_event_to_page(home, browser))
        progress("web: open pages")
        found["streams"] = asyncio.run(_streams(home, browser))
        progress("")
    _show(found)
    return found


class _Browser:
    """Who has signed in, as a browser is."""

    def __init__(self, home: Path) -> None:
        self.home = home
        address = urlsplit(json.loads((home / "server.json").read_text())["pages"])
        self.host, self.port = "127.0.0.1", address.port or 0
        self.authority = address.netloc
        self.cookie = self.sign_in()
        self._open: list[asyncio.StreamWriter] = []  # a connection ends with its writer

    def link(self) -> str:
        access = load([self.home / "kubeconfig"]).access("")
        server = urlsplit(access.server)
        trust = ssl.create_default_context(cafile=str(self.home / "pki" / "ca.crt"))
        with _closing(http.client.HTTPSConnection(server.hostname or "", server.port, context=trust)) as wire:
            wire.request("POST", "/ui/link", headers={"authorization": f"Bearer {access.token}"})
            return str(json.loads(wire.getresponse().read())["path"])

    def sign_in(self) -> str:
        with _closing(http.client.HTTPConnection(self.host, self.port)) as wire:
            wire.request("GET", self.link(), headers={"host": self.authority})
            return str(wire.getresponse().headers["set-cookie"]).partition(";")[0]

    def first_bytes(self, path: str) -> dict[str, float]:
        """Median seconds until the head of the answer, and its size in kB; on a connection that is kept."""
        times, size = [], 0
        with _closing(http.client.HTTPConnection(self.host, self.port)) as wire:
            for _ in range(TIMES):
                began = time.perf_counter()
                wire.request("GET", f"/ui{path}", headers={"host": self.authority, "cookie": self.cookie})
                answer = wire.getresponse()
                times.append(time.perf_counter() - began)
                size = len(answer.read())
                if answer.status != 200:
                    raise SystemExit(f"{path}: {answer.status}")
        return {"first_byte_s": median(times), "kB": size / 1000}

    async def stream(self, path: str, cookie: str) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=1 << 24)
        request = f"GET /ui/stream?page={path} HTTP/1.1\r\nhost: {self.authority}\r\ncookie: {cookie}\r\n\r\n"
        self._open.append(writer)
        writer.write(request.encode())
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head[:20]:
            raise SystemExit(f"stream of {path}: {head[:60]!r}")
        return reader

    async def close_newest(self) -> None:
        writer = self._open.pop()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def _paint(browser: _Browser) -> float | None:
    """Of the first page in Chromium, the median; None where there is no Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=chromium, args=sandbox).new_page()
        page.goto(f"http://{browser.authority}{browser.link()}")
        times = []
        for _ in range(TIMES):
            page.reload()
            while not (
                painted := page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
            ):
                page.wait_for_timeout(10)
            times.append(float(painted) / 1000)
        return median(times)


async def _event_to_page(home: Path, browser: _Browser) -> dict[str, float]:
    """Seconds from a job's creation until a page that filters by its name shows it."""
    times = []
    async with from_kubeconfig(home / "kubeconfig") as client:
        for number in range(EVENTS):
            name = f"event-{number}"
            reader = await browser.stream(f"/jobs%3Fq%3D{name}", browser.cookie)
            began = time.perf_counter()
            await client.create(JOBS, cli._job(name), cli.NAMESPACE)
            while f">{name}<".encode() not in (line := await reader.readline()):
                if not line:
                    raise SystemExit(f"the stream of {name} ended")
            times.append(time.perf_counter() - began)
            await browser.close_newest()  # one open page at a time; many are measured below
    return {"median": median(times), "longest": max(times)}


async def _streams(home: Path, browser: _Browser) -> dict[str, float]:
    pid = json.loads((home / "server.json").read_text())["pid"]
    without = await _busy(home, pid)
    before = _resident(pid)
    cookies = [browser.sign_in() for _ in range(PEOPLE)]
    readers = [await browser.stream("/", cookie) for cookie in cookies for _ in range(TABS)]
    drains = [asyncio.create_task(_drained(each)) for each in readers]
    await asyncio.sleep(3)
    idle_from = cpu_seconds(pid)
    await asyncio.sleep(SECONDS)
    idle = (cpu_seconds(pid) - idle_from) / SECONDS
    busy = await _busy(home, pid)
    grown = _resident(pid) - before
    for each in drains:
        each.cancel()
    await asyncio.gather(*drains, return_exceptions=True)
    return {"without": without, "idle": idle, "busy": busy, "MB": grown / 1e6, "streams": len(readers)}


async def _drained(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 20):
        pass


async def _busy(home: Path, pid: int) -> float:
    """The share of a core that the server uses while jobs are created at a steady rate."""
    async with from_kubeconfig(home / "kubeconfig") as client:
        began, before = time.perf_counter(), cpu_seconds(pid)
        for number in range(round(SECONDS * WRITES)):
            await client.create(JOBS, cli._job(f"busy-{began:.0f}-{number}"), cli.NAMESPACE)
            await asyncio.sleep(max(0.0, began + (number + 1) / WRITES - time.perf_counter()))
        return (cpu_seconds(pid) - before) / (time.perf_counter() - began)


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _show(found: dict[str, Any]) -> None:
    rows = [
        (path, f"{1000 * each['first_byte_s']:.0f} ms", f"{each['kB']:.0f} kB") for path, each in found["pages"].items()
    ]
    table(f"Pages, {found['jobs']} jobs wait, median of {TIMES}", ("", "first byte", "size"), rows)
    if found["paint_s"] is not None:
        print(f"  first paint of the first page: {1000 * found['paint_s']:.0f} ms")
    event, streams = found["event_s"], found["streams"]
    print(f"  a job's creation to the page: median {event['median']:.2f} s, longest {event['longest']:.2f} s")
    print(
        f"  {streams['streams']} open pages of {PEOPLE} people: {streams['idle']:.1%} of a core idle;"
        f" {WRITES:.0f} writes a second cost {streams['without']:.1%} without and {streams['busy']:.1%} with them;"
        f" {streams['MB']:.0f} MB"
    )
    print(f"  load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


@contextmanager
def _closing(wire: http.client.HTTPConnection) -> Iterator[http.client.HTTPConnection]:
    try:
        yield wire
    finally:
        wire.close()
