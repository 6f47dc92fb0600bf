"""The life of a CustomResourceDefinition: served at once, changed, withdrawn, its objects with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpuaas.api.custom import bundled
from gpuaas.api.kubernetes.wire import wire_numbers
from gpuaas.apiserver import definitions
from gpuaas.assembly import clusters
from gpuaas.machinery.protobuf import ProtobufReader

from .conftest import APPLY, JSON_PATCH, MERGE, Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(plural: str, *versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    names = {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].capitalize(), "shortNames": [plural[:4]]}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": list(versions), **spec}
    return {"metadata": {"name": f"{plural}.example.org"}, "spec": spec}


def version(name: str = "v1", *, storage: bool = True, served: bool = True, **more: Any) -> dict[str, Any]:
    spec = {
        "type": "object",
        "properties": {"size": {"type": "integer", "default": 3, "maximum": 10}, "name": {"type": "string"}},
    }
    schema = {
        "type": "object",
        "properties": {"spec": spec, "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}},
    }
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def things(plural: str, name: str = "v1") -> str:
    return f"/apis/example.org/{name}/namespaces/default/{plural}"


def settled(api: Api, done: Any) -> None:
    """Lets what the server does by itself happen."""
    for _ in range(5_000):
        if done():
            return
        api.run(asyncio.sleep(0.001))
    raise AssertionError("it never came to rest")


def test_what_is_defined_is_served_with_its_defaults_and_limits(api: Api) -> None:
    assert api.send("POST", DEFINITIONS, definition("boxes", version())).status == 201
    settled(api, lambda: True)
    made = api.send("POST", things("boxes"), {"metadata": {"name": "a"}, "spec": {"more": 1}})
    assert (made.status, made.body["spec"]) == (201, {"size": 3})
    assert made.warnings == ['"unknown field \\"spec.more\\""']
    refused = api.send("POST", things("boxes"), {"metadata": {"name": "b"}, "spec": {"size": 11}})
    assert refused.status == 422
    assert "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10" in refused.message


def test_its_status_says_that_it_is_established(api: Api) -> None:
    api.send("POST", DEFINITIONS, definition("cans", version()))
    found = lambda: api.parts.cluster.store.get("apiextensions.k8s.io/customresourcedefinitions//cans.example.org").obj  # noqa: E731
    settled(api, lambda: (found().get("status") or {}).get("conditions"))
    status = found()["status"]
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert status["storedVersions"] == ["v1"]
    assert status["acceptedNames"]["kind"] == "Can"


def status_of(api: Api, name: str) -> dict[str, Any]:
    found = api.send("GET", f"{DEFINITIONS}/{name}").body
    return {each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()}


def test_a_name_that_another_kind_of_the_group_has_is_waited_for(api: Api) -> None:
    first, second = definition("lids", version()), definition("caps", version())
    first["spec"]["names"] |= {"shortNames": ["vt", "v"]}
    second["spec"]["names"] |= {"shortNames": ["vt", "u", "v"], "kind": "Lid", "listKind": "CapList"}
    for each in (first, second):
        assert api.send("POST", DEFINITIONS, each).status == 201
    settled(api, lambda: status_of(api, "caps.example.org"))
    found = status_of(api, "caps.example.org")
    assert [(each["status"], each["reason"], each["message"]) for each in found.values()] == [
        ("False", "KindConflict", '"Lid" is already in use'),
        ("False", "NotAccepted", "not all names are accepted"),
    ]
    accepted = api.send("GET", f"{DEFINITIONS}/caps.example.org").body["status"]["acceptedNames"]
    assert accepted == {"plural": "caps", "singular": "cap", "kind": "", "listKind": "CapList"}
    assert api.send("GET", things("caps")).status == 404
    api.send("DELETE", f"{DEFINITIONS}/lids.example.org")
    settled(api, lambda: status_of(api, "caps.example.org")["Established"]["status"] == "True")
    assert api.send("GET", things("caps")).status == 200


def test_a_kind_that_wants_a_name_in_use_goes_on_under_those_it_has(api: Api) -> None:
    for plural in ("hats", "pins"):
        assert api.send("POST", DEFINITIONS, definition(plural, version())).status == 201
    settled(api, lambda: status_of(api, "pins.example.org"))
    api.send("PATCH", f"{DEFINITIONS}/pins.example.org", {"spec": {"names": {"shortNames": ["hat", "pi"]}}}, MERGE)
    settled(api, lambda: status_of(api, "pins.example.org")["NamesAccepted"]["status"] == "False")
    found = status_of(api, "pins.example.org")
    assert found["NamesAccepted"]["message"] == '"hat" is already in use'
    assert found["Established"]["status"] == "True"
    resources = api.send("GET", "/apis/example.org/v1").body["resources"]
    assert next(each for each in resources if each["name"] == "pins")["shortNames"] == ["pins"]


def test_a_name_that_is_given_up_is_not_accepted_any_more(api: Api) -> None:
    api.send("POST", DEFINITIONS, definition("nuts", version()))
    settled(api, lambda: status_of(api, "nuts.example.org"))
    api.send("PATCH", f"{DEFINITIONS}/nuts.example.org", {"spec": {"names": {"shortNames": None}}}, MERGE)

    def accepted() -> dict[str, Any]:
        names: dict[str, Any] = api.send("GET", f"{DEFINITIONS}/nuts.example.org").body["status"]["acceptedNames"]
        return names

    settled(api, lambda: "shortNames" not in accepted())
    assert accepted() == {"plural": "nuts", "singular": "nut", "kind": "Nut", "listKind": "NutList"}


def test_what_is_refused_is_not_warned_of(api: Api) -> None:
    odd = version()
    odd["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["name"]["format"] = "poem"
    made = {**definition("bolts", odd), "metadata": {"name": "other.example.org"}}
    refused = api.send("POST", DEFINITIONS, made)
    assert (refused.status, refused.warnings) == (422, [])


@pytest.mark.parametrize(
    ("said", "status", "reason", "message"),
    [
        ("https://example.org/1", "True", "ApprovedAnnotation", "approved in https://example.org/1"),
        ("unapproved, a test", "False", "UnapprovedAnnotation", 'not approved: "unapproved, a test"'),
    ],
)
def test_kinds_in_the_groups_of_kubernetes_say_who_approved_them(
    api: Api, said: str, status: str, reason: str, message: str
) -> None:
    group, plural = "example.k8s.io", "approvals" if status == "True" else "refusals"
    made = definition(plural, version(), group=group)
    made["metadata"] = {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": said}}
    assert api.send("POST", DEFINITIONS, made).status == 201
    settled(api, lambda: status_of(api, f"{plural}.{group}"))
    found = status_of(api, f"{plural}.{group}")["KubernetesAPIApprovalPolicyConformant"]
    assert (found["status"], found["reason"], found["message"]) == (status, reason, message)


def test_rules_are_not_asked_of_an_object_without_a_name(api: Api) -> None:
    said = version()
    said["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [{"rule": "has(self.spec)"}]
    api.send("POST", DEFINITIONS, definition("nests", said))
    refused = api.send("POST", things("nests"), {"metadata": {}, "spec": {}})
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == ["metadata.name", "<nil>"]
    assert "some validation rules were not checked" in refused.message


def test_a_revision_that_should_not_be_there_is_found_after_everything_else(api: Api) -> None:
    api.send("POST", DEFINITIONS, definition("eggs", version()))
    sent = {"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"size": 11}}
    assert api.send("POST", things("eggs"), sent).status == 422
    refused = api.send("POST", things("eggs"), {**sent, "spec": {}})
    assert (refused.status, refused.message) == (400, "resourceVersion should not be set on objects to be created")


def test_a_name_is_quoted_as_go_quotes_it(api: Api) -> None:
    refused = api.send("POST", DEFINITIONS, {**definition("odds", version()), "metadata": {"name": 'a"b'}})
    assert refused.message.startswith('CustomResourceDefinition.apiextensions.k8s.io "a\\"b" is invalid: ')


def test_discovery_and_openapi_know_it(api: Api) -> None:
    api.send("POST", DEFINITIONS, definition("tins", version(subresources={"status": {}})))
    resources = {each["name"]: each for each in api.send("GET", "/apis/example.org/v1").body["resources"]}
    assert resources["tins"]["shortNames"] == ["tins"]
    assert "tins/status" in resources
    assert (
        "/apis/example.org/v1/namespaces/{namespace}/tins"
        in api.send("GET", "/openapi/v3/apis/example.org/v1").body["paths"]
    )


def test_a_status_subresource_keeps_spec_and_status_apart(api: Api) -> None:
    api.send("POST", DEFINITIONS, definition("jars", version(subresources={"status": {}})))
    made = api.send("POST", things("jars"), {"metadata": {"name": "a"}, "status": {"ready": True}})
    assert "status" not in made.body
    patch = {"spec": {"size": 5}, "status": {"ready": True}}
    answer = api.send("PATCH", things("jars") + "/a/status", patch, MERGE)
    assert answer.status == 200, answer
    found = api.send("GET", things("jars") + "/a").body
    assert (found.get("status"), found.get("spec", {}).get("size")) == ({"ready": True}, None), answer
    changed = api.send("PATCH", things("jars") + "/a", patch | {"status": {"ready": False}}, MERGE).body
    assert (changed["spec"]["size"], changed["status"], changed["metadata"]["generation"]) == (5, {"ready": True}, 2)


def test_several_versions_show_the_same_object(api: Api) -> None:
    api.send(
        "POST",
        DEFINITIONS,
        definition(
            "bags", version("v1beta1", storage=False), version("v1"), version("v0", storage=False, served=False)
        ),
    )
    api.send("POST", things("bags", "v1beta1"), {"metadata": {"name": "a"}, "spec": {"size": 4}})
    found = api.send("GET", things("bags") + "/a").body
    assert (found["apiVersion"], found["spec"]) == ("example.org/v1", {"size": 4})
    assert api.send("GET", things("bags", "v1beta1") + "/a").body["apiVersion"] == "example.org/v1beta1"
    assert api.send("GET", things("bags", "v0")).status == 404
    versions = [each["version"] for each in api.send("GET", "/apis/example.org").body["versions"]]
    assert versions == ["v1", "v1beta1"]


def test_a_changed_schema_holds_for_the_next_write(api: Api) -> None:
    api.send("POST", DEFINITIONS, definition("pots", version()))
    assert api.send("POST", things("pots"), {"metadata": {"name": "a"}, "spec": {"size": 11}}).status == 422
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum"
    changed = api.send(
        "PATCH", f"{DEFINITIONS}/pots.example.org", [{"op": "replace", "path": path, "value": 20}], JSON_PATCH
    )
    assert changed.status == 200
    settled(
        api,
        lambda: (
            api.send("POST", things("pots"), {"metadata": {"name": "a"}, "spec": {"size": 11}}).status in (201, 409)
        ),
    )


def test_a_deleted_definition_takes_its_objects_along(api: Api) -> None:
    api.send("POST", DEFINITIONS, definition("cups", version()))
    api.send("POST", things("cups"), {"metadata": {"name": "a"}})
    assert api.send("DELETE", f"{DEFINITIONS}/cups.example.org").status == 200
    settled(api, lambda: api.send("GET", f"{DEFINITIONS}/cups.example.org").status == 404)
    assert api.send("GET", things("cups")).status == 404
    api.send("POST", DEFINITIONS, definition("cups", version()))
    assert api.send("GET", things("cups")).body["items"] == []


def test_an_object_with_a_finalizer_holds_its_definition(api: Api) -> None:
    api.send("POST", DEFINITIONS, definition("mugs", version()))
    api.send("POST", things("mugs"), {"metadata": {"name": "a", "finalizers": ["example.org/wait"]}})
    api.send("DELETE", f"{DEFINITIONS}/mugs.example.org")
    settled(api, lambda: "deletionTimestamp" in api.send("GET", things("mugs") + "/a").body["metadata"])
    assert api.send("GET", f"{DEFINITIONS}/mugs.example.org").status == 200
    api.send("PATCH", things("mugs") + "/a", {"metadata": {"finalizers": None}}, MERGE)
    settled(api, lambda: api.send("GET", f"{DEFINITIONS}/mugs.example.org").status == 404)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"group": "other.org"}, "metadata.name"),
        ({"scope": "Galaxy"}, "spec.scope"),
        ({"versions": []}, "spec.versions"),
        ({"versions": [version(), version("v2")]}, "storage"),
        ({"versions": [version("V_1")]}, "spec.versions[0].name"),
    ],
)
def test_a_definition_that_is_none_is_refused_by_field(api: Api, change: dict[str, Any], said: str) -> None:
    body = definition("odds", version())
    body["spec"] |= change
    answer = api.send("POST", DEFINITIONS, body)
    assert answer.status == 422
    assert said in answer.message


def test_the_kinds_we_ship_are_listed_as_definitions(api: Api) -> None:
    async def install() -> None:
        api.parts.definitions.install()

    api.run(install())
    settled(api, lambda: api.send("GET", f"{DEFINITIONS}/clusterqueues.kueue.x-k8s.io").status == 200)


class Restarts:
    """One home, one server after the other; each writes the definitions we ship as a start does."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def start(self) -> Api:
        api = Api(self._home)

        async def installed() -> None:
            while tasks := [*api.parts.definitions._tasks]:
                await asyncio.gather(*tasks)

        api.run(installed())
        return api


