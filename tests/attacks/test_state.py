"""The state of a control plane, damaged in every way an operator or a disk can: said at start, never acted on silently."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.service import Service, eventually

from gpuaas.apiserver.security.certs import Authority, serving_names
from gpuaas.base.clock import SystemClock

LIMIT = 20.0
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home; processes its pods left behind are ended after the test."""
    made = tmp_path / "home"
    yield made
    for file in made.glob("pods/*/*/*/pid"):
        with suppress(OSError, ValueError):
            os.killpg(int(file.read_text()), signal.SIGKILL)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("template") / "home"
    with Service(made):
        pass
    return made


@pytest.fixture
def used(template: Path, home: Path) -> Path:
    """A home that has served and was stopped."""
    shutil.copytree(template, home)
    return home


def command(home: Path, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUAAS_HOME": str(home)}
    environment.pop("GPUAAS_DETACHED", None)
    return subprocess.run(
        [sys.executable, "-m", "gpuaas", *arguments],
        env=environment,
        input=answer,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def refused(home: Path, *options: str) -> str:
    """What `gpuaas up` says when it does not start."""
    outcome = command(home, "up", *options)
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    assert "defect of gpuaas" not in outcome.stderr
    return outcome.stderr


def pod(name: str, script: str) -> dict[str, Any]:
    container = {"name": "c", "image": "none", "command": ["/bin/sh", "-c", script]}
    spec = {"restartPolicy": "Never", "runtimeClassName": "gpuaas-process", "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


def runs(service: Service, name: str, script: str = "echo begun; sleep 600") -> str:
    """Makes a pod of this machine; its uid, once its process has written something."""
    answer = service.ask("POST", PODS, pod(name, script))
    assert answer.status == 201, answer.body
    uid = str(answer.json()["metadata"]["uid"])
    log = service.home / "pods" / "local" / uid / "c" / "log"
    eventually(lambda: log.exists() and log.read_text(), lambda: f"{name} never began")
    return uid


def alive(home: Path, uid: str) -> bool:
    try:
        os.kill(int((home / "pods" / "local" / uid / "c" / "pid").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def database(home: Path) -> Path:
    return home / "clusters" / "local.db"


def remove_database(home: Path) -> None:
    for file in (home / "clusters").iterdir():
        if file.is_file():
            file.unlink()


def remove_files(home: Path) -> None:
    """The database and its log alone, as a clean-up by hand does."""
    for file in (home / "clusters").glob("local.*"):
        file.unlink()


def empty_database(home: Path) -> None:
    remove_database(home)
    database(home).touch()


def remove_folder(home: Path) -> None:
    remove_database(home)
    (home / "clusters").rmdir()


def other_database(home: Path) -> None:
    """The whole database of another home."""
    with Service(home.parent / "other") as other:
        assert other.ask("GET", "/version").status == 200
    remove_database(home)
    database(home).write_bytes(database(home.parent / "other").read_bytes())


class TestALostDatabase:
    """Row 13: a home that is not new is refused, and the processes of a store that is not this one are never ended."""

    @pytest.mark.parametrize("lose", [remove_database, remove_files, empty_database, remove_folder, other_database])
    def test_it_is_refused_and_nothing_is_ended(self, home: Path, lose: Callable[[Path], None]) -> None:
        with Service(home) as service:
            uid = runs(service, "one")
            service.kill()
        lose(home)
        words = refused(home)
        assert "cluster local" in words
        assert "gpuaas restore" in words
        assert "--accept new-cluster" in words
        assert str(home / "clusters" / "local.db") in words
        assert alive(home, uid)
        with Service(home, "--accept", "new-cluster") as service:
            time.sleep(1)  # the executor has looked at its folder by then
            assert alive(home, uid)
            assert (home / "pods" / "local" / uid / "c" / "log").read_text() == "begun\n"
            assert f"pods/local/{uid}" in service.log.read_text()
            runs(service, "two")
        with Service(home) as service:  # it is the cluster of this home from now on
            assert alive(home, uid)
            assert service.ask("GET", f"{PODS}/two").status == 200

    def test_a_restored_database_is_the_same_cluster(self, home: Path, tmp_path: Path) -> None:
        with Service(home) as service:
            uid = runs(service, "one")
            assert command(home, "backup", str(tmp_path / "saved")).returncode == 0
            service.kill()
        remove_database(home)
        assert command(home, "restore", "-y", str(tmp_path / "saved")).returncode == 0
        with Service(home) as service:
            assert service.ask("GET", f"{PODS}/one").status == 200
            assert alive(home, uid)

    def test_a_cluster_that_lost_its_file_is_not_left_out(self, home: Path) -> None:
        with Service(home, "--cluster", "a", "--cluster", "b"):
            pass
        (home / "clusters" / "b.db").unlink()
        assert "cluster b" in refused(home)

    def test_a_first_start_that_was_killed_can_be_repeated(self, home: Path) -> None:
        (home / "clusters").mkdir(parents=True)
        database(home).touch()
        with Service(home) as service:
            assert service.ask("GET", PODS).status == 200


def cut_wal(home: Path) -> None:
    wal = home / "clusters" / "local.db-wal"
    os.truncate(wal, wal.stat().st_size // 2)


def remove_companions(home: Path) -> None:
    """As a clean-up by hand does."""
    for file in (home / "clusters").glob("local.db-*"):
        file.unlink()


class TestLostWrites:
    """Row 17: acknowledged writes that are missing after an unclean stop."""

    @pytest.mark.parametrize("damage", [cut_wal, remove_companions])
    def test_they_are_said_at_start_and_have_to_be_accepted(self, home: Path, damage: Callable[[Path], None]) -> None:
        with Service(home) as service:
            for number in range(200):
                body = {"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 500}}
                assert service.ask("POST", MAPS, body).status == 201
            uid = runs(service, "late")
            service.kill()
        damage(home)
        words = refused(home)
        assert "writes are missing" in words
        assert "The last acknowledged one has revision" in words
        assert "--accept lost-writes" in words
        assert alive(home, uid)
        with Service(home, "--accept", "lost-writes") as service:
            there = len(service.ask("GET", MAPS).json()["items"])
            assert "writes are missing" in service.log.read_text()
        kept = home / "kept-logs"
        assert there >= 200 or [log.read_text() for log in kept.glob(f"*{uid}/c.log")] == ["begun\n"]
        with Service(home) as service:
            assert len(service.ask("GET", MAPS).json()["items"]) == there

    def test_a_kill_alone_is_not_refused(self, home: Path) -> None:
        with Service(home) as service:
            for _ in range(3):
                assert service.ask("POST", MAPS, {"metadata": {"generateName": "m"}}).status == 201
                service.kill()
                service.start()


class TestRestore:
    """Row 17: what a restore does to running and ended jobs is said first, and no log is lost."""

    def test_it_is_said_and_logs_are_kept(self, home: Path, tmp_path: Path) -> None:
        go = tmp_path / "go"
        with Service(home) as service:
            old = runs(service, "old")
            ends = runs(service, "ends", f"echo begun; while ! test -e {go}; do sleep 0.05; done")
            gone = runs(service, "gone")
            saved = command(home, "backup", str(tmp_path / "saved"))
            assert saved.returncode == 0, saved.stderr
            new = runs(service, "new")
            go.touch()
            eventually(lambda: service.ask("GET", f"{PODS}/ends").json()["status"]["phase"] == "Succeeded", "ends")
            assert service.ask("DELETE", f"{PODS}/gone?gracePeriodSeconds=0").status == 200
            eventually(lambda: not alive(home, gone), "gone runs on")
            service.stop()
        asked = command(home, "restore", str(tmp_path / "saved"), answer="n\n")
        assert asked.returncode == 1
        assert "1 pod that runs on this machine now will be ended" in asked.stderr
        assert "default/new" in asked.stderr
        assert "Ended since, and may run again: default/ends" in asked.stderr
        assert "Deleted since, and back to run again: default/gone" in asked.stderr
        assert str(home / "kept-logs") in asked.stderr
        assert alive(home, new)
        assert command(home, "restore", "-y", str(tmp_path / "saved")).returncode == 0
        with Service(home) as service:
            eventually(lambda: not alive(home, new), "new runs on")
            eventually(lambda: service.ask("GET", f"{PODS}/ends").json()["status"]["phase"] == "Succeeded", "ends")
            assert (home / "kept-logs" / f"default_new_{new}" / "c.log").read_text() == "begun\n"
            assert (home / "pods" / "local" / ends / "c" / "log").read_text() == "begun\n", "it ran a second time"
            assert alive(home, old)


class TestGrowth:
    """Row 15: what is kept is bounded by bytes."""

    def test_history_of_large_objects(self, home: Path) -> None:
        with Service(home) as service:
            for number in range(420):
                body = {"metadata": {"name": "large"}, "data": {"x": f"{number}" + "y" * 900_000}}
                method, path = ("PUT", f"{MAPS}/large") if number else ("POST", MAPS)
                assert service.ask(method, path, body).status in (200, 201)
            size = sum(file.stat().st_size for file in (home / "clusters").iterdir())
            assert size < 350 << 20, f"{size >> 20} MB are kept of 378 MB, for one object of 0.9 MB"
            recent = service.ask("GET", f"{MAPS}/large").json()["metadata"]["resourceVersion"]
            assert int(recent) > 400

    def test_the_log_of_a_detached_server(self, home: Path) -> None:
        started = command(home, "up", "-d")
        assert started.returncode == 0, started.stderr
        assert command(home, "down").returncode == 0
        (home / "gpuaas.log").write_bytes(b"x" * (17 << 20))
        try:
            assert command(home, "up", "-d").returncode == 0
            assert (home / "gpuaas.log").stat().st_size < 1 << 20
            assert (home / "gpuaas.log.1").stat().st_size == 17 << 20
        finally:
            command(home, "down")


def use_pki_of(home: Path, ahead: float) -> None:
    """What a first start with a wrong clock leaves."""
    for file in (home / "pki").iterdir():
        file.unlink()
    Authority(home / "pki", SystemClock().now() + ahead).serving(serving_names(socket.gethostname()))


class TestCertificates:
    """Row 16: what is not valid yet is replaced; and the CA that clients trust is never replaced silently."""

    @pytest.mark.parametrize("days", [2, 800])
    def test_a_clock_that_was_ahead(self, used: Path, days: float) -> None:
        use_pki_of(used, days * 86_400)
        with Service(used) as service:
            assert service.ask("GET", "/version").status == 200
            assert "is not valid yet" in service.log.read_text()

    @pytest.mark.parametrize("lost", [("ca.crt",), ("ca.key",), ("ca.crt", "ca.key"), None])
    def test_a_lost_authority_is_refused(self, used: Path, lost: tuple[str, ...] | None) -> None:
        home = used
        for file in (home / "pki").iterdir():
            if lost is None or file.name in lost:
                file.unlink()
        words = refused(home)
        assert str(home / "pki" / (lost[0] if lost else "ca.crt")) in words
        assert "gpuaas restore" in words
        assert "--accept new-ca" in words
        if lost is None:
            with Service(home, "--accept", "new-ca") as service:
                assert service.ask("GET", "/version").status == 200


_NO_HASH = b'[{"name": "a", "uid": "u", "token_sha256": "zz", "created": 1}]'


class TestSmall:
    @pytest.mark.parametrize("text", ["", "{}"])
    def test_a_broken_state_file_does_not_hide_the_server(self, home: Path, text: str) -> None:
        with Service(home) as service:
            (home / "server.json").write_text(text)
            said = command(home, "status")
            assert f"pid {service.pid}" in said.stdout
            assert "server.json cannot be read" in said.stdout
            stopped = command(home, "down")
            assert stopped.returncode == 0, stopped.stderr
            assert "gpuaas has stopped" in stopped.stdout
            assert service.process is not None
            assert service.process.wait(10) == 0

    def test_a_port_that_was_taken_is_used_again_once_it_is_free(self, home: Path) -> None:
        with Service(home) as service:
            first = service.url
        port = int(first.rpartition(":")[2])
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
            with Service(home) as service:
                assert service.url != first
                assert f"port {port}" in service.log.read_text()
        with Service(home) as service:
            assert service.url == first

    @pytest.mark.parametrize("text", [b"\xff\xfe", _NO_HASH])
    def test_damaged_users(self, home: Path, text: bytes) -> None:
        with Service(home) as service:
            users = home / "users.json"
            users.write_bytes(text)
            assert service.ask("GET", "/version").status == 200, "those who were let in still are"
            for arguments in (("user", "add", "bob"), ("user", "list"), ("user", "rm", "bob")):
                said = command(home, *arguments)
                assert said.returncode == 1, (arguments, said.stdout)
                assert "defect" not in said.stderr
                assert str(users) in said.stderr
            service.stop()
            assert str(users) in refused(home)

    def test_an_archive_that_is_a_bomb_changes_nothing(self, used: Path, tmp_path: Path) -> None:
        info = tarfile.TarInfo("clusters/local.db")
        info.size = 256 << 20
        with gzip.open(tmp_path / "bomb", "wb", compresslevel=1) as out:
            out.write(info.tobuf())
            for _ in range(256):
                out.write(bytes(1 << 20))
        before = {path: path.stat().st_mtime_ns for path in used.rglob("*") if path.is_file()}
        said = command(used, "restore", "-y", str(tmp_path / "bomb"))
        assert said.returncode == 1
        assert "200 times its own size" in said.stderr
        assert "nothing was changed" in said.stderr
        assert before == {path: path.stat().st_mtime_ns for path in used.rglob("*") if path.is_file()}
