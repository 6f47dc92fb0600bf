"""One differential run: the same cases against two sides, both at once, judged as they finish."""

from __future__ import annotations

import fnmatch
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.real import script, wire
from tests.real.judge import Difference, Judge
from tests.real.script import Outcome
from tests.real.sides import Side

NAMESPACE_SECONDS = 10.0
# A namespace is furnished by controllers; a case that lists it must not race with them.
FURNITURE = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")

Run = Callable[[Side], list[Outcome]]


def kubectl_cases(
    kubectl: Path, homes: Path, only: str, *, exactly: bool = False, known: Iterable[script.Case] = ()
) -> Iterator[tuple[str, Run]]:
    for case in known or script.load():
        if selected(case.name, only, exactly):
            yield case.name, _kubectl_run(case, kubectl, homes)


def wire_cases(only: str, *, exactly: bool = False) -> Iterator[tuple[str, Run]]:
    for name, body in wire.load().items():
        if selected(name, only, exactly):
            yield name, _wire_run(name, body)


def selected(name: str, only: str, exactly: bool = False) -> bool:
    if exactly:
        return name == only
    return not only or any(fnmatch.fnmatchcase(name, f"*{pattern}*") for pattern in only.split(","))


def compare(
    cases: Iterable[tuple[str, Run]], sides: Sequence[Side], judge: Judge, *, together: int = 1
) -> Iterator[list[Difference]]:
    """Yields the unlisted differences of each case, in order. The two sides work at the same time, each in order, unless
    several cases may run `together`."""
    with ThreadPoolExecutor(len(sides) * together) as pool:
        started: deque[tuple[str, list[Future[list[Outcome]]]]] = deque()
        for name, run in cases:
            started.append((name, [pool.submit(_in_namespace, side, name, run) for side in sides]))
            if len(started) == together:
                yield _judged(judge, *started.popleft())
        while started:
            yield _judged(judge, *started.popleft())


def differing_twice(cases: Sequence[tuple[str, Run]], sides: Sequence[Side], judge: Judge) -> list[Difference]:
    """The unlisted differences that show again when their case is run once more: the real server tells some things in
    another order each time, and a watch may see one state more than the next."""
    first = [difference for found in compare(cases, sides, judge) for difference in found]
    differing = {difference.case for difference in first}
    doubtful = [case for case in cases if case[0] in differing]
    again = {(each.name, each.part) for found in compare(doubtful, sides, judge) for each in found}
    return [each for each in first if (each.name, each.part) in again]


def _judged(judge: Judge, name: str, outcomes: Sequence[Future[list[Outcome]]]) -> list[Difference]:
    left, right = (each.result() for each in outcomes)
    return judge.compare(name, left, right)


def _kubectl_run(case: script.Case, kubectl: Path, homes: Path) -> Run:
    def run(side: Side) -> list[Outcome]:
        home = homes / f"{side.name}-{kubectl.parent.name}"
        home.mkdir(exist_ok=True)
        return script.run(case, side, kubectl, home)

    return run


def _wire_run(name: str, body: wire.Body) -> Run:
    def run(side: Side) -> list[Outcome]:
        recorder = wire.Wire(side, name)
        body(recorder)
        return recorder.outcomes

    return run


def _in_namespace(side: Side, name: str, run: Run) -> list[Outcome]:
    namespace = f"/api/v1/namespaces/{name}"
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def made() -> bool:
        # Refused while the namespace of an earlier run is still going.
        return side.send("POST", "/api/v1/namespaces", body, {"Content-Type": "application/json"}).status == 201

    if not _until(made):
        return [Outcome("(make the namespace)", {"outcome": "refused"})]
    _until(lambda: all(side.send("GET", f"{namespace}/{thing}").status == 200 for thing in FURNITURE))
    try:
        return run(side)
    finally:
        # Nobody runs these pods, so nobody would confirm that they have ended.
        side.send("DELETE", f"{namespace}/pods?gracePeriodSeconds=0")
        side.send("DELETE", namespace)


def _until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + NAMESPACE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def temporary_homes() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="gpuaas-homes-")
