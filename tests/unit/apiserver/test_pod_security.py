"""Pod security as a client sees it: who is refused, who is warned, and when."""

import pytest
from tests.unit.apiserver.conftest import MERGE, Api

PREFIX = "pod-security.kubernetes.io/"
NAMESPACES = "/api/v1/namespaces"
BARE = {"containers": [{"name": "a", "image": "x"}]}
HOST = {**BARE, "hostNetwork": True}


@pytest.fixture(scope="module", autouse=True)
def namespaces(api: Api) -> None:
    for name, labels in (("safe", {"enforce": "baseline", "warn": "restricted"}), ("free", {})):
        said = {f"{PREFIX}{key}": value for key, value in labels.items()}
        assert api.send("POST", NAMESPACES, {"metadata": {"name": name, "labels": said}}).status == 201
        account = {"metadata": {"name": "default"}}
        api.send("POST", f"{NAMESPACES}/{name}/serviceaccounts", account)


def test_a_pod_is_refused_or_warned_of(api: Api) -> None:
    pods = f"{NAMESPACES}/safe/pods"
    refused = api.send("POST", pods, {"metadata": {"name": "p"}, "spec": HOST})
    assert (refused.status, refused.body["message"]) == (
        403,
        'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)',
    )
    warned = api.send("POST", pods, {"metadata": {"name": "p"}, "spec": BARE})
    assert warned.status == 201
    assert 'would violate PodSecurity \\"restricted:latest\\": allowPriv' in warned.headers["warning"][0]
    labelled = api.send("PATCH", f"{pods}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert "warning" not in labelled.headers


def test_a_template_is_only_warned_of(api: Api) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": HOST}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = api.send("POST", "/apis/apps/v1/namespaces/safe/deployments", {"metadata": {"name": "d"}, "spec": spec})
    assert made.status == 201
    assert 'would violate PodSecurity \\"restricted:latest\\": host namespaces' in made.headers["warning"][0]


def test_a_namespace_is_told_of_its_pods_and_of_levels_there_are_not(api: Api) -> None:
    assert api.send("POST", f"{NAMESPACES}/free/pods", {"metadata": {"name": "p"}, "spec": HOST}).status == 201
    strict = api.send("PATCH", f"{NAMESPACES}/free", {"metadata": {"labels": {f"{PREFIX}enforce": "baseline"}}}, MERGE)
    assert strict.status == 200
    assert "p: host namespaces" in str(strict.headers)
    wrong = api.send("PATCH", f"{NAMESPACES}/free", {"metadata": {"labels": {f"{PREFIX}enforce": "none"}}}, MERGE)
    assert wrong.status == 422
    assert "must be one of privileged, baseline, restricted" in wrong.body["message"]
