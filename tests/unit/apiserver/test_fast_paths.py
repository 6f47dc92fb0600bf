"""What is done the short way comes out as if it had been done the long way: long bodies, watches of one name, patches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.apiserver.conftest import APPLY, MAPS, MERGE, Api, config_map

from gpuaas.apiserver import ownership
from gpuaas.apiserver.http import Answer, Request, Response
from gpuaas.apiserver.known_owners import KnownOwners
from gpuaas.apiserver.listener import listen
from gpuaas.apiserver.read import ListCache
from gpuaas.base.clock import parse_rfc3339, rfc3339

JOBS = "/apis/batch/v1/namespaces/default/jobs"
LONG = bytes(range(256)) * 20_000


def test_a_client_that_reads_slowly_gets_a_long_body_whole_and_then_the_next_answer() -> None:
    def handler(request: Request) -> Answer:
        return Response(200, LONG if request.path == "/long" else b"short", b"text/plain")

    async def story() -> bytes:
        listener = await listen(handler, "127.0.0.1", 0, None)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1024)
        writer.write(
            b"GET /long HTTP/1.1\r\nhost: x\r\n\r\nGET /short HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        read = b""
        while piece := await asyncio.wait_for(reader.read(10_000), 10):
            read += piece
        writer.close()
        await listener.stop(0.1)
        return read

    first, rest = asyncio.run(story()).split(b"\r\n\r\n", 1)
    assert f"content-length: {len(LONG)}".encode() in first
    assert rest[: len(LONG)] == LONG
    assert rest[len(LONG) :].startswith(b"HTTP/1.1 200 OK")
    assert rest.endswith(b"\r\n\r\nshort")


@pytest.mark.parametrize(
    ("selector", "seen"),
    [
        ("metadata.name=one", ["one"]),
        ("metadata.name=one,metadata.namespace=default", ["one"]),
        ("metadata.name=one,metadata.name=two", []),
        ("metadata.name!=one,metadata.name=two", ["two"]),
        ("metadata.name=absent", []),
    ],
)
def test_a_watch_by_name_shows_what_the_name_selects(api: Api, selector: str, seen: list[str]) -> None:
    for name in ("one", "two"):
        api.send("POST", MAPS, config_map(name))
    for path in (MAPS, "/api/v1/configmaps"):
        events = api.watch(path, fieldSelector=selector)
        assert [event["object"]["metadata"]["name"] for event in events] == seen


def test_a_watch_by_name_sees_changes_and_the_end(api: Api) -> None:
    since = api.send("POST", MAPS, config_map("followed")).body["metadata"]["resourceVersion"]
    api.send("POST", MAPS, config_map("followed-not"))
    api.send("PATCH", f"{MAPS}/followed", {"data": {"a": "b"}}, MERGE)
    api.send("DELETE", f"{MAPS}/followed")
    events = api.watch(MAPS, fieldSelector="metadata.name=followed", resourceVersion=since)
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("MODIFIED", "followed"),
        ("DELETED", "followed"),
    ]


@pytest.mark.parametrize("decoded", [True, False])
def test_what_is_deleted_is_shown_whole_to_the_end(api: Api, decoded: bool) -> None:
    made = api.send("POST", JOBS, _job("leaving")).body
    if not decoded:
        api.parts.cluster.store.drop_decoded("batch/jobs/default/leaving")
    api.send("DELETE", f"{JOBS}/leaving", propagationPolicy="Background")
    (event,) = api.watch(
        JOBS, resourceVersion=made["metadata"]["resourceVersion"], fieldSelector="metadata.name=leaving"
    )
    assert event["type"] == "DELETED"
    revision = event["object"]["metadata"].pop("resourceVersion")
    assert int(revision) > int(made["metadata"].pop("resourceVersion"))
    assert event["object"] == made


def _job(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "a", "resources": {"limits": {"cpu": "1000m"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


def test_a_patch_leaves_alone_what_it_does_not_speak_of(api: Api) -> None:
    made = api.send("POST", JOBS, _job("left-alone")).body
    patched = api.send("PATCH", f"{JOBS}/left-alone", {"metadata": {"labels": {"a": "b"}}}, MERGE).body
    assert patched["spec"] == made["spec"]
    assert list(patched) == list(made)
    assert patched["metadata"]["generation"] == 1
    assert patched["metadata"]["labels"]["a"] == "b"


@pytest.mark.parametrize(
    ("patch", "status", "said"),
    [
        ({"spec": {"parallelism": -1}}, 422, "spec.parallelism"),
        ({"spec": {"suspend": "yes"}}, 422, "cannot unmarshal string"),
        ({"metadata": {"labels": {"a": "not allowed!"}}}, 422, "metadata.labels"),
        ({"spec": {"completionMode": "Indexed"}}, 422, "field is immutable"),
    ],
)
def test_a_patch_is_checked_where_it_changes_something(api: Api, patch: dict[str, Any], status: int, said: str) -> None:
    api.send("POST", JOBS, _job("checked"))
    answer = api.send("PATCH", f"{JOBS}/checked", patch, MERGE)
    assert answer.status == status
    assert said in answer.message


def test_a_patch_of_another_part_says_which_fields_it_did_not_know(api: Api) -> None:
    api.send("POST", JOBS, _job("warned"))
    answer = api.send("PATCH", f"{JOBS}/warned", {"metadata": {"odd": 1}, "stranger": {}}, MERGE)
    assert answer.warnings == ['"unknown field \\"metadata.odd\\""', '"unknown field \\"stranger\\""']
    assert "stranger" not in answer.body


def test_kept_lists_are_few_and_not_too_long_together() -> None:
    cache = ListCache()
    for number in range(6):
        cache.keep((f"k{number}", "v1"), 1, b"x" * 100_000)
    assert [bool(cache.find((f"k{number}", "v1"), 1)) for number in range(6)] == [False, False, True, True, True, True]
    cache.keep(("huge", "v1"), 1, b"x" * (40 << 20))
    assert cache.find(("huge", "v1"), 1)
    assert not cache.find(("k5", "v1"), 1)
    assert not cache.find(("huge", "v1"), 2)


def test_an_apply_that_changes_nothing_warns_like_the_one_before(api: Api) -> None:
    group, kind = "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"
    configuration = {"apiVersion": group, "kind": kind, "metadata": {"name": "a.static.k8s.io"}}
    path = f"/apis/{group}/validatingwebhookconfigurations/a.static.k8s.io"
    answers = [api.send("PATCH", path, configuration, APPLY, fieldManager="ann") for _ in range(2)]
    assert answers[0].body["metadata"]["resourceVersion"] == answers[1].body["metadata"]["resourceVersion"]
    for answer in answers:
        assert any("are reserved for static" in warning for warning in answer.warnings)


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GAUGES = "/apis/example.org/v1/namespaces/default/gauges"
STATUSES = [
    ("ann", {"level": 1}),
    ("ben", {"level": 1, "words": "low"}),
    ("ann", {"words": "high"}),
    ("ann", {"level": 2, "words": None}),
    ("ben", {"level": 2}),
    ("cas", {"parts": [{"name": "a", "state": "on"}, {"name": "b"}]}),
    ("ann", {"parts": [{"name": "a", "state": "off"}]}),
]


def _gauges(api: Api) -> None:
    part = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "state": {"type": "string"}},
    }
    parts = {"type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    status = {
        "type": "object",
        "properties": {
            "level": {"type": "integer"},
            "words": {"type": "string"},
            "at": {"type": "string"},
            "parts": parts,
        },
        "x-kubernetes-validations": [
            {"rule": "!has(oldSelf.level) || self.level >= oldSelf.level", "message": "it never falls"}
        ],
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"plural": "gauges", "singular": "gauge", "kind": "Gauge"}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]}
    made = api.send("POST", DEFINITIONS, {"metadata": {"name": "gauges.example.org"}, "spec": spec})
    assert made.status in (201, 409)


def _played(api: Api, name: str, pauses: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Who owned what after each step, and for how many seconds then."""
    assert api.send("POST", GAUGES, {"metadata": {"name": name, "labels": {"a": "b"}}}).status == 201
    seen = []
    for (manager, status), pause in zip(STATUSES, pauses, strict=True):
        api.clock.advance(pause)
        now = api.clock.now()
        said = {"status": {**status, "at": rfc3339(now)}}
        answer = api.send("PATCH", f"{GAUGES}/{name}/status", said, MERGE, fieldManager=manager)
        assert answer.status == 200, answer.message
        fields = answer.body["metadata"]["managedFields"]
        seen.append([{**entry, "time": now - parse_rfc3339(entry["time"])} for entry in fields])
    return seen


