"""The controllers of one sentence each: events expire, tokens are filled, roles are summed, budgets and quotas kept."""

import base64
from typing import Any

import pytest

from gpuaas.client.protocol import Resource
from gpuaas.client.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DAEMON_SETS,
    DISRUPTION_BUDGETS,
    ENDPOINT_SLICES,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VOLUMES,
)
from gpuaas.controllers import all_controllers, event_ttl
from gpuaas.controllers.cluster_roles import ClusterRoleAggregationController, aggregate
from gpuaas.controllers.daemon_sets import DaemonSetController
from gpuaas.controllers.daemon_sets.fit import should_run
from gpuaas.controllers.disruption import DisruptionController
from gpuaas.controllers.endpoints import EndpointSliceController
from gpuaas.controllers.event_ttl import EventTtlController, level
from gpuaas.controllers.resource_quotas import ResourceQuotaController, counted
from gpuaas.controllers.service_account_tokens import ServiceAccountTokenController
from gpuaas.controllers.volume_protection import VolumeProtectionController
from gpuaas.runtime.controller import Controllers, Deps
from gpuaas.testing.cluster import FakeCluster
from gpuaas.testing.objects import config_map, daemon_set, job, node, pod, replica_set, secret, service_account
from gpuaas.testing.time import Stage, scenario, stage

Object = dict[str, Any]
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@scenario
async def test_a_volume_goes_when_no_claim_is_bound_to_it() -> None:
    async with stage(VolumeProtectionController) as on:
        for name, phase in (("free", "Available"), ("taken", "Bound")):
            meta = {"name": name, "finalizers": ["kubernetes.io/pv-protection"]}
            on.cluster.put(VOLUMES, {"metadata": meta, "spec": {}, "status": {"phase": phase}})
            await on.cluster.delete(VOLUMES, name)
        await on.settle()
        assert [one["metadata"]["name"] for one in on.cluster.all(VOLUMES)] == ["taken"]
        await on.cluster.patch(VOLUMES, "taken", {"status": {"phase": "Released"}}, subresource="status")
        await on.settle()
        assert on.cluster.all(VOLUMES) == []


@scenario
async def test_an_event_expires_within_a_minute_once_it_was_not_told_of_for_an_hour() -> None:
    async with stage(EventTtlController) as on:
        event = {"involvedObject": {"kind": "Pod", "name": "p"}, "reason": "R", "message": "m", "type": "Normal"}
        on.cluster.put(EVENTS, {"metadata": {"name": "old.1", "namespace": "default"}, **event})
        told = {"lastTimestamp": "2026-01-01T00:30:00Z"}
        on.cluster.put(EVENTS, {"metadata": {"name": "counted.2", "namespace": "default"}, **event})
        wrong = {"eventTime": "2099-01-01T00:00:00.000000Z"}
        on.cluster.put(EVENTS, {"metadata": {"name": "future.3", "namespace": "default"}, **event, **wrong})
        await on.advance(1800)
        await on.cluster.patch(EVENTS, "counted.2", told, "default")
        await on.advance(1799)
        assert len(on.cluster.all(EVENTS)) == 3
        await on.advance(61)
        assert [one["metadata"]["name"] for one in on.cluster.all(EVENTS)] == ["counted.2"]
        await on.advance(1800)
        assert on.cluster.all(EVENTS) == []


@scenario
async def test_old_events_are_found_among_any_number_of_new_ones() -> None:
    async with stage(EventTtlController) as on:
        event = {"involvedObject": {"kind": "Pod", "name": "p"}, "reason": "R", "message": "m", "type": "Normal"}
        for number in range(450):
            on.cluster.put(EVENTS, {"metadata": {"name": f"old.{number}", "namespace": "default"}, **event})
        await on.advance(3000)
        for number in range(450):
            on.cluster.put(EVENTS, {"metadata": {"name": f"new.{number}", "namespace": "default"}, **event})
        await on.advance(661)
        left = [one["metadata"]["name"] for one in on.cluster.all(EVENTS)]
        assert len(left) == 450
        assert all(name.startswith("new.") for name in left)


