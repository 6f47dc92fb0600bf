"""A hub with workers in virtual time: joining, choice, the add-on's objects, the placement check, loss and leaving."""

from typing import Any

from gpuaas.client.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from gpuaas.client.ocm import (
    ADD_ONS,
    CLUSTER_SETS,
    DECISIONS,
    MANAGED_ACCOUNTS,
    MANAGED_CLUSTERS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    PERMISSIONS,
    PLACEMENTS,
    SCORES,
)
from gpuaas.client.resources import CLUSTER_ROLES, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from gpuaas.fleet.hub.names import ADD_ON, ADD_ON_NAMESPACE, AGENT_SECRET, AVAILABLE, IMPORT_SECRET, JOINED
from gpuaas.fleet.hub.reading import decoded
from gpuaas.testing.fleet import GPU, FleetStage, fleet_stage, said
from gpuaas.testing.time import scenario

Object = dict[str, Any]
HUB = "kueue-system"
PLACEMENT_CHECK, MULTIKUEUE_CHECK = "open-cluster-management.io/placement", "kueue.x-k8s.io/multikueue"


def check(name: str, controller: str, placement: str, **metadata: Any) -> Object:
    kind = "Placement" if controller == PLACEMENT_CHECK else "MultiKueueConfig"
    group = "cluster.open-cluster-management.io" if kind == "Placement" else "kueue.x-k8s.io"
    parameters = {"apiGroup": group, "kind": kind, "name": placement}
    return {"metadata": {"name": name, **metadata}, "spec": {"controllerName": controller, "parameters": parameters}}


def queue(name: str, *checks: str, gpus: int = 8, flavor: str = "default-flavor") -> Object:
    resources = [{"name": "cpu", "nominalQuota": "16"}, {"name": GPU, "nominalQuota": str(gpus)}]
    group = {"coveredResources": ["cpu", GPU], "flavors": [{"name": flavor, "resources": resources}]}
    strategy = {"admissionChecks": [{"name": each} for each in checks]}
    spec: Object = {"namespaceSelector": {}, "resourceGroups": [group]}
    return {"metadata": {"name": name}, "spec": {**spec, **({"admissionChecksStrategy": strategy} if checks else {})}}


