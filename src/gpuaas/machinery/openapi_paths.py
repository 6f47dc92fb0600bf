"""The paths of a kind for OpenAPI: which operations a client finds where, and with which parameters.

Clients read from them whether fieldValidation is understood, which patch types a kind takes and which kind a path
serves; the sentences are for people. Documents are put together in module openapi.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.api.kinds import Kind
from gpuaas.machinery.schema.model import REF_PREFIX

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
_MEDIA: Final = ("application/json", "application/yaml")
_PATCHES: Final = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC: Final = "application/strategic-merge-patch+json"
# Subresources that take an object of another kind, and those that are a connection: the methods they answer to.
_POSTED: Final = {
    "binding": "io.k8s.api.core.v1.Binding",
    "eviction": "io.k8s.api.policy.v1.Eviction",
    "token": "io.k8s.api.authentication.v1.TokenRequest",
}
_CONNECTED: Final = {
    "attach": ("get", "post"),
    "exec": ("get", "post"),
    "log": ("get",),
    "portforward": ("get", "post"),
    "proxy": ("get", "put", "post", "delete", "patch"),
}
_VERBS: Final = {"get": "read", "put": "replace", "post": "create", "delete": "delete", "patch": "patch"}


def _parameter(name: str, description: str, kind: str = "string", place: str = "query") -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "in": place, "description": description}
    if place == "path":
        made["required"] = True
    made["schema"] = {"type": kind, "uniqueItems": True}
    return made


_NAMESPACE: Final = _parameter("namespace", "the namespace of the object", place="path")
_PRETTY: Final = _parameter("pretty", "'true' asks for output that is indented for people")
_DRY_RUN: Final = _parameter("dryRun", "'All' runs every stage of the request without keeping the result")
_MANAGER: Final = _parameter("fieldManager", "who makes this change; at most 128 printable characters")
_FIELDS: Final = _parameter(
    "fieldValidation",
    "what to do about unknown and duplicate fields: Ignore them, Warn about them (the default), or refuse the object (Strict)",
)
_FORCE: Final = _parameter("force", "take over fields that others own; for apply only", "boolean")
_LIST: Final = [
    _parameter("allowWatchBookmarks", "send BOOKMARK events in a watch", "boolean"),
    _parameter("continue", "the token of an earlier, limited list, to get what comes next"),
    _parameter("fieldSelector", "only objects whose fields match"),
    _parameter("labelSelector", "only objects whose labels match"),
    _parameter("limit", "at most so many objects in one answer", "integer"),
    _parameter("resourceVersion", "the version of the data that the answer must at least reflect"),
    _parameter("resourceVersionMatch", "how resourceVersion is applied to a list: Exact or NotOlderThan"),
    _parameter("sendInitialEvents", "begin a watch with the objects that exist", "boolean"),
    _parameter("timeoutSeconds", "end the request after so many seconds", "integer"),
    _parameter("watch", "stream changes instead of listing once", "boolean"),
]
_DELETE: Final = [
    _DRY_RUN,
    _parameter("gracePeriodSeconds", "seconds until the object is removed; 0 removes it at once", "integer"),
    _parameter("orphanDependents", "deprecated: use propagationPolicy", "boolean"),
    _parameter("propagationPolicy", "what happens to dependents: Orphan, Background or Foreground"),
]


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the operations of one kind."""

    kind: Kind
    strategic: bool

    def operation(self, verb: str, action: str, text: str, suffix: str = "", **more: Any) -> dict[str, Any]:
        scope = "Namespaced" if self.kind.namespaced and suffix != "ForAllNamespaces" else ""
        group, version = _camel(self.kind.group) or "Core", self.kind.version.capitalize()
        collection = "Collection" if action == "deletecollection" else ""
        made: dict[str, Any] = {
            "tags": [f"{_tag(self.kind.group)}_{self.kind.version}"],
            "description": text,
            "operationId": f"{verb}{group}{version}{collection}{scope}{self.kind.kind}{suffix}",
            **more,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": self.kind.group,
                "version": self.kind.version,
                "kind": self.kind.kind,
            },
        }
        made["responses"]["401"] = {"description": "Unauthorized"}
        return made

    def listing(self, suffix: str = "") -> dict[str, Any]:
        text = f"list or watch objects of kind {self.kind.kind}"
        answer = {"200": _answer("OK", f"{self.kind.schema}List")}
        return self.operation("list", "list", text, suffix, parameters=_LIST, responses=answer)

    def collection(self) -> dict[str, Any]:
        kind, verbs = self.kind, self.kind.verbs
        made: dict[str, Any] = {}
        if "list" in verbs:
            made["get"] = self.listing()
        if "create" in verbs:
            answers = {code: _answer(word, kind.schema) for code, word in _CREATED}
            writing = [_DRY_RUN, _MANAGER, _FIELDS]
            text = f"create {_article(kind.kind)} {kind.kind}"
            body = _body(("*/*",), kind.schema)
            made["post"] = self.operation(
                "create", "post", text, parameters=writing, requestBody=body, responses=answers
            )
        if "deletecollection" in verbs:
            made["delete"] = self.operation(
                "delete",
                "deletecollection",
                f"delete collection of {kind.kind}",
                parameters=[*_DELETE, *_LIST[1:-1]],
                requestBody=_body(("*/*",), f"{META}DeleteOptions", needed=False),
                responses={"200": _answer("OK", f"{META}Status")},
            )
        return made

    def item(
        self, schema: str, suffix: str = "", about: str = "the specified", *, whole: bool = True
    ) -> dict[str, Any]:
        kind, verbs = self.kind, self.kind.verbs
        made: dict[str, Any] = {}
        if "get" in verbs:
            answer = {"200": _answer("OK", schema)}
            made["get"] = self.operation("read", "get", f"read {about} {kind.kind}", suffix, responses=answer)
        if "update" in verbs:
            text, writing = f"replace {about} {kind.kind}", [_DRY_RUN, _MANAGER, _FIELDS]
            answers = {code: _answer(word, schema) for code, word in _CREATED[:2]}
            body = _body(("*/*",), schema)
            made["put"] = self.operation(
                "replace", "put", text, suffix, parameters=writing, requestBody=body, responses=answers
            )
        if "delete" in verbs and whole:
            made["delete"] = self.operation(
                "delete",
                "delete",
                f"delete {_article(kind.kind)} {kind.kind}",
                parameters=_DELETE,
                requestBody=_body(("*/*",), f"{META}DeleteOptions", needed=False),
                responses={"200": _answer("OK", f"{META}Status"), "202": _answer("Accepted", f"{META}Status")},
            )
        if "patch" in verbs:
            types = (*_PATCHES, _STRATEGIC) if self.strategic else _PATCHES
            made["patch"] = self.operation(
                "patch",
                "patch",
                f"partially update {about} {kind.kind}",
                suffix,
                parameters=[_DRY_RUN, _MANAGER, _FIELDS, _FORCE],
                requestBody=_body(types, f"{META}Patch"),
                responses={code: _answer(word, schema) for code, word in _CREATED[:2]},
            )
        return made

    def other(self, name: str) -> dict[str, Any]:
        """A subresource beyond status and scale."""
        if name in _POSTED:
            return {"post": self.posted(name, _POSTED[name])}
        if name in _CONNECTED:
            return {method: self.connected(name, method) for method in _CONNECTED[name]}
        if name == "finalize":
            return {"put": self.item(self.kind.schema, "Finalize", "finalize of the specified", whole=False)["put"]}
        if name in ("approval", "ephemeralcontainers", "resize"):
            return self.item(self.kind.schema, name.capitalize(), f"{name} of the specified", whole=False)
        return {"get": self.connected(name, "get")}

    def posted(self, name: str, schema: str) -> dict[str, Any]:
        made = self.operation(
            "create",
            "post",
            f"create {name} of {_article(self.kind.kind)} {self.kind.kind}",
            name.capitalize(),
            parameters=[_DRY_RUN, _MANAGER, _FIELDS],
            requestBody=_body(("*/*",), schema),
            responses={code: _answer(word, schema) for code, word in _CREATED},
        )
        del made["x-kubernetes-group-version-kind"]  # the body is of another kind
        return made

    def connected(self, name: str, method: str) -> dict[str, Any]:
        answer = {"200": {"description": "OK", "content": {"*/*": {"schema": {"type": "string"}}}}}
        text = f"{name} of {_article(self.kind.kind)} {self.kind.kind}"
        made = self.operation(_VERBS[method], method, text, name.capitalize(), responses=answer)
        del made["x-kubernetes-group-version-kind"]  # what is said there is not of this kind
        return made

    def watched(self, action: str, suffix: str = "") -> dict[str, Any]:
        """The old form of a watch, with a path of its own."""
        text = f"watch {self.kind.kind}: deprecated, use the 'watch' parameter of a list"
        answer = {"200": _answer("OK", f"{META}WatchEvent")}
        return {"get": self.operation("watch", action, text, suffix, responses=answer)}


