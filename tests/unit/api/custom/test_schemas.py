"""The data files with schemas of third-party kinds: places, parts, and types of Kubernetes itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuaas.api import custom
from gpuaas.api.custom import table
from gpuaas.api.custom.schemas import kind_schema

FILES = {path.stem: json.loads(path.read_text()) for path in Path(custom.__path__[0], "schemas").glob("*.json")}


def test_a_kind_has_what_every_object_has() -> None:
    schema = kind_schema("ray", "RayCluster")
    assert schema["type"] == "object"
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    with pytest.raises(KeyError):
        kind_schema("ray", "NoSuchKind")


def test_parts_and_types_of_kubernetes_are_written_out() -> None:
    groups = kind_schema("ray", "RayCluster")["properties"]["spec"]["properties"]["workerGroupSpecs"]
    template = groups["items"]["properties"]["template"]
    assert "containers" in template["properties"]["spec"]["properties"]
    condition = kind_schema("fleet", "AddOnPlacementScore")["properties"]["status"]["properties"]["conditions"]
    assert condition["x-kubernetes-list-map-keys"] == ["type"]  # beside the part
    assert condition["items"]["properties"]["reason"]["minLength"] == 1  # of the part, which is in another file


def test_an_entry_that_embeds_a_type_has_its_fields_and_its_own() -> None:
    predictor = kind_schema("kserve", "InferenceService")["properties"]["spec"]["properties"]["predictor"]
    assert {"nodeSelector", "tolerations", "minReplicas"} <= set(predictor["properties"])


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for item in value for found in _references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["part"]] if isinstance(value.get("part"), str) else []
    return own + [found for item in value.values() for found in _references(item)]


def test_every_entry_is_a_kind_or_part_of_one() -> None:
    used = {version.schema.args for kind in table.KINDS for version in kind.versions}  # type: ignore[attr-defined]
    for file, entries in FILES.items():
        for found in _references(entries):
            other, _, name = found.rpartition(":")
            used.add((other or file, name))
    assert {(file, name) for file, entries in FILES.items() for name in entries} == used
