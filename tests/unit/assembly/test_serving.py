"""The control plane ends when it is told to, and when nobody stands behind its API."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gpuaas.assembly import control_plane
from gpuaas.assembly.control_plane import ControlPlane, Settings, serve
from gpuaas.assembly.home import Home, Unusable


def test_without_controllers_it_ends_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_self: ControlPlane) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(ControlPlane, "_start_controllers", broken)
    monkeypatch.setattr(control_plane, "_log", control_plane._log.getChild("quiet"))
    home = Home(tmp_path / "home")
    seen: list[str] = []
    with pytest.raises(Unusable, match="the controllers did not start"):
        asyncio.run(asyncio.wait_for(serve(home, Settings(fsync=False), lambda plane: seen.append(plane.url)), 60))
    assert len(seen) == 1
    assert not home.is_locked()
