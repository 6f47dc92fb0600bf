"""Services: ports, addresses, and what stays when a service changes."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import changed, complaints, made, refused, service

from gpuaas.api.kubernetes.admission import allocate_cluster_ip
from gpuaas.base.errors import Forbidden


def test_a_service_of_one_line_becomes_a_whole_service() -> None:
    assert made(service())["spec"] == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
    }


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"type": "NodePort"}, {"externalTrafficPolicy": "Cluster"}),
        ({"type": "LoadBalancer"}, {"externalTrafficPolicy": "Cluster"}),
        ({"clusterIP": "None", "selector": {"a": "b"}}, {"clusterIPs": ["None"], "ipFamilyPolicy": "SingleStack"}),
        ({"clusterIP": "None"}, {"clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}),
        ({"type": "ExternalName", "externalName": "a.b"}, {"ipFamilies": None}),
        ({"sessionAffinity": "ClientIP"}, {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}),
    ],
)  # fmt: skip
def test_defaults(spec: dict[str, Any], kept: dict[str, Any]) -> None:
    obj = made(service(**spec))
    assert {field: obj["spec"].get(field) for field in kept} == kept
    assert refused(service(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"ports": []}, "spec.ports: Required value"),
        ({"ports": [{"port": 0}]}, "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"),
        ({"ports": [{"port": 80}, {"port": 81}]}, "spec.ports[0].name: Required value"),
        ({"type": "Cloud"}, 'spec.type: Unsupported value: "Cloud": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'),
    ],
)  # fmt: skip
def test_what_is_refused(spec: dict[str, Any], error: str) -> None:
    assert error in refused(service(**spec))


def test_an_address_once_given_stays() -> None:
    placed = service(clusterIP="10.96.0.9")
    obj, errors = changed(placed, {"spec": {"clusterIP": None, "clusterIPs": None}})
    assert (obj["spec"]["clusterIP"], obj["spec"]["clusterIPs"], errors) == ("10.96.0.9", ["10.96.0.9"], [])
    assert complaints(placed, {"spec": {"clusterIP": "10.96.0.10"}}) == [
        'spec.clusterIPs[0]: Invalid value: ["10.96.0.10"]: may not change once set'
    ]


def test_a_service_that_becomes_a_name_gives_its_address_back() -> None:
    patch = {"spec": {"type": "ExternalName", "externalName": "a.b"}}
    obj, errors = changed(service(clusterIP="10.96.0.9"), patch)
    assert errors == []
    assert not {"clusterIP", "clusterIPs"} & set(obj["spec"])


def test_the_last_free_address_is_found() -> None:
    obj = made(service())
    taken = {f"10.96.{high}.{low}" for high in range(256) for low in range(256)} - {"10.96.7.9"}
    allocate_cluster_ip(obj, taken)
    assert (obj["spec"]["clusterIP"], obj["spec"]["clusterIPs"]) == ("10.96.7.9", ["10.96.7.9"])
    with pytest.raises(Forbidden, match="no cluster IP is free"):
        allocate_cluster_ip(made(service()), {*taken, "10.96.7.9"})


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "a.b"}])
def test_who_needs_no_address_gets_none(spec: dict[str, Any]) -> None:
    obj = made(service(**spec))
    before = dict(obj["spec"])
    allocate_cluster_ip(obj, set())
    assert obj["spec"] == before
