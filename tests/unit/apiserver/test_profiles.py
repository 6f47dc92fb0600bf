"""Hardware profiles over the API: what public manifests become, injection into workloads, and the strict answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.unit.apiserver.conftest import Answer, Api

from gpuaas.base.strict import read_strict

NEW = "/apis/infrastructure.opendatahub.io/v1/namespaces/redhat-ods-applications/hardwareprofiles"
OLD = "/apis/dashboard.opendatahub.io/v1alpha1/namespaces/redhat-ods-applications/hardwareprofiles"
NOTEBOOKS = "/apis/kubeflow.org/v1/namespaces/team/notebooks"
NAME = "opendatahub.io/hardware-profile-name"


def _furnished(api: Api) -> Api:
    for name in ("redhat-ods-applications", "team"):
        api.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return api


@pytest.fixture(scope="module")
def kind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    api = _furnished(Api(tmp_path_factory.mktemp("kind")))
    yield api
    api.close()


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    api = _furnished(Api(tmp_path_factory.mktemp("strict"), read_strict("odh")))
    yield api
    api.close()


# As public repositories write them: the old kind, the new kind with old fields, fields that no version had.
MANIFESTS = list(
    yaml.safe_load_all("""\
apiVersion: dashboard.opendatahub.io/v1alpha1
kind: HardwareProfile
metadata: {name: nvidia-shared-gpu, namespace: redhat-ods-applications}
spec:
  displayName: Shared GPU (Time-Sliced)
  description: For notebooks.
  enabled: true
  identifiers:
  - {identifier: nvidia.com/gpu, displayName: NVIDIA GPU (Shared), defaultCount: 1, minCount: 1, maxCount: 1}
  resourceLimits:
  - {name: memory, default: 8Gi, max: 16Gi}
---
apiVersion: dashboard.opendatahub.io/v1alpha1
kind: HardwareProfile
metadata: {name: nvidia-mig-small, namespace: redhat-ods-applications}
spec:
  displayName: Small slice
  enabled: true
  identifiers:
  - {identifier: nvidia.com/mig-1g.5gb, displayName: MIG 1g.5gb, defaultCount: 1, minCount: 1, maxCount: 1}
---
apiVersion: dashboard.opendatahub.io/v1alpha1
kind: HardwareProfile
metadata: {name: nvidia-gpu-fairshare, namespace: redhat-ods-applications}
spec:
  displayName: Shared GPU (Queue)
  enabled: true
  identifiers:
  - {identifier: nvidia.com/gpu, displayName: NVIDIA GPU, defaultCount: 1, minCount: 1, maxCount: 4}
  allocationStrategy: {kind: LocalQueue, localQueue: {name: default}}
---
apiVersion: infrastructure.opendatahub.io/v1
kind: HardwareProfile
metadata: {name: new-kind-old-fields, namespace: redhat-ods-applications}
spec:
  displayName: Dual GPU
  description: Two cards.
  enabled: false
  identifiers:
  - {identifier: nvidia.com/gpu, displayName: GPU, count: 2}
---
apiVersion: infrastructure.opendatahub.io/v1alpha1
kind: HardwareProfile
metadata: {name: older-version, namespace: redhat-ods-applications}
spec:
  identifiers:
  - {identifier: cpu, displayName: CPU, minCount: 1, maxCount: 4, defaultCount: 2, resourceType: CPU}
  nodeSelector: {gpu: l4}
""")
)
OLD_ONES = [each for each in MANIFESTS if each["apiVersion"].startswith("dashboard.")]
NEW_ONES = [each for each in MANIFESTS if each not in OLD_ONES]


def _post(api: Api, manifest: Any, *, validation: str = "Strict") -> Answer:
    """With kubectl's own choice of field validation."""
    api_version = manifest["apiVersion"]
    path = f"/apis/{api_version}/namespaces/redhat-ods-applications/hardwareprofiles"
    return api.send("POST", path, manifest, fieldValidation=validation, dryRun="All")