def test_what_the_same_code_wrote_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Restarts(tmp_path)
    first = home.start()
    listed = len(first.send("GET", DEFINITIONS).body["items"])
    first.close()
    monkeypatch.setattr(definitions, "_stamped", lambda *_: pytest.fail("a definition in place was made again"))
    second = home.start()
    before = second.parts.cluster.store.revision
    assert len(second.send("GET", DEFINITIONS).body["items"]) == listed > 100
    assert second.parts.cluster.store.revision == before
    # One that changes now is noticed: it goes on being served, and its watchers are not sent away for a label.
    path = f"{DEFINITIONS}/clusterqueues.kueue.x-k8s.io"
    served = second.parts.cluster.catalogue.resource("kueue.x-k8s.io", "clusterqueues")
    assert second.send("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE).status == 200
    settled(second, lambda: True)
    assert second.parts.cluster.catalogue.resource("kueue.x-k8s.io", "clusterqueues") is served
    second.close()


def test_other_code_with_the_same_definitions_leaves_what_users_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Restarts(tmp_path)
    path = f"{DEFINITIONS}/clusterqueues.kueue.x-k8s.io"
    first = home.start()
    names = [{"op": "replace", "path": "/spec/names/categories", "value": ["mine"]}]
    assert first.send("PATCH", path, names, JSON_PATCH).status == 200
    first.close()
    monkeypatch.setattr(definitions, "_stamp", lambda: "another")
    second = home.start()
    found = second.send("GET", path).body
    assert found["spec"]["names"]["categories"] == ["mine"]
    assert found["metadata"]["annotations"][definitions.BUNDLED] == "changed"
    second.close()


def test_a_definition_of_ours_that_a_user_changed_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [each for each in bundled() if each.group == "kueue.x-k8s.io"]
    monkeypatch.setattr(clusters, "bundled", lambda: kinds)
    home = Restarts(tmp_path)
    path, queues = f"{DEFINITIONS}/clusterqueues.kueue.x-k8s.io", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
    first = home.start()
    extra = {"mine": {"type": "string", "default": "yes"}}
    versions = first.send("GET", path).body["spec"]["versions"]
    for version in versions:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] |= extra
    assert first.send("PATCH", path, {"spec": {"versions": versions}}, MERGE).status == 200
    first.close()
    # Neither the next start nor another version of us takes it back, and it goes on being served.
    monkeypatch.setattr(definitions, "_stamp", lambda: "another")
    written = definitions._stamped

    def another(ours: Any, stamp: str) -> dict[str, Any]:
        made = written(ours, stamp)
        made["metadata"]["annotations"][definitions.BUNDLED] = f"0123456789abcdef.{stamp}"
        return made

    monkeypatch.setattr(definitions, "_stamped", another)
    second = home.start()
    made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {}}
    answer = second.send("POST", queues, made)
    assert answer.status == 201, answer
    assert answer.body["spec"]["mine"] == "yes"
    second.close()


