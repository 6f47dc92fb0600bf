"""Services: ports, addresses, and what stays when a service changes."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import changed, complaints, made, refused, service

from gpuaas.api.kubernetes.admission import allocate_cluster_ip, allocate_node_ports
from gpuaas.base.errors import Forbidden, Internal, Invalid


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
        ({"type": "LoadBalancer"}, {"externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": True}),
        ({"clusterIP": "None", "selector": {"a": "b"}}, {"clusterIPs": ["None"], "ipFamilyPolicy": "SingleStack"}),
        ({"clusterIP": "None"}, {"clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}),
        ({"type": "ExternalName", "externalName": "a.b"}, {"ipFamilies": None, "internalTrafficPolicy": None}),
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
        ({"ports": [{"port": 80, "nodePort": 30000}]}, "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"),
        ({"type": "Cloud"}, 'spec.type: Unsupported value: "Cloud": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'),
        ({"type": "NodePort", "clusterIP": "None"}, "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"),
        ({"type": "ExternalName"}, "spec.externalName: Required value"),
        ({"clusterIP": "x"}, 'spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'),
        ({"externalIPs": ["127.0.0.1"]}, 'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'),
        ({"ipFamilyPolicy": "RequireDualStack"}, 'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'),
        ({"externalTrafficPolicy": "Local"}, 'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'),
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
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "internalTrafficPolicy"} & set(obj["spec"])


def test_node_ports_stay_with_the_name_of_their_port() -> None:
    ports = [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81, "nodePort": 30081}]
    patch = {"spec": {"ports": [{"name": "b", "port": 82}, {"name": "c", "port": 83}]}}
    obj, _ = changed(service(type="NodePort", ports=ports), patch)
    assert [port.get("nodePort") for port in obj["spec"]["ports"]] == [30081, None]


def test_a_service_that_is_no_longer_outside_loses_its_node_ports() -> None:
    ports = [{"port": 80, "nodePort": 30080}]
    obj, errors = changed(service(type="NodePort", ports=ports), {"spec": {"type": "ClusterIP"}})
    assert errors == []
    assert "nodePort" not in obj["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in obj["spec"]


def test_the_last_free_address_is_found() -> None:
    obj = made(service())
    taken = {f"10.96.{high}.{low}" for high in range(256) for low in range(256)} - {"10.96.7.9"}
    allocate_cluster_ip(obj, None, taken)
    assert (obj["spec"]["clusterIP"], obj["spec"]["clusterIPs"]) == ("10.96.7.9", ["10.96.7.9"])
    with pytest.raises(Forbidden, match="no cluster IP is free"):
        allocate_cluster_ip(made(service()), None, {*taken, "10.96.7.9"})


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "a.b"}])
def test_who_needs_no_address_gets_none(spec: dict[str, Any]) -> None:
    obj = made(service(**spec))
    before = dict(obj["spec"])
    allocate_cluster_ip(obj, None, set())
    assert obj["spec"] == before


def test_node_ports_are_given_where_they_lack() -> None:
    obj = made(service(type="NodePort", ports=[{"name": "a", "port": 1, "nodePort": 30005}, {"name": "b", "port": 2}]))
    allocate_node_ports(obj, None, {30000})
    assert [port["nodePort"] for port in obj["spec"]["ports"]] == [30005, 30001]


def test_two_protocols_of_one_port_share_a_node_port() -> None:
    dns = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "m", "port": 9153}]
    obj = made(service(type="NodePort", ports=dns))
    allocate_node_ports(obj, None, {30000})
    assert [port["nodePort"] for port in obj["spec"]["ports"]] == [30001, 30001, 30002]
    dns[1]["nodePort"] = 30053
    obj = made(service(type="NodePort", ports=dns))
    allocate_node_ports(obj, None, set())
    assert [port["nodePort"] for port in obj["spec"]["ports"]] == [30053, 30053, 30000]


@pytest.mark.parametrize(
    ("ports", "complaint"),
    [
        ([80], r"spec.ports\[0\].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"),
        ([30001, 32768], r"spec.ports\[1\].nodePort: Invalid value: 32768: provided port is not in the valid range"),
        ([30001, 30009], r"spec.ports\[1\].nodePort: Invalid value: 30009: provided port is already allocated"),
    ],
)  # fmt: skip
def test_a_node_port_that_is_brought_must_be_free_and_one_of_ours(ports: list[int], complaint: str) -> None:
    asked = [{"name": f"p{port}", "port": place, "nodePort": port} for place, port in enumerate(ports, 1)]
    obj = made(service(type="NodePort", ports=asked))
    before = service(type="NodePort", ports=[{"name": "p", "port": 1, "nodePort": 30001}])
    for old in (None, before):
        with pytest.raises(Invalid, match=complaint):
            allocate_node_ports(obj, old, {30009})
    allocate_node_ports(obj, {**obj}, {30009})  # what it had it keeps, though the range may once have been another


def test_when_no_node_port_is_left_that_is_said() -> None:
    obj = made(service(type="NodePort"))
    with pytest.raises(Internal, match="failed to allocate a nodePort: range is full"):
        allocate_node_ports(obj, None, set(range(30000, 32768)))


def test_who_balances_loads_to_nodes_gets_a_port_to_ask_for_health() -> None:
    local = service(type="LoadBalancer", externalTrafficPolicy="Local")
    obj = made(local)
    allocate_node_ports(obj, None, {30000})
    assert (obj["spec"]["ports"][0]["nodePort"], obj["spec"]["healthCheckNodePort"]) == (30001, 30002)
    asked = {**local, "spec": {**local["spec"], "healthCheckNodePort": 30002}}
    obj, errors = changed(asked, {"spec": {"healthCheckNodePort": None}})
    assert (obj["spec"]["healthCheckNodePort"], errors) == (30002, [])
    obj, errors = changed(asked, {"spec": {"externalTrafficPolicy": "Cluster"}})
    assert ("healthCheckNodePort" in obj["spec"], errors) == (False, [])
    said = complaints(asked, {"spec": {"healthCheckNodePort": 30003}})
    assert said == ["spec.healthCheckNodePort: Forbidden: field is immutable"]


def test_a_dry_run_says_which_addresses_are_ours() -> None:
    foreign = made(service(clusterIP="1.2.3.4"))
    with pytest.raises(Invalid, match="the provided network does not match the current range"):
        allocate_cluster_ip(foreign, None, set())
    with pytest.raises(Invalid, match=r"not in the valid range\. The range of valid IPs is 10\.96\.0\.0/16"):
        allocate_cluster_ip(foreign, None, set(), dry_run=True)
