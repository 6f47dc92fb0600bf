"""The `gpuaas` command as people run it, in a home of its own: up, down, status, user, backup, restore."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuaas.apiserver.frames import PREFACE, SETTINGS, settings

FLEET = """
clusters: [{name: local}]
---
{apiVersion: v1, kind: Namespace, metadata: {name: Team_A}}
"""


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


class Place:
    """A home and the command in it."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def run(self, *words: str) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "gpuaas", *words],
            env={**os.environ, "GPUAAS_HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def up(self, *words: str) -> Said:
        said = self.run("up", "-d", *words)
        assert said.code == 0, said
        return said

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.home / "server.json").read_text()))

    def kubeconfig(self, path: Path | None = None) -> dict[str, Any]:
        return dict(yaml.safe_load((path or self.home / "kubeconfig").read_text()))

    def ask(
        self,
        path: str,
        *,
        config: dict[str, Any] | None = None,
        method: str = "GET",
        body: Any = None,
        context: str = "",
    ) -> tuple[int, Any]:
        """Through a kubeconfig, as any client would, with the certificate checked."""
        config = config or self.kubeconfig()
        chosen = next(each for each in config["contexts"] if each["name"] == (context or config["current-context"]))[
            "context"
        ]
        cluster = next(each for each in config["clusters"] if each["name"] == chosen["cluster"])["cluster"]
        user = next(each for each in config["users"] if each["name"] == chosen["user"])["user"]
        import base64

        trusted = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        request = urllib.request.Request(
            cluster["server"] + path, method=method, data=None if body is None else json.dumps(body).encode()
        )
        request.add_header("authorization", f"Bearer {user['token']}")
        request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, context=trusted, timeout=30) as answer:
                return answer.status, _content(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _content(error.read())


def _content(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "home")
    yield made
    made.run("down")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """For the tests that leave it as it is."""
    made = Place(tmp_path_factory.mktemp("running") / "home")
    made.up("--cluster", "local", "--cluster", "west")
    yield made
    made.run("down")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestUp:
    def test_it_is_ready_when_it_returns(self, running: Place) -> None:
        assert running.ask("/readyz") == (200, "ok")

    def test_the_kubeconfig_names_every_cluster_and_begins_with_the_first(self, running: Place) -> None:
        config = running.kubeconfig()
        assert config["current-context"] == "local"
        assert {each["name"] for each in config["contexts"]} == {"local", "west"}

    def test_what_is_secret_is_for_nobody_else_to_read(self, running: Place) -> None:
        assert mode(running.home) == 0o700
        secret = [running.home / "kubeconfig", running.home / "users.json", *(running.home / "pki").glob("*.key"), *(running.home / "clusters").glob("*.db*")]  # fmt: skip
        assert len(secret) > 4
        assert {str(path): oct(mode(path)) for path in secret if mode(path) != 0o600} == {}

    def test_a_second_up_says_so_and_changes_nothing(self, running: Place) -> None:
        before, config = running.state, (running.home / "kubeconfig").read_text()
        said = running.run("up", "-d", "--cluster", "other", "--port", "1")
        assert said.code == 0
        assert f"already runs here: pid {before['pid']}" in said.out
        assert (running.state, (running.home / "kubeconfig").read_text()) == (before, config)

    @pytest.mark.parametrize("prefix", ["", "/clusters/local", "/clusters/west"])
    @pytest.mark.parametrize("path", ["/readyz", "/livez", "/metrics", "/version"])
    def test_health_metrics_and_version_answer_at_the_root_and_below_each_cluster(
        self, running: Place, prefix: str, path: str
    ) -> None:
        trusted = ssl.create_default_context(cafile=str(running.home / "pki" / "ca.crt"))
        with urllib.request.urlopen(running.state["url"] + prefix + path, context=trusted, timeout=30) as answer:
            body = answer.read()
        assert answer.status == 200
        if path == "/version":
            said = json.loads(body)
            assert (said["major"], said["minor"]) == ("1", "36")
            assert "gpuaas" in said["gitVersion"]

    @pytest.mark.parametrize(
        ("offered", "agreed"), [(["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1"), ([], None)], ids=str
    )
    def test_who_offers_http_2_gets_it_and_everybody_else_http_1(
        self, running: Place, offered: list[str], agreed: str | None
    ) -> None:
        trusted = ssl.create_default_context(cafile=str(running.home / "pki" / "ca.crt"))
        if offered:
            trusted.set_alpn_protocols(offered)
        address = urllib.parse.urlsplit(running.state["url"])
        at = address.hostname or "", address.port or 0
        with socket.create_connection(at, 30) as line, trusted.wrap_socket(line, server_hostname=at[0]) as tls:
            assert tls.selected_alpn_protocol() == agreed
            tls.sendall(PREFACE + settings({}) if agreed == "h2" else b"GET /readyz HTTP/1.1\r\nHost: here\r\n\r\n")
            first = tls.recv(9)
        assert first[3] == SETTINGS if agreed == "h2" else first == b"HTTP/1.1 "

    def test_clusters_are_apart(self, running: Place) -> None:
        made = {"metadata": {"name": "only-west"}}
        assert running.ask("/api/v1/namespaces", method="POST", body=made, context="west")[0] == 201
        assert running.ask("/api/v1/namespaces/only-west", context="west")[0] == 200
        assert running.ask("/api/v1/namespaces/only-west", context="local")[0] == 404
        accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
        for context in ("local", "west"):
            assert running.ask(accounts, method="POST", body={"metadata": {"name": "own"}}, context=context)[0] == 201
        _, made_token = running.ask(f"{accounts}/own/token", method="POST", body={}, context="west")
        config = running.kubeconfig()
        for user in config["users"]:
            user["user"]["token"] = made_token["status"]["token"]
        assert running.ask("/api", config=config, context="west")[0] == 200
        assert running.ask("/api", config=config, context="local")[0] == 401, (
            "another cluster's account of the same name"
        )

    @pytest.mark.parametrize("name", ["../up", "a/b", "A", "", "x" * 64, ".", "a b"])
    def test_a_clusters_name_cannot_lead_out_of_the_home(self, place: Place, name: str) -> None:
        said = place.run("up", "-d", "--cluster", name)
        assert said.code == 2
        assert "--cluster" in said.err
        assert not list(place.home.parent.rglob("*.db"))

    def test_a_port_in_use_is_said(self, running: Place, place: Place) -> None:
        port = running.state["url"].rpartition(":")[2]
        said = place.run("up", "-d", "--port", port)
        assert said.code == 1
        assert f"cannot serve on 127.0.0.1:{port}" in said.err

    def test_names_and_addresses_asked_for_are_in_the_certificate(self, place: Place) -> None:
        place.up("--listen", "0.0.0.0", "--san", "gpu.example.org", "--san", "192.0.2.7")
        port = int(place.state["url"].rpartition(":")[2])
        import socket

        trusted = ssl.create_default_context(cafile=str(place.home / "pki" / "ca.crt"))
        for name in ("gpu.example.org", "192.0.2.7", "127.0.0.1", "localhost"):
            with (
                socket.create_connection(("127.0.0.1", port), 30) as plain,
                trusted.wrap_socket(plain, server_hostname=name),
            ):
                pass
        with socket.create_connection(("127.0.0.1", port), 30) as plain, pytest.raises(ssl.SSLCertVerificationError):
            trusted.wrap_socket(plain, server_hostname="other.example.org")
        request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics")
        with (
            pytest.raises(urllib.error.HTTPError) as refused,
            urllib.request.urlopen(request, context=trusted, timeout=30),
        ):
            pass
        assert refused.value.code == 401, "others can reach the port, so metrics need credentials"
        refused.value.close()


class TestLife:
    def test_after_a_kill_it_starts_again_with_everything_and_the_same_address(self, place: Place) -> None:
        place.up()
        before = place.state
        assert place.ask("/api/v1/namespaces", method="POST", body={"metadata": {"name": "kept"}})[0] == 201
        os.kill(before["pid"], signal.SIGKILL)
        _gone(before["pid"])
        assert (place.home / "server.json").exists(), "it had no time to tidy up"
        assert place.run("status").code == 1
        assert "does not run" in place.run("down").out + place.run("down").err
        place.up()
        assert place.state["pid"] != before["pid"]
        assert place.state["url"] == before["url"]
        assert place.ask("/api/v1/namespaces/kept")[0] == 200

    def test_what_a_cluster_refuses_of_its_fleet_is_said_at_once(self, place: Place, tmp_path: Path) -> None:
        (tmp_path / "fleet.yaml").write_text(FLEET)
        said = place.up("--fleet", str(tmp_path / "fleet.yaml"))
        assert said.err.startswith('warning: fleet: Namespace Team_A: Namespace "Team_A" is invalid: metadata.name: ')

    def test_down_waits_until_it_has_gone_and_leaves_the_home_free(self, place: Place) -> None:
        place.up()
        pid = place.state["pid"]
        said = place.run("down")
        assert (said.code, said.out.strip()) == (0, "gpuaas has stopped")
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()
        assert not (place.home / "server.json").exists()

    def test_down_ends_open_watches_properly(self, place: Place) -> None:
        import http.client

        place.up()
        address = place.state["url"].removeprefix("https://")
        trusted = ssl.create_default_context(cafile=str(place.home / "pki" / "ca.crt"))
        connection = http.client.HTTPSConnection(address, context=trusted, timeout=30)
        token = place.kubeconfig()["users"][0]["user"]["token"]
        connection.request("GET", "/api/v1/namespaces?watch=1", headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert place.run("down").code == 0
        assert answer.read().count(b"ADDED") >= 5, "all of it, to its proper end"
        connection.close()

    def test_status_says_what_runs_where(self, running: Place, place: Place) -> None:
        said = json.loads(running.run("status", "-o", "json").out)
        assert (said["running"], said["ready"], said["clusters"]) == (True, True, ["local", "west"])
        nothing = place.run("status", "-o", "json")
        assert nothing.code == 1
        assert json.loads(nothing.out)["running"] is False


def _gone(pid: int) -> None:
    deadline = time.monotonic() + 30
    while (
        Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestUsers:
    def test_a_new_user_gets_a_token_and_a_kubeconfig_that_work_and_no_more_than_the_role(
        self, running: Place, tmp_path: Path
    ) -> None:
        said = running.run("user", "add", "alice", "--role", "edit", "-n", "team", "--out", str(tmp_path / "alice"))
        assert said.code == 0, said
        token = next(line for line in said.out.splitlines() if line.startswith("token: ")).removeprefix("token: ")
        config = running.kubeconfig(tmp_path / "alice")
        assert mode(tmp_path / "alice") == 0o600
        assert config["users"][0]["user"]["token"] == token
        assert config["contexts"][0]["context"]["namespace"] == "team"
        made = {"metadata": {"name": "hers"}}
        assert running.ask("/api/v1/namespaces/team/configmaps", config=config, method="POST", body=made)[0] == 201
        for path in (
            "/api/v1/namespaces/default/configmaps",
            "/api/v1/nodes",
            "/api/v1/secrets",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/team/roles",
        ):
            assert running.ask(path, config=config)[0] == 403, path
        assert token not in (running.home / "users.json").read_text(), "only its hash is kept"

    def test_a_removed_user_is_out_at_once(self, running: Place, tmp_path: Path) -> None:
        running.run("user", "add", "bob", "--role", "view", "--out", str(tmp_path / "bob"))
        config = running.kubeconfig(tmp_path / "bob")
        assert running.ask("/api/v1/pods", config=config)[0] == 200
        assert "bob" in running.run("user", "list").out
        assert running.run("user", "rm", "bob").code == 0
        assert running.ask("/api/v1/pods", config=config)[0] == 401
        assert "bob" not in running.run("user", "list").out
        again = running.run("user", "rm", "bob")
        assert (again.code, 'there is no user "bob"' in again.err) == (1, True)

    def test_a_user_has_what_is_bound_to_their_groups(self, running: Place, tmp_path: Path) -> None:
        out = ("-n", "team", "--out", str(tmp_path / "dora"))
        assert running.run("user", "add", "dora", "--role", "view", "--group", "ml", "--group", "ops", *out).code == 0
        config = running.kubeconfig(tmp_path / "dora")
        made = {"metadata": {"name": "theirs"}}
        path = "/api/v1/namespaces/team/configmaps"
        assert running.ask(path, config=config, method="POST", body=made)[0] == 403
        binding = {
            "metadata": {"name": "ml-edit"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "ml"}],
        }
        where = "/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings"
        assert running.ask(where, method="POST", body=binding)[0] == 201
        assert running.ask(path, config=config, method="POST", body=made)[0] == 201
        assert "ml,ops" in running.run("user", "list").out

    def test_a_token_ends_when_it_expires(self, running: Place, tmp_path: Path) -> None:
        running.run("user", "add", "carol", "--role", "view", "--expires", "2s", "--out", str(tmp_path / "carol"))
        config = running.kubeconfig(tmp_path / "carol")
        deadline = time.monotonic() + 30
        while running.ask("/api/v1/pods", config=config)[0] != 401:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["dave", "--role", "king"], 'there is no cluster role "king"'),
            (["Not/A:Name"], "cannot be a user's name"),
            (["dave", "--cluster", "moon"], 'there is no cluster "moon"; there are: local, west'),
            (["dave", "-n", "Bad_Space"], "Bad_Space"),
            (["dave", "--group", "system:masters"], "'system:masters' cannot be a group's name"),
            (["dave", "--group", ""], "'' cannot be a group's name"),
        ],
    )
    def test_what_cannot_be_given_is_said(self, running: Place, words: list[str], said: str) -> None:
        answer = running.run("user", "add", *words)
        assert answer.code == 1
        assert said in answer.err
        assert "Traceback" not in answer.err
        assert "dave" not in running.run("user", "list").out

    def test_the_same_name_twice_is_refused(self, running: Place) -> None:
        assert running.run("user", "add", "erin").code == 0
        again = running.run("user", "add", "erin", "--role", "cluster-admin")
        assert (again.code, "exists already" in again.err) == (1, True)


