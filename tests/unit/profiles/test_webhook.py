"""What applying a hardware profile changes in a workload."""

from __future__ import annotations

from typing import Any

import pytest

from gpuaas.profiles.queue_label import review_deprecated, review_queue_label
from gpuaas.profiles.webhook import NAME, NAMESPACE, Answer, review

GPU = {"displayName": "GPU", "identifier": "nvidia.com/gpu", "minCount": 1, "defaultCount": 1, "maxCount": 2}
CPU = {"displayName": "CPU", "identifier": "cpu", "minCount": 1, "defaultCount": "1.5"}
TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
BY_NODE = {"type": "Node", "node": {"nodeSelector": {"gpu": "l4"}, "tolerations": [TAINT]}}
BY_QUEUE = {"type": "Queue", "kueue": {"localQueueName": "team-queue"}}


def profile(*identifiers: dict[str, Any], **scheduling: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"identifiers": list(identifiers)}
    return {"metadata": {"name": "small", "namespace": "team"}, "spec": {**spec, **scheduling}}


def notebook(*containers: dict[str, Any], name: str = "small", labels: Any = None, **pod: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "nb", "namespace": "team"}
    if name:
        metadata["annotations"] = {NAME: name}
    if labels:
        metadata["labels"] = labels
    spec = {"containers": list(containers) or [{"name": "nb"}], **pod}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "Notebook",
        "metadata": metadata,
        "spec": {"template": {"spec": spec}},
    }


def applied(obj: Any, *stored: Any, old: Any = None) -> Answer:
    known = {(p["metadata"]["namespace"], p["metadata"]["name"]): p for p in stored}
    return review("UPDATE" if old else "CREATE", obj, old, lambda where, name: known.get((where, name)))


def pod_of(answer: Answer) -> Any:
    assert answer.allowed
    assert answer.object is not None
    return answer.object["spec"]["template"]["spec"]


def test_a_missing_request_becomes_the_default_and_a_missing_limit_the_request() -> None:
    container = {"name": "nb", "resources": {"requests": {"cpu": "3"}}}
    pod = pod_of(applied(notebook(container), profile(GPU, CPU)))
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "3", "nvidia.com/gpu": "1"},
        "limits": {"cpu": "3", "nvidia.com/gpu": "1"},
    }


def test_the_namespace_that_was_implied_is_written_down() -> None:
    answer = applied(notebook(), profile(CPU))
    assert answer.object is not None
    assert answer.object["metadata"]["annotations"][NAMESPACE] == "team"


def test_nothing_is_written_into_the_object_that_was_sent() -> None:
    sent = notebook()
    before = repr(sent)
    applied(sent, profile(GPU, scheduling=BY_NODE))
    assert repr(sent) == before


def test_a_queue_is_a_label_and_leaves_nodes_alone() -> None:
    answer = applied(notebook(labels={"kueue.x-k8s.io/queue-name": "mine"}), profile(GPU, scheduling=BY_QUEUE))
    assert answer.object is not None
    assert answer.object["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-queue"
    assert answer.warnings == (
        "label 'kueue.x-k8s.io/queue-name' has value 'mine' which will be overwritten by HardwareProfile 'small' which has"
        " value 'team-queue'",
    )


def test_selectors_merge_and_the_profiles_tolerations_come_first() -> None:
    own = {"key": "mine", "operator": "Exists"}
    answer = applied(
        notebook(nodeSelector={"disk": "ssd", "gpu": "t4"}, tolerations=[own, TAINT]), profile(scheduling=BY_NODE)
    )
    assert pod_of(answer)["nodeSelector"] == {"disk": "ssd", "gpu": "l4"}
    assert pod_of(answer)["tolerations"] == [TAINT, own]
    assert len(answer.warnings) == 1


def test_of_several_containers_the_one_named_like_the_notebook_is_meant() -> None:
    pod = pod_of(applied(notebook({"name": "proxy"}, {"name": "nb"}), profile(GPU)))
    assert "resources" not in pod["containers"][0]
    assert pod["containers"][1]["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def test_a_workload_whose_containers_do_not_match_is_admitted_with_a_warning_and_an_event() -> None:
    answer = applied(notebook({"name": "a"}, {"name": "b"}), profile(GPU))
    assert answer.allowed
    assert "rename your container to 'nb'" in answer.warnings[0]
    assert answer.events[0].name == "nb.hwp-container-name-mismatch"


def test_another_profile_clears_scheduling_first() -> None:
    old = notebook(name="before")
    new = notebook(nodeSelector={"zone": "a"}, tolerations=[{"key": "mine"}])
    pod = pod_of(applied(new, profile(scheduling=BY_NODE), old=old))
    assert (pod["nodeSelector"], pod["tolerations"]) == ({"gpu": "l4"}, [TAINT])


def test_without_its_name_a_profile_takes_back_what_it_set() -> None:
    old = notebook()
    new = notebook(name="", nodeSelector={"gpu": "l4", "disk": "ssd"}, tolerations=[TAINT])
    pod = pod_of(applied(new, profile(GPU, scheduling=BY_NODE), old=old))
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert "tolerations" not in pod


@pytest.mark.parametrize(
    ("obj", "stored", "code", "message"),
    [
        (notebook(), (), 400, "hardware profile 'small' not found in namespace 'team'"),
        ({"apiVersion": "v1", "kind": "Pod"}, (), 400, "unexpected kind: Pod"),
        (notebook(), (profile({**CPU, "defaultCount": "lots"}),), 500, "failed to convert resource quantity for cpu"),
        (notebook(), (profile({**CPU, "defaultCount": 1 << 32}),), 500, "cannot unmarshal number 4294967296"),
    ],
)
def test_what_is_refused(obj: Any, stored: Any, code: int, message: str) -> None:
    answer = applied(obj, *stored)
    assert (answer.allowed, answer.code) == (False, code)
    assert message in answer.message


def test_a_workload_of_a_kueue_namespace_needs_a_queue() -> None:
    namespace = {"metadata": {"labels": {"kueue.openshift.io/managed": "true"}}}
    cluster = {"status": {"components": {"kueue": {"managementState": "Managed"}}}}
    refused = review_queue_label("CREATE", notebook(), namespace, [cluster])
    assert (refused.code, refused.reason) == (403, "Forbidden")
    labelled = notebook(labels={"kueue.x-k8s.io/queue-name": "q"})
    assert review_queue_label("CREATE", labelled, namespace, [cluster]).allowed
    assert review_queue_label("CREATE", notebook(), {"metadata": {}}, [cluster]).allowed


def test_the_dashboards_old_kinds_are_refused_but_may_go() -> None:
    old = ("dashboard.opendatahub.io/v1alpha1", "HardwareProfile")
    assert review_deprecated("CREATE", *old).code == 403
    assert review_deprecated("DELETE", *old).allowed