@scenario
async def test_there_are_never_more_events_than_may_be_and_the_small_namespaces_keep_theirs() -> None:
    event = {"involvedObject": {"kind": "Pod", "name": "p"}, "reason": "R", "message": "m", "type": "Normal"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_ttl, "MOST", 100)
        async with stage(EventTtlController) as on:
            for number in range(10):
                on.cluster.put(EVENTS, {"metadata": {"name": f"quiet.{number}", "namespace": "quiet"}, **event})
            for number in range(500):
                on.cluster.put(EVENTS, {"metadata": {"name": f"loud.{number}", "namespace": "loud"}, **event})
                await on.advance(1)
            left = [one["metadata"]["name"] for one in on.cluster.all(EVENTS)]
            assert 90 <= len(left) <= 101
            assert sum(name.startswith("quiet.") for name in left) == 10
            assert f"loud.{499}" in left
            assert "loud.400" not in left
            await on.advance(3700)
            assert on.cluster.all(EVENTS) == []


@pytest.mark.parametrize(
    ("sizes", "most", "expected"),
    [((), 10, 0), ((5,), 10, 5), ((20,), 10, 10), ((2, 20), 10, 8), ((2, 20, 20), 10, 4), ((7, 7, 7), 2, 0)],
)
def test_the_level_to_which_the_largest_are_cut(sizes: tuple[int, ...], most: int, expected: int) -> None:
    assert level(sizes, most) == expected


def _role(name: str, *verbs: str, labels: dict[str, str] | None = None) -> Object:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]} for verb in verbs],
    }


@scenario
async def test_an_aggregated_role_has_the_rules_of_those_it_selects_and_follows_them() -> None:
    async with stage(ClusterRoleAggregationController) as on:
        on.cluster.put(CLUSTER_ROLES, _role("b", "list", "get", labels={"sum": "yes"}))
        on.cluster.put(CLUSTER_ROLES, _role("a", "get", labels={"sum": "yes"}))
        on.cluster.put(CLUSTER_ROLES, _role("other", "delete"))
        whole = {"metadata": {"name": "whole"}, "rules": []}
        selector = {"clusterRoleSelectors": [{"matchLabels": {"sum": "yes"}}]}
        on.cluster.put(CLUSTER_ROLES, {**whole, "aggregationRule": selector})
        await on.settle()
        verbs = [rule["verbs"] for rule in on.cluster.read(CLUSTER_ROLES, "whole")["rules"]]
        assert verbs == [["get"], ["list"]]
        on.cluster.remove(CLUSTER_ROLES, "b")
        await on.settle()
        assert [rule["verbs"] for rule in on.cluster.read(CLUSTER_ROLES, "whole")["rules"]] == [["get"]]


@scenario
async def test_rules_are_written_to_the_very_role_they_were_summed_for_so_a_deleted_one_is_not_made_anew() -> None:
    cluster = FakeCluster()
    written: list[Any] = []
    patch = cluster.patch

    async def noted(resource: Any, name: str, body: Any, *rest: Any, **options: Any) -> Object:
        written.append(body)
        return await patch(resource, name, body, *rest, **options)

    cluster.patch = noted  # type: ignore[method-assign]
    async with stage(ClusterRoleAggregationController, cluster=cluster) as on:
        cluster.put(CLUSTER_ROLES, _role("a", "get", labels={"sum": "yes"}))
        selector = {"clusterRoleSelectors": [{"matchLabels": {"sum": "yes"}}]}
        cluster.put(CLUSTER_ROLES, {"metadata": {"name": "whole"}, "rules": [], "aggregationRule": selector})
        await on.settle()
    assert [body["metadata"]["uid"] for body in written] == [cluster.read(CLUSTER_ROLES, "whole")["metadata"]["uid"]]


def test_a_role_never_sums_itself() -> None:
    role = _role("self", "get", labels={"sum": "yes"})
    role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"sum": "yes"}}]}
    assert aggregate(role, [role]) == []