def test_who_asks_for_definitions_at_once_gets_all_of_them(tmp_path: Path) -> None:
    api = Api(tmp_path)  # has only begun to write them
    assert len(api.send("GET", DEFINITIONS).body["items"]) == len(bundled())
    assert api.parts.cluster.arriving == {}
    api.close()


def test_a_watch_of_definitions_begins_when_all_are_there(tmp_path: Path) -> None:
    api = Api(tmp_path)
    assert len(api.watch(DEFINITIONS)) == len(bundled())
    api.close()


def test_objects_alike_but_for_their_names_get_the_same_answer_unless_a_rule_speaks_of_names(api: Api) -> None:
    named = version()
    named["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [
        {"rule": "self.metadata.name.startsWith('ok')", "message": "must begin with ok"}
    ]
    for plural, one in (("crates", version()), ("labels", named)):
        assert api.send("POST", DEFINITIONS, definition(plural, one)).status == 201
    for name, size, status in (("a", 4, 201), ("b", 4, 201), ("c", 11, 422), ("d", 11, 422), ("e", 4, 201)):
        answer = api.send("POST", things("crates"), {"metadata": {"name": name}, "spec": {"size": size}})
        assert answer.status == status, name
    for name, status in (("ok-1", 201), ("no-1", 422), ("ok-2", 201), ("no-2", 422)):
        answer = api.send("POST", things("labels"), {"metadata": {"name": name}, "spec": {"size": 4}})
        assert answer.status == status, name


