"""What a path asks for, as RBAC sees it."""

import pytest

from gpuaas.apiserver.requestinfo import request_info


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", ("list", "", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/a/pods", ("list", "", "v1", "pods", "a", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/", ("list", "", "v1", "pods", "a", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/b", ("get", "", "v1", "pods", "a", "b", "")),
        ("HEAD", "/api/v1/namespaces/a/pods/b", ("get", "", "v1", "pods", "a", "b", "")),
        ("POST", "/apis/batch/v1/namespaces/a/jobs", ("create", "batch", "v1", "jobs", "a", "", "")),
        ("PUT", "/apis/batch/v1/namespaces/a/jobs/b/status", ("update", "batch", "v1", "jobs", "a", "b", "status")),
        ("PATCH", "/api/v1/nodes/n", ("patch", "", "v1", "nodes", "", "n", "")),
        ("DELETE", "/api/v1/nodes/n", ("delete", "", "v1", "nodes", "", "n", "")),
        ("DELETE", "/api/v1/nodes", ("deletecollection", "", "v1", "nodes", "", "", "")),
        ("GET", "/api/v1/namespaces", ("list", "", "v1", "namespaces", "", "", "")),
        ("GET", "/api/v1/namespaces/a", ("get", "", "v1", "namespaces", "a", "a", "")),
        ("PUT", "/api/v1/namespaces/a/finalize", ("update", "", "v1", "namespaces", "a", "a", "finalize")),
        ("GET", "/api/v1/namespaces/a/status", ("get", "", "v1", "namespaces", "a", "a", "status")),
        ("GET", "/api/v1/watch/namespaces/a/pods", ("watch", "", "v1", "pods", "a", "", "")),
        ("OPTIONS", "/api/v1/pods", ("", "", "v1", "pods", "", "", "")),
    ],
)  # fmt: skip
def test_a_resource_path(method: str, path: str, expected: tuple[str, ...]) -> None:
    info = request_info(method, path, "")
    assert (info.verb, info.group, info.version, info.resource, info.namespace, info.name, info.subresource) == expected


@pytest.mark.parametrize("path", ["/", "/api", "/apis", "/api/v1", "/apis/batch", "/apis/batch/v1", "/version", "*", "", "api/v1/pods", "//api/v1/pods", "/API/v1/pods"])  # fmt: skip
def test_anything_else_is_a_plain_path_with_its_method_as_verb(path: str) -> None:
    info = request_info("GET", path, "")
    assert (info.resource, info.verb) == ("", "get")


@pytest.mark.parametrize(
    ("query", "verb"),
    [
        ("watch=1", "watch"),
        ("watch=true", "watch"),
        ("watch", "watch"),
        ("watch=0", "list"),
        ("watch=false", "list"),
        ("watch=maybe", "watch"),
        ("", "list"),
    ],
)
def test_a_list_may_be_a_watch(query: str, verb: str) -> None:
    assert request_info("GET", "/api/v1/pods", query).verb == verb


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("metadata.name%3Da", "a"),
        ("metadata.name%3D%3Da", "a"),
        ("status.phase%3DRunning,metadata.name%3Da", "a"),
        ("metadata.name!%3Da", ""),
        ("metadata.namespace%3Da", ""),
        ("metadata.name", ""),
        ("", ""),
    ],
)
def test_a_list_by_name_is_known_as_such(selector: str, selected: str) -> None:
    assert request_info("GET", "/api/v1/pods", f"fieldSelector={selector}").selected == selected


def test_the_first_of_repeated_options_counts_for_permission_and_for_selection_alike() -> None:
    info = request_info("GET", "/api/v1/pods", "fieldSelector=metadata.name%3Da&fieldSelector=metadata.name%3Db")
    assert (info.selected, info.query["fieldSelector"]) == ("a", "metadata.name=a")


@pytest.mark.parametrize(
    ("path", "scoped"),
    [("/api/v1/namespaces/a/namespaces", True), ("/api/v1/namespaces/a/nodes", True), ("/api/v1/namespaces/a", False)],
)
def test_a_path_through_a_namespace_is_known_as_such(path: str, scoped: bool) -> None:
    assert request_info("GET", path, "").scoped is scoped
