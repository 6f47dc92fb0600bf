"""The profile webhook's default answers: where they differ from upstream, and that the rest is upstream's."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.profiles.admission import Answer, Profiles, review
from gpuaas.profiles.webhook import NAME, NAMESPACE
from gpuaas.profiles.workloads import WORKLOADS, found

CPU = {"displayName": "CPU", "identifier": "cpu", "minCount": 1, "defaultCount": 2, "maxCount": 4}
MEMORY = {"displayName": "Memory", "identifier": "memory", "minCount": "1Gi", "defaultCount": "2Gi", "maxCount": "8Gi"}
GPU = {"displayName": "GPU", "identifier": "nvidia.com/gpu", "minCount": 1, "defaultCount": 1, "maxCount": 2}
TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
OWN = {"key": "mine", "operator": "Exists"}
BY_NODE = {"type": "Node", "node": {"nodeSelector": {"gpu": "l4"}, "tolerations": [TAINT]}}
BY_QUEUE = {"type": "Queue", "kueue": {"localQueueName": "team-queue", "priorityClass": "high"}}
QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
NOTEBOOKS = ("kubeflow.org", "notebooks")


def profile(name: str = "small", *identifiers: Any, namespace: str = "team", title: str = "", **scheduling: Any) -> Any:
    notes = {"annotations": {"opendatahub.io/display-name": title}} if title else {}
    spec: dict[str, Any] = {"identifiers": list(identifiers or (CPU,))}
    if scheduling:
        spec["scheduling"] = scheduling
    return {"metadata": {"name": name, "namespace": namespace, **notes}, "spec": spec}


def notebook(name: str = "small", *, where: str = "", labels: Any = None, resources: Any = None, **pod: Any) -> Any:
    notes = {key: text for key, text in ((NAME, name), (NAMESPACE, where)) if text}
    container = {"name": "nb", **({"resources": resources} if resources else {})}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "Notebook",
        "metadata": {"name": "nb", "namespace": "team", "annotations": notes, **({"labels": labels} if labels else {})},
        "spec": {"template": {"spec": {"containers": [container], **pod}}},
    }


def reviewed(obj: Any, *stored: Any, old: Any = None, kind: tuple[str, str] = NOTEBOOKS) -> Answer:
    def listed(namespace: str) -> list[Any]:
        return [one for one in stored if one["metadata"]["namespace"] == namespace]

    return review(WORKLOADS[kind], obj, old, Profiles(listed, ("shared",)), "team")


def pod_of(answer: Answer) -> Any:
    assert not answer.refusal
    assert not answer.errors
    return answer.object["spec"]["template"]["spec"]


def resources_of(answer: Answer) -> Any:
    return pod_of(answer)["containers"][0]["resources"]


def test_a_profile_of_the_shared_namespace_is_found_and_written_down() -> None:
    answer = reviewed(notebook(), profile(namespace="shared"))
    notes = answer.object["metadata"]["annotations"]
    assert (notes[NAME], notes[NAMESPACE]) == ("small", "shared")
    assert resources_of(answer) == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}


def test_the_own_namespace_comes_first_and_a_named_one_is_the_only_one() -> None:
    stored = profile("small", CPU), profile("small", MEMORY, namespace="shared")
    assert "cpu" in resources_of(reviewed(notebook(), *stored))["requests"]
    assert "memory" in resources_of(reviewed(notebook(where="shared"), *stored))["requests"]
    assert reviewed(notebook(where="elsewhere"), *stored).refusal


def test_a_display_name_finds_the_profile() -> None:
    answer = reviewed(notebook("NVIDIA L4 1GPU"), profile("l4-1gpu", GPU, title="NVIDIA L4 1GPU"))
    assert answer.object["metadata"]["annotations"][NAME] == "l4-1gpu"


def test_a_display_name_of_two_profiles_finds_none() -> None:
    stored = profile("a", title="One"), profile("b", title="One")
    assert reviewed(notebook("One"), *stored).refusal


def test_a_missing_profile_is_refused_with_those_there_are() -> None:
    refusal = reviewed(notebook("smal"), profile(), profile("large", namespace="shared")).refusal
    assert refusal == "hardware profile 'smal' not found in namespace 'team'; there are: small, large"


def test_names_of_other_peoples_profiles_are_not_told() -> None:
    stored = profile("small"), profile("theirs", namespace="other")
    refusal = reviewed(notebook("nope", where="other"), *stored).refusal
    assert refusal == "hardware profile 'nope' not found in namespace 'other'"


def test_the_priority_class_becomes_a_label_unless_the_user_set_one() -> None:
    by_queue = profile("small", CPU, **BY_QUEUE)
    labels = reviewed(notebook(), by_queue).object["metadata"]["labels"]
    assert labels == {QUEUE: "team-queue", PRIORITY: "high"}
    labels = reviewed(notebook(labels={PRIORITY: "low"}), by_queue).object["metadata"]["labels"]
    assert labels == {PRIORITY: "low", QUEUE: "team-queue"}


@pytest.mark.parametrize(
    ("resources", "path", "words"),
    [
        ({"requests": {"cpu": "64"}}, "requests[cpu]", 'Invalid value: "64": must be at most 4 (maxCount of hardware'),
        ({"requests": {"cpu": "500m"}}, "requests[cpu]", 'Invalid value: "500m": must be at least 1 (minCount of'),
        ({"limits": {"cpu": "5"}}, "limits[cpu]", 'Invalid value: "5": must be at most 4'),
    ],
)
def test_amounts_outside_of_the_bounds_are_refused_by_field(resources: Any, path: str, words: str) -> None:
    errors = reviewed(notebook(resources=resources), profile()).errors
    texts = [str(error) for error in errors]
    assert any(f"spec.template.spec.containers[0].resources.{path}: {words}" in text for text in texts), texts


def test_bounds_compare_amounts_and_not_their_spelling() -> None:
    resources = {"requests": {"memory": "8192Mi"}, "limits": {"memory": "8Gi"}}
    assert not reviewed(notebook(resources=resources), profile("small", MEMORY)).errors


def test_what_was_accepted_before_does_not_block_another_change() -> None:
    """An administrator narrowed the profile: the notebook can still be stopped, but not made larger."""
    running = notebook(where="team", resources={"requests": {"cpu": "4"}, "limits": {"cpu": "4"}})
    narrowed = profile("small", {**CPU, "maxCount": 2})
    stopped = {
        **running,
        "metadata": {**running["metadata"], "annotations": {NAME: "small", NAMESPACE: "team", "s": "1"}},
    }
    assert not reviewed(stopped, narrowed, old=running).errors
    larger = notebook(where="team", resources={"requests": {"cpu": "4"}, "limits": {"cpu": "6"}})
    assert [error.path for error in reviewed(larger, narrowed, old=running).errors] == [
        "spec.template.spec.containers[0].resources.limits[cpu]"
    ]


@pytest.mark.parametrize(
    ("identifier", "limit", "expected"),
    [(GPU, "2", "2"), (CPU, "1", "1"), (CPU, "4", "2")],
    ids=["accelerators are never shared out", "a smaller limit bounds the request", "a larger one leaves the default"],
)
def test_a_limit_without_a_request(identifier: Any, limit: str, expected: str) -> None:
    name = identifier["identifier"]
    found_resources = resources_of(
        reviewed(notebook(resources={"limits": {name: limit}}), profile("small", identifier))
    )
    assert found_resources == {"requests": {name: expected}, "limits": {name: limit}}


def test_a_profile_that_is_gone_blocks_no_update_of_what_runs_with_it() -> None:
    before = notebook(where="team")
    answer = reviewed({**before, "spec": before["spec"]}, old=before)
    assert not answer.refusal
    assert answer.warnings == (
        "hardware profile 'small' is gone from namespace 'team': what it had set stays, nothing is added",
    )
    assert reviewed(notebook("other", where="team"), old=before).refusal


def test_another_profile_takes_what_the_first_set_and_nothing_else() -> None:
    l4 = profile("l4", CPU, GPU, **BY_NODE)
    before = reviewed(notebook("l4", nodeSelector={"disk": "ssd"}, tolerations=[OWN]), l4).object
    after = {**before, "metadata": {**before["metadata"], "annotations": {NAME: "small"}}}
    pod = pod_of(reviewed(after, l4, profile("small", CPU), old=before))
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [OWN]
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}


def test_a_number_changed_together_with_the_profile_stays() -> None:
    l4 = profile("l4", CPU)
    before = reviewed(notebook("l4"), l4).object
    wanted = notebook("small", resources={"requests": {"cpu": "3"}, "limits": {"cpu": "3"}})
    assert resources_of(reviewed(wanted, l4, profile("small", CPU), old=before))["requests"] == {"cpu": "3"}


def test_taking_the_profile_away_leaves_the_users_own() -> None:
    l4 = profile("l4", GPU, **BY_NODE)
    before = reviewed(notebook("l4", tolerations=[OWN]), l4).object
    without = {**before, "metadata": {**before["metadata"], "annotations": {NAMESPACE: "team"}}}
    answer = reviewed(without, l4, old=before)
    assert NAMESPACE not in answer.object["metadata"]["annotations"]
    assert pod_of(answer)["tolerations"] == [OWN]
    assert "nodeSelector" not in pod_of(answer)


def test_the_same_update_changes_nothing() -> None:
    stored = profile("l4", CPU, GPU, **BY_NODE)
    once = reviewed(notebook("l4"), stored).object
    assert reviewed(once, stored, old=once).object == once


def test_a_queue_says_nothing_about_nodes() -> None:
    both = profile("small", CPU, **BY_QUEUE, node=BY_NODE["node"])
    assert "nodeSelector" not in pod_of(reviewed(notebook(), both))


def test_a_disabled_profile_applies_with_a_warning() -> None:
    disabled = profile()
    disabled["metadata"]["annotations"] = {"opendatahub.io/disabled": "true"}
    answer = reviewed(notebook(), disabled)
    assert answer.warnings == ("hardware profile 'small' is disabled; it still applies",)
    assert resources_of(answer)


def test_a_count_that_is_no_quantity_is_refused_with_the_profile_named() -> None:
    answer = reviewed(notebook(), profile("small", {**CPU, "defaultCount": "lots"}))
    assert answer.refusal.startswith("hardware profile 'team/small' cannot be read: ")


# -- The kinds ----------------------------------------------------------------------------------------------------------

POD = {"spec": {"containers": [{"name": "main"}]}}


def _workload(spec: Any) -> Any:
    return {"metadata": {"name": "w", "namespace": "team", "annotations": {NAME: "gpu"}}, "spec": spec}


KINDS: list[tuple[tuple[str, str], Any, list[tuple[tuple[str | int, ...], bool]]]] = [
    (("batch", "jobs"), {"template": POD}, [(("spec", "template", "spec"), True)]),
    (("apps", "deployments"), {"template": POD}, [(("spec", "template", "spec"), True)]),
    (("apps", "statefulsets"), {"template": POD}, [(("spec", "template", "spec"), True)]),
    (("", "pods"), POD["spec"], [(("spec",), True)]),
    (
        ("batch", "cronjobs"),
        {"jobTemplate": {"spec": {"template": POD}}},
        [(("spec", "jobTemplate", "spec", "template", "spec"), True)],
    ),
    (
        ("jobset.x-k8s.io", "jobsets"),
        {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": POD}}}]},
        [(("spec", "replicatedJobs", 0, "template", "spec", "template", "spec"), True)],
    ),
    (
        ("kubeflow.org", "pytorchjobs"),
        {"pytorchReplicaSpecs": {"Master": {"template": POD}, "Worker": {"template": POD}}},
        [
            (("spec", "pytorchReplicaSpecs", "Master", "template", "spec"), True),
            (("spec", "pytorchReplicaSpecs", "Worker", "template", "spec"), True),
        ],
    ),
    (
        ("kubeflow.org", "mpijobs"),
        {"mpiReplicaSpecs": {"Launcher": {"template": POD}, "Worker": {"template": POD}}},
        [
            (("spec", "mpiReplicaSpecs", "Launcher", "template", "spec"), False),
            (("spec", "mpiReplicaSpecs", "Worker", "template", "spec"), True),
        ],
    ),
    (
        ("ray.io", "rayclusters"),
        {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"template": POD}]},
        [
            (("spec", "headGroupSpec", "template", "spec"), False),
            (("spec", "workerGroupSpecs", 0, "template", "spec"), True),
        ],
    ),
    (
        ("ray.io", "rayclusters"),
        {"headGroupSpec": {"template": POD}},
        [(("spec", "headGroupSpec", "template", "spec"), True)],
    ),
]


@pytest.mark.parametrize(("kind", "spec", "pods"), KINDS, ids=[".".join(reversed(kind)) for kind, _, _ in KINDS])
def test_every_kind_of_job_gets_resources_and_tolerations(kind: Any, spec: Any, pods: Any) -> None:
    answer = reviewed(_workload(spec), profile("gpu", CPU, GPU, **BY_NODE), kind=kind)
    assert not answer.refusal
    for path, accelerators in pods:
        pod = found(answer.object, path)
        wanted = {"cpu": "2"} | ({"nvidia.com/gpu": "1"} if accelerators else {})
        assert pod["containers"][0]["resources"] == {"requests": wanted, "limits": wanted}
        assert pod["tolerations"] == [TAINT]


def test_a_job_that_was_made_is_not_changed_by_its_profile() -> None:
    """Its pods are immutable: what a profile adds later would make every update of it fail."""
    job = _workload({"template": POD})
    job["metadata"]["annotations"][NAMESPACE] = "team"
    answer = reviewed(job, profile("gpu", GPU), old=job, kind=("batch", "jobs"))
    assert answer.object == job
