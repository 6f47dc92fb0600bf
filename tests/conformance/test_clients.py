"""The Python clients people use, unmodified: each creates, watches, patches and deletes, built-in kinds and custom ones.

What each must see is the same: the events of its own changes, in order, and nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.service import Service, eventually

# The clients leave connections to the garbage collector, which tells; ours are closed.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <(ssl|socket|function _Selector):pytest.PytestUnraisableExceptionWarning"
    ),
]
NAMESPACE = "default"
QUEUES = {"group": "kueue.x-k8s.io", "version": "v1beta2"}
EXPECTED = [("ADDED", "one"), ("MODIFIED", "two"), ("DELETED", "two")]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What a client left open is closed here, not in somebody else's test."""
    yield
    gc.collect()


def config_map(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"test": name}},
        "data": {"value": "one"},
    }


def cluster_queue(name: str) -> dict[str, Any]:
    quota = {"name": "cpu", "nominalQuota": 4}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
    }


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


class TestKubernetes:
    """The official client."""

    @pytest.fixture
    def api(self, service: Service) -> Any:
        from kubernetes import config

        api = config.new_client_from_config(str(service.kubeconfig))
        yield api
        api.close()

    def test_a_built_in_kind_is_created_watched_patched_and_deleted(self, api: Any) -> None:
        from kubernetes import client, watch

        core = client.CoreV1Api(api)
        seen: list[tuple[str, str]] = []
        start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

        def follow() -> None:
            stream = watch.Watch().stream(
                core.list_namespaced_config_map,
                NAMESPACE,
                label_selector="test=official",
                resource_version=start,
                timeout_seconds=30,
            )
            for event in stream:
                seen.append((event["type"], event["object"].data["value"]))
                if event["type"] == "DELETED":
                    return

        watcher = threading.Thread(target=follow)
        watcher.start()
        made = core.create_namespaced_config_map(NAMESPACE, config_map("official"))
        assert made.metadata.uid
        patched = core.patch_namespaced_config_map("official", NAMESPACE, {"data": {"value": "two"}})
        assert patched.data == {"value": "two"}
        assert [
            item.metadata.name
            for item in core.list_namespaced_config_map(NAMESPACE, label_selector="test=official").items
        ] == ["official"]
        core.delete_namespaced_config_map("official", NAMESPACE)
        watcher.join(30)
        assert seen == EXPECTED
        with pytest.raises(client.ApiException) as gone:
            core.read_namespaced_config_map("official", NAMESPACE)
        assert gone.value.status == 404

    def test_a_typed_object_round_trips(self, api: Any) -> None:
        from kubernetes import client

        batch = client.BatchV1Api(api)
        container = client.V1Container(name="main", image="busybox", command=["true"])
        pod = client.V1PodTemplateSpec(spec=client.V1PodSpec(restart_policy="Never", containers=[container]))
        job = client.V1Job(
            metadata=client.V1ObjectMeta(name="typed"), spec=client.V1JobSpec(template=pod, suspend=True)
        )
        made = batch.create_namespaced_job(NAMESPACE, job)
        assert (made.spec.backoff_limit, made.spec.completions, made.spec.suspend) == (6, 1, True)
        batch.delete_namespaced_job("typed", NAMESPACE, propagation_policy="Background")

    def test_a_custom_kind_is_created_patched_and_deleted(self, api: Any) -> None:
        from kubernetes import client

        custom = client.CustomObjectsApi(api)
        made = custom.create_cluster_custom_object(**QUEUES, plural="clusterqueues", body=cluster_queue("official"))
        assert made["spec"]["queueingStrategy"] == "BestEffortFIFO"
        patch = {"spec": {"cohortName": "team"}}
        patched = custom.patch_cluster_custom_object(**QUEUES, plural="clusterqueues", name="official", body=patch)
        assert patched["spec"]["cohortName"] == "team"
        custom.delete_cluster_custom_object(**QUEUES, plural="clusterqueues", name="official")
        eventually(
            lambda: (
                "official" not in names(custom.list_cluster_custom_object(**QUEUES, plural="clusterqueues")["items"])
            ),
            "it is still there",
        )


