"""The control plane of this machine: whether it runs, answers, and has room on its disk."""

import shutil
from typing import TYPE_CHECKING

from gpuaas.cli.doctor.finding import Finding, Level

if TYPE_CHECKING:
    from gpuaas.assembly.home import Home

_LITTLE_ROOM = 1 << 30  # bytes: less than this makes a busy store fail within hours
_NO_ROOM = 50 << 20


def check_server(home: "Home") -> list[Finding]:
    from gpuaas.cli.ready import unready

    running = home.running()
    if running is None:
        return [Finding("yellow", "server-runs", f"gpuaas does not run (home {home.path})", "gpuaas up -d")]
    trouble = unready(running, home)
    if not trouble.words:
        return [Finding("green", "server-runs", f"gpuaas {running.version} answers at {running.url}")]
    fix = "gpuaas down && gpuaas up -d" if trouble.lasting else f"tail {home.log}"
    return [Finding("red", "server-runs", f"gpuaas runs (pid {running.pid}) but {trouble.words}", fix)]


def check_disk(home: "Home") -> list[Finding]:
    folder = next(path for path in (home.path, *home.path.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    room = f"{free / 1e9:.1f} GB free for {home.path}"
    if free >= _LITTLE_ROOM:
        return [Finding("green", "disk-room", room)]
    level: Level = "red" if free < _NO_ROOM else "yellow"
    return [Finding(level, "disk-room", f"only {room}", f"du -xh --max-depth=2 {folder} | sort -h | tail")]