@scenario
async def test_token_secrets_are_filled_and_go_with_their_account() -> None:
    cluster = FakeCluster()
    deps = Deps.over(
        cluster,
        cluster.clock,
        cluster,
        root_ca="PEM",
        secret_token=lambda account, _: f"for {account['metadata']['name']}",
    )
    running = Controllers(deps, [ServiceAccountTokenController(deps)])
    await running.start()
    on = Stage(cluster, cluster.clock, deps)  # type: ignore[arg-type]
    kind = "kubernetes.io/service-account-token"
    cluster.put(SERVICE_ACCOUNTS, service_account("me"))
    for name, account in (("mine", "me"), ("stray", "nobody")):
        made = secret(name, type=kind, annotations={"kubernetes.io/service-account.name": account})
        cluster.put(SECRETS, made)
    cluster.put(SECRETS, secret("plain"))
    await on.settle()
    assert [one["metadata"]["name"] for one in cluster.all(SECRETS)] == ["mine", "plain"]
    data = {
        key: base64.b64decode(value).decode() for key, value in cluster.read(SECRETS, "mine", "default")["data"].items()
    }
    assert data == {"ca.crt": "PEM", "namespace": "default", "token": "for me"}
    cluster.remove(SERVICE_ACCOUNTS, "me", "default")
    await on.settle()
    assert [one["metadata"]["name"] for one in cluster.all(SECRETS)] == ["plain"]
    await running.stop()


def _budget(name: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "ready", "allowed", "desired"),
    [
        ({"minAvailable": 2}, 4, 2, 2),
        ({"minAvailable": 2}, 1, 0, 2),
        ({"minAvailable": "50%"}, 4, 2, 2),
        ({"maxUnavailable": 1}, 4, 1, 3),
        ({"maxUnavailable": "25%"}, 4, 1, 3),
        ({"maxUnavailable": 1}, 3, 0, 3),
    ],
)
def test_how_many_pods_may_go(spec: Object, ready: int, allowed: int, desired: int) -> None:
    @scenario
    async def check() -> None:
        async with stage(DisruptionController) as on:
            owner = on.cluster.put(REPLICA_SETS, replica_set("web", 4))
            for number in range(4):
                on.cluster.put(
                    PODS, pod(f"p{number}", labels={"app": "web"}, owner=(REPLICA_SETS, owner), ready=number < ready)
                )
            on.cluster.put(DISRUPTION_BUDGETS, _budget("b", **spec))
            await on.settle()
            status = on.cluster.read(DISRUPTION_BUDGETS, "b", "default")["status"]
            assert (status["disruptionsAllowed"], status["desiredHealthy"]) == (allowed, desired)
            assert (status["currentHealthy"], status["expectedPods"]) == (ready, 4)
            assert status["conditions"][0]["reason"] == ("SufficientPods" if allowed else "InsufficientPods")

    check()


@scenario
async def test_an_evicted_pod_counts_as_gone_for_two_minutes_and_then_again_as_there() -> None:
    async with stage(DisruptionController) as on:
        for number in range(3):
            on.cluster.put(PODS, pod(f"p{number}", labels={"app": "web"}, ready=True))
        on.cluster.put(DISRUPTION_BUDGETS, _budget("b", minAvailable=1))
        await on.settle()
        on.cluster.set_status(DISRUPTION_BUDGETS, "b", "default", disruptedPods={"p0": "2026-01-01T00:00:00Z"})
        await on.settle()
        assert on.cluster.read(DISRUPTION_BUDGETS, "b", "default")["status"]["disruptionsAllowed"] == 1
        await on.advance(121)
        status = on.cluster.read(DISRUPTION_BUDGETS, "b", "default")["status"]
        assert (status["disruptionsAllowed"], status.get("disruptedPods")) == (2, None)


@scenario
async def test_where_the_scale_cannot_be_known_nothing_may_go() -> None:
    class NoScale(FakeCluster):
        async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object:
            if subresource == "scale":
                self.read(resource, "no-such-subresource", namespace)
            return await super().get(resource, name, namespace)

    async with stage(DisruptionController, cluster=NoScale()) as on:
        owner = on.cluster.put(JOBS, job("j"))
        on.cluster.put(PODS, pod("p", labels={"app": "web"}, owner=(JOBS, owner), ready=True))
        on.cluster.put(DISRUPTION_BUDGETS, _budget("b", maxUnavailable=1))
        await on.settle()
        (condition,) = on.cluster.read(DISRUPTION_BUDGETS, "b", "default")["status"]["conditions"]
        assert (condition["reason"], condition["message"]) == (
            "SyncFailed",
            "jobs.batch does not implement the scale subresource",
        )