@pytest.mark.parametrize("manifest", NEW_ONES, ids=lambda each: each["metadata"]["name"])
def test_older_fields_are_converted_and_the_new_form_is_shown(kind: Api, strict: Api, manifest: Any) -> None:
    made = _post(kind, manifest)
    assert made.status == 201, made.body
    assert any("is read as" in warning for warning in made.warnings)
    assert not {"displayName", "enabled", "nodeSelector"} & made.body["spec"].keys()
    refused = _post(strict, manifest)
    assert refused.status in (400, 422), refused.body


def test_counts_and_texts_arrive_in_the_stored_object(kind: Api) -> None:
    stored = _post(kind, NEW_ONES[0]).body
    assert stored["metadata"]["annotations"] == {
        "opendatahub.io/display-name": "Dual GPU",
        "opendatahub.io/description": "Two cards.",
        "opendatahub.io/disabled": "true",
    }
    assert stored["spec"] == {
        "identifiers": [
            {"identifier": "nvidia.com/gpu", "displayName": "GPU", "minCount": 2, "defaultCount": 2, "maxCount": 2}
        ]
    }


@pytest.mark.parametrize("manifest", OLD_ONES, ids=lambda each: each["metadata"]["name"])
def test_the_old_kind_is_accepted_with_its_new_form_and_strictly_refused(kind: Api, strict: Api, manifest: Any) -> None:
    made = _post(kind, manifest)
    assert made.status == 201, made.body
    assert any("is read as infrastructure.opendatahub.io/v1 HardwareProfile" in each for each in made.warnings)
    refused = _post(strict, manifest)
    assert refused.status == 403
    assert refused.body["message"].endswith(
        "denied the request: dashboard.opendatahub.io/HardwareProfile is not supported, please use"
        " infrastructure.opendatahub.io/HardwareProfile"
    )


def test_patching_in_an_old_field_converts_it_too(kind: Api) -> None:
    """What `kubectl apply` sends the second time for a manifest with old fields."""
    name = "patched"
    plain = {"metadata": {"name": name}, "spec": {"identifiers": []}}
    assert kind.send("POST", NEW, plain).status == 201
    patch = {"spec": {"displayName": "Again"}}
    merged = kind.send("PATCH", f"{NEW}/{name}", patch, "application/merge-patch+json", fieldValidation="Strict")
    assert merged.status == 200, merged.body
    assert merged.body["metadata"]["annotations"] == {"opendatahub.io/display-name": "Again"}
    assert "displayName" not in merged.body["spec"]


def test_server_side_apply_converts_too(kind: Api) -> None:
    manifest = {**NEW_ONES[0], "metadata": {"name": "applied", "namespace": "redhat-ods-applications"}}
    path = f"{NEW}/applied"
    made = kind.send("PATCH", path, json.dumps(manifest), "application/apply-patch+yaml", fieldManager="me")
    assert made.status == 201, made.body
    assert made.body["metadata"]["annotations"]["opendatahub.io/display-name"] == "Dual GPU"


# -- Injection ----------------------------------------------------------------------------------------------------------


def _notebook(profile: str, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "nb", "annotations": {NAME: profile}},
        "spec": {"template": {"spec": {"containers": [{"name": "nb", "image": "i", **more}]}}},
    }


