"""The engine decides what the real scheduler decided: a sample of measured scenarios, and the command that runs them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpuaas.cli.replay import replay
from gpuaas.cli.vectors.queues import judge, run_admission

HERE = Path(__file__).parent / "vectors"
SAMPLES = ("admission.jsonl.gz", "topology.jsonl.gz", "preference.jsonl.gz", "layers.jsonl.gz")


def read(name: str) -> list[dict[str, Any]]:
    with gzip.open(HERE / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


VECTORS = [vector for name in SAMPLES for vector in read(name)]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: (v.get("scenario") or v)["name"])
def test_decides_as_measured(vector: dict[str, Any]) -> None:
    assert judge(vector).differences == ()


def test_the_sample_has_every_family() -> None:
    assert len({v["scenario"]["family"] for v in VECTORS if "scenario" in v}) == 15 + 1
    assert len({v["family"] for v in VECTORS if "levels" in v}) == 10 + 1


def test_the_end_of_one_that_has_the_name_of_one_before_it_wakes_others() -> None:
    def workload(name: str) -> dict[str, Any]:
        pod = {"containers": [{"name": "c", "resources": {"requests": {"gpu": "2"}}}]}
        spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}]}
        given = {"name": "main", "count": 1, "flavors": {"gpu": "l4"}, "resourceUsage": {"gpu": "2"}}
        status = {"admission": {"clusterQueue": "q", "podSetAssignments": [given]}}
        return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": status}

    flavors = [{"name": "l4", "resources": [{"name": "gpu", "nominalQuota": "2"}]}]
    groups = [{"coveredResources": ["gpu"], "flavors": flavors}]
    scenario = {
        "namespaces": [{"metadata": {"name": "ns"}}],
        "resourceFlavors": [{"metadata": {"name": "l4"}}],
        "clusterQueues": [{"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}, "resourceGroups": groups}}],
        "localQueues": [{"metadata": {"name": "q", "namespace": "ns"}, "spec": {"clusterQueue": "q"}}],
        "admitted": [workload("a")],
        "steps": [{"finish": ["ns/a"], "submit": [workload("a"), workload("b")]}, {"finish": ["ns/a"]}],
    }
    assert [set(step["running"]) for step in run_admission(scenario)] == [{"ns/a"}, {"ns/b"}]


def test_replay_ends_with_how_many_agree() -> None:
    result = CliRunner().invoke(replay, [str(HERE / name) for name in SAMPLES])
    assert result.exit_code == 0
    assert result.output.strip().splitlines()[-1] == "120 of 120 agree"


def test_replay_shows_scenario_step_cycle_and_both_decisions_where_they_differ(tmp_path: Path) -> None:
    vector = next(v for v in VECTORS if "scenario" in v and v["expect"][0]["cycles"])
    vector = json.loads(json.dumps(vector))
    cycle = vector["expect"][0]["cycles"][0]
    cycle["admitted"], cycle["preempted"] = {}, {"ns/nobody": "InClusterQueue"}
    file = tmp_path / "changed.jsonl"
    file.write_text(json.dumps(vector) + "\n")
    result = CliRunner().invoke(replay, [str(file)], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert f"{vector['scenario']['name']} ({vector['scenario']['family']}): step 0, cycle 0" in result.output
    assert "ns/nobody" in result.output
    assert "measured" in result.output
    assert "engine" in result.output
    assert result.output.strip().splitlines()[-1] == "0 of 1 agree"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "changed.jsonl:1: not JSON"),
        ('{"a": 1}', "not a vector this command runs: found a;"),
        ("[]", "not a vector this command runs: found list"),
        ('{"scenario": {"name": "x", "family": "y"}, "expect": []}', "x: not as the format says: KeyError: 'steps'"),
        ("", "no vectors"),
    ],
)
def test_replay_says_what_is_wrong_with_a_file(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "changed.jsonl"
    file.write_text(content)
    result = CliRunner().invoke(replay, [str(file)])
    assert result.exit_code != 0
    assert words in result.output
