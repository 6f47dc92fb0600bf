"""Our server prints and answers what the real one does, but for the differences that are listed with their reasons."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.real import differential, parts, script, sides, wire
from tests.real.judge import Judge, render

pytestmark = pytest.mark.real

KUBECTL_CASES = [case.name for case in script.load()]
WIRE_CASES = list(wire.load())
VERSIONS = [parts.KUBERNETES, parts.OLDEST_KUBECTL]
# What shows that two right servers are found alike: every form of output, and each kind of exchange.
SELF_TEST = "get-forms,apply-server-side,patch-strategic,crd-lifecycle,watch-events,object-life,generated-*-0"


@pytest.mark.parametrize("name", KUBECTL_CASES)  # all with one version, then all with the other: names come free
@pytest.mark.parametrize("version", VERSIONS)
def test_kubectl_sees_no_difference(
    name: str, version: str, real: sides.Side, ours: sides.Side, judge: Judge, homes: Path
) -> None:
    cases = differential.kubectl_cases(parts.binary("kubectl", version), homes, name, exactly=True)
    _expect_alike(list(cases), real, ours, judge)


@pytest.mark.parametrize("name", WIRE_CASES)
def test_the_answers_are_alike(name: str, real: sides.Side, ours: sides.Side, judge: Judge) -> None:
    _expect_alike(list(differential.wire_cases(name, exactly=True)), real, ours, judge)


def test_every_listed_difference_is_still_there(judge: Judge) -> None:
    if judge.cases < len(KUBECTL_CASES) * len(VERSIONS) + len(WIRE_CASES):
        pytest.skip("only some of the cases were run")
    assert [entry.step for entry in judge.stale] == []


def test_two_real_servers_do_not_differ(real: sides.Side, homes: Path) -> None:
    kubectl = parts.binary("kubectl")
    with sides.real_side("twin") as twin:
        cases = [*differential.kubectl_cases(kubectl, homes, SELF_TEST), *differential.wire_cases(SELF_TEST)]
        _expect_alike(cases, real, twin, Judge())


def _expect_alike(cases: list[tuple[str, differential.Run]], left: sides.Side, right: sides.Side, judge: Judge) -> None:
    assert cases
    found = differential.differing_twice(cases, (left, right), judge)
    if found:
        pytest.fail("\n\n".join(render(difference) for difference in found), pytrace=False)
