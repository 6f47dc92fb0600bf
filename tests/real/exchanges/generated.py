"""A few hundred generated objects, each changed several times in every way there is, on both servers alike."""

from __future__ import annotations

from typing import Any

from tests.real.generate import GIZMOS_DEFINITION, MAKERS, Change, Gizmos, Maker
from tests.real.wire import JSON_PATCH, MERGE, STRATEGIC, Body, Wire, case

SEEDS_PER_CASE = 10
CASES_PER_KIND = 6
CHANGES = 6
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CUSTOM = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}


def _case_for(maker: type[Maker], number: int) -> Body:
    def body(w: Wire) -> None:
        if maker is Gizmos:
            _serve_gizmos(w)
        for seed in range(number * SEEDS_PER_CASE, (number + 1) * SEEDS_PER_CASE):
            _story(w, maker(seed))
        if maker is Gizmos:
            w.prepare("DELETE", f"{DEFINITIONS}/gizmos.generated.example.com")

    body.__name__ = f"generated_{maker.resource}_{number}"
    return body


def _story(w: Wire, maker: Maker) -> None:
    """One object's life: created or applied, changed, deleted. Each answer is compared, managed fields included."""
    w.forget()
    path = w.path(maker.resource, maker.group)
    if maker.odds(0.7):
        w.post(path, maker.named(maker.whole()), fieldManager="ann")
    for change in maker.changes(CHANGES):
        _send(w, f"{path}/x", maker, change)
    w.prepare("PATCH", f"{path}/x", {"metadata": {"finalizers": None}}, MERGE)
    w.prepare("DELETE", f"{path}/x")


def _send(w: Wire, path: str, maker: Maker, change: Change) -> None:
    match change.operation:
        case "apply":
            w.apply(path, change.body, change.manager)
        case "force":
            w.apply(path, change.body, change.manager, force="true")
        case "put":
            w.put(
                path,
                _conditional(w, path, change.body) if maker.conditional else change.body,
                fieldManager=change.manager,
            )
        case "merge":
            w.patch(path, change.body, MERGE, fieldManager=change.manager)
        case "strategic":
            w.patch(path, change.body, STRATEGIC, fieldManager=change.manager)
        case "json":
            w.patch(path, change.body, JSON_PATCH, fieldManager=change.manager)


def _conditional(w: Wire, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """With the revision it replaces, which some kinds ask for."""
    live = w.prepare("GET", path).json()
    revision = live.get("metadata", {}).get("resourceVersion", "")
    return {**body, "metadata": {**body["metadata"], "resourceVersion": revision}}


def _serve_gizmos(w: Wire) -> None:
    """Until the definition is there, its paths answer, and the types that server-side apply needs are published."""

    def made() -> bool:
        # Refused while an earlier definition is still going.
        return w.prepare("POST", DEFINITIONS, GIZMOS_DEFINITION).status == 201

    def served() -> bool:
        return w.prepare("GET", w.path("gizmos", Gizmos.group)).status == 200

    def published() -> bool:
        answer = w.prepare("GET", f"/openapi/v3/apis/{Gizmos.group}")
        return answer.status == 200 and b"atomicList" in answer.body

    for ready in (made, served, published):
        w.until(ready)


for _maker in MAKERS:
    for _number in range(CASES_PER_KIND):
        case(_case_for(_maker, _number))


@case
def definitions_of_the_wrong_type(w: Wire) -> None:
    """Schemas are read as strictly below `items` and `additionalProperties` as elsewhere."""
    for place in ("items", "additionalProperties", "not"):
        for inner in (
            {"type": "integer", "anyOf": False},
            {"x-kubernetes-int-or-string": "P"},
            {"type": "object", "properties": {"a": {"type": "array", "items": {"maxItems": "x"}}}},
            {"type": "object", "required": 3},
            {"type": "string", "unknown": {"a": 1}, "description": "kept"},
            {"type": "object", "additionalProperties": 3},
            {"x-kubernetes-validations": False},
            3,
            True,
            [{"type": "string", "oneOf": 3}],
            [{"type": "string"}],
            ["", 3],
            [None],
        ):
            holder = {"type": "array" if place == "items" else "object", place: inner}
            schema = {"type": "object", "properties": {"b": holder}}
            version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            names = {"plural": "shapes", "kind": "Shape", "singular": "shape", "listKind": "ShapeList"}
            spec = {"group": "shapes.example", "scope": "Namespaced", "names": names, "versions": [version]}
            meta = {"name": "shapes.shapes.example"}
            w.post(DEFINITIONS, {**CUSTOM, "metadata": meta, "spec": spec}, dryRun="All")
