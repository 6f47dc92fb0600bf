"""Requests a second, ours and the real kube-apiserver's, by one compiled client in one run.

Line by line both servers take turns, in every round the other one first, and the median of the rounds is shown: on a
machine that others use too, only what was measured side by side can be compared.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import generator, sides
from bench.generator import Figures
from bench.show import progress, table

KINDS = ("configmap", "job")
OBJECTS = 3_000


@dataclass(frozen=True)
class Line:
    verb: str
    requests: int
    wanted: float  # times the real server's rate
    shown: str
    connections: int = 64


LINES = (
    Line("create", OBJECTS, 2, "create"),
    Line("get", 9_000, 4, "get"),
    Line("patch", OBJECTS, 2, "merge patch"),
    Line("list", 64, 2, "list 3,000"),
    Line("watch", 100, 2, "watch ×200"),
    Line("watch", 100, 2, "watch ×200 apart", connections=generator.WATCHERS),
    Line("delete", OBJECTS, 2, "delete"),
)
Results = dict[tuple[str, str, str], list[Figures]]  # (kind, line, side) -> one for each round


def measure(rounds: int, *, only_ours: bool) -> dict[str, Any]:
    missing = "" if only_ours else sides.why_no_real()
    if missing:
        print(f"The real server is left out: {missing}")
    results: Results = {}
    with tempfile.TemporaryDirectory(prefix="gpuaas-load-") as folder, ExitStack() as stack:
        try:
            program = generator.build(Path(folder))
        except generator.NoGenerator as reason:
            print(f"The API server is not measured: {reason}")
            return {"skipped": str(reason)}
        progress("starting the servers")
        servers = [stack.enter_context(sides.ours())]
        if not (only_ours or missing):
            servers.append(stack.enter_context(sides.real()))
        for server in servers:
            server.make_namespace(generator.NAMESPACE)
        for number in range(rounds):
            _round(number, rounds, program, servers, results)
        rss = {server.name: server.rss_mb() for server in servers}
    medians = {key: _median(found) for key, found in results.items()}
    _print(medians, rounds)
    return {
        "rounds": rounds,
        "load": os.getloadavg(),
        "rss_mb_at_the_end": rss,
        "lines": [
            {"kind": kind, "line": line, "server": side, **asdict(figures)}
            for (kind, line, side), figures in medians.items()
        ],
    }


def _round(number: int, rounds: int, program: Path, servers: list[sides.Side], results: Results) -> None:
    for kind in KINDS:
        for line in LINES:
            for server in servers if number % 2 else reversed(servers):
                progress(f"round {number + 1} of {rounds}: {line.shown}, {kind}, on {server.name}")
                for each in servers:
                    each.settle()
                figures = generator.run(
                    program, server, line.verb, kind, line.requests, connections=line.connections, objects=OBJECTS
                )
                results.setdefault((kind, line.shown, server.name), []).append(figures)


def _median(found: list[Figures]) -> Figures:
    rows = [asdict(each) for each in found]
    return Figures(**{name: median(row[name] for row in rows) for name in rows[0]})


def _print(medians: dict[tuple[str, str, str], Figures], rounds: int) -> None:
    progress("")
    rows: list[tuple[str, ...]] = []
    for kind in KINDS:
        for line in LINES:
            ours, real = (medians.get((kind, line.shown, side)) for side in ("ours", "real"))
            assert ours is not None
            rows.append((f"{line.shown}, {kind}", "ours", *_cells(ours), "", ""))
            if real is not None:
                ratio = ours.rate / real.rate
                verdict = "" if ratio >= line.wanted else f" < {line.wanted:g}"
                work = f"{real.cpu_us / ours.cpu_us:.1f}×" if ours.cpu_us else ""
                rows.append(("", "real", *_cells(real), work, f"{ratio:.1f}×{verdict}"))
    head = ("line", "", "per s", "p50", "p90", "p99", "RSS", "CPU", "client", "less CPU", "ratio")
    table(f"API server, HTTPS, 64 connections, 3 KB objects; median of {rounds} rounds", head, rows)
    print("  p50, p90, p99: ms. RSS: MB, the highest during the line, of all the server's processes. CPU: µs of the")
    print(
        "  server for one request (watch: one event), client: of the load generator, which shares the processors. Real:"
    )
    print(
        "  kube-apiserver + etcd without fsync; ours: durable writes, with controllers. Ratio: of the rates. Less CPU:"
    )
    print("  holds on a busy machine. Watchers share the connections, by HTTP/2, but for those apart.")
    load = os.getloadavg()
    print(f"  load average {load[0]:.1f} on {os.cpu_count()} processors")


def _cells(figures: Figures) -> tuple[str, ...]:
    return (
        f"{figures.rate:,.0f}",
        f"{figures.p50:.1f}",
        f"{figures.p90:.1f}",
        f"{figures.p99:.1f}",
        f"{figures.rss_mb:.0f}",
        f"{figures.cpu_us:,.0f}",
        f"{figures.client_us:,.0f}",
    )
