"""`python -m tests.real`: build the real parts, have a real cluster on a laptop, compare ours with it."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from docs_build import differences
from tests.real import cluster, differential, drawn, nodes, parts, plane, queues, script, sides
from tests.real.judge import LIST, Judge, load, render

DRAWN = "drawn"
QUEUES = {"queues": queues.FOLDER, "configured": queues.CONFIGURED}
OF_QUEUES = (*QUEUES, DRAWN)
Start = Callable[[str], AbstractContextManager[sides.Side]]


def main() -> int:
    arguments = _parser().parse_args()
    # Ended politely, it stops the servers it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        result: int = arguments.command(arguments)
    except (parts.PartMissing, plane.PlaneFailed) as problem:
        print(problem, file=sys.stderr)
        return 1
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="build the real programs that are not in the cache (needs Go)")
    build.add_argument("names", nargs="*", metavar="NAME", help="only these (default: all)")
    build.set_defaults(command=_build)

    cached = commands.add_parser("cached", help="succeed when nothing is left to build")
    cached.set_defaults(command=_cached)

    up = commands.add_parser("up", help="start a real control plane and print how to use it")
    up.add_argument("--folder", type=Path, default=_default_folder(), help="where it lives (default: %(default)s)")
    up.add_argument("--all-controllers", action="store_true", help="run every controller there is")
    up.add_argument("--kueue", action="store_true", help="with upstream Kueue, KubeRay's operator and kwok")
    up.add_argument("--fleet", type=Path, default=queues.FLEET, help="the nodes kwok plays (default: %(default)s)")
    up.set_defaults(command=_up)

    down = commands.add_parser("down", help="stop it and remove its folder")
    down.add_argument("--folder", type=Path, default=_default_folder())
    down.set_defaults(command=_down)

    env = commands.add_parser("env", help="print the export lines for a running one")
    env.add_argument("--folder", type=Path, default=_default_folder())
    env.set_defaults(command=_env)

    diff = commands.add_parser("diff", help="run the same cases against two servers and show what differs")
    diff.add_argument("--only", default="", metavar="PATTERNS", help="only cases whose name matches (a,b*c)")
    diff.add_argument("--kubectl", default=parts.KUBERNETES, metavar="VERSION", help="default: %(default)s")
    diff.add_argument("--kind", choices=["kubectl", "wire", "both", *OF_QUEUES], default="both")
    diff.add_argument("--self-test", action="store_true", help="two real servers, which must not differ at all")
    diff.add_argument("--real", type=Path, metavar="KUBECONFIG", help="use a running real server")
    diff.add_argument("--ours", type=Path, metavar="KUBECONFIG", help="use a running server of ours")
    diff.add_argument("--together", type=int, default=1, metavar="N", help="how many cases at the same time")
    diff.add_argument("--seed", type=int, default=1, help="of the cases that are drawn by lot (default: %(default)s)")
    diff.add_argument("--count", type=int, default=20, help="how many of them (default: %(default)s)")
    diff.add_argument("--first", action="store_true", help="show only the first difference of each case")
    diff.add_argument("--stale", action="store_true", help="name the listed differences that did not show")
    diff.set_defaults(command=_diff)

    listed = commands.add_parser("differences", help="print the listed differences as a page")
    listed.set_defaults(command=_differences)
    return parser


def _default_folder() -> Path:
    return parts.cache() / "running"


def _build(arguments: argparse.Namespace) -> int:
    for part in parts.missing():
        if arguments.names and part.name not in arguments.names:
            continue
        started = time.monotonic()
        print(f"building {part.name} {part.version} ...", flush=True)
        parts.build(part)
        print(f"built    {part.path} in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def _cached(_arguments: argparse.Namespace) -> int:
    absent = parts.missing()
    for part in absent:
        print(f"not in {parts.cache()}: {part.name} {part.version}")
    return 1 if absent else 0


def _up(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    if (folder / "running.json").exists():
        print(f"# one runs already in {folder}")
        return _env(arguments)
    controllers = plane.EVERYTHING if arguments.all_controllers else plane.CONTROLLERS
    started = plane.RealControlPlane(folder, controllers, scheduler=True)
    started.start()
    if arguments.kueue:
        side = sides.Side("real", started.kubeconfig)
        cluster.furnish(started, side)
        nodes.add_nodes(side, arguments.fleet.read_text())
    return _env(arguments)


def _down(arguments: argparse.Namespace) -> int:
    if not plane.stop_recorded(arguments.folder):
        print(f"nothing runs in {arguments.folder}")
    return 0


def _env(arguments: argparse.Namespace) -> int:
    kubeconfig = arguments.folder / "kubeconfig"
    if not kubeconfig.exists():
        print(f"nothing runs in {arguments.folder}: start it with `python -m tests.real up`", file=sys.stderr)
        return 1
    print(f"export KUBECONFIG={kubeconfig}")
    print(f"export PATH={parts.binary('kubectl').parent}{os.pathsep}$PATH")
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        starts = _starts(arguments.kind)
        other = starts[0] if arguments.self_test else starts[1]
        left = stack.enter_context(_side("real", arguments.real, starts[0], arguments.kind))
        right = stack.enter_context(_side("ours", arguments.ours, other, arguments.kind))
        homes = Path(stack.enter_context(differential.temporary_homes()))
        listed = queues.DIFFERENCES if arguments.kind in OF_QUEUES else LIST
        judge = Judge([] if arguments.self_test else load(listed))
        cases = _cases(arguments, homes)
        for found in differential.compare(cases, (left, right), judge, together=arguments.together):
            for difference in found[:1] if arguments.first else found:
                print(render(difference), end="\n\n", flush=True)
    if arguments.stale:
        for entry in judge.stale:
            print(f"listed and not seen: {entry.step} ({entry.title})")
    failed = {difference.case for difference in judge.unlisted}
    print(f"{len(cases)} cases, {judge.steps} steps: {len(judge.unlisted)} unlisted differences in {len(failed)} cases")
    return 1 if judge.unlisted else 0


def _cases(arguments: argparse.Namespace, homes: Path) -> list[tuple[str, differential.Run]]:
    kubectl = parts.binary("kubectl", arguments.kubectl)
    if arguments.kind in OF_QUEUES:
        return [*differential.kubectl_cases(kubectl, homes, arguments.only, known=_queue_cases(arguments))]
    cases: list[tuple[str, differential.Run]] = []
    if arguments.kind != "wire":
        cases += differential.kubectl_cases(kubectl, homes, arguments.only)
    if arguments.kind != "kubectl":
        cases += differential.wire_cases(arguments.only)
    return cases


def _queue_cases(arguments: argparse.Namespace) -> list[script.Case]:
    if arguments.kind == DRAWN:
        return drawn.cases(arguments.seed, arguments.count)
    return queues.load(QUEUES[arguments.kind])


def _starts(kind: str) -> tuple[Start, Start]:
    if kind not in OF_QUEUES:
        return sides.real_side, sides.our_side
    told = queues.settings() if kind == "configured" else None
    return partial(queues.real_side, told=told), partial(queues.our_side, told=told)


def _side(name: str, kubeconfig: Path | None, start: Start, kind: str) -> AbstractContextManager[sides.Side]:
    running = sides.Side(name, kubeconfig, queues=kind in OF_QUEUES) if kubeconfig else None
    return contextlib.nullcontext(running) if running else start(name)


def _differences(_arguments: argparse.Namespace) -> int:
    print(differences.body())
    return 0


if __name__ == "__main__":
    sys.exit(main())
