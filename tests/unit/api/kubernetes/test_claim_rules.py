"""Claims of devices, their templates, classes and slices: what is filled in and what is refused, in Kubernetes' words."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import complaints, made, refused

from gpuaas.api.kubernetes.rules.claims import admin_requests

GPU = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.org"}}


def _claim(*requests: dict[str, Any], **devices: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests or (GPU,)), **devices}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec}


def _exactly(**fields: Any) -> dict[str, Any]:
    return _claim({"name": "gpu", "exactly": {"deviceClassName": "gpu.example.org", **fields}})


def _slice(**spec: Any) -> dict[str, Any]:
    whole = {
        "driver": "gpu.example.org",
        "nodeName": "node-1",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "L4"}, "v": {"version": "1.2.3"}}}],
        **spec,
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": whole}


def _class(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": spec}


_REQUEST = "spec.devices.requests[0]"
_WHICH = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
REFUSED: list[tuple[dict[str, Any], str]] = [
    (_claim({"name": "gpu"}), f"{_REQUEST}: Required value: exactly one of `exactly` or `firstAvailable` is required"),
    (_claim({"name": "", "exactly": GPU["exactly"]}), f'{_REQUEST}.name: Invalid value: "": a lowercase RFC 1123'),
    (_claim(GPU, GPU), 'spec.devices.requests[1]: Duplicate value: "gpu"'),
    (_exactly(deviceClassName=""), f"{_REQUEST}.exactly.deviceClassName: Required value"),
    (_exactly(count=-1), f"{_REQUEST}.exactly.count: Invalid value: -1: must be greater than zero"),
    (_exactly(allocationMode="All", count=2), f"{_REQUEST}.exactly.count: Invalid value: 2: must not be specified when"),
    (_exactly(allocationMode="Some"), f'{_REQUEST}.exactly.allocationMode: Unsupported value: "Some": supported values'),
    (_exactly(selectors=[{}]), f"{_REQUEST}.exactly.selectors[0].cel: Required value"),
    (_exactly(tolerations=[{"operator": "Is"}]), f'{_REQUEST}.exactly.tolerations[0].operator: Unsupported value: "Is"'),
    (_claim({"name": "a", "firstAvailable": [{"name": "b"}]}), f"{_REQUEST}.firstAvailable[0].deviceClassName: Required"),
    (_claim(constraints=[{"requests": ["gpu"]}]), "spec.devices.constraints[0]: Required value: exactly one of"),
    (_claim(config=[{"requests": ["cpu"], "opaque": {"driver": "d", "parameters": {}}}]), f'spec.devices.config[0].requests[0]: Invalid value: "cpu": {_WHICH}'),
    (_claim(config=[{}]), "spec.devices.config[0].opaque: Required value"),
    (_class(selectors=[{}]), "spec.selectors[0].cel: Required value"),
    (_class(config=[{"opaque": {}}]), "spec.config[0].opaque.driver: Required value"),
    (_slice(driver=""), "spec.driver: Required value"),
    (_slice(nodeName=None), "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"),
    (_slice(pool={}), "spec.pool.name: Required value"),
    (_slice(devices=[{"name": "a"}, {"name": "a"}]), 'spec.devices[1]: Duplicate value: "a"'),
    (_slice(devices=[{"name": "a", "attributes": {"m": {}}}]), 'spec.devices[0].attributes[m]: Invalid value: "": exactly one value must be specified'),
    (_slice(devices=[{"name": "a", "attributes": {"m": {"version": "1"}}}]), 'spec.devices[0].attributes[m].version: Invalid value: "1": must be a string compatible with semver.org spec 2.0.0'),
]  # fmt: skip


@pytest.mark.parametrize("right", [_claim(), _slice(), _class(), _exactly(allocationMode="All")], ids=range(4))
def test_what_is_right_is_accepted(right: dict[str, Any]) -> None:
    assert refused(right) == []


@pytest.mark.parametrize(("wrong", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
def test_a_mistake_is_named(wrong: dict[str, Any], sentence: str) -> None:
    said = refused(wrong)
    assert any(error.startswith(sentence) for error in said), said


def test_one_device_is_asked_for_unless_more_are() -> None:
    asked = made(_exactly(tolerations=[{"key": "a"}]))["spec"]["devices"]["requests"][0]["exactly"]
    assert (asked["allocationMode"], asked["count"], asked["tolerations"][0]["operator"]) == ("ExactCount", 1, "Equal")


def test_a_claim_stays_as_it_is() -> None:
    said = complaints(_claim(), {"spec": {"devices": {"requests": [{**GPU, "name": "other"}]}}})
    assert [error.endswith("field is immutable") for error in said] == [True]


def test_access_as_an_administrator_is_found_wherever_it_is_asked_for() -> None:
    assert admin_requests(_exactly(adminAccess=True)) == ["spec.devices.requests[0].adminAccess"]
    template = {"kind": "ResourceClaimTemplate", "spec": {"spec": _exactly(adminAccess=True)["spec"]}}
    assert admin_requests(template) == ["spec.devices.requests[0].adminAccess"]
    assert admin_requests(_claim()) == []
