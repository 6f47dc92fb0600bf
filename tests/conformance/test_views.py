"""Rows as the server computes them, beside the same rows made from its lists; and as a user of one namespace sees them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.conformance.service import Service, eventually
from tests.conformance.test_people import Gpuaas

from gpuaas.client.http import HttpClient, from_kubeconfig
from gpuaas.views import lists, served

T = TypeVar("T")


@pytest.fixture(scope="module")
def gpuaas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gpuaas, Path]]:
    home = tmp_path_factory.mktemp("views") / "home"
    with Service(home, "--fleet", "demo"):
        shell = Gpuaas(home)
        for namespace, names, gpus in (("team-a", "abc", "L4:1"), ("team-b", "de", "L4:2"), ("team-b", "fg", "99")):
            for name in names:
                shell("run", "-n", namespace, "--name", name, "--gpus", gpus, "--", "sleep", "600")
        eventually(lambda: _settled(shell), "the jobs did not settle")
        yield shell, home


def _settled(shell: Gpuaas) -> bool:
    states = [row["state"] for row in shell.json("ps", "-A")]
    return len(states) == 7 and set(states) <= {"Running", "Pending"}


def ask(home: Path, job: Callable[[HttpClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with from_kubeconfig(home / "kubeconfig") as client:
            return await job(client)

    return asyncio.run(run())


def test_rows_computed_in_the_server_are_those_made_from_lists(gpuaas: tuple[Gpuaas, Path]) -> None:
    _, home = gpuaas
    for namespace, everywhere in (("team-a", False), ("team-b", False), ("", True)):
        here = ask(home, lambda client, n=namespace, e=everywhere: lists.jobs(client, n, everywhere=e, nodes=True))  # type: ignore[misc]
        there = ask(home, lambda client, n=namespace: served.jobs(client, n, nodes=True))  # type: ignore[misc]
        assert there == here
        assert here[0], "there were rows to compare"
    assert ask(home, lambda client: served.queues(client, "")) == ask(home, lambda client: lists.queues(client, ""))
    assert ask(home, lambda client: served.queues(client, "team-b")) == ask(
        home, lambda client: lists.queues(client, "team-b")
    )
    assert ask(home, lambda client: served.gpus(client, details=True)) == ask(home, lists.gpus)
    assert ask(home, served.node_types) == ask(home, lists.node_types)


@pytest.mark.parametrize("job", ["a", "job/d", "f", "job/g"])
def test_the_server_explains_as_a_client_that_reads_lists_does(gpuaas: tuple[Gpuaas, Path], job: str) -> None:
    from gpuaas.cli.jobs import _explained_here

    _, home = gpuaas
    namespace, name = "team-a" if job == "a" else "team-b", job.rpartition("/")[2]
    here = ask(home, lambda client: _explained_here(client, namespace, job))
    assert ask(home, lambda client: served.why(client, namespace, name, "")) == here.as_object()


def test_a_user_of_one_namespace_sees_its_jobs_and_how_many_gpus_are_free(
    gpuaas: tuple[Gpuaas, Path], tmp_path: Path
) -> None:
    shell, _ = gpuaas
    mine = str(tmp_path / "ann.kubeconfig")
    shell("user", "add", "ann", "--role", "edit", "-n", "team-a", "--out", mine)
    seen: list[dict[str, Any]] = json.loads(shell("ps", "--kubeconfig", mine, "-A", "-o", "json"))
    assert {row["namespace"] for row in seen} == {"team-a"}
    assert len(seen) == 3
    assert "team-b" not in shell("top", "--kubeconfig", mine, "-o", "json")
    all_of_it = shell.json("gpus")
    sums = json.loads(shell("gpus", "--kubeconfig", mine, "-o", "json"))
    own = ("perNode", "users", "forYou", "largestForYou", "queues")
    assert [{key: row[key] for key in row if key not in own} for row in sums] == [
        {key: row[key] for key in row if key not in own} for row in all_of_it
    ]
    assert all(row["perNode"] == [] and row["users"] == {} for row in sums), "of nodes and others nothing is said"
    assert all({each["namespace"] for each in row["queues"]} <= {"team-a"} for row in sums)
    assert any(row["used"] for row in sums)
    assert "forbidden" in shell.refused("queues", "--kubeconfig", mine)


def test_a_reason_names_no_job_of_a_namespace_that_the_user_may_not_read(
    gpuaas: tuple[Gpuaas, Path], tmp_path: Path
) -> None:
    shell, _ = gpuaas
    mine = str(tmp_path / "fleet.kubeconfig")
    shell("user", "add", "fay", "--role", "edit", "-n", "team-a", "--fleet", "--out", mine)
    shell("run", "-n", "team-a", "--name", "late", "--gpus", "L4:13", "--", "sleep", "600")
    eventually(lambda: shell.state("team-a", "job/late") == "Pending", "no workload was made")
    answer = shell("why", "--kubeconfig", mine, "-n", "team-a", "late")
    assert "late: Pending" in answer
    assert "team-b/" not in answer
    shell("cancel", "-n", "team-a", "late")
