"""Classes that stand in for claims and ingresses, and what who deletes something is answered with."""

from typing import Any

import pytest
from tests.unit.apiserver.conftest import MERGE, Api

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"


def _default(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {f"{kind}.kubernetes.io/is-default-class": "true"}}, **more}


def _claim(name: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": spec}


def test_a_claim_gets_the_default_class_and_grows_only_if_that_lets_it(api: Api) -> None:
    assert "storageClassName" not in api.send("POST", CLAIMS, _claim("before")).body["spec"]
    fixed = _default("fixed", "storageclass", provisioner="x.y")
    assert api.send("POST", CLASSES, fixed).status == 201
    assert api.send("POST", CLAIMS, _claim("after")).body["spec"]["storageClassName"] == "fixed"
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert api.send("PATCH", f"{CLAIMS}/after", larger, MERGE).status == 422
    api.send("PATCH", f"{CLAIMS}/after/status", {"status": {"phase": "Bound"}}, MERGE)
    refused = api.send("PATCH", f"{CLAIMS}/after", larger, MERGE)
    assert refused.status == 403
    assert "the storageclass that provisions the pvc must support resize" in refused.body["message"]
    api.send("PATCH", f"{CLASSES}/fixed", {"allowVolumeExpansion": True}, MERGE)
    assert api.send("PATCH", f"{CLAIMS}/after", larger, MERGE).status == 200
    assert api.send("DELETE", f"{CLASSES}/fixed").body["kind"] == "StorageClass"


def test_an_ingress_gets_the_default_class_when_it_is_made_and_not_later(api: Api) -> None:
    backend = {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}
    api.send("POST", INGRESSES, {"metadata": {"name": "before"}, "spec": backend})
    classes = "/apis/networking.k8s.io/v1/ingressclasses"
    api.send("POST", classes, _default("usual", "ingressclass", spec={"controller": "a.b/c"}))
    after = api.send("POST", INGRESSES, {"metadata": {"name": "after"}, "spec": backend}).body
    changed = api.send("PATCH", f"{INGRESSES}/before", {"metadata": {"labels": {"a": "b"}}}, MERGE).body
    assert (after["spec"]["ingressClassName"], "ingressClassName" in changed["spec"]) == ("usual", False)
    assert api.send("DELETE", f"{classes}/usual").body["status"] == "Success"


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("/api/v1/namespaces/default/services", {"spec": {"ports": [{"port": 80}]}}, "Service"),
        ("/api/v1/namespaces/default/serviceaccounts", {}, "ServiceAccount"),
        ("/api/v1/namespaces/default/configmaps", {}, "Status"),
        ("/apis/apps/v1/namespaces/default/controllerrevisions", {"revision": 1}, "Status"),
        ("/apis/resource.k8s.io/v1/deviceclasses", {"spec": {}}, "DeviceClass"),
    ],
)
def test_some_are_given_back_to_who_deletes_them(api: Api, path: str, body: dict[str, Any], answer: str) -> None:
    assert api.send("POST", path, {"metadata": {"name": "gone"}, **body}).status == 201
    assert api.send("DELETE", f"{path}/gone").body["kind"] == answer
    assert api.send("GET", f"{path}/gone").status == 404
