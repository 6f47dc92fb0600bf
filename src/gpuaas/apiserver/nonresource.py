"""The paths that are not resources: health, version, metrics, discovery, OpenAPI, and the keys of our tokens."""

import hashlib
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gpuaas
from gpuaas.apiserver import health
from gpuaas.apiserver.codec import PLAIN, encode, encode_as, for_people, indented, negotiate
from gpuaas.apiserver.compress import compressed
from gpuaas.apiserver.http import JSON, Request, Response
from gpuaas.apiserver.requestinfo import RequestInfo
from gpuaas.base.errors import MethodNotAllowed, NotAcceptable, PageNotFound, PathNotFound

if TYPE_CHECKING:
    from gpuaas.apiserver.cluster import Cluster
    from gpuaas.apiserver.server import Server

_METRICS = b"text/plain; version=0.0.4; charset=utf-8"
_OPEN = frozenset({"/readyz", "/livez", "/healthz", "/version", "/version/"})
_AGGREGATED = frozenset({("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")})
# How kubectl asks for the v2 document; older ones spell it with an @.
_V2_PROTOBUF = (
    b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    b"application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)


def is_open(path: str) -> bool:
    """Paths that need no credentials: they say whether the server is there, and nothing of what is in it."""
    return path in _OPEN or path.startswith(("/readyz/", "/livez/", "/healthz/"))


def answer(server: "Server", cluster: "Cluster", info: RequestInfo, request: Request) -> Response:
    path = info.path.rstrip("/") or "/"
    if not path.startswith("/"):  # such as the * of OPTIONS
        raise PageNotFound
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed
    head = path.split("/", 2)[1] if path != "/" else ""
    match head:
        case "":
            return _raw(request, indented(encode({"paths": _paths(cluster)})))
        case "readyz" | "livez" | "healthz":
            return _health(server, cluster, path, info)
        case "version" if path != "/version":
            raise PathNotFound
        case "version":
            return _raw(request, indented(encode(version())))
        case "metrics" if path == "/metrics":
            return Response(200, server.metrics_text(cluster), _METRICS)
        case "metrics" if path == "/metrics/slis":
            return Response(200, server.health.metrics(), _METRICS)
        case "api" | "apis":
            return _discovery(cluster, path, request)
        case "openapi":
            return _openapi(cluster, path, request)
        case ".well-known" | "openid":
            return _token_keys(server, cluster, path, request)
        case _:
            raise PageNotFound


def version() -> dict[str, str]:
    major, minor = gpuaas.KUBERNETES_VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{gpuaas.KUBERNETES_VERSION}.0+gpuaas-{gpuaas.__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": f"CPython {platform.python_version()}",
        "platform": f"{platform.system().lower()}/{_machine()}",
    }


def _machine() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _health(server: "Server", cluster: "Cluster", path: str, info: RequestInfo) -> Response:
    kind, *wanted = path.split("/")[1:]
    stored, ending = cluster.store.broken is None, not server.ready
    if not wanted:
        return server.health.answer(kind, stored=stored, ending=ending, query=info.multi)
    found = health.single(kind, "/".join(wanted), stored=stored, ending=ending)
    if found is None:
        raise PageNotFound
    return found


def _discovery(cluster: "Cluster", path: str, request: Request) -> Response:
    discovery = cluster.discovery
    parts = path.split("/")[1:]
    if len(parts) == 1:
        wanted = negotiate(request.header(b"accept"), _AGGREGATED)
        if wanted.form:
            document = discovery.aggregated(core=parts[0] == "api")
            return _json(request, document, b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
        address = request.header(b"host")
        found: Any = discovery.api_versions(address) if parts[0] == "api" else discovery.group_list()
    elif parts[0] == "api":
        found = discovery.resource_list("", parts[1]) if len(parts) == 2 else None
    elif len(parts) == 2:
        found = discovery.group(parts[1])
    else:
        found = discovery.resource_list(parts[1], parts[2]) if len(parts) == 3 else None
    if found is None:
        known = parts[0] == "api" or discovery.is_builtin(parts[1])
        raise PathNotFound if known else PageNotFound
    return _json(request, found)


def _openapi(cluster: "Cluster", path: str, request: Request) -> Response:
    documents = cluster.openapi
    if path == "/openapi/v2":
        accept = request.headers.get(b"accept", b"*/*")
        if b"json" in accept or b"*/*" in accept:
            return _raw(request, documents.v2())
        if accept.partition(b";")[0].strip() in _V2_PROTOBUF:
            return _raw(request, documents.v2_protobuf(), _V2_PROTOBUF[0])
        raise NotAcceptable(
            "only the following media types are accepted: application/json, " + _V2_PROTOBUF[0].decode()
        )
    if path == "/openapi/v3":
        return _raw(request, encode(documents.index()))
    if path.startswith("/openapi/v3/"):
        body = documents.v3(path.removeprefix("/openapi/v3/"))
        if body is not None:
            return _raw(request, body)
    raise PageNotFound


def _token_keys(server: "Server", cluster: "Cluster", path: str, request: Request) -> Response:
    access = server.access[cluster.name]
    match path:
        case "/.well-known/openid-configuration":
            return _raw(request, encode(access.openid_configuration()))
        case "/openid/v1/jwks":
            return _raw(request, encode(access.key_set()), b"application/jwk-set+json")
        case _:
            raise PageNotFound


def _paths(cluster: "Cluster") -> list[str]:
    paths = ["/.well-known/openid-configuration", "/api", "/apis", "/healthz", "/livez", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/readyz", "/version"]  # fmt: skip
    for group, versions in cluster.discovery.groups().items():
        base = f"/apis/{group}" if group else "/api"
        paths.append(base)
        paths.extend(f"{base}/{version}" for version in versions)
    return sorted(set(paths))


def _json(request: Request, document: Mapping[str, Any], media: bytes = JSON) -> Response:
    return _raw(request, encode_as(PLAIN, document, pretty=for_people(request.headers, request.query)), media)


def _raw(request: Request, body: bytes, media: bytes = JSON) -> Response:
    """With a tag, so that a client that has the document already gets 304."""
    tag = b'"%b"' % hashlib.sha256(body).hexdigest().upper().encode()
    if request.headers.get(b"if-none-match") == tag:
        return Response(304, b"", media, ((b"etag", tag),))
    body, encoding = compressed(body, request.headers)
    return Response(200, body, media, ((b"etag", tag), (b"vary", b"Accept"), (b"cache-control", b"public"), *encoding))
