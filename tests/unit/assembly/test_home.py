"""The home: who holds it, what is believed of what a dead server left, and what a backup file may not do."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from gpuaas.assembly.archive import read_backup, write_backup
from gpuaas.assembly.home import Home, Locked, Running, Unusable
from gpuaas.base.clock import VirtualClock
from gpuaas.store import Store, StoreError

RUNNING = Running(1234, "https://127.0.0.1:1", ("local",), "0")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make()
    return made


class TestLock:
    def test_only_one_holds_it(self, home: Home) -> None:
        home.lock()
        with pytest.raises(Locked):
            Home(home.path).lock()
        assert Home(home.path).is_locked()
        home.unlock()
        assert not Home(home.path).is_locked()

    def test_a_killed_holder_holds_nothing(self, home: Home) -> None:
        text = "import sys, time\nfrom pathlib import Path\nfrom gpuaas.assembly.home import Home\nHome(Path(sys.argv[1])).lock()\nprint('held', flush=True)\ntime.sleep(100)\n"
        holder = subprocess.Popen([sys.executable, "-c", text, str(home.path)], stdout=subprocess.PIPE)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert home.is_locked()
        holder.kill()
        holder.wait(30)
        holder.stdout.close()
        assert not home.is_locked()

    def test_the_holder_is_known_without_its_state_file(self, home: Home) -> None:
        assert home.holder() == 0
        home.lock()
        assert Home(home.path).holder() == os.getpid()
        home.unlock()
        assert Home(home.path).holder() == 0

    def test_what_a_dead_server_said_is_not_believed(self, home: Home) -> None:
        home.announce(RUNNING)
        assert home.running() is None
        other = Home(home.path)
        other.lock()
        assert home.running() == RUNNING
        other.unlock()

    def test_who_only_looks_does_not_keep_a_server_from_starting(self, home: Home) -> None:
        home.lock()
        home.unlock()
        descriptor = os.open(home.path / "lock", os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        threading.Timer(0.005, os.close, (descriptor,)).start()
        home.lock()
        home.unlock()

    def test_two_may_look_at_once(self, home: Home) -> None:
        home.lock()
        home.unlock()
        descriptor = os.open(home.path / "lock", os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        assert not home.is_locked()
        os.close(descriptor)

    @pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"pid": 1}'])
    def test_a_broken_state_file_is_nobody(self, home: Home, text: str) -> None:
        (home.path / "server.json").write_text(text)
        other = Home(home.path)
        other.lock()
        assert home.running() is None
        other.unlock()


class TestUnusable:
    """What cannot be a home is named, and looking at it never fails."""

    @pytest.fixture
    def wrong(self, tmp_path: Path) -> Home:
        (tmp_path / "file").write_text("")
        return Home(tmp_path / "file")

    def test_it_is_said(self, wrong: Home) -> None:
        with pytest.raises(Unusable, match=r"file cannot be the home .*GPUAAS_HOME names another"):
            wrong.make()
        with pytest.raises(Unusable, match="cannot be written to"):
            wrong.lock()

    def test_nobody_runs_there(self, wrong: Home) -> None:
        assert not wrong.is_locked()
        assert wrong.running() is None
        assert wrong.known_clusters() == []
        wrong.withdraw()


def test_files_and_folders_are_for_their_owner_alone(home: Home) -> None:
    home.announce(RUNNING)
    home.remember_port(5)
    assert home.last_port() == 5
    for path in (home.path, home.path / "clusters", home.certificates):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for name in ("server.json", "port"):
        assert stat.S_IMODE((home.path / name).stat().st_mode) == 0o600


def test_an_open_folder_is_closed_again(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o777)
    (tmp_path / "home").chmod(0o777)
    Home(tmp_path / "home").make()
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["", "x", "-", "1.5"])
def test_a_port_that_is_none_means_any(home: Home, text: str) -> None:
    (home.path / "port").write_text(text)
    assert home.last_port() == 0


class TestArchives:
    def archive(self, path: Path, *members: tuple[str, bytes], mark: bool = True, link: str = "") -> Path:
        with tarfile.open(path, "w:gz") as made:
            for name, content in (*members, *([("gpuaas-backup", b"1\n")] if mark else [])):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                made.addfile(info, io.BytesIO(content))
            if link:
                info = tarfile.TarInfo("pki/ca.key")
                info.type, info.linkname = tarfile.SYMTYPE, link
                made.addfile(info)
        return path

    def test_nothing_is_written_outside_the_home(self, home: Home, tmp_path: Path) -> None:
        for member in ("../evil", "/tmp/evil-gpuaas", "pki/../../../evil"):
            file = self.archive(tmp_path / "bad", (member, b"x"))
            with pytest.raises(StoreError, match=r"is not a backup of ours|holds no cluster"):
                read_backup(home, file)
        assert not (tmp_path / "evil").exists()
        assert not Path("/tmp/evil-gpuaas").exists()

    def test_a_link_that_leads_outside_is_refused(self, home: Home, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="is not a backup of ours"):
            read_backup(home, self.archive(tmp_path / "bad", link="/etc/passwd"))

    def test_a_file_without_the_mark_or_without_clusters_is_refused(self, home: Home, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="lacks the mark"):
            read_backup(home, self.archive(tmp_path / "a", ("x", b""), mark=False))
        with pytest.raises(StoreError, match="holds no cluster"):
            read_backup(home, self.archive(tmp_path / "b"))

    def test_a_broken_store_changes_nothing(self, home: Home, tmp_path: Path) -> None:
        home.users.write_text(json.dumps([]))
        file = self.archive(tmp_path / "c", ("clusters/local.db", b"no database"), ("users.json", b"[1]"))
        with pytest.raises(StoreError):
            read_backup(home, file)
        assert home.known_clusters() == []
        assert home.users.read_text() == "[]"

    async def store(self, home: Home) -> None:
        await (await Store.open(home.store("local"), clock=VirtualClock(), fsync=False)).close()

    def test_the_fleet_and_the_configuration_come_along(self, home: Home, tmp_path: Path) -> None:
        asyncio.run(self.store(home))
        home.keep("fleet.yaml", "clusters: [{name: local}]")
        write_backup(home, tmp_path / "with")
        home.keep("fleet.yaml", "clusters: [{name: other}]")
        home.keep("kueue.yaml", "kind: Configuration")
        home.keep("strict", "nvidia")
        assert read_backup(home, tmp_path / "with") == ["local"]
        assert home.fleet.read_text() == "clusters: [{name: local}]"
        assert not home.kueue.exists()  # there was none when the backup was made
        assert not home.strict.exists()

    def test_strict_originals_and_the_platform_come_along(self, home: Home, tmp_path: Path) -> None:
        asyncio.run(self.store(home))
        home.keep("strict", "multikueue,odh")
        home.keep("platform", "rhoai")
        write_backup(home, tmp_path / "with")
        for name in ("strict", "platform"):
            home.keep(name, "")
        read_backup(home, tmp_path / "with")
        assert (home.strict.read_text(), home.platform.read_text()) == ("multikueue,odh", "rhoai")

    def test_an_old_backup_says_nothing_about_the_fleet(self, home: Home, tmp_path: Path) -> None:
        asyncio.run(self.store(home))
        home.keep("fleet.yaml", "clusters: [{name: local}]")
        file = self.archive(tmp_path / "old", ("clusters/local.db", home.store("local").read_bytes()))
        assert read_backup(home, file) == ["local"]
        assert home.fleet.exists()

    def test_a_backup_of_a_newer_version_is_refused_with_words(self, home: Home, tmp_path: Path) -> None:
        file = self.archive(tmp_path / "new", ("gpuaas-backup", b"99\n"), mark=False)
        with pytest.raises(StoreError, match="has format 99, and this gpuaas knows formats up to 3"):
            read_backup(home, file)

    def test_a_broken_store_is_named_as_what_it_is(self, home: Home, tmp_path: Path) -> None:
        home.store("local").write_bytes(b"no database" * 1000)
        with pytest.raises(StoreError, match=str(home.store("local"))):
            write_backup(home, tmp_path / "x")

    def test_there_is_nothing_to_save_in_an_empty_home(self, home: Home, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="nothing to back up"):
            write_backup(home, tmp_path / "x")
        assert not (tmp_path / "x").exists()


def test_the_default_home_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUAAS_HOME", str(tmp_path))
    assert Home.default().path == tmp_path
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUAAS_HOME", "here")
    assert Home.default().path == tmp_path / "here"  # what is printed works from everywhere
    monkeypatch.delenv("GPUAAS_HOME")
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    assert Home.default().path == tmp_path / ".gpuaas"
