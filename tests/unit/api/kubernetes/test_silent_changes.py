"""What is kept otherwise than it was sent, without a word: fields of features that are off, and Go's empty values."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import changed, kind_of, made, pod, with_container, workload


def _projected(*sources: dict[str, Any]) -> dict[str, Any]:
    return {"name": "v", "projected": {"sources": list(sources)}}


TRUST = {"clusterTrustBundle": {"name": "a", "path": "b"}}
CERTIFICATE = {"podCertificate": {"keyType": "ED25519", "signerName": "a.b/c"}}
TOKEN = {"serviceAccountToken": {"path": "token"}}


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


def test_a_source_in_another_namespace_is_left_out_of_a_claim() -> None:
    reference = {"apiGroup": "a.b", "kind": "X", "name": "y"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"dataSourceRef": reference}}
    assert made(claim)["spec"]["dataSource"] == reference
    foreign = {**claim, "spec": {"dataSourceRef": {**reference, "namespace": "z"}}}
    assert not made(foreign)["spec"].keys() & {"dataSource", "dataSourceRef"}
    later, _ = changed({**claim, "spec": {}}, {"spec": foreign["spec"]})
    assert not later["spec"].keys() & {"dataSource", "dataSourceRef"}


def test_what_go_writes_even_where_nothing_is_said() -> None:
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "spec": {"azureFile": {"secretName": "a"}}}
    assert made(volume)["spec"]["azureFile"] == {"secretName": "a", "shareName": "", "secretNamespace": None}
    ingress = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"}
    backend = {"resource": {"kind": "X", "name": "y"}}
    sent = {"defaultBackend": backend, "rules": [{"http": {"paths": [{"path": "/", "backend": backend}]}}]}
    spec = made({**ingress, "spec": sent})["spec"]
    assert spec["defaultBackend"]["resource"]["apiGroup"] is None
    assert spec["rules"][0]["http"]["paths"][0]["backend"]["resource"]["apiGroup"] is None
    assert made(pod(volumes=[_projected()]))["spec"]["volumes"][0]["projected"]["sources"] is None


def test_a_role_without_rules_is_owned_as_it_was_sent_and_kept_as_storage_gives_it_back() -> None:
    for sent, owned in (({}, None), ({"rules": []}, [])):
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "x"}, **sent}
        kind_of(role).behaviour.default(role)
        assert role["rules"] == owned
        assert made(role)["rules"] is None


def _items(*paths: str) -> list[dict[str, str]]:
    return [{"key": "k", "path": path} for path in paths]


WARNINGS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing in the way": ({"configMap": {"name": "c", "items": _items("a", "ab", "b/c")}}, []),
    "the same file twice": (
        {"configMap": {"name": "c", "items": _items("a", "a/")}},
        ['volume "v" (ConfigMap "c"): overlapping paths: "a" with "a"'],
    ),
    "a file where a folder is": (
        {"secret": {"secretName": "s", "items": _items("a/b", "a")}},
        ['volume "v" (Secret "s"): overlapping paths: "a" with "a/b"'],
    ),
    "a source without anything": (
        _projected(TRUST, {}),
        ['volume "v" (Projected) has no sources provided'] * 2,
    ),
    "two sources with one file": (
        _projected(TOKEN, {"secret": {"name": "s", "items": _items("token/x")}}),
        ['volume "v" (Projected): overlapping paths: "token/x" (Secret "s") with "token" (ServiceAccountToken)'],
    ),
}


@pytest.mark.parametrize(("volume", "warned"), WARNINGS.values(), ids=list(WARNINGS))
def test_files_in_each_others_way_are_warned_of(volume: dict[str, Any], warned: list[str]) -> None:
    obj = made(pod(volumes=[{"name": "v", **volume}]))
    assert list(kind_of(obj).behaviour.warnings(obj, None)) == warned


def test_a_lifecycle_that_says_nothing_is_kept() -> None:
    assert made(with_container(lifecycle={}))["spec"]["containers"][0]["lifecycle"] == {}