def _serving(name: str, address: str, *, ready: bool = True) -> Object:
    one = pod(name, labels={"app": "web"}, phase="Running")
    one["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8080}]
    one["status"] |= {"podIP": address, "podIPs": [{"ip": address}], "conditions": [{**READY, "status": str(ready)}]}
    return one


@scenario
async def test_a_service_lists_the_pods_behind_it_ready_or_not() -> None:
    async with stage(EndpointSliceController) as on:
        ports = [{"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"}]
        spec = {"clusterIP": "10.96.0.9", "selector": {"app": "web"}, "ports": ports, "ipFamilies": ["IPv4"]}
        on.cluster.put(SERVICES, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await on.advance(1)
        (empty,) = on.cluster.all(ENDPOINT_SLICES)
        assert (empty["endpoints"], empty["ports"]) == ([], [])
        on.cluster.put(PODS, _serving("a", "10.0.0.1"))
        on.cluster.put(PODS, _serving("b", "10.0.0.2", ready=False))
        on.cluster.put(PODS, pod("pending", labels={"app": "web"}))
        await on.advance(1)
        (one,) = on.cluster.all(ENDPOINT_SLICES)
        assert [(e["addresses"], e["conditions"]["ready"]) for e in one["endpoints"]] == [
            (["10.0.0.1"], True),
            (["10.0.0.2"], False),
        ]
        assert one["ports"] == [{"name": "web", "port": 8080, "protocol": "TCP"}]


@scenario
async def test_a_slice_holds_a_hundred_endpoints_at_most() -> None:
    async with stage(EndpointSliceController) as on:
        spec = {"clusterIP": "None", "selector": {"app": "web"}, "ipFamilies": ["IPv4"]}
        on.cluster.put(SERVICES, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        for number in range(230):
            on.cluster.put(PODS, _serving(f"p{number:03}", f"10.0.{number // 200}.{number % 200 + 1}"))
        await on.advance(1)
        assert sorted(len(one["endpoints"]) for one in on.cluster.all(ENDPOINT_SLICES)) == [30, 100, 100]
        on.cluster.writes.clear()
        on.cluster.remove(PODS, "p000", "default")
        await on.advance(1)
        assert sum(len(one["endpoints"]) for one in on.cluster.all(ENDPOINT_SLICES)) == 229


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("what", "spec", "where", "answer"),
    [
        ("an ordinary node", {}, node("n"), (True, True)),
        ("a label that is missing", {"nodeSelector": {"zone": "a"}}, node("n"), (False, False)),
        ("a label that is there", {"nodeSelector": {"zone": "a"}}, node("n", labels={"zone": "a"}), (True, True)),
        ("a taint keeps new ones away, old ones may stay", {}, node("n", taints=[TAINT]), (False, True)),
        (
            "a taint that drives out",
            {},
            node("n", taints=[{**TAINT, "effect": "NoExecute"}]),
            (False, False),
        ),
        (
            "a taint that is tolerated",
            {"tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes"}]},
            node("n", taints=[TAINT]),
            (True, True),
        ),
        (
            "a node in trouble is still a daemon's place",
            {},
            node("n", taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
            (True, True),
        ),
    ],
)
def test_where_a_daemon_runs(what: str, spec: Object, where: Object, answer: tuple[bool, bool]) -> None:
    assert should_run(spec, where) == answer, what


@scenario
async def test_a_daemon_on_every_node_that_fits_and_updates_one_by_one() -> None:
    async with stage(DaemonSetController) as on:
        for name in ("a", "b", "c"):
            on.cluster.put(NODES, node(name, taints=[TAINT] if name == "c" else ()))
        on.cluster.put(DAEMON_SETS, daemon_set("agent"))
        await on.advance(1)
        affinities = [
            one["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            for one in on.cluster.all(PODS)
        ]
        places = sorted(term["nodeSelectorTerms"][0]["matchFields"][0]["values"][0] for term in affinities)
        assert places == ["a", "b"]
        for one in on.cluster.all(PODS):
            on.cluster.set_status(PODS, one["metadata"]["name"], "default", phase="Running", conditions=[READY])
        await on.advance(1)
        status = on.cluster.read(DAEMON_SETS, "agent", "default")["status"]
        assert (status["desiredNumberScheduled"], status["numberAvailable"]) == (2, 2)
        template = daemon_set("agent", image="two")["spec"]["template"]
        await on.cluster.patch(DAEMON_SETS, "agent", {"spec": {"template": template}}, "default")
        await on.advance(1)
        images = sorted(one["spec"]["containers"][0]["image"] for one in on.cluster.all(PODS))
        assert images == ["busybox", "two"], "the second waits for the first"
        on.cluster.remove(NODES, "b")
        on.cluster.put(NODES, node("d"))
        await on.advance(1)
        assert on.cluster.read(DAEMON_SETS, "agent", "default")["status"]["desiredNumberScheduled"] == 2


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("pods", "pods"),
        ("requests.cpu", "pods"),
        ("requests.nvidia.com/gpu", "pods"),
        ("count/jobs.batch", "jobs.batch"),
        ("services.loadbalancers", "services"),
        ("requests.storage", "persistentvolumeclaims"),
        ("fast.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims"),
        ("secrets", "secrets"),
    ],
)
def test_which_objects_a_limit_counts(name: str, resource: str) -> None:
    assert counted(name) == resource


