"""Server-side apply and the patches, by hand: what each owner keeps, what conflicts, what is refused."""

from __future__ import annotations

from typing import Any

from tests.real.wire import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, Wire, case


def config_map(name: str = "a", **data: str | None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod_template(**pod: Any) -> dict[str, Any]:
    """A pod's shape, with all its lists, in a kind no controller touches."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "d"}, "template": template}


@case
def apply_ownership(w: Wire) -> None:
    path = w.path("configmaps/a")
    w.apply(path, config_map(x="1", y="1"), "ann")
    w.apply(path, config_map(y="1", z="1"), "bob")
    w.apply(path, config_map(x="1"), "ann")
    w.apply(path, config_map(y="2"), "ann")
    w.apply(path, config_map(y="2"), "ann", force="true")
    w.apply(path, config_map(z="1"), "bob")
    w.apply(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, "bob")
    w.apply(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, "ann")
    w.apply(path, config_map(q="1"), "ann", dryRun="All")
    w.get(path)


@case
def apply_against_updates(w: Wire) -> None:
    path = w.path("configmaps/a")
    w.post(w.path("configmaps"), config_map(x="1", y="1"), fieldManager="maker")
    w.apply(path, config_map(x="2"), "ann")
    w.apply(path, config_map(x="1"), "ann")
    w.patch(path, {"data": {"x": "3"}}, MERGE, fieldManager="changer")
    w.apply(path, config_map(x="1"), "ann")
    w.patch(path, {"data": {"x": None}}, MERGE, fieldManager="changer")
    w.apply(path, config_map(x="5", y="1"), "ann")
    w.put(path, config_map(n="1"), fieldManager="putter")
    w.apply(path, config_map(x="6"), "ann")


@case
def apply_refused(w: Wire) -> None:
    path = w.path("configmaps/a")
    w.patch(path, config_map(), APPLY)
    w.apply(path, config_map(), "")
    w.apply(path, config_map(), "x" * 129)
    w.apply(path, {**config_map(), "metadata": {"name": "b"}}, "ann")
    w.apply(path, {**config_map(), "metadata": {}}, "ann")
    w.apply(path, {**config_map(), "kind": "Secret"}, "ann")
    w.apply(path, {**config_map(), "apiVersion": "v2"}, "ann")
    w.apply(path, {"metadata": {"name": "a"}}, "ann")
    w.apply(path, {**config_map(), "dataa": {}}, "ann")
    w.apply(path, {**config_map(), "data": []}, "ann")
    w.apply(path, {**config_map(), "data": {"a": 1}}, "ann")
    w.apply(path, "a: [b", "ann")
    w.apply(path, "", "ann")
    w.apply(path, {**config_map(), "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}, "ann")
    w.apply(path, {**config_map(), "metadata": {"name": "a", "resourceVersion": "1"}}, "ann")
    w.apply(path, {**config_map(), "metadata": {"name": "a", "uid": "x"}}, "ann")
    w.patch(path, config_map(), MERGE, force="true")
    w.apply(path, config_map(x="1"), "ann")
    w.apply(path, {**config_map(), "metadata": {"name": "a", "resourceVersion": "1"}}, "ann")
    w.apply(path, config_map(x="1"), "ann", force="maybe")
    w.apply(path, {**config_map(), "metadata": {"name": "a", "labels": {"bad key": "x"}}}, "ann")
    w.patch(path, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {y: z}\n", APPLY, fieldManager="yaml")
    w.patch(path, "data: {a: b}\ndata: {a: c}\n", APPLY, fieldManager="yaml", fieldValidation="Strict")
    w.apply(w.path("configmaps"), config_map(), "ann")


@case
def apply_lists(w: Wire) -> None:
    path = w.path("podtemplates/d")

    def container(name: str, **fields: Any) -> dict[str, Any]:
        return {"name": name, "image": "i", **fields}

    w.apply(path, pod_template(containers=[container("a", env=[{"name": "A", "value": "1"}])]), "ann")
    w.apply(path, pod_template(containers=[container("b", ports=[{"containerPort": 80}])]), "bob")
    w.apply(path, pod_template(containers=[container("a", env=[{"name": "B", "value": "1"}])]), "cid")
    w.apply(path, pod_template(containers=[container("a", image="other")]), "cid")
    w.apply(path, pod_template(containers=[container("a")]), "ann")
    w.apply(path, pod_template(containers=[]), "bob")
    w.apply(path, pod_template(containers=[{"image": "noname"}]), "bob")
    w.apply(path, pod_template(containers=[container("c"), container("c")]), "bob")
    w.apply(path, pod_template(containers=[container("c", ports=[{"protocol": "UDP"}])]), "bob")
    w.apply(path, pod_template(tolerations=[{"key": "a"}]), "bob")
    w.apply(path, pod_template(tolerations=[{"key": "b"}]), "cid")
    w.apply(path, pod_template(containers=[container("a", resources={"limits": {"cpu": "1000m"}})]), "ann")
    w.apply(path, pod_template(containers=[container("a", resources={"limits": {"cpu": "1"}})]), "cid")


@case
def apply_nulls_and_empties(w: Wire) -> None:
    path = w.path("configmaps/a")
    w.apply(path, {**config_map(), "data": {}}, "ann")
    w.apply(path, {**config_map(), "data": None}, "bob")
    w.apply(path, {**config_map(), "metadata": {"name": "a", "labels": {}, "annotations": None}}, "cid")
    w.apply(path, {**config_map(), "data": {"x": None}}, "ann")
    w.apply(
        path, {**config_map(), "metadata": {"name": "a", "labels": {"l": "1"}, "finalizers": ["example.com/f"]}}, "ann"
    )
    w.apply(path, {**config_map(), "metadata": {"name": "a", "finalizers": ["example.com/g"]}}, "bob")
    w.apply(path, {**config_map(), "metadata": {"name": "a"}}, "ann")
    w.apply(path, {**config_map(), "metadata": {"name": "a", "finalizers": []}}, "bob")
    w.prepare("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)


@case
def apply_creates_with_uid(w: Wire) -> None:
    gone = {**config_map(), "metadata": {"name": "a", "uid": "00000000-0000-4000-8000-000000000000"}}
    w.apply(w.path("configmaps/a"), gone, "ann")
    w.apply(w.path("configmaps/a"), {**config_map(), "metadata": {"name": "a", "namespace": "elsewhere"}}, "ann")
    w.apply(w.path("namespacesx/a"), config_map(), "ann")
    w.apply("/api/v1/namespaces/nosuchnamespace/configmaps/a", config_map(), "ann")


@case
def merge_patches(w: Wire) -> None:
    path = w.path("configmaps/a")
    w.post(w.path("configmaps"), config_map(x="1", y="2"))
    patches: tuple[dict[str, Any], ...] = (
        {"data": {"x": None, "z": "3"}},
        {"data": None},
        {"data": {"n": None}},
        {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}},
        {"metadata": {"labels": None}},
        {"metadata": {"creationTimestamp": None}},
        {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}},
        {"metadata": {"managedFields": None}},
        {"metadata": {"managedFields": []}},
        {"metadata": {"name": None}},
        {"metadata": None},
        {"immutable": True},
        {"data": {"x": "2"}},
        {"immutable": False},
    )
    for patch in patches:
        w.patch(path, patch, MERGE)
    for text in ("", "null", "5", "[]", "{", '{"data":{"a":"1","a":"2"}}'):
        w.patch(path, text, MERGE)


@case
def json_patches(w: Wire) -> None:
    path = w.path("configmaps/a")
    w.post(w.path("configmaps"), config_map(x="1", y="2"))
    for patch in (
        [{"op": "add", "path": "/data/z", "value": "3"}],
        [{"op": "add", "path": "/data/a~1b", "value": "3"}],
        [{"op": "add", "path": "/nothing/here", "value": "3"}],
        [{"op": "add", "path": "", "value": {}}],
        [{"op": "remove", "path": "/data/none"}],
        [{"op": "replace", "path": "/data/x", "value": None}],
        [{"op": "test", "path": "/data/x", "value": "9"}],
        [{"op": "test", "path": "/data/none", "value": None}],
        [{"op": "move", "from": "/data/none", "path": "/data/x"}],
        [{"op": "copy", "from": "/data/y", "path": "/data/copied"}],
        [{"op": "add", "path": "no-slash", "value": 1}],
        [{"op": "unknown", "path": "/data/x"}],
        [{"path": "/data/x"}],
        [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]}],
        [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/y"}],
        [{"op": "add", "path": "/metadata/finalizers/9", "value": "example.com/z"}],
        [{"op": "remove", "path": "/metadata/finalizers/0"}, {"op": "remove", "path": "/metadata/finalizers/0"}],
        [{"op": "replace", "path": "/metadata/name", "value": "b"}],
    ):
        w.patch(path, patch, JSON_PATCH)
    for text in ("", "{}", "null", '[{"op":"add"}]', "[1]"):
        w.patch(path, text, JSON_PATCH)
    w.patch(path, [{"op": "test", "path": "/data/y", "value": "2"}] * 10_001, JSON_PATCH)


@case
def strategic_patches(w: Wire) -> None:
    path = w.path("podtemplates/d")
    first = {"name": "a", "image": "i", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]}
    w.post(w.path("podtemplates"), pod_template(containers=[first], volumes=[{"name": "v", "emptyDir": {}}]))

    def in_pod(**pod: Any) -> dict[str, Any]:
        return {"template": {"spec": pod}}

    for patch in (
        in_pod(containers=[{"name": "a", "env": [{"name": "B", "value": "2"}]}]),
        in_pod(containers=[{"name": "a", "env": [{"name": "A", "$patch": "delete"}]}]),
        in_pod(containers=[{"name": "a", "env": [{"$patch": "replace"}, {"name": "C", "value": "3"}]}]),
        in_pod(containers=[{"name": "b", "image": "j"}]),
        {"template": {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}},
        in_pod(containers=[{"name": "a", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]),
        in_pod(volumes=[{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]),
        in_pod(volumes=[{"name": "v", "$patch": "delete"}]),
        in_pod(nodeSelector={"a": "b"}),
        in_pod(nodeSelector={"$patch": "replace", "c": "d"}),
        in_pod(nodeSelector={"$patch": "delete"}),
        in_pod(nodeSelector=None),
        in_pod(tolerations=[{"key": "a"}]),
        in_pod(containers=[{"name": "a", "$patch": "merge", "image": "k"}]),
        in_pod(containers=[{"name": "a", "$patch": "whatever"}]),
        in_pod(containers=[{"image": "nokey"}]),
        in_pod(containers={"name": "a"}),
        {"template": {"$patch": "strange"}},
        {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}},
        {"metadata": {"finalizers": ["example.com/c"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
        {"metadata": {"$setElementOrder/finalizers": ["example.com/c", "example.com/b"]}},
        {"metadata": {"finalizers": None}},
    ):
        w.patch(path, patch, STRATEGIC)
    w.patch(path, "[]", STRATEGIC)
    w.patch(path, "{", STRATEGIC)
    w.patch(path, {"template": {"spec": {"hostNetwork": "x"}}}, STRATEGIC)
    w.patch(path, {"template": {"spec": {"hostNetwork": True}}}, JSON)


@case
def nulls_in_custom_objects(w: Wire) -> None:
    leaf = {
        "plain": {"type": "integer"},
        "given": {"type": "integer", "default": 3},
        "empty": {"type": "integer", "nullable": True},
        "list": {"type": "array", "items": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": leaf}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "nulls", "kind": "Null", "singular": "null", "listKind": "NullList"}
    spec = {"group": "nulls.example", "scope": "Namespaced", "names": names, "versions": [version]}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    w.prepare("POST", definitions, {**kind, "metadata": {"name": "nulls.nulls.example"}, "spec": spec})
    path = w.path("nulls", "nulls.example/v1")
    w.until(lambda: w.side.send("GET", path, None, {}).status == 200)
    for key in leaf:
        w.forget()
        body = {"apiVersion": "nulls.example/v1", "kind": "Null", "metadata": {"name": key}, "spec": {key: None}}
        w.post(path, {**body, "metadata": {"name": f"made-{key}"}}, fieldManager="me")
        w.apply(f"{path}/{key}", body, "me")
        w.apply(f"{path}/made-{key}", {**body, "metadata": {"name": f"made-{key}"}}, "other")
        w.patch(f"{path}/made-{key}", {"spec": {key: None}}, MERGE)
        w.get(f"{path}/{key}")
    w.prepare("DELETE", f"{definitions}/nulls.nulls.example")