def test_statuses_that_change_like_others_before_have_the_same_owners(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the times were, as long as they came in the same order."""
    _gauges(api)
    paces = [(1,) * 7, (5, 1, 9, 2, 4, 3, 70), (1,) * 7, (0,) * 7, (0, 3, 0, 0, 2, 0, 1), (4, 0, 0, 1, 0, 0, 1)]
    remembered = [_played(api, f"gauge-{number}", pauses) for number, pauses in enumerate(paces)]
    monkeypatch.setattr(KnownOwners, "of", lambda *said: said[-1]())
    assert remembered == [_played(api, f"long-way-{number}", pauses) for number, pauses in enumerate(paces)]


LABELLINGS: list[tuple[str, Any]] = [
    ("ann", {"a": "c"}),
    ("ben", {"a": "d", "x": "y"}),
    ("ben", {"a": "d"}),
    ("cas", {"a": None}),
    ("ann", {"a": "b", "x": "z"}),
    ("ann", None),
]


def _labelled(api: Api, name: str, value: str, pauses: Sequence[int]) -> list[list[dict[str, Any]]]:
    assert api.send("POST", GAUGES, {"metadata": {"name": name, "labels": {"a": value}}}).status == 201
    seen = []
    for (manager, labels), pause in zip(LABELLINGS, pauses, strict=True):
        api.clock.advance(pause)
        said = {"metadata": {"labels": labels}}
        answer = api.send("PATCH", f"{GAUGES}/{name}", said, MERGE, fieldManager=manager)
        assert answer.status == 200, answer.message
        fields = answer.body["metadata"].get("managedFields") or []
        seen.append([{**entry, "time": api.clock.now() - parse_rfc3339(entry["time"])} for entry in fields])
    return seen


def test_objects_that_change_like_others_before_have_the_same_owners(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was written, where it was a change for both."""
    _gauges(api)
    made = [
        ("b", (1,) * 6),
        ("c", (1,) * 6),
        ("d", (0,) * 6),
        ("b", (3, 0, 0, 2, 0, 1)),
        ("b", (1,) * 6),
        ("e", (0,) * 6),
    ]
    remembered = [_labelled(api, f"labelled-{number}", *said) for number, said in enumerate(made)]
    monkeypatch.setattr(KnownOwners, "of", lambda *said: said[-1]())
    assert remembered == [_labelled(api, f"labelled-the-long-way-{number}", *said) for number, said in enumerate(made)]


JOBS = "/apis/batch/v1/namespaces/default/jobs"
MADE: list[dict[str, Any]] = [
    {},
    {"labels": {"a": "b"}},
    {"labels": {"a": "c"}},
    {"labels": {}},
    {"labels": {"b": "a"}},
    {"annotations": {"a": "b"}},
    {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    {"labels": {"a": "b", "c": "d"}},
    {"finalizers": ["example.org/stay"]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]},
    {"generation": 7},
]


def _made(api: Api, name: str) -> list[Any]:
    seen = []
    for number, metadata in enumerate(MADE):
        for limit, manager in ((1, "ann"), (2, "ann"), (1, "ben")):
            template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
            spec = {"suspend": True, "backoffLimit": limit, "template": template}
            if number % 2:
                spec["completions"] = 1
            named = {"metadata": {"name": f"{name}-{number}-{limit}-{manager}", **metadata}, "spec": spec}
            answer = api.send("POST", JOBS, named, fieldManager=manager)
            assert answer.status == 201, answer.message
            api.clock.advance(1)
            seen.append([{**entry, "time": ""} for entry in answer.body["metadata"]["managedFields"]])
    return seen


def test_objects_made_like_others_before_have_the_same_owners(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = _made(api, "made"), _made(api, "made-again")
    monkeypatch.setattr(KnownOwners, "of_new", lambda *said: said[-1]())
    assert first == again == _made(api, "made-the-long-way")


def test_who_owns_a_new_object_is_found_out_once_for_all_that_are_made_alike(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "once", "image": "i"}]}}
    jobs = [
        {"metadata": {"name": f"once-{word}", "labels": {"a": word}}, "spec": {"suspend": True, "template": template}}
        for word in ("b", "c", "d")
    ]
    assert api.send("POST", JOBS, jobs[0]).status == 201
    api.clock.advance(9)
    monkeypatch.setattr(ownership, "_owners", None)
    answer = api.send("POST", JOBS, jobs[1])
    assert answer.status == 201
    assert parse_rfc3339(answer.body["metadata"]["managedFields"][0]["time"]) == api.clock.now()
    jobs[2]["metadata"]["labels"]["e"] = "f"  # type: ignore[index]
    assert api.send("POST", JOBS, jobs[2]).status == 500