def with_queue(on: FleetStage, placement: str = "default") -> None:
    """A queue whose two checks are the placement's and MultiKueue's, as both walkthroughs have it."""
    hub = on.cluster
    hub.put(RESOURCE_FLAVORS, {"metadata": {"name": "default-flavor"}, "spec": {}})
    hub.put(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
    hub.put(NAMESPACES, {"metadata": {"name": "team", "labels": {"tier": "gold"}}})
    hub.put(ADMISSION_CHECKS, check("mk", MULTIKUEUE_CHECK, placement))
    hub.put(ADMISSION_CHECKS, check("place", PLACEMENT_CHECK, placement))
    hub.put(CLUSTER_QUEUES, queue("cluster-queue", "mk", "place"))
    local = {"metadata": {"name": "user-queue", "namespace": "team"}, "spec": {"clusterQueue": "cluster-queue"}}
    hub.put(LOCAL_QUEUES, local)


def clusters_of(on: FleetStage, name: str = "default") -> list[str]:
    found = on.cluster.read(MULTIKUEUE_CONFIGS, name)
    return list(found["spec"]["clusters"])


@scenario
async def test_a_cluster_that_joins_gets_everything_the_add_on_wires() -> None:
    async with fleet_stage("spoke1") as on:
        await on.join("spoke1")
        assert on.condition("spoke1", "HubAcceptedManagedCluster") == (
            "True", "HubClusterAdminAccepted", "Accepted by hub cluster admin",
        )  # fmt: skip
        assert on.condition("spoke1", JOINED) == ("True", "ManagedClusterJoined", "Managed cluster joined")
        assert on.condition("spoke1", AVAILABLE) == ("True", "ManagedClusterAvailable", "Managed cluster is available")
        cluster = on.cluster.read(MANAGED_CLUSTERS, "spoke1")
        assert cluster["spec"]["managedClusterClientConfigs"][0]["url"] == "https://worker/spoke1"
        assert cluster["status"]["allocatable"][GPU] == "4"
        assert cluster["metadata"]["labels"] == {"cluster.open-cluster-management.io/clusterset": "default"}

        assert on.cluster.exists(PERMISSIONS, "multikueue", "spoke1")
        account = on.cluster.read(MANAGED_ACCOUNTS, "multikueue", "spoke1")
        assert account["spec"] == {"rotation": {"enabled": True, "validity": "8640h0m0s"}}
        assert said(account, "TokenReported")[0] == "True"
        token = on.cluster.read(SECRETS, "multikueue", "spoke1")
        assert token["metadata"]["labels"]["authentication.open-cluster-management.io/is-managed-serviceaccount"]
        kubeconfig = decoded(on.cluster.read(SECRETS, "multikueue-spoke1", HUB), "kubeconfig")
        assert decoded(token, "token") in kubeconfig
        assert '"current-context":"spoke1"' in kubeconfig
        connection = on.cluster.read(MULTIKUEUE_CLUSTERS, "spoke1")
        location = {"locationType": "Secret", "location": "multikueue-spoke1"}
        assert connection["spec"] == {"clusterSource": {"kubeConfig": location}}
        add_on = on.cluster.read(ADD_ONS, ADD_ON, "spoke1")
        assert said(add_on, "Available") == ("True", "ProbeAvailable", f"{ADD_ON} add-on is available.")
        assert said(add_on, "Progressing") == ("False", "Completed", "completed with no errors.")

        worker = on.workers["spoke1"]
        assert worker.exists(SERVICE_ACCOUNTS, "multikueue", ADD_ON_NAMESPACE)
        assert worker.read(CLUSTER_ROLES, "multikueue")["rules"]
        assert not on.cluster.exists(SECRETS, IMPORT_SECRET, "spoke1"), "the admin's credentials are used once"
        assert on.cluster.exists(SECRETS, AGENT_SECRET, "spoke1")


@scenario
async def test_a_hub_begins_with_the_sets_and_the_placement_of_the_add_on() -> None:
    async with fleet_stage("spoke1") as on:
        assert not on.cluster.exists(CLUSTER_SETS, "global"), "a cluster that manages none is no hub"
        await on.join("spoke1")
        for name in ("default", "global"):
            found = said(on.cluster.read(CLUSTER_SETS, name), "ClusterSetEmpty")
            assert found == ("False", "ClustersSelected", "1 ManagedClusters selected")
        placement = on.cluster.read(PLACEMENTS, "default", HUB)
        assert placement["status"]["numberOfSelectedClusters"] == 1
        assert said(placement, "PlacementSatisfied")[:2] == ("True", "AllDecisionsScheduled")
        decision = on.cluster.read(DECISIONS, "default-decision-1", HUB)
        assert decision["status"]["decisions"] == [{"clusterName": "spoke1", "reason": ""}]


@scenario
async def test_what_was_taken_away_from_a_hub_stays_away() -> None:
    async with fleet_stage("spoke1") as on:
        await on.join("spoke1")
        on.cluster.remove(PLACEMENTS, "default", HUB)
        await on.advance(600)
        assert not on.cluster.exists(PLACEMENTS, "default", HUB)


@scenario
async def test_a_placement_becomes_a_config_with_the_best_cluster_first() -> None:
    async with fleet_stage("a", "b", "c") as on:
        for name, gpus in (("a", 2), ("b", 8), ("c", 4)):
            await on.join(name, gpus=gpus)
        addon = {"resourceName": "resource-usage-score", "scoreName": "gpuClusterAvailable"}
        policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": {"type": "AddOn", "addOn": addon}}]}
        spec = {"clusterSets": ["global"], "prioritizerPolicy": policy}
        on.cluster.put(PLACEMENTS, {"metadata": {"name": "scored", "namespace": HUB}, "spec": spec})
        with_queue(on, "scored")
        await on.advance(15)
        assert clusters_of(on, "scored") == ["b", "c", "a"]
        place = on.cluster.read(ADMISSION_CHECKS, "place")
        assert said(place, "Active") == ("True", "Active", "MultiKueueConfig scored is generated successfully")


@scenario
async def test_small_changes_of_scores_leave_the_order_alone() -> None:
    async with fleet_stage("a", "b") as on:
        await on.join("a", gpus=4)
        await on.join("b", gpus=4)
        with_queue(on)
        await on.advance(15)
        before = on.cluster.read(MULTIKUEUE_CONFIGS, "default")["metadata"]["resourceVersion"]
        await on.advance(120)
        assert on.cluster.read(MULTIKUEUE_CONFIGS, "default")["metadata"]["resourceVersion"] == before


@scenario
async def test_the_check_says_what_is_wrong_with_the_placement() -> None:
    async with fleet_stage("spoke1") as on:
        on.cluster.put(ADMISSION_CHECKS, check("place", PLACEMENT_CHECK, "missing"))
        await on.join("spoke1")
        place = on.cluster.read(ADMISSION_CHECKS, "place")
        assert said(place, "Active") == ("False", "PlacementNotFound", "Placement missing not found")
        selector = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"accelerator": "l4"}}}}
        spec = {"clusterSets": ["global"], "predicates": [selector]}
        on.cluster.put(PLACEMENTS, {"metadata": {"name": "missing", "namespace": HUB}, "spec": spec})
        await on.advance(10)
        place = on.cluster.read(ADMISSION_CHECKS, "place")
        words = "No clusters available for placement missing"
        assert said(place, "Active") == ("False", "NoClustersAvailable", words)
        await on.cluster.patch(MANAGED_CLUSTERS, "spoke1", {"metadata": {"labels": {"accelerator": "l4"}}})
        await on.advance(1)
        assert clusters_of(on, "missing") == ["spoke1"]
        await on.cluster.patch(MANAGED_CLUSTERS, "spoke1", {"metadata": {"labels": {"accelerator": None}}})
        await on.advance(1)
        assert not on.cluster.exists(MULTIKUEUE_CONFIGS, "missing")


