"""What a pod says must not hang, kill or brick the server that runs it: its shell script, its environment, its log."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.harness import Bystander, bounded, restart
from tests.conformance.service import Service, eventually
from tests.conformance.wire import Wire, encoded

PODS = "/api/v1/namespaces/default/pods"
HELD = (
    1.0  # seconds another client may wait, on a machine that is busy with other things; the attacks held it 4 to 60 s
)
READY = 20.0  # seconds until a killed server is ready again; the attacks kept it from starting at all


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with bounded(tmp_path_factory.mktemp("simulated") / "home", "--fleet", "demo") as service:
        eventually(lambda: _nodes_ready(service), "the simulated nodes never came")
        yield service


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with bounded(tmp_path_factory.mktemp("machine") / "home") as service:
        eventually(lambda: _nodes_ready(service), "the node of this machine never came")
        yield service


def _nodes_ready(service: Service) -> bool:
    nodes = service.ask("GET", "/api/v1/nodes").json()["items"]
    return bool(nodes) and service.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default").status == 200


def pod(name: str, *command: str, policy: str = "Never", **container: Any) -> dict[str, Any]:
    made = {"name": "main", "image": "i", "command": list(command), **container}
    return {"metadata": {"name": name}, "spec": {"containers": [made], "restartPolicy": policy}}


def state(service: Service, name: str) -> dict[str, Any]:
    """The first container's state; {} until there is one."""
    found = service.ask("GET", f"{PODS}/{name}").json()
    statuses = (found.get("status") or {}).get("containerStatuses") or [{}]
    return dict(statuses[0].get("state") or {})


def ended(service: Service, name: str) -> dict[str, Any]:
    found = eventually(lambda: state(service, name).get("terminated"), lambda: f"{name} did not end", 20.0)
    return dict(found)


def submitted(service: Service, made: dict[str, Any]) -> None:
    answer = service.ask("POST", PODS, made)
    assert answer.status == 201, answer.body


DOUBLING = "A=xxxxxxxx; " + "A=$A$A$A$A$A; " * 9 + "echo hi"
NESTED = "if [ -f a ]; then " * 2000 + "exit 1"
SQUARES = "A=99999999999999999; " + "A=$((A * A)); " * 40 + "echo $A"
ENV_BOMB = [{"name": "V0", "value": "xxxxxxxx"}] + [
    {"name": f"V{number}", "value": f"$(V{number - 1})" * 4} for number in range(1, 17)
]

ENDED: dict[str, tuple[dict[str, Any], int, str]] = {
    "a variable that doubles": (pod("doubling", "sh", "-c", DOUBLING), 1, "expand"),
    "nested ifs": (pod("nested", "sh", "-c", NESTED), 1, "nest"),
    "one word of 900 kB": (pod("word", "echo", "x" * 900_000), 128, "131071"),
    "a script of 900 kB": (pod("script", "sh", "-c", "echo " + "x" * 900_000), 128, "131071"),
    "variables of each other": (pod("environment", "sh", "-c", "echo $V9", env=ENV_BOMB), 128, "V7"),
    "a word of references": (
        pod("words", "echo", "$(V)" * 10_000, env=[{"name": "V", "value": "x" * 100_000}]),
        128,
        "1000000000 bytes",
    ),
    "a program that runs itself": (pod("itself", *["agnhost"] * 50_000), 1, "nest"),
}


@pytest.mark.parametrize(("made", "code", "words"), ENDED.values(), ids=ENDED)
def test_a_container_past_its_limits_ends_with_the_limit_named(
    simulated: Service, made: dict[str, Any], code: int, words: str
) -> None:
    name = made["metadata"]["name"]
    with Bystander(simulated) as other:
        submitted(simulated, made)
        found = ended(simulated, name)
    assert found["exitCode"] == code
    assert words in found["message"]
    assert not other.failures
    assert other.worst < HELD


@pytest.mark.parametrize(
    "made",
    [
        pod("digits", "sh", "-c", SQUARES),
        pod("code", "sh", "-c", "exit ²"),
        pod("long-code", "sh", "-c", f"exit {'9' * 5000}"),
        pod("compared", "sh", "-c", f"[ {'9' * 5000} -gt 1 ] && exit 3"),
        pod("option", "sh", f"-{'c' * 120_000}1", "true"),
        pod("long-sleep", "sleep", "9" * 400, policy="Always"),
        {**pod("asked", "true"), "metadata": {"name": "asked", "annotations": {"gpuaas.dev/fail": "²"}}},
    ],
    ids=lambda made: made["metadata"]["name"],
)
def test_absurd_numbers_and_options_hold_up_nobody(simulated: Service, made: dict[str, Any]) -> None:
    with Bystander(simulated) as other:
        submitted(simulated, made)
        eventually(lambda: state(simulated, made["metadata"]["name"]).keys() & {"running", "terminated"}, "no state")
    assert other.worst < HELD


