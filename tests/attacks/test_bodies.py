"""Request bodies that say little and cost much: YAML that expands, integers in base 60, lists that are compared with themselves.

Each is sent as a tenant sends it while a second client asks for a namespace over and over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.attacks.harness import Bystander, bounded, restart
from tests.conformance.service import Service
from tests.conformance.wire import Answer

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"
LIMIT = 10.0  # seconds for one request, on a machine that is busy; without limits they took up to minutes
WAIT = 2.0  # and for anybody else meanwhile


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with bounded(tmp_path_factory.mktemp("bodies") / "home") as service:
        yield service


def attack(
    service: Service, method: str, path: str, body: bytes | str | Any, media: str = "application/json"
) -> Answer:
    """The answer, which must come in time, and must not have kept the second client waiting."""
    sent = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    with Bystander(service) as other:
        began = time.monotonic()
        answer = service.ask(method, path, sent, media=media)
        spent = time.monotonic() - began
    print(f"{len(sent):,} bytes: {answer.status} in {spent * 1000:.0f} ms, longest wait {other.worst * 1000:.0f} ms")
    assert spent < LIMIT
    assert other.worst < WAIT
    assert not other.failures
    return answer


def merges(levels: int = 8) -> str:
    lines = ["x0: &x0 {a: 1}"]
    lines += [f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 8)}]}}" for n in range(1, levels + 1)]
    return "\n".join(lines) + "\n"


def test_merge_keys_do_not_expand(service: Service) -> None:
    answer = attack(service, "POST", MAPS, merges(), YAML)
    assert answer.status == 400
    assert "excessive aliasing" in answer.json()["message"]
    assert "more than 200000 values, which is the limit" in answer.json()["message"]


def test_merge_keys_of_an_apply_do_not_expand(service: Service) -> None:
    answer = attack(service, "PATCH", f"{MAPS}/x?fieldManager=x", merges(), APPLY)
    assert answer.status == 400
    assert "excessive aliasing" in answer.json()["message"]


def test_an_alias_to_a_long_text_does_not_expand(service: Service) -> None:
    text = "a: &a '" + "x" * 100_000 + "'\nb: [" + "*a, " * 50_000 + "]\n"
    answer = attack(service, "POST", MAPS, text, YAML)
    assert answer.status == 400
    assert "more than 1048576 bytes, which is the limit" in answer.json()["message"]


def test_integers_in_base_60_are_text(service: Service) -> None:
    """From a user without any right: everybody may ask what he may do."""
    number = "1" + ":59" * 500_000
    text = "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\n"
    answer = attack(service, "POST", REVIEWS, f"{text}metadata: {{annotations: {{a: {number}}}}}\nspec: {{}}\n", YAML)
    assert answer.status in (201, 422)
    made = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: sixty}}\ndata: {{a: {'1' + ':59' * 1000}}}\n"
    assert attack(service, "POST", MAPS, made, YAML).json()["data"]["a"] == "1" + ":59" * 1000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" + "1, " * 970_000 + "1]", "more than 200000 values"),
        ("--- 1\n" * 480_000, "expected one YAML document, found more"),
        ("".join(f"key{n}: v\n" for n in range(200_000)), "more than 200000 values"),
        ("".join(f"%TAG !a{n}! x\n" for n in range(150_000)) + "--- 1", "more than 16 directives"),
        ("- " * 1_000_000, "exceeded max depth: the limit is 200"),
    ],
    ids=["list", "documents", "keys", "directives", "depth"],
)
def test_long_yaml_is_refused_with_the_limit(service: Service, text: str, words: str) -> None:
    answer = attack(service, "POST", MAPS, text, YAML)
    assert answer.status == 400
    assert words in answer.json()["message"]


def test_json_has_a_limit_of_values_as_well(service: Service) -> None:
    answer = attack(service, "POST", MAPS, b'{"data":[' + b"{}," * 900_000 + b"{}]}")
    assert answer.status == 413
    assert "the limit is 200000 keys and values" in answer.json()["message"]


def test_broken_json_is_read_beside_the_loop(service: Service) -> None:
    answer = attack(service, "POST", MAPS, b'{"a":[' + b"1," * 400_000 + b"]}")
    assert answer.status == 400


def test_a_long_key_above_many_unknown_fields_is_refused(service: Service) -> None:
    """Every message would repeat it: 20,000 messages of a megabyte each."""
    container = {"name": 1, "what": "?"}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "long"},
        "spec": {
            "pytorchReplicaSpecs": {"W" * 1_000_000: {"template": {"spec": {"containers": [container] * 20_000}}}}
        },
    }
    answer = attack(service, "POST", "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs", job)
    assert answer.status == 400
    assert "a key of an object has 1000000 characters, the limit is 4096" in answer.json()["message"]


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers, **spec}}


@pytest.mark.parametrize(("count", "status"), [(4_096, 201), (8_000, 422)])
def test_ports_named_often_cost_no_comparison_of_each_with_each(service: Service, count: int, status: int) -> None:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80}] * count}
    answer = attack(service, "POST", f"{PODS}?dryRun=All", pod(containers=[container]))
    assert answer.status == status
    if status == 422:
        assert "spec.containers[0].ports: Too many: 8000: must have at most 4096 items" in answer.json()["message"]


def test_files_of_a_volume_are_compared_in_their_order(service: Service) -> None:
    items = [{"key": "k", "path": f"p{n}"} for n in range(20_000)]
    volume = {"name": "v", "configMap": {"name": "c", "items": items}}
    assert attack(service, "POST", f"{PODS}?dryRun=All", pod(volumes=[volume])).status == 201


def test_many_controllers_are_refused_without_saying_all_of_them_each_time(service: Service) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u", "controller": True}
    body = {"metadata": {"name": "owned", "ownerReferences": [owner] * 9_000}}
    assert attack(service, "POST", MAPS, body).status == 422


def test_claims_that_are_not_there_are_refused_without_all_that_are(service: Service) -> None:
    claims = [{"name": f"claim-{n}", "resourceClaimName": "x"} for n in range(5_000)]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": f"no-{n}"} for n in range(5_000)]}}
    assert attack(service, "POST", PODS, pod(containers=[container], resourceClaims=claims)).status == 422


def test_copies_in_a_json_patch_have_a_depth(service: Service) -> None:
    service.ask("POST", MAPS, {"metadata": {"name": "deep"}, "data": {"a": "b"}})
    patch = [{"op": "copy", "from": "/data", "path": "/data/a"}] * 5_000
    answer = attack(service, "PATCH", f"{MAPS}/deep", patch, "application/json-patch+json")
    assert answer.status == 422


def test_a_strategic_patch_of_many_items_is_merged_by_key(service: Service) -> None:
    names = [f"example.com/f{n}" for n in range(9_000)]
    assert service.ask("POST", MAPS, {"metadata": {"name": "many", "finalizers": names}}).status == 201
    patch = {"metadata": {"finalizers": [f"example.com/g{n}" for n in range(9_000)] + names[::-1]}}
    answer = attack(service, "PATCH", f"{MAPS}/many", patch, "application/strategic-merge-patch+json")
    assert answer.status == 200
    assert len(answer.json()["metadata"]["finalizers"]) == 18_000


def test_the_server_starts_again_with_what_was_kept(service: Service) -> None:
    restart(service)
    assert service.ask("GET", f"{MAPS}/many").status == 200
