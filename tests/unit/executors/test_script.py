"""What can be seen of a command from outside."""

from typing import Any

import pytest

from gpuaas.executors.lives import UNKNOWN_WORK, life_of
from gpuaas.executors.script import Script, read_script


def shell(text: str) -> dict[str, Any]:
    return {"name": "main", "command": ["sh", "-c", text]}


SCRIPTS = {
    "one after the other": (
        shell("echo begin; sleep 2; echo 'a; b' && sleep 0.5"),
        Script(((0.0, "begin"), (2.0, "a; b")), 2.5),
    ),
    "a plain sleep": ({"command": ["sleep"], "args": ["30"]}, Script((), 30.0)),
    "a path and a unit": ({"command": ["/bin/sleep", "2m"]}, Script((), 120.0)),
    "for ever": ({"command": ["sleep", "infinity"]}, Script((), None)),
    "a loop": (shell("while true; do echo x; sleep 5; done"), Script((), None)),
    "a shell with more options": ({"command": ["/bin/bash", "-ce", "--"], "args": ["sleep 4"]}, Script((), 4.0)),
    "what is run by something else": (shell("ray job submit --id x -- sleep 7"), Script((), 7.0)),
    "an exit code": (shell("echo no\nexit 3\necho never"), Script(((0.0, "no"),), 0.0, 3)),
    "false": (shell("sleep 1; false"), Script((), 1.0, 1)),
    "an unfinished quote": (shell("echo it's; sleep 1"), Script(((0.0, "it's; sleep 1"),), 0.0)),
    "the test image tells its words and ends": (
        {"args": ["entrypoint-tester", "a"]},
        Script(((0.0, "entrypoint-tester a"),), 0.0),
    ),
    "the test image serves": ({"args": ["netexec"]}, Script((), None)),
    "the test image serves by its whole name": ({"command": ["/agnhost", "netexec"]}, Script((), None)),
    "the test image waits": ({"args": ["pause"]}, Script((), None)),
}


@pytest.mark.parametrize(("container", "expected"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_command_in_time(container: Any, expected: Script) -> None:
    found = read_script(container)
    assert (found.seconds, found.exit_code) == (expected.seconds, expected.exit_code)
    if expected.lines:
        assert found.lines == expected.lines


def pod(container: dict[str, Any], policy: str = "Never") -> Any:
    return {"spec": {"containers": [{"name": "main", "image": "i", **container}], "restartPolicy": policy}}


TRAIN = {"command": ["python", "train.py"]}
LIVES = {
    "the annotation counts more than the command": (pod(shell("sleep 100")), {"run-seconds": "3"}, 1.0, 3.0, 0),
    "work of unknown length ends some time": (pod(TRAIN), {}, 1.0, UNKNOWN_WORK, 0),
    "a service never ends": (pod({}, "Always"), {}, 1.0, None, 0),
    "ten times as fast": (pod(shell("sleep 100")), {}, 10.0, 10.0, 0),
    "to fail": (pod(shell("sleep 1")), {"fail": "true"}, 1.0, 1.0, 1),
    "to fail with a code": (pod(shell("sleep 1")), {"fail": "42"}, 1.0, 1.0, 42),
    "to run out of memory": (pod(TRAIN), {"fail": "OOMKilled", "run-seconds": "2"}, 1.0, 2.0, 137),
    "nonsense is not heard": (pod(shell("sleep 1")), {"run-seconds": "soon", "fail": "perhaps"}, 1.0, 1.0, 0),
}


@pytest.mark.parametrize(("made", "said", "speed", "seconds", "code"), LIVES.values(), ids=LIVES)
def test_a_life(made: Any, said: dict[str, str], speed: float, seconds: float | None, code: int) -> None:
    life = life_of(made, {f"gpuaas.dev/{key}": value for key, value in said.items()}, speed)
    assert (life.seconds, life.exit_code) == (seconds, code)
