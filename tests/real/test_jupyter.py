"""A notebook with the real Jupyter: the kernel that a browser's page would use, over a restart of gpuaas, and its activity."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import websocket
from tests.conformance.service import Service, eventually
from tests.conformance.test_notebooks import end_all
from tests.real.parts import cache

pytestmark = pytest.mark.real
JUPYTER = ("jupyter-server==2.21.1", "ipykernel==7.4.0")
BASE = "/notebook/default/real/"


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the real `jupyter-server`, installed once into the cache."""
    folder = cache() / "jupyter" / re.sub("[^a-z0-9.]+", "-", "-".join(JUPYTER))
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *JUPYTER], check=True, timeout=600)
        ready.touch()
    return folder / "bin"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("j") / "h", "--no-fsync") as found:
        yield found
        end_all(found)


class Tab:
    """What a browser that follows a link keeps and sends."""

    def __init__(self, link: str) -> None:
        found = re.fullmatch(r"http://([^/:]+):([0-9]+)(/.*)", link)
        assert found
        self.host, self.port = f"{found[1]}:{found[2]}", int(found[2])
        # Jupyter compares this cookie with a header: its pages set both, here the test does.
        self.cookies = {"_xsrf": "2026"}
        assert self.ask(found[3])[0] == 303

    def ask(self, path: str, method: str = "GET", body: Any = None) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Host": self.host, "Origin": f"http://{self.host}", "Cookie": self.cookie}
        headers["X-XSRFToken"] = self.cookies["_xsrf"]
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        for each in answer.headers.get_all("set-cookie") or ():
            name, _, value = each.partition(";")[0].partition("=")
            self.cookies[name] = value
        connection.close()
        return found

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def kernel(self) -> str:
        listed = json.loads(self.ask(f"{BASE}api/kernels")[1])
        if listed:
            return str(listed[0]["id"])
        status, body = self.ask(f"{BASE}api/kernels", "POST", {"name": "python3"})
        assert status == 201, body
        return str(json.loads(body)["id"])

    def run(self, code: str) -> str:
        """What a cell prints."""
        url = f"ws://127.0.0.1:{self.port}{BASE}api/kernels/{self.kernel()}/channels"
        origin = f"http://{self.host}"
        wire = websocket.create_connection(url, host=self.host, origin=origin, cookie=self.cookie, timeout=60)
        content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
        header = {"msg_id": "m", "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        wire.send(json.dumps(message))
        said = ""
        while True:
            found = json.loads(wire.recv())
            if found["msg_type"] == "stream":
                said += found["content"]["text"]
            if found["msg_type"] == "execute_reply":
                assert found["content"]["status"] == "ok", found["content"]
                wire.close()
                return said


def command(service: Service, programs: Path, *words: str) -> str:
    environment = {**os.environ, "GPUAAS_HOME": str(service.home), "KUBECONFIG": str(service.kubeconfig)}
    environment["PATH"] = f"{programs}:{os.environ['PATH']}"
    run = subprocess.run(
        [sys.executable, "-m", "gpuaas", *words],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_a_kernel_goes_on_over_a_restart_and_its_work_is_activity(service: Service, programs: Path) -> None:
    said = command(service, programs, "notebook", "--name", "real", "--gpus", "0", "--memory", "256Mi")
    tab = Tab(next(word for word in said.split() if word.startswith("http://")))
    assert tab.run("import os; kept = 41; print(os.getcwd())").strip().endswith("notebooks/local/default/real")
    service.stop()
    service.start()
    assert tab.run("print(kept + 1)").strip() == "42"
    notebook = "/apis/kubeflow.org/v1/namespaces/default/notebooks/real"
    name = "notebooks.kubeflow.org/last-activity"
    notes = eventually(
        lambda: service.ask("GET", notebook).json()["metadata"].get("annotations"), "no activity was recorded"
    )
    assert name in notes
    assert service.ask("DELETE", notebook).status == 200
