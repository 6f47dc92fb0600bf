"""Modules and functions stay short; an exception stands in budget.toml with its reason."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
BUDGET = tomllib.loads((Path(__file__).parent / "budget.toml").read_text())
MODULE_LINES, FUNCTION_LINES = 600, 80


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT / "src"))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_module_is_short_and_says_what_it_owns(path: Path) -> None:
    text = path.read_text()
    lines = len(text.splitlines())
    assert lines <= MODULE_LINES or name_of(path) in BUDGET.get("modules", {}), f"{lines} lines: split it by question"
    if lines > 3:
        assert ast.get_docstring(ast.parse(text)), "a module begins with what it owns"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_functions_are_short(path: Path) -> None:
    allowed = BUDGET.get("functions", {})
    long = [
        f"{name} has {length} lines"
        for name, length in functions(path)
        if length > FUNCTION_LINES and f"{name_of(path)}:{name}" not in allowed
    ]
    assert not long


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_every_exception_from_the_budget_is_still_needed() -> None:
    stale = [
        name
        for name in BUDGET.get("modules", {})
        if len((ROOT / "src" / name).read_text().splitlines()) <= MODULE_LINES
    ]
    for entry in BUDGET.get("functions", {}):
        path, _, function = entry.partition(":")
        if all(length <= FUNCTION_LINES for name, length in functions(ROOT / "src" / path) if name == function):
            stale.append(entry)
    assert not stale, "take them out of budget.toml"