def test_kubernetes_asyncio_creates_watches_patches_and_deletes(service: Service) -> None:
    from kubernetes_asyncio import client, config, watch

    async def story() -> list[tuple[str, str]]:
        await config.load_kube_config(str(service.kubeconfig))
        async with client.ApiClient() as api:
            core, custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
            start = (await core.list_namespaced_config_map(NAMESPACE)).metadata.resource_version

            async def follow() -> list[tuple[str, str]]:
                seen = []
                async with watch.Watch() as events:
                    async for event in events.stream(
                        core.list_namespaced_config_map,
                        NAMESPACE,
                        label_selector="test=async",
                        resource_version=start,
                        timeout_seconds=30,
                    ):
                        seen.append((event["type"], event["object"].data["value"]))
                        if event["type"] == "DELETED":
                            break
                return seen

            following = asyncio.create_task(follow())
            await core.create_namespaced_config_map(NAMESPACE, config_map("async"))
            await core.patch_namespaced_config_map("async", NAMESPACE, {"data": {"value": "two"}})
            await core.delete_namespaced_config_map("async", NAMESPACE)
            flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "async"}}
            made = await custom.create_cluster_custom_object(**QUEUES, plural="resourceflavors", body=flavor)
            assert made["metadata"]["uid"]
            await custom.delete_cluster_custom_object(**QUEUES, plural="resourceflavors", name="async")
            return await asyncio.wait_for(following, 30)

    assert asyncio.run(story()) == EXPECTED


@pytest.mark.filterwarnings("ignore:Kubernetes version v1.36:UserWarning")  # kr8s names the newest it was tried with
def test_kr8s_creates_watches_patches_and_deletes(service: Service) -> None:
    import kr8s.asyncio
    from kr8s.asyncio.objects import ConfigMap, new_class

    async def story() -> list[tuple[str, str]]:
        api = await kr8s.asyncio.api(kubeconfig=str(service.kubeconfig))
        seen: list[tuple[str, str]] = []

        async def follow() -> None:
            async for event, obj in api.watch("configmaps", namespace=NAMESPACE, label_selector="test=kr8s"):
                seen.append((event, obj.raw["data"]["value"]))
                if event == "DELETED":
                    return

        following = asyncio.create_task(follow())
        made = await ConfigMap(config_map("kr8s"), api=api)
        await made.create()
        await _until(lambda: len(seen) == 1)
        await made.patch({"data": {"value": "two"}})
        assert made.raw["data"]["value"] == "two"
        await _until(lambda: len(seen) == 2)
        await made.delete()
        await asyncio.wait_for(following, 30)

        queue = new_class(kind="ClusterQueue", version="kueue.x-k8s.io/v1beta2", namespaced=False)
        custom = await queue(cluster_queue("kr8s"), api=api)
        await custom.create()
        assert await custom.exists()
        await custom.patch({"spec": {"stopPolicy": "Hold"}})
        assert custom.raw["spec"]["stopPolicy"] == "Hold"
        await custom.delete()
        return seen

    assert asyncio.run(story()) == EXPECTED


async def _until(done: Any) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