def _told_apart(api: Api, plural: str) -> None:
    """Two versions with fields of their own; the older one is not the one kept."""
    older, newer = version("v1beta1", storage=False, deprecated=True), version("v1")
    newer["schema"] = {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "required": ["amount"],
                    "properties": {"amount": {"type": "integer"}, "name": {"type": "string"}},
                }
            },
        }
    }
    assert api.send("POST", DEFINITIONS, definition(plural, older, newer)).status == 201


def test_an_object_must_fulfil_the_schema_of_the_version_it_is_written_in(api: Api) -> None:
    _told_apart(api, "sacks")
    made = api.send("POST", things("sacks", "v1beta1"), {"metadata": {"name": "a"}, "spec": {"size": 4, "name": "n"}})
    assert (made.status, made.body["spec"]) == (201, {"name": "n"})  # what v1 does not know is not kept
    assert made.warnings == ['"example.org/v1beta1 Sack is deprecated; use example.org/v1 Sack"']
    refused = api.send("POST", things("sacks", "v1beta1"), {"metadata": {"name": "b"}, "spec": {"size": 11}})
    assert (refused.status, "spec.size: Invalid value: 11" in refused.message) == (422, True)
    refused = api.send("POST", things("sacks"), {"metadata": {"name": "b"}, "spec": {"name": "n"}})
    assert (refused.status, "spec.amount: Required value" in refused.message) == (422, True)


