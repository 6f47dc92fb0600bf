"""Notebooks as people and browsers meet them: asked for, opened by a link, kept apart from everything else, stopped.

A small stand-in answers in Jupyter's place (standin_jupyter), so that what reaches it can be seen.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.conformance.service import Service, eventually

NOTEBOOKS = "/apis/kubeflow.org/v1/namespaces/default/notebooks"
STANDIN = Path(__file__).parent / "standin_jupyter.py"
MANAGED = "/api/v1/namespaces/redhat-ods-applications/configmaps"


@dataclass
class Browser:
    """What keeps one cookie jar for one host, and says where its requests come from."""

    host: str
    port: int
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> tuple[int, Any, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = {"Host": f"{self.host}:{self.port}", **{name.replace("_", "-"): text for name, text in headers.items()}}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection.request(method, path, body or None, sent)
        answer = connection.getresponse()
        found = answer.status, answer.headers, answer.read()
        for cookie in answer.headers.get_all("set-cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        connection.close()
        return found

    @property
    def origin(self) -> str:
        return f"http://{self.host}:{self.port}"


def program_in(folder: Path) -> None:
    """The stand-in, under the name by which Jupyter is looked for."""
    program = folder / "bin" / "jupyter-lab"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STANDIN} "$@"\n')
    program.chmod(0o755)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("nb")
    program_in(folder)
    with Service(folder / "h", "--no-fsync") as found:
        yield found
        end_all(found)


def command(service: Service, *words: str, code: int = 0) -> str:
    path = f"{service.home.parent / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "GPUAAS_HOME": str(service.home), "PATH": path}
    environment.pop("KUBECONFIG", None)
    run = subprocess.run(
        [sys.executable, "-m", "gpuaas", *words],
        capture_output=True,
        text=True,
        timeout=90,
        env=environment,
        check=False,
    )
    assert run.returncode == code, run.stdout + run.stderr
    return run.stdout + run.stderr


def made(service: Service, name: str) -> str:
    """The link of a new notebook that needs no GPU."""
    said = command(service, "notebook", "--name", name, "--gpus", "0", "--cpu", "100m", "--memory", "64Mi")
    return next(word for word in said.split() if word.startswith("http://"))


def opened(service: Service, name: str, link: str = "") -> Browser:
    """A browser that has followed a link."""
    link = link or command(service, "notebook", "open", name).split()[0]
    parts = urlsplit(link)
    browser = Browser(parts.hostname or "", parts.port or 0)
    status, headers, _ = browser.ask(parts.path)
    assert (status, headers["location"]) == (303, f"/notebook/default/{name}/")
    return browser


def stop(service: Service, name: str) -> None:
    service.ask("DELETE", f"{NOTEBOOKS}/{name}")


def end_all(service: Service) -> None:
    """Notebooks outlive the server by design: a test ends them before it stops it."""
    service.ask("DELETE", NOTEBOOKS)
    pods = "/api/v1/namespaces/default/pods?labelSelector=notebook-name"
    eventually(lambda: not service.ask("GET", pods).json()["items"], "a notebook does not end")


def test_a_link_opens_the_notebook_once(service: Service) -> None:
    link = made(service, "once")
    browser = opened(service, "once", link)
    assert browser.ask("/notebook/default/once/echo")[0] == 200
    parts = urlsplit(link)
    again = Browser(parts.hostname or "", parts.port or 0)
    status, _, body = again.ask(parts.path)
    assert status == 401
    assert b"gpuaas notebook open" in body
    assert again.ask("/notebook/default/once/echo")[0] == 401
    stop(service, "once")


def test_the_notebook_sees_no_credentials_and_sets_no_cookie_of_ours(service: Service) -> None:
    made(service, "clean")
    browser = opened(service, "clean")
    browser.cookies |= {"_xsrf": "2", "gpuaas-session": "secret", "__Host-gpuaas": "secret"}
    sent = {"Authorization": "Bearer secret", "X_Forwarded_For": "1.2.3.4", "X_Remote_User": "admin"}
    _, _, body = browser.ask("/notebook/default/clean/echo?a=%2Fb", **sent)
    said = json.loads(body)
    assert said["headers"]["cookie"] == "_xsrf=2"
    assert said["headers"]["host"] == f"{browser.host}:{browser.port}"
    assert said["query"] == "a=%2Fb"
    assert b"secret" not in body
    assert not {"authorization", "x-forwarded-for", "x-remote-user"} & said["headers"].keys()
    before = browser.cookies["__Host-gpuaas-notebook"]
    _, headers, _ = browser.ask("/notebook/default/clean/cookie")
    assert headers.get_all("set-cookie") == ["own=1; Path=/", "wide=1"]
    assert browser.cookies["__Host-gpuaas-notebook"] == before
    stop(service, "clean")


def test_only_its_own_pages_may_change_something(service: Service) -> None:
    made(service, "own")
    browser = opened(service, "own")
    path = "/notebook/default/own/echo"
    assert browser.ask(path, "POST", b"abc", Origin=browser.origin)[0] == 200
    assert browser.ask(path, "POST", b"abc")[0] == 403
    assert browser.ask(path, "POST", b"abc", Origin=f"http://localhost:{browser.port}")[0] == 403
    assert browser.ask(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="cors")[0] == 403
    assert browser.ask(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200
    stop(service, "own")


def test_a_notebook_with_large_plots_can_be_saved(service: Service) -> None:
    made(service, "plots")
    browser = opened(service, "plots")
    status, _, body = browser.ask("/notebook/default/plots/echo", "PUT", bytes(10_000_000), Origin=browser.origin)
    assert (status, json.loads(body)["body"]) == (200, 10_000_000)
    stop(service, "plots")


def test_a_manifest_that_names_an_image_gets_the_jupyter_of_this_machine(service: Service) -> None:
    """As a dashboard writes it; the stand-in is not on the server's PATH, and the notebook says what is missing."""
    container = {"name": "by-image", "image": "quay.io/modh/odh-pytorch-notebook:2025.1"}
    labels = {"kueue.x-k8s.io/queue-name": "this-machine"}
    obj = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "Notebook",
        "metadata": {"name": "by-image", "labels": labels},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    answer = service.ask("POST", NOTEBOOKS, obj)
    assert answer.status == 201
    assert answer.json()["spec"]["template"]["spec"]["runtimeClassName"] == "gpuaas-process"
    assert "its own Jupyter is started, not quay.io/modh/odh-pytorch-notebook:2025.1" in answer.headers["warning"]
    eventually(lambda: _state(service, "by-image") in ("Failed", "Ready"), "it neither runs nor says why not")
    if _state(service, "by-image") == "Failed":
        rows = json.loads(command(service, "notebook", "list", "-o", "json"))
        assert "Jupyter is not installed on this machine; install it:" in rows[0]["what"]
    stop(service, "by-image")


