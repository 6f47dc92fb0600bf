"""Where notebooks of this machine keep their files and sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuaas.executors import notebook_paths
from gpuaas.executors.notebook_paths import NoPlace, paths_in


def pod(name: str = "nb", namespace: str = "team") -> dict[str, Any]:
    return {"metadata": {"uid": "u-1", "namespace": namespace, "labels": {"notebook-name": name} if name else {}}}


def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose path leaves room for a socket, whatever pytest's folders are called."""
    monkeypatch.setattr(notebook_paths, "_LONGEST", 1000)
    return tmp_path / "home"


def test_files_are_the_notebooks_and_the_socket_is_the_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = short(tmp_path, monkeypatch)
    paths = paths_in(home, "local")
    assert paths.work_folder(pod()) == home / "notebooks" / "local" / "team" / "nb"
    variables = paths.variables(pod())
    assert variables["NB_SOCKET"] == str(paths.socket("u-1"))
    assert paths_in(home, "local").socket("u-1") == paths.socket("u-1"), "the same after a restart"
    assert paths.sockets.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "x" * 300])
def test_a_pod_without_a_notebooks_name_is_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = paths_in(short(tmp_path, monkeypatch), "local")
    assert paths.variables(pod(name)) == {}
    assert paths.work_folder(pod(name)) is None


def test_a_long_home_has_its_sockets_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_paths.tempfile, "gettempdir", lambda: str(tmp_path))
    home = tmp_path / ("long" * 30)
    paths = paths_in(home, "local")
    assert paths.sockets.parent == tmp_path
    assert paths_in(tmp_path / ("Long" * 30), "local").sockets != paths.sockets


def test_a_folder_that_is_not_ours_alone_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may have put it there, where folders for temporary files are shared."""
    home = short(tmp_path, monkeypatch)
    (home / "sockets").mkdir(parents=True)
    (home / "sockets").chmod(0o755)
    with pytest.raises(NoPlace, match="not a folder of this user alone"):
        paths_in(home, "local")
    (home / "sockets").rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (home / "sockets").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoPlace, match="not a folder of this user alone"):
        paths_in(home, "local")


def test_a_socket_goes_with_its_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = paths_in(short(tmp_path, monkeypatch), "local")
    paths.socket("u-1").touch()
    paths.forget("u-1")
    paths.forget("u-1")
    assert not paths.socket("u-1").exists()