def test_a_version_shows_only_what_it_knows(api: Api) -> None:
    _told_apart(api, "cases")
    api.send("POST", things("cases"), {"metadata": {"name": "a"}, "spec": {"amount": 1, "name": "n"}})
    assert api.send("GET", things("cases", "v1beta1") + "/a").body["spec"] == {"name": "n"}
    assert api.send("GET", things("cases", "v1beta1")).body["items"][0]["spec"] == {"name": "n"}
    assert api.send("GET", things("cases") + "/a").body["spec"] == {"amount": 1, "name": "n"}


def test_a_new_object_has_the_status_its_definition_says(api: Api) -> None:
    said = version(subresources={"status": {}})
    said["schema"]["openAPIV3Schema"]["properties"]["status"]["default"] = {"ready": False}
    api.send("POST", DEFINITIONS, definition("vats", said))
    made = api.send("POST", things("vats"), {"metadata": {"name": "a"}, "status": {"ready": True}})
    assert (made.status, made.body["status"]) == (201, {"ready": False})


def test_a_finalizer_that_others_may_use_is_warned_of(api: Api) -> None:
    api.send("POST", DEFINITIONS, definition("urns", version()))
    meta = {"name": "a", "finalizers": ["mine", "example.org", "example.org/x", "orphan"]}
    made = api.send("POST", things("urns"), {"metadata": meta})
    advice, end = (
        "prefer a domain-qualified finalizer name",
        "to avoid accidental conflicts with other finalizer writers",
    )
    assert made.warnings == [
        f'"metadata.finalizers: \\"example.org\\": {advice} including a path (/) {end}"',
        f'"metadata.finalizers: \\"mine\\": {advice} {end}"',
    ]
    again = api.send("PATCH", things("urns") + "/a", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert (again.status, again.warnings) == (200, [])


def test_a_format_nobody_checks_is_warned_of_once(api: Api) -> None:
    said = version()
    said["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["name"]["format"] = "poem"
    assert api.send("POST", DEFINITIONS, definition("pens", said)).warnings == ['"unrecognized format \\"poem\\""']
    changed = api.send("PATCH", f"{DEFINITIONS}/pens.example.org", {"spec": {"versions": [said]}}, MERGE)
    assert changed.warnings == []


def test_a_dry_run_takes_an_object_as_it_was_read(api: Api) -> None:
    read = {"metadata": {"name": "again", "resourceVersion": "12"}}
    configmaps = "/api/v1/namespaces/default/configmaps"
    assert api.send("POST", configmaps, read, dryRun="All").status == 201
    assert api.send("POST", configmaps, read).message == "resourceVersion should not be set on objects to be created"


def test_a_missing_name_hides_nothing_else(api: Api) -> None:
    refused = api.send("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"labels": {"a": "b c"}}})
    assert "metadata.name: Required value: name or generateName is required" in refused.message
    assert 'metadata.labels: Invalid value: "b c"' in refused.message


def test_what_is_stored_gets_the_defaults_its_definition_learns_later(api: Api) -> None:
    def schema(**a: Any) -> dict[str, Any]:
        spec = {"type": "object", "properties": {"a": {"type": "string", **a}, "b": {"type": "string"}}}
        return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}

    made = definition("laters", version(schema=schema()))
    assert api.send("POST", DEFINITIONS, made).status == 201
    settled(api, lambda: api.send("GET", things("laters")).status == 200)
    old = api.send("POST", things("laters"), {"metadata": {"name": "one"}, "spec": {"b": "x"}}).body
    change = {"spec": {"versions": [version(schema=schema(default="A"))]}}
    assert api.send("PATCH", f"{DEFINITIONS}/{made['metadata']['name']}", change, MERGE).status == 200
    settled(api, lambda: "a" in api.send("GET", f"{things('laters')}/one").body["spec"])
    one = api.send("GET", f"{things('laters')}/one").body
    assert one["spec"] == {"b": "x", "a": "A"}
    assert one["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"], "nothing was written"
    assert api.send("GET", things("laters")).body["items"][0]["spec"]["a"] == "A"


def test_each_version_says_what_can_be_selected_by(api: Api) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"host": {"type": "string"}}}}
    first = version("v1", schema=schema)
    second = version("v2", storage=False, schema=schema, selectableFields=[{"jsonPath": ".host"}])
    assert api.send("POST", DEFINITIONS, definition("ports", first, second)).status == 201
    settled(api, lambda: api.send("GET", things("ports")).status == 200)
    assert api.send("POST", things("ports"), {"metadata": {"name": "one"}, "host": "h"}).status == 201
    assert len(api.send("GET", things("ports", "v2"), fieldSelector="host=h").body["items"]) == 1
    assert api.send("GET", things("ports", "v2"), fieldSelector="host=x").body["items"] == []
    assert api.send("GET", things("ports"), fieldSelector="host=h").status == 400


