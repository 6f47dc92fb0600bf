"""Small requests at the pages, at KueueViz's addresses and at notebooks that a door must answer, and answer in words."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.attacks.harness import bounded, limit
from tests.attacks.poisons import inject
from tests.attacks.test_web import Web, job
from tests.conformance.service import eventually
from tests.conformance.wire import Answer

from gpuaas.profiles import workbench
from gpuaas.web.pages import job as job_page

JOB = "apiVersion: batch/v1\nkind: Job\n"
JUNK = ("5", "abc", "[1]", "{a: {b: [c]}}", "true", "1.5", "[{}]")


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with bounded(tmp_path_factory.mktemp("doors") / "home", "--fleet", "demo", "--no-fsync") as service:
        found = Web(service)
        cookie = found.sign_in()
        eventually(lambda: found.ask("GET", "/ui/", cookie=cookie).status == 200, lambda: "no page comes")
        yield found


def test_kueueviz_answers_a_query_of_too_many_fields(web: Web) -> None:
    """Without a token, too: a request that is never answered holds its connection."""
    answer = web.ask("GET", f"/api/pod/x?{'a&' * 60}")
    assert answer.status == 400
    assert b"at most 50 fields" in answer.body


@pytest.mark.parametrize("part", ["there", "name", "next"])
def test_signing_in_does_not_lead_to_a_link_of_another_user(web: Web, part: str) -> None:
    """`?next=/ui/enter/SECRET` on another site would leave a user signed in as its author."""
    link = web.link(web.user(f"author-{part}"))
    target = {
        "there": link,
        "name": f"/ui/./{link.removeprefix('/ui/')}",
        "next": f"/ui/jobs/%2e%2e/enter/{link[-43:]}",
    }
    answer = web.post("/ui/sign-in", {"token": web.service.token, "next": target[part]})
    assert answer.status == 303
    assert answer.headers["location"] == "/ui/"


def test_signing_in_leads_back_to_the_page_that_was_asked_for(web: Web) -> None:
    for page in ("/ui/jobs?user=a&q=b%2Fc", "/ui/queues/team-a", "/ui/queues/team-a/stop", "/ui/"):
        answer = web.post("/ui/sign-in", {"token": web.service.token, "next": page})
        assert (answer.status, answer.headers["location"]) == (303, page)


@pytest.mark.parametrize("junk", [*JUNK, "{name: [1]}"])
@pytest.mark.parametrize("where", ["contexts: [{{name: {0}}}]", "contexts: [{{name: local, context: {0}}}]", "users: {0}\nx: y", "users: [{{name: {0}}}]", "contexts: [{{name: local, context: {{user: {0}}}}}]", "users: [{{name: u, user: {0}}}]\ncontexts: [{{name: local, context: {{user: u}}}}]", "current-context: {0}"])  # fmt: skip
def test_a_kubeconfig_of_other_types_is_refused_in_words(web: Web, where: str, junk: str) -> None:
    answer = web.post("/ui/sign-in", {"token": where.format(junk)})
    assert answer.status == 400, answer.body[-600:]


@pytest.mark.parametrize("half", ["manifest", "fields"])
@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("where", ["metadata: {{annotations: {0}}}", "metadata: {{labels: {0}}}", "metadata: {{}}\nspec: {0}", "metadata: {{}}\nspec: {{template: {0}}}", "metadata: {{}}\nspec: {{template: {{spec: {0}}}}}", "metadata: {{}}\nspec: {{template: {{spec: {{containers: {0}}}}}}}", "metadata: {{}}\nspec: {{template: {{spec: {{containers: [{0}]}}}}}}", "metadata: {{}}\nspec: {{template: {{spec: {{containers: [{{resources: {0}}}]}}}}}}", "metadata: {{}}\nspec: {{template: {{spec: {{containers: [{{command: {0}}}]}}}}}}", "metadata: {{}}\nspec: {{template: {{spec: {{containers: [{{resources: {{limits: {0}, requests: {0}}}}}]}}}}}}", "metadata: {{name: {0}}}"])  # fmt: skip
def test_a_manifest_of_other_types_is_refused_in_words(
    signed: tuple[Web, str], where: str, junk: str, half: str
) -> None:
    web, cookie = signed
    query = (
        f"from={half}&namespace=team-a&kind=job&command=x&gpus=1&profile=&manifest={quote(JOB + where.format(junk))}"
    )
    answer = web.ask("GET", f"/ui/submit?{query}", cookie=cookie)
    assert answer.status == 200, _said(answer)


def test_a_kubeconfig_that_is_a_pipe_holds_nothing_up(web: Web, tmp_path: Path) -> None:
    """Reading it would wait for a writer, and with it the whole control plane, at every start."""
    os.mkfifo(tmp_path / "pipe")
    path = "/apis/kueue.x-k8s.io/v1beta1/multikueueclusters"
    spec = {"kubeConfig": {"locationType": "Path", "location": str(tmp_path / "pipe")}}
    made = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "MultiKueueCluster", "metadata": {"name": "pipe"}}
    assert web.service.ask("POST", path, {**made, "spec": spec}).status == 201

    def said() -> str:
        conditions = web.service.ask("GET", f"{path}/pipe").json().get("status", {}).get("conditions", [])
        return " ".join(each["message"] for each in conditions)

    eventually(lambda: "not a regular file" in said(), lambda: f"the condition says: {said()!r}")


@pytest.mark.parametrize("layers", ["[" * 100_000, '[{"topology":"a","size":1e400}]', '[{"topology":"a","size":"1"}]', '[{"topology":"a","size":1.5}]', '[{"topology":"\\ud800","size":1}]', "{}", "5"])  # fmt: skip
def test_layers_of_a_topology_that_are_no_json_are_refused_in_words(web: Web, layers: str) -> None:
    made = job("layers")
    notes = {"podset-slice-required-topology-constraints": layers, "podset-required-topology": "kubernetes.io/hostname"}
    template: dict[str, Any] = made["spec"]["template"]
    template["metadata"] = {"annotations": {f"kueue.x-k8s.io/{key}": value for key, value in notes.items()}}
    answer = web.service.ask("POST", "/apis/batch/v1/namespaces/team-a/jobs", made)
    assert answer.status == 403, answer.body[:300]
    assert b"must be a valid JSON array" in answer.body


@pytest.fixture(scope="module")
def signed(web: Web) -> tuple[Web, str]:
    return web, web.sign_in()


def _said(answer: Answer) -> str:
    return answer.body.decode()[-800:]


@pytest.mark.parametrize("status", ["Queued", "Failed", "Evicted", "Inadmissible"])
@pytest.mark.parametrize(
    "text", ["quota" * 6_000, "queue not " * 3_000, "stop clusterqueu" * 2_000, "not" + " " * 30_000]
)
def test_a_workloads_message_is_put_into_words_at_once(status: str, text: str) -> None:
    """A message has at most 32 KiB; patterns that look for two words took seconds for one of them."""
    began = time.monotonic()
    assert len(workbench.sentence(workbench.State(status, text))) < 3_000
    assert time.monotonic() - began < 0.5


def test_identities_in_a_message_are_left_out_at_once() -> None:
    began = time.monotonic()
    assert job_page.shown_message({"message": "(UID: " * 20_000 + "a (UID: b-c) d"}).endswith("a d")
    assert time.monotonic() - began < 0.5


JUNK_ANNOTATIONS = ("5", '[{"uuid":[1]}]', '[{"uuid":"x","closed":"\\ud800"}]', '[{"card":"x","pid":1,"user":"\\ud800"}]', '{"mig":{"goal":"a","step":"draining","since":' + "9" * 400 + "}}", '{"mig":{"goal":"a","step":"applying","since":Infinity}}', "[" * 100_000, "0=xid:1," * 3_000)  # fmt: skip
NOTES = ("cards", "card-change", "card-faults", "sharing", "gpu-foreign", "device-plugin-config", "card-shares")


def test_junk_in_the_annotations_of_nodes_spoils_no_page_and_no_start(tmp_path: Path) -> None:
    with bounded(tmp_path / "home", "--fleet", "demo", "--no-fsync") as service:
        nodes = service.ask("GET", "/api/v1/nodes").json()["items"]
        *spoiled, _ = [one for one in nodes if "gpuaas.dev/cards" in one["metadata"].get("annotations", {})]
        service.kill()
        for number, node in enumerate(spoiled):
            junk = {
                f"gpuaas.dev/{key}": JUNK_ANNOTATIONS[(number + at) % len(JUNK_ANNOTATIONS)]
                for at, key in enumerate(NOTES)
            }
            node["metadata"]["annotations"] |= junk
        inject(
            tmp_path / "home" / "clusters" / "local.db",
            [(f"/nodes//{one['metadata']['name']}", one) for one in spoiled],
        )
        service.start()
        limit(service)
        found = Web(service)
        cookie = found.sign_in()
        eventually(lambda: found.ask("GET", "/ui/", cookie=cookie).status == 200, lambda: "no page comes")
        for page in (
            "/",
            "/nodes",
            "/cards",
            "/quota",
            "/search?q=l4",
            f"/cards/{spoiled[0]['metadata']['name']}/share?way=none",
        ):
            assert found.ask("GET", f"/ui{page}", cookie=cookie).status == 200, page
        made = job("gpu")
        made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
        path = "/apis/batch/v1/namespaces/team-a/jobs"
        assert service.ask("POST", path, made).status == 201
        eventually(lambda: service.ask("GET", f"{path}/gpu").json()["status"].get("ready") == 1, "no GPU job runs", 20)
        assert "Traceback" not in service.log.read_text()