@scenario
async def test_a_check_that_goes_takes_the_config_only_when_no_other_needs_it() -> None:
    async with fleet_stage("spoke1") as on:
        await on.join("spoke1")
        with_queue(on)
        on.cluster.put(ADMISSION_CHECKS, check("second", PLACEMENT_CHECK, "default"))
        await on.advance(1)
        on.cluster.remove(ADMISSION_CHECKS, "place")
        await on.advance(1)
        assert not on.cluster.exists(ADMISSION_CHECKS, "place")
        assert clusters_of(on) == ["spoke1"]
        on.cluster.remove(ADMISSION_CHECKS, "second")
        await on.advance(1)
        assert not on.cluster.exists(MULTIKUEUE_CONFIGS, "default")


def workload(on: FleetStage, name: str, *, reserved: bool) -> None:
    condition = {"type": "QuotaReserved", "status": "True" if reserved else "False", "reason": "x", "message": ""}
    checks = [{"name": each, "state": "Pending", "message": ""} for each in ("mk", "place")]
    status = {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}], "admissionChecks": checks}
    on.cluster.put(WORKLOADS, {"metadata": {"name": name, "namespace": "team"}, "spec": {}, "status": status})


def states(on: FleetStage, name: str) -> dict[str, str]:
    found = on.cluster.read(WORKLOADS, name, "team")["status"]["admissionChecks"]
    return {each["name"]: each["state"] for each in found}


@scenario
async def test_the_placement_check_is_answered_on_each_workload_and_again_after_an_eviction() -> None:
    async with fleet_stage("spoke1") as on:
        await on.join("spoke1")
        with_queue(on)
        workload(on, "job", reserved=False)
        await on.advance(1)
        assert states(on, "job") == {"mk": "Pending", "place": "Pending"}, "no quota, no answer"
        for _ in ("first", "after an eviction, which resets every check"):
            workload(on, "job", reserved=True)
            await on.advance(1)
            assert states(on, "job") == {"mk": "Pending", "place": "Ready"}
        words = on.cluster.read(WORKLOADS, "job", "team")["status"]["admissionChecks"][1]["message"]
        assert words == "Placement default selects spoke1"


