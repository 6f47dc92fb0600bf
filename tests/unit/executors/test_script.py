"""What can be seen of a command from outside."""

from typing import Any

import pytest

from gpuaas.executors.limits import Budget
from gpuaas.executors.script import Script, read_script
from gpuaas.executors.simulated_lifetimes import UNKNOWN_WORK, life_of


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
    "who gives up where something goes wrong does not where nothing does": (
        shell("python train.py || exit 1; echo done"),
        Script(((0.0, "(simulated) python train.py"), (0.0, "done")), 0.0),
    ),
    "what comes only after success": (shell("false && echo never\ntrue && echo yes"), Script(((0.0, "yes"),), 0.0, 0)),
    "after a failure": (shell("false || echo yes; sleep 2"), Script(((0.0, "yes"),), 2.0, 0)),
    "a test that holds": (shell("if [ 3 -gt 2 ]; then exit 4; else exit 5; fi"), Script((), 0.0, 4)),
    "one that does not": (shell("if [ a = b ]; then exit 4\nelse\n  exit 5\nfi"), Script((), 0.0, 5)),
    "one inside another": (
        shell("if true; then if false; then exit 1; fi; exit 7; else exit 2; fi"),
        Script((), 0.0, 7),
    ),
    "the second question": (shell("if false; then exit 1; elif [ -n x ]; then exit 6; fi"), Script((), 0.0, 6)),
    "none of them": (shell("if false; then exit 1; elif false; then exit 2; fi; sleep 3"), Script((), 3.0, 0)),
    "a missing file is no reason to give up": (
        shell("if [ ! -f /data ]; then exit 1; fi; sleep 3"),
        Script((), 3.0, 0),
    ),
    "nor is one that should be there": (shell("if [ -f /data ]; then sleep 3; else exit 1; fi"), Script((), 3.0, 0)),
    "the test of a file before a command": (shell("[ -f /data ] && sleep 3"), Script((), 3.0, 0)),
    "a value of its own": (shell("N=3; exit $((N + 1))"), Script((), 0.0, 4)),
    "a sum": (shell("N=3; exit $(($N + 1))"), Script((), 0.0, 4)),
    "quotes keep what they hold": (shell("N=3; echo '$N' $N"), Script(((0.0, "$N 3"),), 0.0)),
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
    found = read_script(container, Budget())
    assert (found.seconds, found.exit_code) == (expected.seconds, expected.exit_code)
    if expected.lines:
        assert found.lines == expected.lines


def pod(container: dict[str, Any], policy: str = "Never") -> Any:
    return {"spec": {"containers": [{"name": "main", "image": "i", **container}], "restartPolicy": policy}}


@pytest.mark.parametrize(("index", "code"), [("0", 0), ("1", 1), ("3", 1)])
def test_a_command_knows_the_values_its_pod_gives_it(index: str, code: int) -> None:
    text = "if [ $(expr ${INDEX} % 2) -ne 0 ]; then\n  exit 1\nelse\n  exit 0\nfi"
    path = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    one = pod({**shell(text), "env": [{"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}]})
    one["metadata"] = {"annotations": {"batch.kubernetes.io/job-completion-index": index}}
    assert life_of(one, {}).exit_code == code


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
