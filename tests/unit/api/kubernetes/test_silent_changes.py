"""What is kept otherwise than it was sent, without a word: fields of features that are off, and Go's empty values."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import kind_of, made, pod, with_container, workload


def _projected(*sources: dict[str, Any]) -> dict[str, Any]:
    return {"name": "v", "projected": {"sources": list(sources)}}


TRUST = {"clusterTrustBundle": {"name": "a", "path": "b"}}
CERTIFICATE = {"podCertificate": {"keyType": "ED25519", "signerName": "a.b/c"}}


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"])
def test_fields_of_features_that_are_off_are_left_out(kind: str) -> None:
    containers = [
        {"name": "a", "image": "x", "lifecycle": {"stopSignal": "SIGINT"}},
        {"name": "b", "image": "x", "lifecycle": {"stopSignal": "SIGINT", "preStop": {"sleep": {"seconds": 1}}}},
    ]
    sent = pod(containers=containers, schedulingGroup={"podGroupName": "g"}, volumes=[_projected(TRUST, CERTIFICATE)])
    if kind == "Pod":
        spec = made(sent)["spec"]
    else:
        template = {"metadata": {"labels": {"app": "a"}}, "spec": sent["spec"]}
        spec = made(workload(kind, template=template, serviceName="s"))["spec"]["template"]["spec"]
    assert "schedulingGroup" not in spec
    assert [container.get("lifecycle") for container in spec["containers"]] == [
        None,
        {"preStop": {"sleep": {"seconds": 1}}},
    ]
    assert spec["volumes"][0]["projected"]["sources"] == [{}, {}]


def test_what_go_writes_even_where_nothing_is_said() -> None:
    assert made(pod(volumes=[_projected()]))["spec"]["volumes"][0]["projected"]["sources"] is None


def test_a_role_without_rules_is_owned_as_it_was_sent_and_kept_as_storage_gives_it_back() -> None:
    for sent, owned in (({}, None), ({"rules": []}, [])):
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "x"}, **sent}
        kind_of(role).behaviour.default(role)
        assert role["rules"] == owned
        assert made(role)["rules"] is None


def test_a_lifecycle_that_says_nothing_is_kept() -> None:
    assert made(with_container(lifecycle={}))["spec"]["containers"][0]["lifecycle"] == {}
