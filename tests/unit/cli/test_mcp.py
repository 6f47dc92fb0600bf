"""`gpuaas mcp`: which command each tool runs, with the names and descriptions that agents see."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gpuaas.cli.mcp import tools


def call(name: str, **arguments: Any) -> list[str]:
    ran: list[list[str]] = []

    async def run(command: Sequence[str]) -> str:
        ran.append(list(command))
        return "[]"

    tool = next(tool for tool in tools(run) if tool.__name__ == name)
    assert asyncio.run(tool(**arguments)) == "[]"
    return ran[0]


@pytest.mark.parametrize(
    ("name", "arguments", "command"),
    [
        ("gpus", {}, "gpus -o json"),
        ("queues", {"namespace": "team-a"}, "queues -o json -n team-a"),
        ("profiles", {}, "profiles -o json"),
        ("jobs", {"namespace": "team-a"}, "ps -o json -n team-a"),
        ("submit", {"command": ["python", "x.py"], "gpus": "H200:2", "namespace": "t"}, "run --gpus H200:2 -n t -- python x.py"),
        ("submit", {"command": ["-n", "kube-system"]}, "run -- -n kube-system"),
        ("why", {"job": "train"}, "why -o json -- train"),
        ("logs", {"job": "train", "lines": 5}, "logs --tail 5 -- train"),
        ("cancel", {"job": "--all"}, "cancel -- --all"),
    ],
)  # fmt: skip
def test_a_tool_runs_one_command(name: str, arguments: dict[str, Any], command: str) -> None:
    assert call(name, **arguments) == command.split()


def test_every_tool_says_what_it_does() -> None:
    async def run(_: Sequence[str]) -> str:
        return ""

    assert all((tool.__doc__ or "").strip() for tool in tools(run))
