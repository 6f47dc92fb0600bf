"""The two servers every differential test talks to, started once; without the real binaries the tests say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real import parts, sides
from tests.real.judge import Judge, load

Sides = tuple[sides.Side, sides.Side]


@pytest.fixture(scope="session")
def real_parts() -> None:
    absent = ", ".join(f"{part.name} {part.version}" for part in parts.missing())
    if absent:
        pytest.skip(f"not in {parts.cache()}: {absent}; `python -m tests.real build` builds them (needs Go)")


@pytest.fixture(scope="session")
def real(real_parts: None) -> Iterator[sides.Side]:
    with sides.real_side() as side:
        yield side


@pytest.fixture(scope="session")
def ours(real_parts: None) -> Iterator[sides.Side]:
    with sides.our_side() as side:
        yield side


@pytest.fixture(scope="session")
def judge() -> Judge:
    return Judge(load())


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")