@scenario
async def test_a_workload_waits_with_a_reason_while_the_placement_selects_nothing() -> None:
    async with fleet_stage("spoke1") as on:
        await on.join("spoke1")
        taint = {"key": "gpuaas.dev/drained", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}
        await on.cluster.patch(MANAGED_CLUSTERS, "spoke1", {"spec": {"taints": [taint]}})
        await on.advance(1)
        with_queue(on)
        workload(on, "job", reserved=True)
        await on.advance(1)
        entry = on.cluster.read(WORKLOADS, "job", "team")["status"]["admissionChecks"][1]
        assert (entry["state"], entry["message"]) == ("Pending", "No clusters available for placement default")
        await on.cluster.patch(MANAGED_CLUSTERS, "spoke1", {"spec": {"taints": None}})
        await on.advance(1)
        assert states(on, "job")["place"] == "Ready"


@scenario
async def test_queues_are_mirrored_without_checks_and_drift_is_repaired() -> None:
    async with fleet_stage("a", "b") as on:
        await on.join("a", gpus=4)
        await on.join("b", gpus=16)
        with_queue(on)
        on.cluster.put(CLUSTER_QUEUES, queue("local-only"))
        await on.advance(1)
        quota = {}
        for name, worker in on.workers.items():
            mirrored = worker.read(CLUSTER_QUEUES, "cluster-queue")
            assert "admissionChecksStrategy" not in mirrored["spec"]
            quota[name] = mirrored["spec"]["resourceGroups"][0]["flavors"][0]["resources"][1]["nominalQuota"]
            assert worker.exists(LOCAL_QUEUES, "user-queue", "team")
            assert worker.exists(RESOURCE_FLAVORS, "default-flavor")
            assert worker.read(PRIORITY_CLASSES, "high")["value"] == 100
            assert worker.read(NAMESPACES, "team")["metadata"]["labels"]["tier"] == "gold"
            assert not worker.exists(CLUSTER_QUEUES, "local-only")
        assert quota == {"a": "4", "b": "8"}, "not more than the cluster has"
        worker = on.workers["b"]
        await worker.patch(CLUSTER_QUEUES, "cluster-queue", {"spec": {"resourceGroups": []}})
        worker.remove(LOCAL_QUEUES, "user-queue", "team")
        await on.advance(31)
        assert worker.read(CLUSTER_QUEUES, "cluster-queue")["spec"]["resourceGroups"]
        assert worker.exists(LOCAL_QUEUES, "user-queue", "team")


@scenario
async def test_what_somebody_else_made_on_a_worker_is_left_alone_and_named() -> None:
    async with fleet_stage("a") as on:
        own = queue("cluster-queue", gpus=1)
        on.workers["a"].put(CLUSTER_QUEUES, own)
        await on.join("a")
        with_queue(on)
        await on.advance(1)
        assert on.workers["a"].read(CLUSTER_QUEUES, "cluster-queue")["spec"] == own["spec"]
        status, _, words = said(on.cluster.read(ADD_ONS, ADD_ON, "a"), "ManifestApplied")
        assert status == "True"
        assert "not ours and different from the hub's: ClusterQueue cluster-queue" in words


@scenario
async def test_a_silent_cluster_becomes_unknown_is_tainted_and_comes_back() -> None:
    async with fleet_stage("a", "b") as on:
        await on.join("a")
        await on.join("b")
        spec = {"clusterSets": ["global"]}
        on.cluster.put(PLACEMENTS, {"metadata": {"name": "strict", "namespace": HUB}, "spec": spec})
        await on.advance(30)
        on.faults["a"] = ConnectionRefusedError("connection refused")
        await on.advance(40)
        assert on.condition("a", AVAILABLE)[0] == "True", "five lease durations have not passed"
        await on.advance(25)
        assert on.condition("a", AVAILABLE) == (
            "Unknown", "ManagedClusterLeaseUpdateStopped", "Registration agent stopped updating its lease.",
        )  # fmt: skip
        cluster = on.cluster.read(MANAGED_CLUSTERS, "a")
        (taint,) = cluster["spec"]["taints"]
        assert (taint["key"], taint["effect"]) == ("cluster.open-cluster-management.io/unreachable", "NoSelect")
        assert "connection refused" in cluster["metadata"]["annotations"]["gpuaas.dev/trouble-connection"]
        assert said(on.cluster.read(ADD_ONS, ADD_ON, "a"), "Available")[0] == "Unknown"
        chosen = {
            name: [
                each["clusterName"]
                for each in on.cluster.read(DECISIONS, f"{name}-decision-1", HUB)["status"]["decisions"]
            ]
            for name in ("default", "strict")
        }
        assert chosen == {"default": ["a", "b"], "strict": ["b"]}, "the placement of the add-on tolerates it"
        del on.faults["a"]
        await on.advance(15)
        assert on.condition("a", AVAILABLE)[0] == "True"
        cluster = on.cluster.read(MANAGED_CLUSTERS, "a")
        assert not cluster["spec"].get("taints")
        assert not cluster["metadata"].get("annotations")