def test_a_cookie_is_good_for_its_notebook_alone(service: Service) -> None:
    made(service, "first")
    made(service, "second")
    first = opened(service, "first")
    other = Browser(first.host.replace("first", "second"), first.port, dict(first.cookies))
    assert other.ask("/notebook/default/second/echo")[0] == 401
    assert first.ask("/notebook/default/second/echo")[0] == 404
    assert Browser("localhost", first.port, dict(first.cookies)).ask("/notebook/default/first/echo")[0] == 404
    for name in ("first", "second"):
        stop(service, name)


def test_the_api_answers_no_page_of_a_notebook(service: Service) -> None:
    refused = service.ask("GET", "/api/v1/pods", origin="http://nb--default.localhost:1")
    assert refused.status == 403
    assert "Origin" in refused.json()["message"]


def test_a_path_of_the_api_serves_programs_with_a_token_alone(service: Service) -> None:
    made(service, "path")
    answer = service.ask("GET", "/notebook/default/path/echo")
    assert answer.status == 200
    assert "authorization" not in answer.json()["headers"]
    stop(service, "path")


def test_another_user_gets_no_link(service: Service) -> None:
    made(service, "mine")
    command(service, "user", "add", "eve", "--role", "view", "-n", "default")
    users = json.loads((service.home / "users.json").read_text())
    assert "eve" in {user["name"] for user in users}
    refused = service.ask("POST", "/notebook-links/default/mine", Impersonate_User="eve")
    assert refused.status == 403
    assert 'cannot update resource "notebooks"' in refused.json()["message"]
    assert service.ask("POST", "/notebook-links/default/none").status == 404
    stop(service, "mine")


def test_websockets_pass_in_both_directions(service: Service) -> None:
    made(service, "ws")
    browser = opened(service, "ws")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    status, wire = _shake(browser, cookie, "http://localhost")
    wire.close()
    assert status == 403
    status, wire = _shake(browser, cookie, browser.origin)
    assert status == 101
    for text in (b"hello", b"again"):
        wire.sendall(bytes((0x81, 0x80 | len(text))) + b"\0\0\0\0" + text)
        assert _exactly(wire, 2 + len(text)) == bytes((0x81, len(text))) + text
    wire.close()
    stop(service, "ws")


