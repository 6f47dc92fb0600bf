"""A workload that the engine cannot judge is passed over with words; the others are admitted in the same cycle."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.engine import cycle
from gpuaas.engine.reasons import Token

from .builders import Lab, queue


@pytest.mark.parametrize("where", ["nominate", "process"])
def test_one_that_cannot_be_judged_stops_no_other(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def failing(inner: Any, item_of: Any) -> Any:
        def judged(*args: Any, **kwargs: Any) -> Any:
            if item_of(*args).key == "ns/bad":
                raise ValueError("no such thing")
            return inner(*args, **kwargs)

        return judged

    if where == "nominate":
        monkeypatch.setattr(cycle, "nominate", failing(cycle.nominate, lambda item, *_: item))
    else:
        inner = cycle.Cycle._process
        monkeypatch.setattr(cycle.Cycle, "_process", failing(inner, lambda _self, entry: entry.item))
    lab = Lab(queue("q", 10), queue("other", 10))
    lab.submit("bad", "q")
    lab.submit("good", "q")
    lab.submit("else", "other")
    admitted: list[str] = []
    faults: list[str] = []
    words: dict[str, tuple[Token, str]] = {}
    for _ in range(4):
        plan = lab.engine.cycle(lab.now)
        lab.engine.validate()
        admitted += [each.key for each in plan.admissions]
        faults += [key for key, _ in plan.faults]
        words |= {each.key: (each.token, each.message) for each in plan.skipped}
    assert sorted(admitted) == ["ns/else", "ns/good"]
    assert set(faults) == {"ns/bad"}
    assert words["ns/bad"][0] is Token.MISCONFIGURED
    assert "set aside: ValueError: no such thing" in words["ns/bad"][1]