def test_schemas_in_protobuf_say_no_more_than_they_would_in_json(api: Api) -> None:
    """Go writes every plain field of a message, and a list's items are a message of their own."""
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    numbers = wire_numbers(name)

    def tag(number: int, wire: int) -> bytes:
        whole = number << 3 | wire
        return bytes([whole]) if whole < 128 else bytes([whole & 127 | 128, whole >> 7])

    def held(number: int, value: bytes) -> bytes:
        return tag(number, 2) + bytes([len(value)]) + value

    (id_,), (type_,), (unique,), (items,) = (numbers[key] for key in ("id", "type", "uniqueItems", "items"))
    item = held(id_, b"") + held(type_, b"string") + tag(unique, 0) + b"\0"
    reader = ProtobufReader(api.parts.cluster.schemas.named, wire_numbers)
    assert reader.read(name, held(items, held(1, item)))["items"] == {"type": "string"}


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        ({"type": "array", "items": {"type": "integer", "anyOf": False}}, "bool into Go struct field JSONSchemaProps"),
        ({"type": "object", "additionalProperties": {"required": 3}}, "number into Go struct field JSONSchemaProps"),
        ({"type": "object", "additionalProperties": 3}, "boolean or JSON schema expected"),
        ({"x-kubernetes-validations": False}, "bool into"),
    ],
)
def test_a_schema_of_the_wrong_shape_is_refused_wherever_it_stands(api: Api, holder: Any, said: str) -> None:
    made = version()
    made["schema"]["openAPIV3Schema"]["properties"]["b"] = holder
    refused = api.send("POST", DEFINITIONS, definition("crates", made), dryRun="All")
    assert refused.status == 400
    assert said in refused.message


