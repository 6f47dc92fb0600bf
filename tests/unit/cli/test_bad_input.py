"""Whatever people type, the answer names what was found and what would be right; nobody sees a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuaas.cli.main import cli


class Shell:
    def __init__(self, home: Path) -> None:
        self.environment: dict[str, str | None] = {"GPUAAS_HOME": str(home), "KUBECONFIG": None}

    def run(self, *words: str, stdin: str = "") -> Result:
        return CliRunner().invoke(cli, words, env=self.environment, input=stdin)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("people") / "home"
    environment = {**os.environ, "GPUAAS_HOME": str(home)}
    gpuaas = [sys.executable, "-m", "gpuaas"]
    subprocess.run([*gpuaas, "up", "-d", "--fleet", "demo"], env=environment, check=True, capture_output=True)
    yield Shell(home)
    subprocess.run([*gpuaas, "down"], env=environment, check=True, capture_output=True)


IN = ("-n", "team-a")
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "gpus": (("run", "--gpus", "x", "--", "e"), '--gpus "x": a number, or PRODUCT:NUMBER such as H200:2'),
    "a product": (("run", *IN, "--gpus", "H100:1", "--", "e"), "no node has a GPU called H100; there are: NVIDIA-A100"),
    "cpu": (("run", *IN, "--cpu", "lots", "--", "e"), '--cpu "lots": an amount such as 2 or 500m'),
    "memory": (("run", *IN, "--memory=-5", "--", "e"), '--memory "-5": an amount such as 8Gi'),
    "an array": (("run", *IN, "--array", "5-1", "--", "e"), '--array "5-1": first-last, such as 1-100'),
    "a huge array": (("run", *IN, "--array", "1-9999999", "--", "e"), "9999999 are too many; Kubernetes takes 100000"),
    "an empty command": (("run", *IN, "--", ""), 'the command is "": a program was expected'),
    "a namespace": (
        ("run", "-n", "nope", "--", "e"),
        "namespace nope has no queue; there are queues in: team-a, team-b",
    ),
    "a queue": (("run", *IN, "--queue", "x", "--", "e"), "there is no queue x in team-a; there are: default"),
    "a priority": (("run", *IN, "--priority", "x", "--", "e"), "there is no priority x; there are: dev, prod"),
    "a context": (("ps", "--context", "x"), 'context "x" does not exist in '),
    "a notebook's gpus": (("notebook", *IN, "--gpus", "x"), '--gpus "x": a number, or PRODUCT:NUMBER'),
    "a notebook's cpu": (("notebook", *IN, "--cpu", "x"), '--cpu "x": an amount such as 2 or 500m'),
    "a job": (("why", *IN, "nope"), "there is no job nope in namespace team-a"),
    "no name": (("why", *IN, "job/"), "there is no job job/ in namespace team-a"),
    "a slash": (("cancel", *IN, "/"), "there is no job / in namespace team-a"),
    "a resource": (("get", "clusterqueu"), 'no resource called "clusterqueu"; did you mean clusterqueue?'),
    "a selector": (("get", "pods", "-l", "a in (("), "unable to parse requirement"),
    "a clusterqueue": (("stop", "clusterqueue", "x"), "there is no clusterqueue x; there are: team-a, team-b"),
    "a localqueue": (("resume", "localqueue", "x", *IN), "no localqueue x in namespace team-a; there are: default"),
    "a role": (("user", "add", "eve", "--role", "x"), 'there is no cluster role "x"; there are: admin, '),
    "an expiry": (("user", "add", "eve", "--expires", "soon"), '"soon" is no length of time; 12h, 30d and 8w are'),
    "a folder": (("user", "add", "eve", "--out", "/no/such/file"), "--out /no/such/file: there is no folder /no/such"),
    "a backup's place": (("backup", "/no/such/file"), "there is no folder /no/such"),
    "a backup": (("restore", "-y", __file__), "is not a backup of ours: no archive; nothing was changed"),
}


@pytest.mark.parametrize(("words", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(shell: Shell, words: tuple[str, ...], says: str) -> None:
    result = shell.run(*words)
    assert result.exit_code == 1, result
    assert says in result.stderr
    assert isinstance(result.exception, SystemExit)


MANIFESTS = {
    "a word": ("passwd", 'an object with apiVersion and kind was expected, not "passwd"'),
    "nothing": ("---\n", "there is no object in what was given"),
    "no version": ("kind: Pod", "apiVersion is missing"),
    "a list for a kind": ("{apiVersion: v1, kind: [a]}", 'kind is ["a"]'),
    "a list for metadata": ("{apiVersion: v1, kind: Pod, metadata: [3]}", "metadata must be a map, not [3]"),
    "a number for items": ("{apiVersion: v1, kind: List, items: 3}", "items must be a list, not 3"),
    "no YAML": ("a: b: c", "mapping values are not allowed in this context"),
    "an unknown kind": ("{apiVersion: v1, kind: Pot, metadata: {name: x}}", "the cluster knows no Pot in v1"),
    "no name": ("{apiVersion: v1, kind: Pod, metadata: {generateName: x}}", "apply needs a name"),
}


@pytest.mark.parametrize(("text", "says"), MANIFESTS.values(), ids=MANIFESTS)
def test_what_is_wrong_in_a_manifest_is_named(shell: Shell, text: str, says: str) -> None:
    result = shell.run("apply", "-f", "-", stdin=text)
    assert result.exit_code == 1, result
    assert says in result.stderr
    assert isinstance(result.exception, SystemExit)


def test_a_file_that_is_no_text_is_named(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe")
    result = shell.run("apply", "-f", str(tmp_path / "x.yaml"))
    assert result.exit_code == 1
    assert f"{tmp_path / 'x.yaml'}: 'utf-8' codec can't decode" in result.stderr


def test_options_for_one_that_runs_are_not_silently_ignored(shell: Shell) -> None:
    result = shell.run("up", "-d", "--fleet", "none", "--port", "1")
    assert result.exit_code == 0
    assert "gpuaas already runs here" in result.stdout
    assert "--port, --fleet changes nothing while it runs" in result.stderr
    assert "warning" not in shell.run("up", "-d").stderr


def test_a_notebook_may_ask_for_a_product(shell: Shell) -> None:
    result = shell.run("notebook", *IN, "--name", "desk", "--gpus", "L4:2", "-o", "json")
    assert result.exit_code == 0, result
    assert '"nvidia.com/gpu.product": "NVIDIA-L4"' in result.stdout
    assert '"nvidia.com/gpu": "2"' in result.stdout


def test_who_may_edit_may_ask_for_notebooks_and_who_sees_the_fleet_may_name_its_gpus(
    shell: Shell, tmp_path: Path
) -> None:
    plain, seeing = str(tmp_path / "plain"), str(tmp_path / "seeing")
    assert shell.run("user", "add", "plain", *IN, "--out", plain).exit_code == 0
    assert shell.run("user", "add", "seeing", *IN, "--fleet", "--out", seeing).exit_code == 0
    assert shell.run("notebook", "--kubeconfig", plain, "--name", "hers", "--gpus", "0").exit_code == 0
    blind = shell.run("run", "--kubeconfig", plain, "--image", "i", "--gpus", "L4:1", "--", "x")
    assert "no GPU nodes can be seen: L4 is taken for a product's whole name" in blind.stderr
    found = shell.run("run", "--kubeconfig", seeing, "--gpus", "L4:1", "-o", "json", "--", "x")
    assert '"nvidia.com/gpu.product": "NVIDIA-L4"' in found.stdout
    assert shell.run("queues", "--kubeconfig", plain).exit_code == 1
    assert "team-b" in shell.run("queues", "--kubeconfig", seeing).stdout
    gpus = shell.run("gpus", "--kubeconfig", seeing)
    assert "NVIDIA-L4" in gpus.stdout
    assert "how many are in use only shows to who may list all pods" in gpus.stderr
    assert "gpuaas-" not in shell.run("user", "list").stdout
    for name in ("plain", "seeing"):
        assert shell.run("user", "rm", name).exit_code == 0
    assert "gpuaas-user-" not in shell.run("get", "clusterrolebindings").stdout
    assert "gpuaas-user-" not in shell.run("get", "rolebindings", *IN).stdout