def test_a_write_takes_one_time_however_long_it_takes(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    _gauges(api)
    assert api.send("POST", GAUGES, {"metadata": {"name": "slow", "labels": {"a": "b"}}}).status == 201
    clock = type(api.clock)

    def passing(self: Any) -> float:
        self._now += 1.0
        return float(self._now)

    monkeypatch.setattr(clock, "now", passing)
    answer = api.send("PATCH", f"{GAUGES}/slow/status", {"status": {"level": 1}}, MERGE, fieldManager="nobody-before")
    assert answer.status == 200, answer.message


def test_who_owns_what_is_found_out_once_for_all_that_change_alike(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    _gauges(api)
    _played(api, "first", (1,) * 7)
    made = api.send("POST", GAUGES, {"metadata": {"name": "alike", "labels": {"a": "b"}}})
    assert made.status == 201
    api.clock.advance(30)
    monkeypatch.setattr(ownership, "_owners", None)
    said: dict[str, Any] = {"status": {"level": 7, "at": rfc3339(api.clock.now())}}
    assert api.send("PATCH", f"{GAUGES}/alike/status", said, MERGE, fieldManager="ann").status == 200
    said["status"]["words"] = "otherwise"
    assert api.send("PATCH", f"{GAUGES}/alike/status", said, MERGE, fieldManager="ann").status == 500


def test_what_was_allowed_of_one_object_is_asked_again_of_one_that_was_otherwise(api: Api) -> None:
    _gauges(api)
    for name, level in (("low", 1), ("lower", 1), ("high", 3)):
        api.send("POST", GAUGES, {"metadata": {"name": name}})
        api.send("PATCH", f"{GAUGES}/{name}/status", {"status": {"level": level}}, MERGE)
    answers = {
        name: api.send("PATCH", f"{GAUGES}/{name}/status", {"status": {"level": 2}}, MERGE)
        for name in ("low", "lower", "high")
    }
    assert {name: answer.status for name, answer in answers.items()} == {"low": 200, "lower": 200, "high": 422}
    assert "it never falls" in answers["high"].message


def test_a_status_written_with_other_labels_leaves_the_labels_owner_alone(api: Api) -> None:
    _gauges(api)
    for name in ("plain", "labelled"):
        named = {"metadata": {"name": name, "annotations": {"a": "b"}}}
        made = api.send("POST", GAUGES, named, fieldManager="ann").body
        labels = {"labels": {"a": "b"}} if name == "labelled" else {}
        sent = {**made, "metadata": {**made["metadata"], **labels}, "status": {"level": 5}}
        answer = api.send("PUT", f"{GAUGES}/{name}/status", sent, fieldManager="ben")
        owned = {entry["manager"]: entry["fieldsV1"] for entry in answer.body["metadata"]["managedFields"]}
        assert owned["ben"] == {"f:status": {".": {}, "f:level": {}}}
        assert "labels" not in answer.body["metadata"]