def test_the_server_starts_again_and_comes_to_the_same_end(simulated: Service) -> None:
    """Pods that were accepted and not yet handled when the server was killed: each start meets them all at once."""
    made = {**pod("again", "sh", "-c", DOUBLING, policy="Always"), "metadata": {"name": "again"}}
    submitted(simulated, made)
    submitted(simulated, pod("again-environment", "true", env=ENV_BOMB))
    assert restart(simulated) < READY
    eventually(lambda: "expand" in _told(simulated, "again"), lambda: f"not ended: {state(simulated, 'again')}")
    assert "V7" in ended(simulated, "again-environment")["message"]
    submitted(simulated, pod("neighbour", "echo", "hi"))
    assert ended(simulated, "neighbour")["exitCode"] == 0


def _told(service: Service, name: str) -> str:
    """What the last run ended with."""
    statuses = service.ask("GET", f"{PODS}/{name}").json().get("status", {}).get("containerStatuses") or [{}]
    return str((statuses[0].get("lastState") or {}).get("terminated", {}).get("message", ""))


def test_whole_maps_count_towards_the_environment(simulated: Service) -> None:
    for number in range(4):
        data = {f"K{number}-{key}": "x" * 90_000 for key in range(8)}
        body = {"metadata": {"name": f"large-{number}"}, "data": data}
        assert simulated.ask("POST", "/api/v1/namespaces/default/configmaps", body).status == 201
    sources = [{"configMapRef": {"name": f"large-{number}"}} for number in range(4)] * 50
    with Bystander(simulated) as other:
        submitted(simulated, pod("maps", "true", envFrom=sources))
        message = ended(simulated, "maps")["message"]
    assert "2097152" in message
    assert other.worst < HELD


# Logs of processes


def process_pod(name: str, script: str) -> dict[str, Any]:
    made = pod(name, "sh", "-c", script)
    made["spec"] |= {
        "runtimeClassName": "gpuaas-process",
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
    }
    return made


def wrote(service: Service, name: str, script: str) -> Path:
    """Runs it to its end; the container's folder."""
    submitted(service, process_pod(name, script))
    assert ended(service, name)["exitCode"] == 0
    uid = service.ask("GET", f"{PODS}/{name}").json()["metadata"]["uid"]
    return next(iter((service.home / "pods").glob(f"*/{uid}/main")))


LINE = "0123456789" * 10


@pytest.fixture(scope="module")
def large(machine: Service) -> Path:
    """300 MB, of which the newest are kept."""
    return wrote(machine, "large", f"yes {LINE} | head -c 300000000; echo; echo last")


def read(service: Service, name: str, query: str = "") -> bytes:
    wire, chunks = asking(service, name, query), []
    assert wire.read(whole=False).status == 200
    while chunk := wire.chunk():
        chunks.append(chunk)
    wire.close()
    return b"".join(chunks)


def asking(service: Service, name: str, query: str = "") -> Wire:
    """A connection on which a log was asked for."""
    wire = service.connect()
    wire.send(encoded("GET", f"{PODS}/{name}/log?{query}", {"authorization": f"Bearer {service.token}"}))
    return wire


def test_the_end_of_a_large_log_costs_its_end(machine: Service, large: Path) -> None:
    with Bystander(machine) as other:
        began = time.monotonic()
        assert read(machine, "large", "tailLines=1") == b"last\n"
        assert time.monotonic() - began < 2.0
    assert other.worst < HELD


def test_a_large_log_arrives_whole_in_flat_memory(machine: Service) -> None:
    wrote(machine, "whole", f"yes {LINE} | head -c 40400000; sleep 1")
    read(machine, "whole", "tailLines=100000")  # what the first reader loads
    before = machine.rss()
    with Bystander(machine) as other:
        body = read(machine, "whole")
    assert body == f"{LINE}\n".encode() * 400_000
    assert machine.rss() - before < 64 << 20
    assert other.worst < HELD


def test_a_reader_that_stops_reading_costs_no_memory(machine: Service, large: Path) -> None:
    before = machine.rss()
    wires = [asking(machine, "large", "follow=true") for _ in range(4)]
    time.sleep(2.0)
    assert machine.rss() - before < 64 << 20
    for wire in wires:
        wire.close()


def test_a_log_has_a_bound_on_disk(machine: Service, large: Path) -> None:
    kept = 70 << 20
    eventually(lambda: (large / "log").stat().st_blocks * 512 <= kept, lambda: f"{(large / 'log').stat()}", 10.0)
    body = read(machine, "large")
    assert 40 << 20 < len(body) <= kept
    assert body.startswith(f"{LINE}\n".encode())
    assert body.endswith(b"\nlast\n")


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_what_is_no_plain_file_is_not_read(machine: Service, kind: str) -> None:
    folder = wrote(machine, f"other-{kind}", "echo hi")
    secret = machine.home / "secret"
    secret.write_text("a secret\n")
    (folder / "log").unlink()
    match kind:
        case "fifo":
            os.mkfifo(folder / "log")
        case "link":
            (folder / "log").symlink_to(secret)
        case _:
            (folder / "log").mkdir()
    with Bystander(machine) as other:
        body = read(machine, f"other-{kind}")
        assert b"not a regular file" in body
        read(machine, f"other-{kind}", "follow=true&tailLines=3")
    assert other.worst < HELD
    assert restart(machine) < READY