@scenario
async def test_an_api_server_that_answers_with_an_error_is_unavailable_not_unknown() -> None:
    from gpuaas.base.errors import ApiError

    async with fleet_stage("a") as on:
        await on.join("a")
        on.faults["a"] = ApiError("etcd is gone")
        await on.advance(300)
        status, reason, words = on.condition("a", AVAILABLE)
        assert (status, reason) == ("False", "ManagedClusterKubeAPIServerUnavailable")
        assert words == "The kube-apiserver is not ok, status code: 500, etcd is gone"
        (taint,) = on.cluster.read(MANAGED_CLUSTERS, "a")["spec"]["taints"]
        assert taint["key"] == "cluster.open-cluster-management.io/unavailable"


@scenario
async def test_a_token_is_renewed_when_four_fifths_of_its_life_are_over() -> None:
    async with fleet_stage("a") as on:
        await on.join("a")
        first = decoded(on.cluster.read(SECRETS, "multikueue-a", HUB), "kubeconfig")
        # Issued 100 hours ago for 125 hours and some minutes: due in a few of them.
        reference = {"name": "multikueue", "lastRefreshTimestamp": "2025-12-27T20:00:00Z"}
        times = {"tokenSecretRef": reference, "expirationTimestamp": "2026-01-02T01:20:00Z"}
        on.cluster.set_status(MANAGED_ACCOUNTS, "multikueue", "a", **times)
        await on.advance(60)
        assert decoded(on.cluster.read(SECRETS, "multikueue-a", HUB), "kubeconfig") == first
        await on.advance(1200)
        second = decoded(on.cluster.read(SECRETS, "multikueue-a", HUB), "kubeconfig")
        assert second != first
        account = on.cluster.read(MANAGED_ACCOUNTS, "multikueue", "a")
        assert account["status"]["expirationTimestamp"] > "2026-12"


@scenario
async def test_a_permission_that_was_changed_by_hand_is_put_back() -> None:
    async with fleet_stage("a") as on:
        await on.join("a")
        await on.cluster.patch(MANAGED_ACCOUNTS, "multikueue", {"spec": {"rotation": {"validity": "1h"}}}, "a")
        await on.workers["a"].patch(CLUSTER_ROLES, "multikueue", {"rules": []})
        await on.advance(301)
        account = on.cluster.read(MANAGED_ACCOUNTS, "multikueue", "a")
        assert account["spec"]["rotation"]["validity"] == "8640h0m0s"
        assert on.workers["a"].read(CLUSTER_ROLES, "multikueue")["rules"]


@scenario
async def test_a_token_that_the_cluster_refuses_is_replaced() -> None:
    async with fleet_stage("a") as on:
        await on.join("a")
        first = decoded(on.cluster.read(SECRETS, "multikueue", "a"), "token")
        await on.advance(60)
        said_no = {"type": "Active", "status": "False", "reason": "ClientConnectionFailed", "message": "Unauthorized"}
        on.cluster.set_status(MULTIKUEUE_CLUSTERS, "a", conditions=[said_no])
        await on.advance(2)
        assert decoded(on.cluster.read(SECRETS, "multikueue", "a"), "token") != first


@scenario
async def test_a_hand_deleted_connection_comes_back() -> None:
    async with fleet_stage("a") as on:
        await on.join("a")
        on.cluster.remove(MULTIKUEUE_CLUSTERS, "a")
        on.cluster.remove(SECRETS, "multikueue-a", HUB)
        await on.advance(1)
        assert on.connected() == ["a"]
        assert on.cluster.exists(SECRETS, "multikueue-a", HUB)


