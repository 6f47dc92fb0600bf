"""`python -m tests.real`: build the real parts, have a real cluster on a laptop, compare ours with it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.real import parts, plane


def main() -> int:
    arguments = _parser().parse_args()
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
    build.set_defaults(command=_build)

    up = commands.add_parser("up", help="start a real control plane and print how to use it")
    up.add_argument("--folder", type=Path, default=_default_folder(), help="where it lives (default: %(default)s)")
    up.add_argument("--all-controllers", action="store_true", help="run every controller and the scheduler")
    up.set_defaults(command=_up)

    down = commands.add_parser("down", help="stop it and remove its folder")
    down.add_argument("--folder", type=Path, default=_default_folder())
    down.set_defaults(command=_down)

    env = commands.add_parser("env", help="print the export lines for a running one")
    env.add_argument("--folder", type=Path, default=_default_folder())
    env.set_defaults(command=_env)
    return parser


def _default_folder() -> Path:
    return parts.cache() / "running"


def _build(_arguments: argparse.Namespace) -> int:
    for part in parts.missing():
        started = time.monotonic()
        print(f"building {part.name} {part.version} ...", flush=True)
        parts.build(part)
        print(f"built    {part.path} in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def _up(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    if (folder / "running.json").exists():
        print(f"# one runs already in {folder}")
        return _env(arguments)
    controllers = plane.EVERYTHING if arguments.all_controllers else plane.HOUSEKEEPING
    plane.RealControlPlane(folder, controllers, scheduler=arguments.all_controllers).start()
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


if __name__ == "__main__":
    sys.exit(main())
