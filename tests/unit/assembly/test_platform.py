"""The objects of a platform, and the names `gpuaas up --platform` and a fleet file take."""

import pytest

from gpuaas.assembly.fleet import FleetError, read_fleet
from gpuaas.assembly.platform import builtin_platforms, check_platform, platform_objects


@pytest.mark.parametrize("name", builtin_platforms())
def test_objects_are_whole_and_named_once(name: str) -> None:
    objects = platform_objects(name, has_queues=False)
    places = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects]
    assert len(set(places)) == len(places)
    namespaces = {one["metadata"]["name"] for one in objects if one["kind"] == "Namespace"}
    assert {namespace for _, namespace, _ in places if namespace} <= namespaces


def test_mig_is_mixed_and_kueue_on() -> None:
    objects = {(one["kind"], one["metadata"]["name"]): one for one in platform_objects("rhoai", has_queues=False)}
    assert objects["ClusterPolicy", "cluster-policy"]["spec"]["mig"] == {"strategy": "mixed"}
    assert objects["OdhDashboardConfig", "odh-dashboard-config"]["spec"]["dashboardConfig"]["disableKueue"] is False


def test_a_cluster_with_queues_gets_no_second_ones() -> None:
    with_queues = {one["kind"] for one in platform_objects("rhoai", has_queues=True)}
    without = {one["kind"] for one in platform_objects("rhoai", has_queues=False)}
    assert without - with_queues == {"ClusterQueue", "ResourceFlavor"}


def test_names() -> None:
    check_platform("rhoai")
    with pytest.raises(ValueError, match='"eks" is none of rhoai; or none'):
        check_platform("eks")
    assert read_fleet("platform: rhoai\nclusters: [{name: a}]").platform == "rhoai"
    with pytest.raises(FleetError, match='platform: Invalid value: "eks": none of rhoai'):
        read_fleet("platform: eks\nclusters: [{name: a}]")