def test_items_that_are_no_schema_are_as_good_as_none(api: Api) -> None:
    made = version()
    rules = [{"rule": "self == oldSelf"}]
    holder = {"type": "array", "items": "%s%n", "x-kubernetes-validations": rules}
    made["schema"]["openAPIV3Schema"]["properties"]["b"] = holder
    refused = api.send("POST", DEFINITIONS, definition("crates", made), dryRun="All")
    assert refused.status == 422
    assert "properties[b].items: Required value: must be specified" in refused.message


def test_a_null_that_is_sent_vanishes_and_one_that_is_applied_is_refused(api: Api) -> None:
    api.send("POST", DEFINITIONS, definition("voids", version()))
    sent = api.send("POST", things("voids"), {"metadata": {"name": "a"}, "spec": {"name": None, "size": None}})
    assert sent.body["spec"] == {"size": 3}
    whole = {"apiVersion": "example.org/v1", "kind": "Void", "metadata": {"name": "b"}}
    refused = api.send("PATCH", f"{things('voids')}/b", {**whole, "spec": {"name": None}}, APPLY, fieldManager="me")
    assert refused.status == 422
    assert 'spec.name in body must be of type string: "null"' in refused.message
    given = api.send("PATCH", f"{things('voids')}/b", {**whole, "spec": {"size": None}}, APPLY, fieldManager="me")
    assert (given.status, given.body["spec"]) == (201, {"size": 3})


def test_a_conversion_webhook_is_accepted_and_never_called(api: Api) -> None:
    client = {"url": "https://127.0.0.1:1/convert", "caBundle": ""}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    both = (version("v1"), version("v2", storage=False))
    made = api.send(
        "POST", DEFINITIONS, definition("doors", *both, conversion={"strategy": "Webhook", "webhook": webhook})
    )
    assert made.status == 201
    assert any("conversion webhooks are not called" in warning for warning in made.warnings)
    settled(api, lambda: api.send("GET", things("doors", "v2")).status == 200)
    api.send("POST", things("doors", "v2"), {"metadata": {"name": "a"}, "spec": {"size": 4}})
    assert api.send("GET", things("doors") + "/a").body["spec"] == {"size": 4}