class TestBackups:
    def test_a_backup_of_a_running_service_brings_everything_back(self, place: Place, tmp_path: Path) -> None:
        place.up()
        file = tmp_path / "saved"
        place.ask("/api/v1/namespaces", method="POST", body={"metadata": {"name": "before"}})
        place.run("user", "add", "alice", "--role", "view", "--out", str(tmp_path / "alice"))
        assert place.run("backup", str(file)).code == 0
        assert mode(file) == 0o600
        status, later = place.ask("/api/v1/namespaces", method="POST", body={"metadata": {"name": "after"}})
        assert status == 201
        place.ask("/api/v1/namespaces/before", method="DELETE")
        place.run("user", "rm", "alice")
        said = place.run("restore", "-y", str(file))
        assert said.code == 0, said
        assert place.ask("/api/v1/namespaces/before")[0] == 200
        assert place.ask("/api/v1/namespaces/after")[0] == 404
        assert place.ask("/api/v1/pods", config=place.kubeconfig(tmp_path / "alice"))[0] == 200, "people come back too"
        _, listing = place.ask("/api/v1/namespaces")
        assert int(listing["metadata"]["resourceVersion"]) > int(later["metadata"]["resourceVersion"]), (
            "no revision twice"
        )

    def test_what_is_no_backup_is_refused_and_nothing_changes(self, place: Place, tmp_path: Path) -> None:
        place.up()
        place.ask("/api/v1/namespaces", method="POST", body={"metadata": {"name": "kept"}})
        (tmp_path / "junk").write_bytes(b"not a backup at all")
        said = place.run("restore", "-y", str(tmp_path / "junk"))
        assert (said.code, "is not a backup of ours" in said.err) == (1, True)
        assert place.ask("/api/v1/namespaces/kept")[0] == 200

    def test_there_is_nothing_to_back_up_where_nothing_ran(self, place: Place, tmp_path: Path) -> None:
        said = place.run("backup", str(tmp_path / "x"))
        assert (said.code, "nothing to back up" in said.err) == (1, True)
