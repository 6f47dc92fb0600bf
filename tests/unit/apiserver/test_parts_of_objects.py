"""Scale, binding, eviction, log and token at work: each changes what is its own and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from gpuaas.apiserver.http import Stream, StreamWriter

from .conftest import JSON_PATCH, MERGE, Api, Collected

NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module", autouse=True)
def account(api: Api) -> None:
    """A controller makes it in a running server; none runs here."""
    api.send("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})


def pod(api: Api, name: str, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec}}
    made = api.send("POST", PODS, body)
    assert made.status == 201, made


def deployment(api: Api, name: str) -> None:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    assert api.send("POST", DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec}).status == 201


class TestScale:
    def test_it_shows_the_count_and_the_selector(self, api: Api) -> None:
        deployment(api, "shown")
        scale = api.send("GET", f"{DEPLOYMENTS}/shown/scale").body
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert scale["spec"] == {"replicas": 2}
        assert scale["status"] == {"replicas": 0, "selector": "app=shown"}

    @pytest.mark.parametrize(
        ("method", "content", "body"),
        [
            ("PUT", "application/json", {"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 5}}),
            ("PATCH", MERGE, {"spec": {"replicas": 5}}),
            ("PATCH", JSON_PATCH, [{"op": "replace", "path": "/spec/replicas", "value": 5}]),
        ],
    )
    def test_it_changes_the_count_and_nothing_else(self, api: Api, method: str, content: str, body: Any) -> None:
        api.send("DELETE", f"{DEPLOYMENTS}/web")
        deployment(api, "web")
        before = api.send("GET", f"{DEPLOYMENTS}/web").body
        assert api.send(method, f"{DEPLOYMENTS}/web/scale", body, content).body["spec"] == {"replicas": 5}
        after = api.send("GET", f"{DEPLOYMENTS}/web").body
        assert after["spec"] == {**before["spec"], "replicas": 5}
        assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1

    def test_a_stale_scale_is_refused(self, api: Api) -> None:
        deployment(api, "stale")
        body = {"metadata": {"name": "stale", "namespace": "default", "resourceVersion": "1"}, "spec": {"replicas": 1}}
        assert api.send("PUT", f"{DEPLOYMENTS}/stale/scale", body).status == 409

    @pytest.mark.parametrize("replicas", [-1, "x", 1.5, True])
    def test_a_count_that_is_none_is_refused(self, api: Api, replicas: Any) -> None:
        api.send("DELETE", f"{DEPLOYMENTS}/none")
        deployment(api, "none")
        assert api.send("PATCH", f"{DEPLOYMENTS}/none/scale", {"spec": {"replicas": replicas}}, MERGE).status == 422
        assert api.send("GET", f"{DEPLOYMENTS}/none").body["spec"]["replicas"] == 2

    def test_what_is_not_there_has_no_scale_and_some_kinds_never_have(self, api: Api) -> None:
        assert api.send("GET", f"{DEPLOYMENTS}/nothing/scale").status == 404
        assert api.send("GET", f"{PODS}/nothing/scale").status == 404


class TestBinding:
    def test_a_pod_gets_its_node_once(self, api: Api) -> None:
        pod(api, "bound")
        target = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n1"}}
        assert api.send("POST", f"{PODS}/bound/binding", target).status == 201
        found = api.send("GET", f"{PODS}/bound").body
        assert found["spec"]["nodeName"] == "n1"
        assert [each["status"] for each in found["status"]["conditions"] if each["type"] == "PodScheduled"] == ["True"]
        again = api.send("POST", f"{PODS}/bound/binding", target)
        assert (again.status, "is already assigned to node" in again.message) == (409, True)

    def test_the_old_way_names_the_pod_in_the_body(self, api: Api) -> None:
        pod(api, "older")
        body = {"metadata": {"name": "older"}, "target": {"kind": "Node", "name": "n2"}}
        assert api.send("POST", f"{NAMESPACE}/bindings", body).status == 201
        assert api.send("GET", f"{PODS}/older").body["spec"]["nodeName"] == "n2"
        assert api.send("POST", f"{NAMESPACE}/bindings", {"target": {"name": "n"}}).status == 422

    def test_a_gated_pod_cannot_be_bound(self, api: Api) -> None:
        pod(api, "gated", schedulingGates=[{"name": "example.org/wait"}])
        answer = api.send("POST", f"{PODS}/gated/binding", {"target": {"kind": "Node", "name": "n1"}})
        assert (answer.status, "schedulingGates" in answer.message) == (409, True)


class TestEviction:
    def test_a_pod_is_evicted(self, api: Api) -> None:
        pod(api, "evicted")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
        answer = api.send("POST", f"{PODS}/evicted/eviction", body)
        assert (answer.status, answer.body["status"]) == (201, "Success")
        assert api.send("GET", f"{PODS}/evicted").status == 404

    def test_it_is_only_made(self, api: Api) -> None:
        assert api.send("GET", f"{PODS}/named/eviction").status in (404, 405)


class TestLog:
    @pytest.fixture
    def writes(self, api: Api) -> Iterator[str]:
        pod(api, "writes", nodeName="n1")
        api.send("PATCH", f"{PODS}/writes/status", {"status": {"phase": "Running"}}, MERGE)
        yield f"{PODS}/writes/log"
        api.send("DELETE", f"{PODS}/writes", gracePeriodSeconds="0")
        api.parts.cluster.logs = None

    def read(self, api: Api, path: str, **query: str) -> tuple[bytes, bool]:
        """What came, and whether it came to its end."""
        found = api._answer(api._request("GET", path, None, "", None, query))
        assert isinstance(found, Stream)
        collected = Collected()

        async def follow() -> None:
            gone = found.start(cast("StreamWriter", collected))
            for _ in range(20):
                await asyncio.sleep(0)
            gone()

        api.run(follow())
        return b"".join(collected.lines), collected.closed

    def test_what_is_there_comes_with_the_options_asked_for(self, api: Api, writes: str) -> None:
        asked: list[Any] = []

        class Source:
            async def read(self, found: Any, options: Any) -> Any:
                asked.append((found["metadata"]["name"], options.tail_lines, options.follow, options.since))
                yield b"one\n"
                yield b"two\n"

        api.parts.cluster.logs = Source()  # type: ignore[assignment]
        now = api.clock.now()
        assert self.read(api, writes, tailLines="2", follow="true", sinceSeconds="60") == (b"one\ntwo\n", True)
        assert asked == [("writes", 2, True, now - 60)]

    def test_a_source_that_breaks_ends_the_answer(self, api: Api, writes: str) -> None:
        class Source:
            async def read(self, found: Any, options: Any) -> Any:
                yield b"one\n"
                raise OSError("the file is gone")

        api.parts.cluster.logs = Source()  # type: ignore[assignment]
        assert self.read(api, writes) == (b"one\n", True)

    def test_a_pod_that_is_not_there_has_none(self, api: Api) -> None:
        assert api.send("GET", f"{PODS}/nobody/log").status == 404

    @pytest.mark.parametrize(
        "query", [{"tailLines": "-1"}, {"tailLines": "x"}, {"sinceSeconds": "0"}, {"sinceTime": "x"}]
    )
    def test_options_that_are_none_are_refused(self, api: Api, writes: str, query: dict[str, str]) -> None:
        assert api.send("GET", writes, **query).status in (400, 422)


def test_a_token_is_made_for_an_account_that_is_there(api: Api) -> None:
    path = f"{NAMESPACE}/serviceaccounts"
    made = api.send("POST", f"{path}/default/token", {"spec": {"expirationSeconds": 600}})
    assert made.status == 201
    bearer = {"authorization": f"Bearer {made.body['status']['token']}"}
    who = api.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, headers=bearer)
    assert who.body["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    assert api.send("POST", f"{path}/nobody/token", {}).status == 404
    assert api.send("POST", f"{path}/default/token", {"spec": {"expirationSeconds": 5}}).status == 422


@pytest.mark.parametrize("path", ["status/more", "scale/x", "log/../..", "nothing"])
def test_nothing_lies_below_a_subresource(api: Api, path: str) -> None:
    assert api.send("GET", f"{PODS}/quiet/{path}").status == 404


def test_a_container_that_is_added_to_look_inside_makes_another_generation(api: Api) -> None:
    pod(api, "looked-into")
    body = {"spec": {"ephemeralContainers": [{"name": "look", "image": "busybox"}]}}
    added = api.send("PATCH", f"{PODS}/looked-into/ephemeralcontainers", body, MERGE).body
    assert (added["metadata"]["generation"], len(added["spec"]["ephemeralContainers"])) == (2, 1)
