"""What the server says about itself: version, health, discovery, OpenAPI."""

from __future__ import annotations

import json
from typing import Any

from tests.real.wire import Wire, case

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GROUPS = (
    "api/v1",
    "apis/apps/v1",
    "apis/batch/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/coordination.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/policy/v1",
    "apis/networking.k8s.io/v1",
    "apis/storage.k8s.io/v1",
    "apis/autoscaling/v1",
    "apis/autoscaling/v2",
    "apis/discovery.k8s.io/v1",
    "apis/node.k8s.io/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apiregistration.k8s.io/v1",
    "apis/certificates.k8s.io/v1",
    "apis/flowcontrol.apiserver.k8s.io/v1",
    "apis/resource.k8s.io/v1",
)


@case
def health(w: Wire) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/ping", "/readyz/nosuch"):
        w.get(path, accept="*/*")
    w.get("/nosuch", accept="*/*")
    w.get("/apis/nosuch.example.com")
    w.get("/apis/nosuch.example.com/v1/things")
    w.get("/api/v1/nosuch")
    w.get(w.path("nosuch"))
    w.get("/api/v1/namespaces/default/configmaps/a/nosuch")
    w.send("POST", "/version", {})
    w.send("PUT", w.path("configmaps"), {})
    w.send("POST", w.path("configmaps/a"), {})
    w.send("PATCH", w.path("configmaps"), {})
    w.send("FROB", w.path("configmaps"))
    version = json.loads(w.prepare("GET", "/version").body)
    w.note("GET /version", keys=" ".join(sorted(version)), minor=version["major"] + "." + version["minor"])


@case
def discovery_of_groups(w: Wire) -> None:
    for group in GROUPS:
        w.get(f"/{group}")


@case
def discovery_of_names(w: Wire) -> None:
    w.get("/api")
    for name in ("apps", "batch", "rbac.authorization.k8s.io", "autoscaling"):
        w.get(f"/apis/{name}")
    groups = w.prepare("GET", "/apis").json()["groups"]
    known = {group.split("/")[1] for group in GROUPS if group.startswith("apis/")}
    for group in groups:
        if group["name"] in known:
            w.note(f"GET /apis, group {group['name']}", body=w.normal.value(group))


@case
def discovery_aggregated(w: Wire) -> None:
    known = {group.split("/")[1] for group in GROUPS if group.startswith("apis/")} | {""}
    for root in ("/api", "/apis"):
        answer = w.side.send("GET", root, headers={"Accept": AGGREGATED})
        w.note(f"GET {root}, aggregated", status=str(answer.status), type=answer.headers.get("content-type", ""))
        body = answer.json()
        w.note(f"GET {root}, envelope", body=w.normal.value({**body, "items": []}))
        for group in body["items"]:
            name = group["metadata"].get("name", "")
            if name in known:
                w.note(f"GET {root}, group {name or 'core'}", body=w.normal.value(group))
        again = w.side.send(
            "GET", root, headers={"Accept": AGGREGATED, "If-None-Match": answer.headers.get("etag", '"none"')}
        )
        w.note(f"GET {root}, the same etag", status=str(again.status), length=str(len(again.body)))
    v2beta1 = AGGREGATED.replace("v=v2", "v=v2beta1")
    w.get("/apis", accept=v2beta1)
    both = w.side.send("GET", "/apis", headers={"Accept": f"{v2beta1},{AGGREGATED},application/json"})
    w.note("GET /apis, several accepted", status=str(both.status), type=both.headers.get("content-type", ""))


@case
def openapi_v3_index(w: Wire) -> None:
    index = w.prepare("GET", "/openapi/v3").json()["paths"]
    w.note("GET /openapi/v3", paths="\n".join(group for group in GROUPS if group in index))
    for group in GROUPS[:3]:
        url = index.get(group, {}).get("serverRelativeURL", "")
        w.note(
            f"the address of {group}", shape=w.normal.text(url.partition("?hash=")[0]), has_hash=str("?hash=" in url)
        )


@case
def openapi_v3_paths(w: Wire) -> None:
    for group in GROUPS:
        document = _document(w, f"/openapi/v3/{group}")
        paths = document.get("paths", {})
        w.note(f"GET /openapi/v3/{group}, paths", paths="\n".join(_operations(paths)))


@case
def openapi_v3_schemas(w: Wire) -> None:
    seen: set[str] = set()
    for group in GROUPS:
        schemas = _document(w, f"/openapi/v3/{group}").get("components", {}).get("schemas", {})
        for name in sorted(set(schemas) - seen):
            w.note(f"GET /openapi/v3/{group}, schema {name}", schema=_undescribed(schemas[name]))
        seen |= set(schemas)


@case
def openapi_v2(w: Wire) -> None:
    document = _document(w, "/openapi/v2")
    roots = tuple(f"/{group}/" for group in GROUPS)
    paths = {path: item for path, item in document.get("paths", {}).items() if path.startswith(roots)}
    w.note("GET /openapi/v2, paths", paths="\n".join(_operations(paths)))
    for name, schema in sorted(document.get("definitions", {}).items()):
        if name.startswith("io.k8s."):
            w.note(f"GET /openapi/v2, definition {name}", schema=_undescribed(schema))


def _document(w: Wire, path: str) -> Any:
    answer = w.prepare("GET", path)
    w.note(f"GET {path}", status=str(answer.status))
    return answer.json() if answer.status == 200 else {}


def _operations(paths: dict[str, Any]) -> list[str]:
    verbs = ("get", "post", "put", "patch", "delete")
    return [f"{path} {verb}" for path in sorted(paths) for verb in verbs if verb in paths[path]]


def _undescribed(schema: Any) -> str:
    """The schema as clients use it: names, types, formats, list keys and requirements.

    Prose is ours in ours; a default is applied by the server and only repeated here, and it is why a reference is
    wrapped into `allOf`.
    """
    return json.dumps(_bare(schema), indent=1, sort_keys=True)


def _bare(value: Any, inside_properties: bool = False) -> Any:
    if isinstance(value, list):
        return [_bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not inside_properties and len(value.get("allOf", ())) == 1:
        return _bare({**value["allOf"][0], **{key: item for key, item in value.items() if key != "allOf"}})
    return {
        key: _bare(item, key == "properties" and not inside_properties)
        for key, item in value.items()
        if inside_properties or key not in ("description", "default")
    }
