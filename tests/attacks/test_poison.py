"""No stored object can stop a start: whatever a store holds, the server is ready at once, says what it set aside, and works.

Objects that no controller expects are written into the store past the API, for every kind the server keeps; others, valid
and absurd, go through the API. Then the server is killed and started: what is unreadable carries an event, everybody
else's objects are worked on, and no list is spoiled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.attacks.harness import Bystander, bounded, limit, restart
from tests.attacks.poisons import Object, absurd, aimed, drawn, inject, key, systems
from tests.conformance.fuzz import _served
from tests.conformance.hostile import Kind
from tests.conformance.service import Service, eventually

FLEET = ("--fleet", "demo")
POISONED, CLEAN = "poison", "team-a"  # team-a has a queue in the demo fleet
READY = 5.0  # seconds; on a busy machine three times what an empty start takes there
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_HUBS = {"horizontalpodautoscalers": "v2"}  # what is not kept in the version that is served first

# Kinds with a controller that cannot do anything with an object that has only a name.
_MARKED = (
    "ClusterQueue", "Cohort", "CronJob", "CustomResourceDefinition", "DaemonSet", "Deployment", "Job", "LocalQueue",
    "MutatingAdmissionPolicy", "MutatingWebhookConfiguration", "Node", "Pod", "PodDisruptionBudget", "ReplicaSet",
    "ResourceQuota", "StatefulSet", "Topology", "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "Workload",
)  # fmt: skip


class Poisoned(NamedTuple):
    service: Service
    took: float  # seconds until it was ready again
    allowed: float


@pytest.fixture(scope="module")
def poisoned(filled: Poisoned) -> Service:
    return filled.service


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Poisoned]:
    """Killed, filled with poison through the API and past it, started again; ready within `READY`."""
    home = tmp_path_factory.mktemp("poison") / "home"
    with bounded(home, *FLEET) as service:
        empty = restart(service)
        kinds = list(_kept(service))
        _post(service, "/api/v1/namespaces", _object("v1", "Namespace", POISONED))
        eventually(
            lambda: service.ask("GET", f"/api/v1/namespaces/{POISONED}/serviceaccounts/default").status == 200,
            "no default service account",
        )
        for path, obj in absurd(POISONED):
            answer = service.ask("POST", path, obj)
            assert answer.status in (201, 413, 422), f"{path}: {answer.status} {answer.body[:300]!r}"
        service.kill()
        objects = [(key(kind, obj), obj) for kind in kinds for _, obj in drawn(kind, POISONED)]
        inject(home / "clusters" / "local.db", [*objects, *aimed(kinds, CLEAN)])
        began = time.monotonic()
        service.start()
        limit(service)
        yield Poisoned(service, time.monotonic() - began, max(READY, 3 * empty))


def _kept(service: Service) -> Iterator[Kind]:
    """Each resource once, in the version it is kept in."""
    found: dict[tuple[str, str], Kind] = {}
    for kind in _served(service):
        if kind.group != "events.k8s.io" and {"create", "list"} <= set(kind.verbs):
            first = found.setdefault((kind.group, kind.plural), kind)
            if first is not kind and _HUBS.get(kind.plural) == kind.version:
                found[kind.group, kind.plural] = kind
    return iter(found.values())


def test_it_is_ready_at_once_and_again_after_a_kill(filled: Poisoned) -> None:
    assert filled.took < filled.allowed
    with Bystander(filled.service) as other:
        time.sleep(3)
    assert not other.failures
    assert other.worst < 3.0
    assert restart(filled.service) < filled.allowed


def test_a_job_in_a_queue_runs(poisoned: Service) -> None:
    job = _object("batch/v1", "Job", "plain", CLEAN, {"template": _template(restartPolicy="Never", sleep="1")})
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "default"}
    _post(poisoned, f"/apis/batch/v1/namespaces/{CLEAN}/jobs", job)
    path = f"/apis/batch/v1/namespaces/{CLEAN}/jobs/plain"
    eventually(lambda: _status(poisoned, path).get("succeeded") == 1, lambda: f"{_status(poisoned, path)}", 30)


@pytest.mark.parametrize("namespace", ["default", POISONED])
def test_whatever_others_have_is_worked_on(poisoned: Service, namespace: str) -> None:
    """Also in the very namespace of the poison."""
    labels, template = {"matchLabels": {"app": "x"}}, _template(sleep="1000")
    apps, policy = f"/apis/apps/v1/namespaces/{namespace}", f"/apis/policy/v1/namespaces/{namespace}"
    core = f"/api/v1/namespaces/{namespace}"
    wanted: list[tuple[str, Object, dict[str, Any]]] = [
        (f"{apps}/deployments", _object("apps/v1", "Deployment", "others", "", {"replicas": 2, "selector": labels, "template": template}), {"readyReplicas": 2}),
        (f"{apps}/statefulsets", _object("apps/v1", "StatefulSet", "others", "", {"selector": labels, "template": template}), {"readyReplicas": 1}),
        (f"{policy}/poddisruptionbudgets", _object("policy/v1", "PodDisruptionBudget", "others", "", {"minAvailable": 1, "selector": labels}), {"currentHealthy": 3}),
        (f"{core}/services", _object("v1", "Service", "others", "", {"selector": {"app": "x"}, "ports": [{"port": 80}]}), {}),
    ]  # fmt: skip
    for path, obj, _ in wanted:
        _post(poisoned, path, obj)
    for path, _, status in wanted:
        where = f"{path}/others"
        eventually(
            lambda w=where, s=status: s.items() <= _status(poisoned, w).items(),
            lambda w=where: f"{w}: {_status(poisoned, w)}",
            30,
        )  # type: ignore[misc]
    eventually(lambda: len(_addresses(poisoned)) == 3, "the service has no endpoints", 30)


def test_what_is_set_aside_says_why(poisoned: Service) -> None:
    def unmarked() -> set[str]:
        events = poisoned.ask("GET", "/api/v1/events").json()["items"]
        said = [one for one in events if one.get("reason") == "SetAside"]
        assert all("does nothing with it until it changes" in one["message"] for one in said)
        return set(_MARKED) - {one["involvedObject"]["kind"] for one in said}

    eventually(lambda: not unmarked(), lambda: f"without an event: {sorted(unmarked())}", 20)


def test_no_list_is_spoiled(poisoned: Service) -> None:
    wrong = []
    for kind in _served(poisoned):
        for accept in ("application/json", TABLE) if "list" in kind.verbs else ():
            answer = poisoned.ask("GET", kind.path(""), accept=accept)
            if answer.status != 200:
                wrong.append((kind.path(""), accept, answer.status, answer.body[:200]))
    assert not wrong


def test_the_log_stays_small(poisoned: Service) -> None:
    """A fault is written once with its traceback, not at each of ever rarer attempts."""
    assert poisoned.log.stat().st_size < 4 << 20


def test_system_objects_may_be_unreadable_too(tmp_path: Path) -> None:
    """Roles, classes, services that every start looks at; a Kueue configuration that is none."""
    home = tmp_path / "home"
    with bounded(home, *FLEET) as service:
        found = [(kind, item) for kind in _kept(service) for item in _items(service, kind)]
        kueue = next(kind for kind in _kept(service) if kind.plural == "kueues")
        made = next(obj for how, obj in drawn(kueue, "") if how == "odd")
        cluster = {**made, "metadata": {**made["metadata"], "name": "cluster"}}
        service.kill()
        inject(home / "clusters" / "local.db", [*systems(found), (key(kueue, cluster), cluster)])
        service.start()
        limit(service)
        _post(service, f"/api/v1/namespaces/{CLEAN}/configmaps", _object("v1", "ConfigMap", "after"))


def _items(service: Service, kind: Kind) -> list[Object]:
    answer = service.ask("GET", kind.path(""))
    return answer.json()["items"] if answer.status == 200 else []


def _object(version: str, kind: str, name: str, namespace: str = "", spec: Object | None = None) -> Object:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **({"spec": spec} if spec is not None else {})}


def _template(*, sleep: str, **spec: Any) -> Object:
    asked = {"requests": {"cpu": "100m", "memory": "1Mi"}}
    container = {"name": "a", "image": "x", "command": ["sleep", sleep], "resources": asked}
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], **spec}}


def _post(service: Service, path: str, obj: Object) -> None:
    answer = service.ask("POST", path, obj)
    assert answer.status == 201, f"{path}: {answer.status} {json.dumps(answer.body.decode()[:500])}"


def _addresses(service: Service) -> list[str]:
    """What the slices of the service `others` hold."""
    path = "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=kubernetes.io/service-name%3Dothers"
    slices = service.ask("GET", path).json()["items"]
    return [endpoint["addresses"][0] for one in slices for endpoint in one.get("endpoints") or ()]


def _status(service: Service, path: str) -> Object:
    status: Object = service.ask("GET", path).json().get("status") or {}
    return status
