"""What pod templates name goes to the cluster of the job and goes from there with it."""

from typing import Any

import pytest

from gpuaas.client.kueue import WORKLOADS
from gpuaas.client.ocm import MISSING
from gpuaas.client.resources import CONFIG_MAPS, SECRETS
from gpuaas.fleet.hub.dependencies import COPY, TOKEN, Named, named_by
from gpuaas.testing.fleet import FleetStage, fleet_stage
from gpuaas.testing.time import scenario

Object = dict[str, Any]
MAP, SECRET = "ConfigMap", "Secret"


def workload(name: str = "w", cluster: str = "", **spec: Any) -> Object:
    pod = {"containers": [{"name": "c"}], **spec}
    status = {"clusterName": cluster} if cluster else {}
    metadata = {"name": name, "namespace": "team"}
    return {"metadata": metadata, "spec": {"podSets": [{"name": "main", "template": {"spec": pod}}]}, "status": status}


def container(**fields: Any) -> Object:
    return {"name": "c", **fields}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({}, []),
        ({"volumes": [{"name": "v", "configMap": {"name": "a"}}]}, [Named(MAP, "a")]),
        ({"volumes": [{"name": "v", "secret": {"secretName": "a", "optional": True}}]}, [Named(SECRET, "a", True)]),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "a"}}, {"configMap": {"name": "b"}}]}}]},
            [Named(MAP, "b"), Named(SECRET, "a")],
        ),
        ({"containers": [container(envFrom=[{"secretRef": {"name": "a"}}])]}, [Named(SECRET, "a")]),
        (
            {"initContainers": [container(env=[{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}])]},
            [Named(MAP, "a")],
        ),
        ({"imagePullSecrets": [{"name": "a"}]}, [Named(SECRET, "a", True)]),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]}, [Named("PersistentVolumeClaim", "a")]),
        ({"serviceAccountName": "trainer"}, [Named("ServiceAccount", "trainer")]),
        ({"serviceAccountName": "default"}, []),
        ({"volumes": [{"name": "v", "configMap": {"name": "kube-root-ca.crt"}}]}, []),
        (
            {
                "imagePullSecrets": [{"name": "a"}],
                "containers": [container(envFrom=[{"secretRef": {"name": "a"}}])],
            },
            [Named(SECRET, "a")],
        ),
    ],
)  # fmt: skip
def test_what_a_template_names(spec: Object, named: list[Named]) -> None:
    assert named_by(workload(**spec)) == named


USES = {"volumes": [{"name": "v", "configMap": {"name": "settings"}}, {"name": "t", "secret": {"secretName": "token"}}]}


def on_the_hub(on: FleetStage) -> None:
    on.cluster.put(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "team"}, "data": {"lr": "1e-4"}})
    on.cluster.put(
        SECRETS, {"metadata": {"name": "token", "namespace": "team"}, "data": {"t": "aGY="}, "type": "Opaque"}
    )


@scenario
async def test_copies_are_made_where_the_job_goes_and_belong_to_its_remote_workload() -> None:
    async with fleet_stage("a", "b") as on:
        await on.join("a")
        await on.join("b")
        on_the_hub(on)
        on.cluster.put(WORKLOADS, workload(cluster="a", **USES))
        await on.advance(2)
        worker = on.workers["a"]
        assert not worker.all(CONFIG_MAPS, "team"), "nothing to belong to yet"
        remote = worker.put(WORKLOADS, workload(**USES))
        await on.advance(2)
        for resource, name in ((CONFIG_MAPS, "settings"), (SECRETS, "token")):
            copy = worker.read(resource, name, "team")
            assert copy["data"] == on.cluster.read(resource, name, "team")["data"]
            assert [each["uid"] for each in copy["metadata"]["ownerReferences"]] == [remote["metadata"]["uid"]]
        assert not on.workers["b"].all(CONFIG_MAPS, "team")


@scenario
async def test_a_second_job_that_names_it_owns_it_too() -> None:
    async with fleet_stage("a") as on:
        await on.join("a")
        on_the_hub(on)
        for name in ("one", "two"):
            on.workers["a"].put(WORKLOADS, workload(name, **USES))
            on.cluster.put(WORKLOADS, workload(name, cluster="a", **USES))
            await on.advance(2)
        copy = on.workers["a"].read(CONFIG_MAPS, "settings", "team")
        assert [each["name"] for each in copy["metadata"]["ownerReferences"]] == ["one", "two"]


@scenario
async def test_the_workers_own_objects_are_used_as_they_are() -> None:
    async with fleet_stage("a") as on:
        await on.join("a")
        on_the_hub(on)
        on.workers["a"].put(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "team"}, "data": {"lr": "own"}})
        on.workers["a"].put(WORKLOADS, workload(**USES))
        on.cluster.put(WORKLOADS, workload(cluster="a", **USES))
        await on.advance(2)
        own = on.workers["a"].read(CONFIG_MAPS, "settings", "team")
        assert own["data"] == {"lr": "own"}
        assert COPY not in (own["metadata"].get("labels") or {})


@scenario
async def test_what_is_missing_is_said_and_no_token_of_an_account_travels() -> None:
    async with fleet_stage("a") as on:
        await on.join("a")
        on.cluster.put(SECRETS, {"metadata": {"name": "token", "namespace": "team"}, "type": TOKEN, "data": {"t": "x"}})
        uses = {**USES, "serviceAccountName": "trainer"}
        on.workers["a"].put(WORKLOADS, workload(**uses))
        on.cluster.put(WORKLOADS, workload(cluster="a", **uses))
        await on.advance(2)
        assert not on.workers["a"].exists(SECRETS, "token", "team")
        said = on.cluster.read(WORKLOADS, "w", "team")["metadata"]["annotations"][MISSING]
        assert said == (
            'ConfigMap "settings" exists neither here nor on cluster a; Secret "token" exists neither here nor on '
            'cluster a; ServiceAccount "trainer" does not exist on cluster a'
        )
        on_the_hub(on)
        from gpuaas.client.resources import SERVICE_ACCOUNTS

        on.workers["a"].put(SERVICE_ACCOUNTS, {"metadata": {"name": "trainer", "namespace": "team"}})
        await on.advance(20)
        assert MISSING not in (on.cluster.read(WORKLOADS, "w", "team")["metadata"].get("annotations") or {})