@scenario
async def test_a_cluster_that_leaves_takes_everything_with_it() -> None:
    async with fleet_stage("a") as on:
        await on.join("a")
        with_queue(on)
        await on.advance(1)
        on.cluster.remove(MANAGED_CLUSTERS, "a")
        await on.advance(5)
        assert not on.cluster.exists(MANAGED_CLUSTERS, "a")
        assert on.connected() == []
        assert not on.cluster.exists(SECRETS, "multikueue-a", HUB)
        assert not on.cluster.exists(PERMISSIONS, "multikueue", "a")
        worker = on.workers["a"]
        assert not worker.all(CLUSTER_QUEUES)
        assert not worker.all(CLUSTER_ROLES)
        assert not worker.exists(SERVICE_ACCOUNTS, "multikueue", ADD_ON_NAMESPACE)


@scenario
async def test_a_cluster_that_cannot_be_reached_may_leave() -> None:
    async with fleet_stage("a") as on:
        await on.join("a")
        on.faults["a"] = OSError("no route to host")
        on.cluster.remove(MANAGED_CLUSTERS, "a")
        await on.advance(5)
        assert not on.cluster.exists(MANAGED_CLUSTERS, "a")
        assert any("no route to host" in each for each in on.cluster.events())


@scenario
async def test_a_score_that_a_person_wrote_stays_and_the_others_are_measured() -> None:
    async with fleet_stage("a") as on:
        await on.join("a", gpus=3)
        score = on.cluster.read(SCORES, "resource-usage-score", "a")
        values = {each["name"]: each["value"] for each in score["status"]["scores"]}
        assert values["gpuClusterAvailable"] == -70, "as the original has it for three GPUs"
        assert score["status"]["scores"][5]["name"] == "gpuClusterAvailable"
        changed = [
            {**each, "value": 95} if each["name"] == "gpuClusterAvailable" else each
            for each in score["status"]["scores"]
        ]
        await on.cluster.patch(
            SCORES, "resource-usage-score", {"status": {"scores": changed}}, "a", subresource="status"
        )
        from gpuaas.client.resources import NODES
        from gpuaas.testing.fleet import node_of

        on.workers["a"].put(NODES, node_of(2))
        await on.advance(400)
        status = on.cluster.read(SCORES, "resource-usage-score", "a")["status"]
        values = {each["name"]: each["value"] for each in status["scores"]}
        assert (values["gpuClusterAvailable"], values["gpuFree"]) == (95, -80)
        assert said({"status": status}, "Measured")[2].endswith("; set by hand: gpuClusterAvailable")
        on.faults["a"] = OSError("gone")
        await on.advance(120)
        from gpuaas.base.clock import parse_rfc3339

        end = on.cluster.read(SCORES, "resource-usage-score", "a")["status"]["validUntil"]
        assert parse_rfc3339(end) < on.clock.now(), "the scores of a silent cluster stop counting"


@scenario
async def test_a_cluster_that_an_admin_wired_by_hand_is_not_connected_twice() -> None:
    from gpuaas.fleet.hub.reading import encoded, kubeconfig

    async with fleet_stage("a", "b") as on:
        await on.join("a")
        await on.join("b")
        text = kubeconfig("x", "https://worker/a", "PEM", "sa", "token")
        on.cluster.put(SECRETS, {"metadata": {"name": "s", "namespace": HUB}, "data": {"kubeconfig": encoded(text)}})
        location = {"locationType": "Secret", "location": "s"}
        spec = {"clusterSource": {"kubeConfig": location}}
        on.cluster.put(MULTIKUEUE_CLUSTERS, {"metadata": {"name": "by-hand"}, "spec": spec})
        await on.advance(1)
        assert on.connected() == ["b", "by-hand"]
        words = on.cluster.read(MANAGED_CLUSTERS, "a")["metadata"]["annotations"]["gpuaas.dev/trouble-duplicate"]
        assert words.startswith("MultiKueueCluster by-hand leads to the same server; fix: kubectl delete ")
        on.cluster.remove(MULTIKUEUE_CLUSTERS, "by-hand")
        await on.advance(1)
        assert on.connected() == ["a", "b"]


