"""What a deletion is answered with: the object, or a status."""

from typing import Any

import pytest
from tests.unit.apiserver.conftest import Api


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