class TestLightkube:
    @pytest.fixture
    def client(self, service: Service) -> Any:
        import lightkube
        from lightkube.config.kubeconfig import KubeConfig

        return lightkube.Client(config=KubeConfig.from_file(str(service.kubeconfig)), field_manager="lightkube")

    def test_a_built_in_kind_is_created_watched_patched_applied_and_deleted(self, client: Any) -> None:
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap

        seen: list[tuple[str, str]] = []

        def follow() -> None:
            for event, obj in client.watch(ConfigMap, namespace=NAMESPACE, labels={"test": "light"}, server_timeout=30):
                seen.append((event, obj.data["value"]))
                if event == "DELETED":
                    return

        watcher = threading.Thread(target=follow)
        watcher.start()
        meta = ObjectMeta(name="light", namespace=NAMESPACE, labels={"test": "light"})
        client.create(ConfigMap(metadata=meta, data={"value": "one"}))
        eventually(lambda: len(seen) == 1, "no event")
        client.patch(ConfigMap, "light", {"data": {"value": "two"}}, namespace=NAMESPACE)
        eventually(lambda: len(seen) == 2, "no event")
        applied = client.apply(ConfigMap(metadata=meta, data={"value": "two"}), force=True)
        assert any(each.operation == "Apply" and each.manager == "lightkube" for each in applied.metadata.managedFields)
        client.delete(ConfigMap, "light", namespace=NAMESPACE)
        watcher.join(30)
        assert [event for event in seen if event != ("MODIFIED", "two")] == [("ADDED", "one"), ("DELETED", "two")]

    def test_a_custom_kind_is_created_patched_and_deleted(self, client: Any) -> None:
        from lightkube.generic_resource import create_global_resource
        from lightkube.types import PatchType

        queues = create_global_resource("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues")
        made = client.create(queues(metadata={"name": "light"}, spec=cluster_queue("light")["spec"]))
        assert made.spec["queueingStrategy"] == "BestEffortFIFO"
        patched = client.patch(queues, "light", {"spec": {"cohortName": "team"}}, patch_type=PatchType.MERGE)
        assert patched.spec["cohortName"] == "team"
        client.delete(queues, "light")
        eventually(lambda: all(each.metadata.name != "light" for each in client.list(queues)), "it is still there")


OPERATOR = """
import kopf


@kopf.on.startup()
def settings(settings, **_):
    settings.posting.enabled = False
    settings.scanning.disabled = True


@kopf.on.create("example.org", "v1", "greetings")
def made(spec, name, **_):
    return {"said": f"hello {spec['whom']}"}


@kopf.on.update("example.org", "v1", "greetings", field="spec.whom")
def changed(new, patch, **_):
    patch.status["said"] = f"hello {new}"


@kopf.on.delete("example.org", "v1", "greetings")
def gone(name, **_):
    print(f"goodbye {name}", flush=True)
"""


@pytest.fixture
def greetings(service: Service) -> Any:
    """A user's own kind, for the operator."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"whom": {"type": "string"}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "greetings", "singular": "greeting", "kind": "Greeting"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "greetings.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert service.ask("POST", path, definition).status == 201
    yield f"/apis/example.org/v1/namespaces/{NAMESPACE}/greetings"
    service.ask("DELETE", f"{path}/greetings.example.org")


def test_a_kopf_operator_works_through_create_update_and_delete(
    service: Service, greetings: str, tmp_path: Path
) -> None:
    (tmp_path / "operator.py").write_text(OPERATOR)
    with (tmp_path / "said").open("wb") as said:
        operator = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "kopf",
                "run",
                "--standalone",
                "--namespace",
                NAMESPACE,
                str(tmp_path / "operator.py"),
            ],
            env={**os.environ, "KUBECONFIG": str(service.kubeconfig)},
            stdout=said,
            stderr=said,
        )
    try:
        obj = {
            "apiVersion": "example.org/v1",
            "kind": "Greeting",
            "metadata": {"name": "first"},
            "spec": {"whom": "you"},
        }
        assert service.ask("POST", greetings, obj).status == 201
        status = lambda: service.ask("GET", f"{greetings}/first").json().get("status") or {}  # noqa: E731 - two words
        eventually(lambda: (status().get("made") or {}).get("said") == "hello you", (tmp_path / "said").read_text)
        service.ask("PATCH", f"{greetings}/first", {"spec": {"whom": "us"}}, media="application/merge-patch+json")
        eventually(lambda: status().get("said") == "hello us", (tmp_path / "said").read_text)
        assert service.ask("GET", f"{greetings}/first").json()["metadata"]["finalizers"] == [
            "kopf.zalando.org/KopfFinalizerMarker"
        ]
        assert service.ask("DELETE", f"{greetings}/first").status == 200
        eventually(lambda: service.ask("GET", f"{greetings}/first").status == 404, (tmp_path / "said").read_text)
        assert "goodbye first" in (tmp_path / "said").read_text()
    finally:
        operator.terminate()
        operator.wait(30)
