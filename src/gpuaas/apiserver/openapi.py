"""OpenAPI of one cluster, made when asked for and kept until what it describes changes."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import gpuaas
from gpuaas.api.kinds import Kind, Object
from gpuaas.api.kubernetes.schemas import schema_source
from gpuaas.apiserver.catalogue import Catalogue, Resource
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.discovery import Discovery
from gpuaas.machinery.openapi import group_version_path, v2_document, v3_document, v3_index
from gpuaas.machinery.openapi_wire import v2_protobuf


class OpenApi:
    def __init__(self, catalogue: Catalogue, discovery: Discovery, prefix: str) -> None:
        self._catalogue = catalogue
        self._discovery = discovery
        self._prefix = prefix
        self._documents: dict[tuple[str, str], bytes] = {}  # (path, stamp) -> encoded
        self._v2: dict[str, tuple[int, bytes]] = {}  # form -> (generation of the catalogue, encoded)

    def index(self) -> Object:
        return v3_index({path: _stamp(path, kinds) for path, kinds in self._paths().items()}, prefix=self._prefix)

    def v3(self, path: str) -> bytes | None:
        kinds = self._paths().get(path.strip("/"))
        if kinds is None:
            return None
        key = (path, _stamp(path, kinds))
        if key not in self._documents:
            self._documents = {known: body for known, body in self._documents.items() if known[0] != path}
            document = v3_document((kind for _, kind in kinds), self._schema_of, version=gpuaas.KUBERNETES_VERSION)
            self._documents[key] = encode(document)
        return self._documents[key]

    def v2(self) -> bytes:
        return self._v2_as("json", encode)

    def v2_protobuf(self) -> bytes:
        return self._v2_as("protobuf", v2_protobuf)

    def _v2_as(self, form: str, written: Callable[[Object], bytes]) -> bytes:
        generation, body = self._v2.get(form, (-1, b""))
        if generation != self._catalogue.generation:
            pairs = [pair for pairs in self._paths().values() for pair in pairs]
            document = v2_document(
                (kind for resource, kind in pairs if not resource.bundled),
                self._schema_of,
                by_name=(kind for resource, kind in pairs if resource.bundled),
                version=gpuaas.KUBERNETES_VERSION,
            )
            body = written(document)
            self._v2[form] = (self._catalogue.generation, body)
        return body

    def _paths(self) -> dict[str, list[tuple[Resource, Kind]]]:
        return {
            group_version_path(group, version): kinds
            for group, versions in self._discovery.groups().items()
            for version, kinds in versions.items()
        }

    def _schema_of(self, name: str) -> Mapping[str, Any]:
        try:
            return schema_source(name)
        except KeyError:
            pass
        for resource in self._catalogue.resources():
            if resource.custom:
                for version in resource.versions.values():
                    if version.kind.schema == name:
                        return version.openapi
        raise KeyError(name)


def _stamp(path: str, kinds: list[tuple[Resource, Kind]]) -> str:
    said = "/".join([gpuaas.__version__, path, *(f"{kind.plural}:{resource.stamp}" for resource, kind in kinds)])
    return hashlib.sha256(said.encode()).hexdigest().upper()
