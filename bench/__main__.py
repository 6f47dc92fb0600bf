"""Runs the benchmarks, all or the parts named, and prints figures; `--json FILE` keeps them. With `--against REV`:
CPU time per operation of the working tree beside that revision."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import against, apiserver, lifecycle


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--rounds", type=int, help="of the API server's lines, default 3; with --against 5; the median counts"
    )
    parser.add_argument("--only-ours", action="store_true", help="leave the real kube-apiserver out")
    parser.add_argument("--against", metavar="REV", help="compare CPU time and memory with another revision")
    parser.add_argument(
        "--lines",
        type=against.lines_option,
        default=list(against.GROUPS),
        help=f"with --against: which lines, of {','.join(against.GROUPS)}",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="with --against")
    options = parser.parse_args()
    if options.against:
        return against.main(options)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part is called {unknown[0]!r}: there are {', '.join(PARTS)}")
    figures: dict[str, Any] = {}
    for part in options.parts or PARTS:
        figures[part] = PARTS[part](options)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
        print(f"\nfigures written to {options.json}")
    return 0


def _engine(_: argparse.Namespace) -> None:
    from bench import engine

    for part in engine.PARTS.values():
        part()


def _cli(_: argparse.Namespace) -> Any:
    from bench import cli

    return cli.measure()


def _fleet(_: argparse.Namespace) -> Any:
    from bench import fleet

    return fleet.measure()


def _kueue(_: argparse.Namespace) -> Any:
    from bench import kueue

    return kueue.measure()


def _preemption(_: argparse.Namespace) -> Any:
    from bench import preemption

    return preemption.measure()


def _web(_: argparse.Namespace) -> Any:
    from bench import web

    return web.measure()


def _cards(_: argparse.Namespace) -> Any:
    from bench import cards

    return cards.measure()


def _sharing(_: argparse.Namespace) -> Any:
    from bench import sharing

    return sharing.measure()


def _trace(_: argparse.Namespace) -> Any:
    from bench import trace

    return trace.measure()


PARTS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "lifecycle": lambda _: lifecycle.measure(),
    "apiserver": lambda options: apiserver.measure(options.rounds or 3, only_ours=options.only_ours),
    "engine": _engine,
    "preemption": _preemption,
    "kueue": _kueue,
    "fleet": _fleet,
    "cli": _cli,
    "web": _web,
    "cards": _cards,
    "sharing": _sharing,
    "trace": _trace,
}

if __name__ == "__main__":
    sys.exit(main())