def _shake(browser: Browser, cookie: str, origin: str) -> tuple[int, socket.socket]:
    wire = socket.create_connection(("127.0.0.1", browser.port), timeout=20)
    key = base64.b64encode(b"0123456789abcdef").decode()
    lines = [
        "GET /notebook/default/ws/channels HTTP/1.1",
        f"Host: {browser.host}:{browser.port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        f"Cookie: {cookie}",
        f"Origin: {origin}",
    ]
    wire.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += wire.recv(1)
    return int(head.split(b" ")[1]), wire


def _exactly(wire: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += wire.recv(size - len(found))
    return found


def test_a_notebook_goes_on_over_a_restart_of_gpuaas(service: Service) -> None:
    made(service, "stays")
    browser = opened(service, "stays")
    before = json.loads(browser.ask("/notebook/default/stays/kernel")[2])
    service.stop()
    service.start()
    after = json.loads(browser.ask("/notebook/default/stays/kernel")[2])
    assert after == {"requests": before["requests"] + 1, "pid": before["pid"]}
    stop(service, "stays")


def test_a_stopped_notebook_holds_nothing_and_keeps_its_files(service: Service) -> None:
    made(service, "rest")
    browser = opened(service, "rest")
    folder = service.home / "notebooks" / "local" / "default" / "rest"
    (folder / "work.ipynb").write_text("{}")
    command(service, "notebook", "stop", "rest")
    eventually(lambda: _state(service, "rest") == "Stopped", "it does not stop")
    eventually(lambda: _used(service) == {"0"}, lambda: f"still used: {_used(service)}")
    status, _, body = browser.ask("/notebook/default/rest/echo")
    assert status == 503
    assert b"does not run" in body
    command(service, "notebook", "start", "rest")
    eventually(lambda: browser.ask("/notebook/default/rest/echo")[0] == 200, "it does not start")
    assert (folder / "work.ipynb").exists()
    stop(service, "rest")


def _state(service: Service, name: str) -> str:
    rows = json.loads(command(service, "notebook", "list", "-o", "json"))
    return next((str(row["state"]) for row in rows if row["notebook"] == name), "")


def _used(service: Service) -> set[str]:
    queue = service.ask("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/this-machine").json()
    flavors = (queue.get("status") or {}).get("flavorsUsage") or ()
    return {one["total"] for flavor in flavors for one in flavor["resources"]}


def test_an_idle_notebook_is_stopped_and_a_busy_or_silent_one_is_not(service: Service) -> None:
    settings = {"ENABLE_CULLING": "true", "CULL_IDLE_TIME": "0.03", "IDLENESS_CHECK_PERIOD": "0.005"}
    service.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "redhat-ods-applications"}})
    config = {"metadata": {"name": "notebook-controller-culler-config"}, "data": settings}
    assert service.ask("POST", MANAGED, config).status == 201
    for name in ("busy", "silent", "idle"):
        folder = service.home / "notebooks" / "local" / "default" / name
        folder.mkdir(parents=True)
        said = {"busy": '[{"id": "k", "execution_state": "busy", "last_activity": "2020-01-01T00:00:00Z"}]'}
        (folder / "api-kernels").write_text(said.get(name, "[]" if name == "idle" else "no JSON"))
        made(service, name)
    eventually(lambda: _state(service, "idle") == "Stopped", "it was never taken for idle")
    assert _state(service, "busy") == "Ready"
    assert _state(service, "silent") == "Ready"
    notes = service.ask("GET", f"{NOTEBOOKS}/idle").json()["metadata"]["annotations"]
    assert notes["gpuaas.dev/stopped-because"] == "idle for 0.03 minutes"
    assert service.ask("DELETE", f"{MANAGED}/notebook-controller-culler-config").status == 200
    for name in ("busy", "silent", "idle"):
        stop(service, name)


def test_without_jupyter_the_command_says_how_to_install_it(service: Service) -> None:
    path = os.environ["PATH"]
    environment = {**os.environ, "GPUAAS_HOME": str(service.home), "PATH": path}
    environment.pop("KUBECONFIG", None)
    if any((Path(each) / "jupyter-lab").exists() for each in path.split(":")):
        pytest.skip("this machine has Jupyter")
    run = subprocess.run(
        [sys.executable, "-m", "gpuaas", "notebook", "--name", "no", "--gpus", "0"],
        capture_output=True, text=True, timeout=60, env=environment, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert "Jupyter is not installed on this machine; install it:" in run.stderr
