"""A few hundred generated objects, each changed several times in every way there is, on both servers alike."""

from __future__ import annotations

import time

from tests.real.generate import MAKERS, WIDGETS_DEFINITION, Change, Maker, Widgets
from tests.real.wire import JSON_PATCH, MERGE, STRATEGIC, Body, Wire, case

SEEDS_PER_CASE = 10
CASES_PER_KIND = 6
CHANGES = 6


def _case_for(maker: type[Maker], number: int) -> Body:
    def body(w: Wire) -> None:
        if maker is Widgets:
            _serve_widgets(w)
        for seed in range(number * SEEDS_PER_CASE, (number + 1) * SEEDS_PER_CASE):
            _story(w, maker(seed))

    body.__name__ = f"generated_{maker.resource}_{number}"
    return body


def _story(w: Wire, maker: Maker) -> None:
    """One object's life: created or applied, changed, deleted. Each answer is compared, managed fields included."""
    path = w.path(maker.resource, maker.group)
    if maker.odds(0.7):
        w.post(path, maker.named(maker.whole()), fieldManager="ann")
    for change in maker.changes(CHANGES):
        _send(w, f"{path}/x", change)
    w.prepare("PATCH", f"{path}/x", {"metadata": {"finalizers": None}}, MERGE)
    w.prepare("DELETE", f"{path}/x")


def _send(w: Wire, path: str, change: Change) -> None:
    match change.operation:
        case "apply":
            w.apply(path, change.body, change.manager)
        case "force":
            w.apply(path, change.body, change.manager, force="true")
        case "put":
            w.put(path, change.body, fieldManager=change.manager)
        case "merge":
            w.patch(path, change.body, MERGE, fieldManager=change.manager)
        case "strategic":
            w.patch(path, change.body, STRATEGIC, fieldManager=change.manager)
        case "json":
            w.patch(path, change.body, JSON_PATCH, fieldManager=change.manager)


def _serve_widgets(w: Wire) -> None:
    w.prepare("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS_DEFINITION)
    deadline = time.monotonic() + 10
    while w.prepare("GET", w.path("widgets", Widgets.group)).status != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    # The types that server-side apply needs are published a moment after the paths.
    while time.monotonic() < deadline:
        answer = w.prepare("GET", "/openapi/v3/apis/generated.example.com/v1")
        if answer.status == 200 and b"atomicList" in answer.body:
            return
        time.sleep(0.05)


for _maker in MAKERS:
    for _number in range(CASES_PER_KIND):
        case(_case_for(_maker, _number))
