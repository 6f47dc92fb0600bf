"""exec, attach, cp and port-forward of processes: real kubectl, in a pseudo-terminal where people sit at one.

Every kubectl of this machine speaks both protocols: from 1.31 on WebSockets, and SPDY where its variable says so.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.kubectls import NONE_HERE, found
from tests.conformance.service import Service, eventually

pytestmark = [pytest.mark.kubectl, pytest.mark.skipif(not found(), reason=NONE_HERE)]
SECONDS = 60.0
POD = "work"  # the running process of most tests here
TEN_MB = 10 * 1024 * 1024
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
PROTOCOLS = [
    pytest.param((program, environment), id=f"{program.name}-{program.parent.name}-{name}")
    for program in found()
    for name, environment in (("websocket", {}), ("spdy", SPDY))
]
SERVER = """
import http.server, os, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body[::-1])
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
print(server.server_port, flush=True)
server.serve_forever()
"""


class World:
    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.folder = folder
        self.port = 0
        self._pods: list[str] = []

    def words(self, program: Path, *words: str) -> list[str]:
        return [str(program), "--kubeconfig", str(self.service.kubeconfig), *words]

    def run(
        self, protocol: tuple[Path, dict[str, str]], *words: str, stdin: bytes = b"", kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        program, environment = protocol
        command = self.words(program, *words)
        if kubeconfig is not None:
            command[2] = str(kubeconfig)
        return subprocess.run(
            command, input=stdin, env=os.environ | environment, capture_output=True, timeout=SECONDS, check=False
        )

    def gpuaas(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "GPUAAS_HOME": str(self.service.home)}
        environment.pop("KUBECONFIG", None)
        return subprocess.run(
            [sys.executable, "-m", "gpuaas", *words],
            env=environment, input=stdin, capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip

    def marked(self, mark: str) -> list[int]:
        """The processes with a word among theirs."""
        alive = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                        alive.append(int(entry.name))
                except OSError:
                    continue
        return alive

    def pod(self, name: str, script: list[str], namespace: str = "default", **spec: Any) -> None:
        container = {"name": "main", "image": "none", "command": script, "env": [{"name": "COLOUR", "value": "blue"}]}
        pod = {
            "metadata": {"name": name},
            "spec": {"runtimeClassName": "gpuaas-process", "restartPolicy": "Never", "containers": [container], **spec},
        }
        made = self.service.ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
        assert made.status == 201, made.body
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self._pods.append(path)
        eventually(lambda: self.phase(path) == "Running", lambda: f"{name}: {self.phase(path)}")

    def clear(self) -> None:
        """Processes outlive their server: they go with their pods."""
        for path in self._pods:
            self.service.ask("DELETE", f"{path}?gracePeriodSeconds=0")
        folders = self.service.home / "pods" / "local"
        eventually(lambda: not list(folders.iterdir()), "folders of pods are left, and their processes")

    def phase(self, path: str) -> str:
        return str(self.service.ask("GET", path).json().get("status", {}).get("phase"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("exec")
    with Service(folder / "home") as service:
        made = World(service, folder)
        made.pod("work", ["sh", "-c", "n=0; while sleep 0.2; do n=$((n+1)); echo line $n; done"])
        made.pod("web", [sys.executable, "-c", SERVER])
        log = "/api/v1/namespaces/default/pods/web/log"
        made.port = int(eventually(lambda: service.ask("GET", log).body.strip(), "the server has no port"))
        yield made
        made.clear()


Protocol = tuple[Path, dict[str, str]]


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    chosen: Protocol = request.param
    return chosen


def test_a_command_runs_in_the_surroundings_of_the_process(world: World, protocol: Protocol) -> None:
    script = "echo $COLOUR $CUDA_VISIBLE_DEVICES.; pwd; echo wrong >&2; exit 3"
    done = world.run(protocol, "exec", "work", "--", "sh", "-c", script)
    colour, folder = done.stdout.decode().splitlines()
    assert (done.returncode, colour) == (3, "blue .")
    assert done.stderr.decode().splitlines() == ["wrong", "command terminated with exit code 3"]
    assert folder.startswith(str(world.service.home))
    assert folder.endswith("/work")
    assert world.run(protocol, "exec", "work", "--", "true").returncode == 0
    assert world.run(protocol, "exec", "work", "--", "no-such-command").returncode == 127


def test_what_is_typed_arrives_and_its_end_is_seen(world: World, protocol: Protocol) -> None:
    sent = os.urandom(3_000_001)
    assert world.run(protocol, "exec", "-i", "work", "--", "cat", stdin=sent).stdout == sent
    counted = world.run(protocol, "exec", "-i", "work", "--", "wc", "-c", stdin=sent)
    assert counted.stdout.strip() == b"3000001"


def test_a_command_that_does_not_read_ends_all_the_same(world: World, protocol: Protocol) -> None:
    done = world.run(protocol, "exec", "-i", "work", "--", "head", "-c", "3", stdin=b"x" * TEN_MB)
    assert (done.returncode, done.stdout) == (0, b"xxx")


def test_files_are_copied_byte_for_byte(world: World, protocol: Protocol, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(os.urandom(TEN_MB))
    up = world.run(protocol, "cp", str(sent), f"work:{tmp_path}/there")
    assert up.returncode == 0, up.stderr
    down = world.run(protocol, "cp", f"work:{tmp_path}/there", str(tmp_path / "back"))
    assert down.returncode == 0, down.stderr
    assert (tmp_path / "there").read_bytes() == (tmp_path / "back").read_bytes() == sent.read_bytes()


class Terminal:
    """A program in a pseudo-terminal of a given size."""

    def __init__(self, words: list[str], environment: dict[str, str], rows: int, columns: int) -> None:
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.execvpe(words[0], words, os.environ | environment)
        self.size(rows, columns)
        self.seen = b""

    def size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def type(self, text: bytes) -> None:
        os.write(self._terminal, text)

    def until(self, words: bytes) -> None:
        deadline = time.monotonic() + SECONDS
        while words not in self.seen:
            assert time.monotonic() < deadline, f"{words!r} never came: {self.seen!r}"
            if select.select([self._terminal], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self._terminal, 65536)
                except OSError:
                    raise AssertionError(f"{words!r} never came: {self.seen!r}") from None

    def ended(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)


def converse(terminal: Terminal) -> None:
    """A shell that takes a size, another size, Ctrl-C and an exit code."""
    terminal.type(b"PS1='> '; echo be'gun'\n")
    terminal.until(b"begun")
    terminal.size(40, 123)
    terminal.type(b"while [ \"$(stty size)\" != '40 123' ]; do sleep 0.1; done; echo size-is'-right'\n")
    terminal.until(b"size-is-right")
    terminal.type(b"echo wait'ing'; sleep 1000\n")
    terminal.until(b"waiting")
    time.sleep(0.3)  # the foreground goes to sleep(1)
    terminal.type(b"\x03")
    terminal.type(b"echo interrupt'ed'\n")
    terminal.until(b"interrupted")
    terminal.type(b"exit 7\n")
    assert terminal.ended() == 7


def test_a_shell_in_a_terminal(world: World, protocol: Protocol) -> None:
    program, environment = protocol
    converse(Terminal(world.words(program, "exec", "-it", "work", "--", "sh"), environment, 30, 90))


def test_a_shell_of_our_own_command(world: World) -> None:
    words = [sys.executable, "-m", "gpuaas", "exec", "-it", "work", "--", "sh"]
    environment = {"GPUAAS_HOME": str(world.service.home), "KUBECONFIG": str(world.service.kubeconfig)}
    converse(Terminal(words, environment, 30, 90))


def test_our_own_command_gives_output_errors_and_exit_code(world: World) -> None:
    done = world.gpuaas("exec", "-i", "work", "--", "sh", "-c", "cat; echo wrong >&2; exit 4", stdin=b"typed")
    assert (done.returncode, done.stdout, done.stderr) == (4, b"typed", b"wrong\n")


def test_attach_shows_what_comes_from_now_on(world: World, protocol: Protocol) -> None:
    program, environment = protocol
    before = len(world.service.ask("GET", f"/api/v1/namespaces/default/pods/{POD}/log").body.splitlines())
    words = world.words(program, "attach", "work")
    with subprocess.Popen(words, env=os.environ | environment, stdout=subprocess.PIPE) as attached:
        assert attached.stdout is not None
        line = attached.stdout.readline()
        attached.kill()
    assert line.startswith(b"line ")
    assert int(line.split()[1]) >= before


@contextmanager
def forwarding(words: list[str], environment: dict[str, str]) -> Iterator[int]:
    with subprocess.Popen(words, env=os.environ | environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield int(line.split("127.0.0.1:")[1].split(" ")[0])
        finally:
            process.terminate()


def reversed_by(port: int, body: bytes) -> bytes:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", data=body, method="POST")
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize("client", ["kubectl", "gpuaas"])
def test_an_http_client_through_a_forwarded_port(world: World, protocol: Protocol, client: str) -> None:
    program, environment = protocol
    words = world.words(program, "port-forward", "web", f":{world.port}")
    if client == "gpuaas":
        words = [sys.executable, "-u", "-m", "gpuaas", "port-forward", "web", f":{world.port}"]
        environment = {"GPUAAS_HOME": str(world.service.home), "KUBECONFIG": str(world.service.kubeconfig)}
    bodies = [os.urandom(100_000 * n + 1) for n in range(8)]
    with forwarding(words, environment) as port, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: reversed_by(port, body), bodies))
    assert answers == [body[::-1] for body in bodies]


def received(client: socket.socket) -> bytes:
    try:
        return client.recv(1)
    except ConnectionError:
        return b""


def test_no_port_of_another_process_is_reached(world: World, protocol: Protocol) -> None:
    """Of this machine: such as the control plane's, or another tenant's."""
    program, environment = protocol
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        other.settimeout(0.2)
        words = world.words(program, "port-forward", "web", f":{port}")
        with forwarding(words, environment) as here, socket.create_connection(("127.0.0.1", here), SECONDS) as client:
            client.settimeout(SECONDS)
            assert not received(client)
        with pytest.raises(TimeoutError):
            other.accept()


def test_twenty_sessions_at_once(world: World, protocol: Protocol) -> None:
    def one(number: int) -> bytes:
        script = f"sleep 1; cat; echo {number}"
        return world.run(protocol, "exec", "-i", "work", "--", "sh", "-c", script, stdin=b"x" * 100_000).stdout

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(one, range(20))) == [b"x" * 100_000 + f"{n}\n".encode() for n in range(20)]


@pytest.mark.parametrize("options", [["-i"], ["-it"]], ids=["pipes", "terminal"])
def test_a_killed_client_leaves_no_process(world: World, protocol: Protocol, options: list[str]) -> None:
    program, environment = protocol
    mark = f"{os.getpid()}{time.monotonic_ns()}"
    script = f"trap '' HUP TERM; setsid sleep 3{mark} & sleep 4{mark}; sleep 5{mark}"
    words = world.words(program, "exec", *options, "work", "--", "sh", "-c", script)
    terminal = Terminal(words, environment, 20, 80)
    eventually(lambda: len(world.marked(f"sleep\x003{mark}")) == 1, "the command never began")
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.ended()
    eventually(lambda: not world.marked(mark), lambda: f"left: {world.marked(mark)}")


def test_a_client_killed_while_its_command_reads_nothing_leaves_no_process(world: World, protocol: Protocol) -> None:
    program, environment = protocol
    mark = f"7{os.getpid()}{time.monotonic_ns()}"
    words = world.words(program, "exec", "-i", "work", "--", "sleep", mark)
    with subprocess.Popen(words, env=os.environ | environment, stdin=subprocess.PIPE) as client:
        assert client.stdin is not None
        os.set_blocking(client.stdin.fileno(), False)
        eventually(lambda: len(world.marked(f"sleep\x00{mark}")) > 0, "the command never began")
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:  # far more than is buffered anywhere on the way
            try:
                os.write(client.stdin.fileno(), b"x" * 65536)
            except BlockingIOError:
                time.sleep(0.05)
        client.kill()
    eventually(lambda: not world.marked(mark), lambda: f"left: {world.marked(mark)}")


def test_a_killed_server_leaves_no_session(tmp_path: Path) -> None:
    with Service(tmp_path / "home") as service:
        world = World(service, tmp_path)
        world.pod("work", ["sleep", "1000"])
        mark = f"6{os.getpid()}{time.monotonic_ns()}"
        words = world.words(found()[0], "exec", "work", "--", "sleep", mark)
        with subprocess.Popen(words, stderr=subprocess.DEVNULL):
            eventually(lambda: len(world.marked(f"sleep\x00{mark}")) > 0, "the command never began")
            service.kill()
        eventually(lambda: not world.marked(mark), lambda: f"left: {world.marked(mark)}")
        service.start()
        assert world.phase("/api/v1/namespaces/default/pods/work") == "Running"
        again = ("exec", "work", "--", "echo", "again")
        eventually(lambda: world.run((found()[0], {}), *again).stdout == b"again\n", "exec never worked again")
        world.clear()


def test_a_session_ends_with_its_container(world: World, protocol: Protocol) -> None:
    name = f"short-{'spdy' if protocol[1] else 'ws'}-{time.monotonic_ns()}"
    world.pod(name, ["sh", "-c", "sleep 2"])
    done = world.run(protocol, "exec", name, "--", "sleep", "1000")
    assert done.returncode == 137
    eventually(
        lambda: b"current phase is Succeeded" in world.run(protocol, "exec", name, "--", "true").stderr, "not refused"
    )


def test_roles_decide_who_may(world: World, protocol: Protocol) -> None:
    """`view` may read pods and not run commands; who may in one namespace may not in another. A WebSocket is a GET, and
    the verb get alone does not do either."""
    service, tag = world.service, "spdy" if protocol[1] else "ws"
    reader, owner = world.folder / f"reader-{tag}", world.folder / f"owner-{tag}"
    for name, role, file in ((f"reader-{tag}", "view", reader), (f"owner-{tag}", "edit", owner)):
        namespace = "default" if role == "view" else f"own-{tag}"
        service.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        if not file.exists():
            done = world.gpuaas("user", "add", name, "--role", role, "-n", namespace, "--out", str(file))
            assert done.returncode == 0, done.stderr
    for who in (reader, owner):
        for part in (("exec", "-n", "default", "work", "--", "true"), ("attach", "-n", "default", "work")):
            assert b"orbidden" in refused(world, protocol, *part, kubeconfig=who)
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": ["get"]}]
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    service.ask("POST", f"{rbac}/roles", {"metadata": {"name": f"gets-{tag}"}, "rules": rules})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": f"owner-{tag}"}
    reference = {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": f"gets-{tag}"}
    binding = {"metadata": {"name": f"gets-{tag}"}, "subjects": [subject], "roleRef": reference}
    assert service.ask("POST", f"{rbac}/rolebindings", binding).status in (201, 409)
    assert b"orbidden" in refused(world, protocol, "exec", "-n", "default", "work", "--", "true", kubeconfig=owner)
    if f"own-{tag}" not in world.run(protocol, "get", "pods", "-n", f"own-{tag}", "-o", "name").stdout.decode():
        world.pod(f"own-{tag}", ["sleep", "1000"], namespace=f"own-{tag}")
    done = world.run(protocol, "exec", "-n", f"own-{tag}", f"own-{tag}", "--", "echo", "mine", kubeconfig=owner)
    assert done.stdout == b"mine\n", done.stderr


def refused(world: World, protocol: Protocol, *words: str, kubeconfig: Path) -> bytes:
    done = world.run(protocol, *words, kubeconfig=kubeconfig)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


def test_the_log_says_who_did_what(world: World) -> None:
    world.run((found()[0], {}), "exec", "work", "--", "echo", "recorded")
    text = world.service.log.read_text()
    assert 'exec begins: user "admin" pod default/work container main: echo recorded' in text


def test_simulated_pods_answer_what_they_can(tmp_path: Path) -> None:
    with Service(tmp_path / "home", "--fleet", "demo") as service:
        world = World(service, tmp_path)
        config = {"metadata": {"name": "settings"}, "data": {"mode": "fast\n"}}
        assert service.ask("POST", "/api/v1/namespaces/default/configmaps", config).status == 201
        pod = {
            "metadata": {"name": "sim"},
            "spec": {
                "nodeName": service.ask("GET", "/api/v1/nodes").json()["items"][0]["metadata"]["name"],
                "containers": [
                    {
                        "name": "main",
                        "image": "busybox",
                        "command": ["sleep", "1000"],
                        "env": [{"name": "COLOUR", "value": "blue"}],
                        "volumeMounts": [{"name": "s", "mountPath": "/etc/settings"}],
                    }
                ],
                "volumes": [{"name": "s", "configMap": {"name": "settings"}}],
            },
        }
        assert service.ask("POST", "/api/v1/namespaces/default/pods", pod).status == 201
        path = "/api/v1/namespaces/default/pods/sim"
        eventually(
            lambda: world.phase(path) == "Running", lambda: json.dumps(service.ask("GET", path).json()["status"])
        )

        def said(*words: str) -> tuple[int, str]:
            done = world.run((found()[0], {}), "exec", "sim", "--", *words)
            return done.returncode, (done.stdout + done.stderr).decode()

        assert said("hostname") == (0, "sim\n")
        assert "COLOUR=blue\n" in said("env")[1]
        assert said("cat", "/etc/settings/mode") == (0, "fast\n")
        assert said("cat", "/etc/passwd")[0] == 1
        assert "No devices" in said("nvidia-smi", "-L")[1]
        code, words = said("python", "train.py")
        assert code == 127
        assert "runs on a simulated node, where no process is started" in words
        forwarded = world.service.ask("GET", f"{path}/portforward")
        assert forwarded.status == 400