_CREATED: Final = (("200", "OK"), ("201", "Created"), ("202", "Accepted"))


def kind_paths(kind: Kind, *, strategic: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and path item of everything a kind serves. `strategic`: it is built in and takes strategic merge patches."""
    maker = _Maker(kind, strategic)
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    base = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    shared = [_NAMESPACE, _PRETTY] if kind.namespaced else [_PRETTY]
    name = _parameter("name", f"name of the {kind.kind}", place="path")
    if kind.namespaced and "list" in kind.verbs:
        yield f"{root}/{kind.plural}", {"get": maker.listing("ForAllNamespaces"), "parameters": [_PRETTY]}
    collection = maker.collection()
    if collection:
        yield base, {**collection, "parameters": shared}
    item = maker.item(kind.schema)
    if item:
        yield f"{base}/{{name}}", {**item, "parameters": [name, *shared]}
    if kind.status:
        status = maker.item(kind.schema, "Status", "status of the specified", whole=False)
        yield f"{base}/{{name}}/status", {**status, "parameters": [name, *shared]}
    if kind.scale is not None:
        scale = maker.item(SCALE, "Scale", "scale of the specified", whole=False)
        yield f"{base}/{{name}}/scale", {**scale, "parameters": [name, *shared]}
    for other in kind.subresources:
        item = {**maker.other(other), "parameters": [name, *shared]}
        yield f"{base}/{{name}}/{other}", item
        if other == "proxy":
            path = _parameter("path", "the path asked for behind the proxy", place="path")
            yield f"{base}/{{name}}/proxy/{{path}}", {**item, "parameters": [name, path, *shared]}
    if strategic and "watch" in kind.verbs:
        yield from _watch_paths(maker, root, shared, name)


def _watch_paths(
    maker: _Maker, root: str, shared: list[dict[str, Any]], name: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = maker.kind
    base = f"{root}/watch/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/watch/{kind.plural}"
    if kind.namespaced:
        everywhere = maker.watched("watchlist", "ListForAllNamespaces")
        yield f"{root}/watch/{kind.plural}", {**everywhere, "parameters": [_PRETTY]}
    yield base, {**maker.watched("watchlist", "List"), "parameters": shared}
    if "get" in kind.verbs:
        yield f"{base}/{{name}}", {**maker.watched("watch"), "parameters": [name, *shared]}


def root_path(path: str, schema: str, text: str) -> tuple[str, dict[str, Any]]:
    """A path of discovery: what can be found below it."""
    answer = {"200": _answer("OK", schema), "401": {"description": "Unauthorized"}}
    return path, {
        "get": {"description": text, "operationId": f"get{_camel(path.replace('/', '.'))}", "responses": answer}
    }


def _answer(text: str, schema: str) -> dict[str, Any]:
    return {"description": text, "content": {media: _ref(schema) for media in _MEDIA}}


def _body(types: tuple[str, ...], schema: str, *, needed: bool = True) -> dict[str, Any]:
    made: dict[str, Any] = {"content": {media: _ref(schema) for media in types}}
    return {**made, "required": True} if needed else made


def _ref(schema: str) -> Mapping[str, Any]:
    return {"schema": {"$ref": f"{REF_PREFIX}{schema}"}}


def _article(noun: str) -> str:
    return "an" if noun[:1] in "AEIOU" else "a"


def _camel(group: str) -> str:
    parts = group.removesuffix(".k8s.io").replace("-", ".").split(".")
    return "".join(part.capitalize() for part in parts)


def _tag(group: str) -> str:
    name = _camel(group)
    return name[:1].lower() + name[1:] if name else "core"