@scenario
async def test_strict_leaves_the_placement_check_on_workloads_unanswered_as_the_original_does() -> None:
    async with fleet_stage("spoke1", strict=True) as on:
        await on.join("spoke1")
        with_queue(on)
        workload(on, "job", reserved=True)
        await on.advance(60)
        assert states(on, "job") == {"mk": "Pending", "place": "Pending"}
        assert clusters_of(on) == ["spoke1"]


@scenario
async def test_what_an_admin_made_under_the_names_of_the_add_on_is_not_touched() -> None:
    async with fleet_stage("a", "b") as on:
        secret = {"metadata": {"name": "multikueue-by-hand", "namespace": HUB}, "data": {"kubeconfig": "eA=="}}
        on.cluster.put(SECRETS, secret)
        spec = {"clusterSource": {"kubeConfig": {"locationType": "Secret", "location": "multikueue-by-hand"}}}
        on.cluster.put(MULTIKUEUE_CLUSTERS, {"metadata": {"name": "by-hand"}, "spec": spec})
        taken = {"metadata": {"name": "multikueue-b", "namespace": HUB}, "data": {"kubeconfig": "eA=="}}
        on.cluster.put(SECRETS, taken)
        await on.join("a")
        await on.join("b")
        assert on.connected() == ["a", "by-hand"], "no cluster of that name was ever registered, and it stays"
        assert on.cluster.read(SECRETS, "multikueue-b", HUB)["data"] == taken["data"]
        words = on.cluster.read(MANAGED_CLUSTERS, "b")["metadata"]["annotations"]["gpuaas.dev/trouble-duplicate"]
        assert words.startswith("Secret kueue-system/multikueue-b is not the add-on's; fix: kubectl delete secret ")
        on.cluster.remove(SECRETS, "multikueue-b", HUB)
        await on.advance(1)
        assert on.connected() == ["a", "b", "by-hand"]


@scenario
async def test_a_queue_that_the_hub_deletes_goes_from_the_workers_and_one_that_leaves_the_config_stays() -> None:
    async with fleet_stage("a") as on:
        await on.join("a")
        with_queue(on)
        await on.advance(1)
        taint = {"key": "gpuaas.dev/drained", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}
        await on.cluster.patch(MANAGED_CLUSTERS, "a", {"spec": {"taints": [taint]}})
        await on.advance(60)
        worker = on.workers["a"]
        assert worker.exists(CLUSTER_QUEUES, "cluster-queue"), "what runs there is finished there"
        worker.put(CLUSTER_QUEUES, queue("own"))
        on.cluster.remove(LOCAL_QUEUES, "user-queue", "team")
        on.cluster.remove(CLUSTER_QUEUES, "cluster-queue")
        await on.advance(1)
        assert not worker.exists(LOCAL_QUEUES, "user-queue", "team")
        assert [each["metadata"]["name"] for each in worker.all(CLUSTER_QUEUES)] == ["own"]


@scenario
async def test_another_hubs_queues_on_a_worker_are_left_alone() -> None:
    async with fleet_stage("a") as on:
        on.cluster.put(NAMESPACES, {"metadata": {"name": "kube-system"}})
        of_another = {"labels": {"gpuaas.dev/mirrored-from-hub": "true"}, "annotations": {"gpuaas.dev/hub": "another"}}
        for name in ("theirs", "cluster-queue"):
            found = queue(name, gpus=1)
            on.workers["a"].put(CLUSTER_QUEUES, {**found, "metadata": {"name": name, **of_another}})
        await on.join("a")
        with_queue(on)
        await on.advance(60)
        worker = on.workers["a"]
        assert worker.exists(CLUSTER_QUEUES, "theirs")
        assert worker.read(CLUSTER_QUEUES, "cluster-queue")["spec"] == queue("cluster-queue", gpus=1)["spec"]
        words = said(on.cluster.read(ADD_ONS, ADD_ON, "a"), "ManifestApplied")[2]
        assert "different from the hub's: ClusterQueue cluster-queue" in words