@scenario
async def test_usage_goes_down_when_objects_go_or_pods_end() -> None:
    async with stage(ResourceQuotaController) as on:
        hard = {"pods": "5", "requests.cpu": "4", "count/configmaps": "9", "count/nothing.example.com": "1"}
        on.cluster.put(PODS, pod("a", requests={"cpu": "500m"}))
        on.cluster.put(PODS, pod("b", requests={"cpu": "1"}))
        on.cluster.put(CONFIG_MAPS, config_map("c"))
        on.cluster.put(RESOURCE_QUOTAS, {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}})
        await on.advance(1)
        used = {"pods": "2", "requests.cpu": "1500m", "count/configmaps": "1"}
        assert on.cluster.read(RESOURCE_QUOTAS, "q", "default")["status"] == {"hard": hard, "used": used}
        on.cluster.remove(PODS, "a", "default")
        on.cluster.set_status(PODS, "b", "default", phase="Succeeded")
        on.cluster.remove(CONFIG_MAPS, "c", "default")
        await on.advance(1)
        used = {"pods": "0", "requests.cpu": "0", "count/configmaps": "0"}
        assert on.cluster.read(RESOURCE_QUOTAS, "q", "default")["status"]["used"] == used


@scenario
async def test_a_pod_that_gets_a_deadline_counts_for_another_quota() -> None:
    async with stage(ResourceQuotaController) as on:
        for name, scope in (("short", "Terminating"), ("long", "NotTerminating")):
            spec = {"hard": {"pods": "5"}, "scopes": [scope]}
            on.cluster.put(RESOURCE_QUOTAS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        on.cluster.put(PODS, pod("p"))
        await on.advance(1)

        def used() -> list[str]:
            return [
                on.cluster.read(RESOURCE_QUOTAS, name, "default")["status"]["used"]["pods"]
                for name in ("short", "long")
            ]

        await on.cluster.patch(PODS, "p", {"spec": {"activeDeadlineSeconds": 60}}, "default")
        await on.advance(1)
        assert used() == ["1", "0"]


@scenario
async def test_all_controllers_together_leave_an_empty_cluster_alone() -> None:
    cluster = FakeCluster()
    deps = Deps.over(cluster, cluster.clock, cluster)
    controllers = all_controllers(deps)
    names = [one.name for one in controllers]
    assert len(set(names)) == len(names)
    assert [one.name for one in all_controllers(deps, {"job-controller"})] == ["job-controller"]
    running = Controllers(deps, controllers)
    await running.start()
    on = Stage(cluster, cluster.clock, deps)  # type: ignore[arg-type]
    await on.advance(7200)
    assert cluster.writes == []
    assert running.idle
    await running.stop()