def test_a_profile_of_the_old_kind_applies_at_once(kind: Api) -> None:
    assert kind.send("POST", OLD, OLD_ONES[0]).status == 201
    made = kind.send("POST", NOTEBOOKS, _notebook("nvidia-shared-gpu"), dryRun="All")
    assert made.status == 201, made.body
    wanted = {"nvidia.com/gpu": "1", "memory": "8Gi"}
    container = made.body["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"requests": wanted, "limits": wanted}


def test_a_queue_profile_makes_the_workload_wait_in_that_queue(kind: Api) -> None:
    spec = {"identifiers": [], "scheduling": {"type": "Queue", "kueue": {"localQueueName": "q", "priorityClass": "p"}}}
    assert kind.send("POST", NEW, {"metadata": {"name": "queued"}, "spec": spec}).status == 201
    made = kind.send("POST", NOTEBOOKS, _notebook("queued"), dryRun="All")
    assert made.status == 201, made.body
    labels = made.body["metadata"]["labels"]
    assert labels == {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "p"}
    assert made.body["metadata"]["annotations"]["kubeflow-resource-stopped"] == "kueue.x-k8s.io/suspended"


def test_a_resource_that_no_node_has_is_warned_of(kind: Api) -> None:
    assert kind.send("POST", OLD, OLD_ONES[1]).status == 201
    made = kind.send("POST", NOTEBOOKS, _notebook("nvidia-mig-small"), dryRun="All")
    wanted = "hardware profile 'nvidia-mig-small': no node of this cluster offers nvidia.com/mig-1g.5gb"
    assert any(wanted in each for each in made.warnings)


def test_amounts_beyond_the_profile_are_refused_by_field(kind: Api, strict: Api) -> None:
    spec = {
        "identifiers": [{"displayName": "CPU", "identifier": "cpu", "minCount": 1, "defaultCount": 1, "maxCount": 2}]
    }
    for api in (kind, strict):
        where = NEW.replace("redhat-ods-applications", "team")
        assert api.send("POST", where, {"metadata": {"name": "bounded"}, "spec": spec}).status == 201
    wanted = _notebook("bounded", resources={"requests": {"cpu": "8"}})
    refused = kind.send("POST", NOTEBOOKS, wanted, dryRun="All")
    assert refused.status == 422
    assert refused.body["details"]["causes"][0]["field"] == "spec.template.spec.containers[0].resources.requests[cpu]"
    assert strict.send("POST", NOTEBOOKS, wanted, dryRun="All").status == 201  # upstream bounds the form alone


def test_a_missing_profile_is_refused_in_upstreams_words_when_strict(kind: Api, strict: Api) -> None:
    assert kind.send("POST", NOTEBOOKS, _notebook("gone"), dryRun="All").status == 400
    refused = strict.send("POST", NOTEBOOKS, _notebook("gone"), dryRun="All")
    assert refused.status == 400
    assert refused.body["message"] == (
        'admission webhook "hardwareprofile-notebook-injector.opendatahub.io" denied the request: '
        "hardware profile 'gone' not found in namespace 'team'"
    )


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"minCount": 1, "defaultCount": "lots"}, "spec.identifiers[0].defaultCount: 'lots' is no amount"),
        ({"minCount": 5, "defaultCount": 5, "maxCount": 4}, "cannot exceed the maximum"),
        ({"minCount": 1, "defaultCount": 2, "maxCount": 4}, ""),
    ],
)
def test_the_author_of_a_profile_is_warned_of_what_the_schema_lets_pass(kind: Api, counts: Any, words: str) -> None:
    spec = {"identifiers": [{"displayName": "CPU", "identifier": "cpu", **counts}]}
    made = kind.send("POST", NEW, {"metadata": {"name": "warned"}, "spec": spec}, dryRun="All")
    assert made.status == 201
    assert any(words in each for each in made.warnings) if words else not made.warnings


def test_strictly_only_upstreams_kinds_are_looked_at(strict: Api) -> None:
    job = {
        "metadata": {"name": "j", "annotations": {NAME: "gone"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    }
    body = {"apiVersion": "batch/v1", "kind": "Job", **job}
    assert strict.send("POST", "/apis/batch/v1/namespaces/team/jobs", body, dryRun="All").status == 201


def test_strictly_a_container_by_another_name_is_told_by_an_event(strict: Api) -> None:
    spec = {"identifiers": [{"displayName": "CPU", "identifier": "cpu", "minCount": 1, "defaultCount": 1}]}
    where = NEW.replace("redhat-ods-applications", "team")
    assert strict.send("POST", where, {"metadata": {"name": "c"}, "spec": spec}).status == 201
    wanted = _notebook("c")
    wanted["spec"]["template"]["spec"]["containers"] = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    assert strict.send("POST", NOTEBOOKS, wanted).status == 201
    event = strict.send("GET", "/api/v1/namespaces/team/events/nb.hwp-container-name-mismatch")
    assert event.body["reason"] == "ContainerNameMismatch"
