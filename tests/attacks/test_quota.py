"""Ways around quota: what a user with `edit` and no quota left sends to run all the same, or to end what others run.

Two teams share two nodes of eight GPUs each; every job in their namespaces needs quota. Red has quota for two GPUs and
uses them; blue has the rest. After each attack blue's jobs are admitted, run and stay.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.harness import bounded
from tests.conformance.service import Service, eventually
from tests.conformance.wire import Answer

FLEET = """\
clusters:
- name: local
  nodes:
  - {name: h200, count: 2, gpu: {product: NVIDIA-H200, count: 8}, cpu: "96", memory: 1Ti}
"""
QUEUE = "kueue.x-k8s.io/queue-name"
GPU = "nvidia.com/gpu"
MERGE = "application/merge-patch+json"
_numbers = itertools.count(1)

Object = dict[str, Any]


class Team:
    """A managed namespace with a queue, and a service account there that has cluster role edit."""

    def __init__(self, service: Service, name: str, gpus: int) -> None:
        self.service, self.name = service, name
        managed = {"kueue.openshift.io/managed": "true"}
        group = {
            "coveredResources": [GPU],
            "flavors": [{"name": "any", "resources": [{"name": GPU, "nominalQuota": str(gpus)}]}],
        }
        self._make("/api/v1/namespaces", {"metadata": {"name": name, "labels": managed}})
        self._make(
            f"{KUEUE}/clusterqueues",
            kueue("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group]}),
        )
        self._make(self.path(KUEUE, "localqueues"), kueue("LocalQueue", "lq", {"clusterQueue": name}))
        self._make(self.path("/api/v1", "serviceaccounts"), {"metadata": {"name": "user"}})
        self._make(
            self.path("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
            {
                "metadata": {"name": "user"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
                "subjects": [{"kind": "ServiceAccount", "name": "user", "namespace": name}],
            },
        )
        said = self._make(self.path("/api/v1", "serviceaccounts/user/token"), {"spec": {}})
        self.token = said["status"]["token"]
        eventually(
            lambda: service.ask("GET", self.path("/api/v1", "serviceaccounts/default")).status == 200, "no account"
        )

    def path(self, base: str, rest: str) -> str:
        return f"{base}/namespaces/{self.name}/{rest}"

    def _make(self, path: str, obj: Object) -> Any:
        answer = self.service.ask("POST", path, obj)
        assert answer.status == 201, answer.body
        return answer.json()

    # As the user.

    def ask(self, method: str, path: str, obj: Object | None = None, **options: Any) -> Answer:
        return self.service.ask(method, path, obj, token=self.token, **options)

    def pod(self, name: str, gpus: int = 8, *, spec: Object | None = None, **metadata: Any) -> Answer:
        obj = {"metadata": {"name": name, **metadata}, "spec": {**template(gpus)["spec"], **(spec or {})}}
        return self.ask("POST", self.path("/api/v1", "pods"), obj)

    def job(self, name: str, gpus: int, **spec: Any) -> Answer:
        obj = {"metadata": {"name": name, "labels": {QUEUE: "lq"}}, "spec": {"template": template(gpus), **spec}}
        return self.ask("POST", self.path("/apis/batch/v1", "jobs"), obj)

    # What came of it.

    def get(self, base: str, rest: str) -> Any:
        answer = self.service.ask("GET", self.path(base, rest))
        return answer.json() if answer.status == 200 else None

    def running(self, job: str) -> bool:
        found = self.get("/apis/batch/v1", f"jobs/{job}")
        return bool(found and (found.get("status") or {}).get("ready"))

    def gpus_in_use(self) -> int:
        pods = self.get("/api/v1", "pods")["items"]
        return sum(_gpus(pod) for pod in pods if pod["spec"].get("nodeName") and not _ended(pod))

    def clear(self) -> None:
        for base, plural in (("/apis/batch/v1", "jobs"), ("/apis/apps/v1", "deployments"), ("/api/v1", "pods")):
            self.service.ask("DELETE", self.path(base, plural), {"propagationPolicy": "Background"})
        eventually(lambda: not self.get("/api/v1", "pods")["items"], "pods are left")


KUEUE = "/apis/kueue.x-k8s.io/v1beta1"


def kueue(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def template(gpus: int, **spec: Any) -> Object:
    amount = {GPU: str(gpus)} if gpus else {}
    container = {
        "name": "c", "image": "busybox", "command": ["sleep", "3600"],
        "resources": {"requests": amount, "limits": amount},
    }  # fmt: skip
    return {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def owner(obj: Object, **changed: Any) -> Object:
    reference = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": obj["metadata"]["name"]}
    return {**reference, "uid": obj["metadata"]["uid"], "controller": True, **changed}


def _gpus(pod: Object) -> int:
    limits = (each["resources"].get("limits") or {} for each in pod["spec"]["containers"])
    return sum(int(each.get(GPU, "0")) for each in limits)


def _ended(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


@pytest.fixture(scope="module")
def teams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Team, Team]]:
    folder = tmp_path_factory.mktemp("quota")
    (folder / "fleet.yaml").write_text(FLEET)
    with bounded(folder / "home", "--fleet", str(folder / "fleet.yaml")) as service:
        flavor = service.ask("POST", f"{KUEUE}/resourceflavors", kueue("ResourceFlavor", "any", {}))
        assert flavor.status == 201, flavor.body
        yield Team(service, "red", 2), Team(service, "blue", 14)


@pytest.fixture
def red(teams: tuple[Team, Team]) -> Iterator[Team]:
    """With a job that uses all its quota."""
    team = teams[0]
    assert team.job("own", 2).status == 201
    eventually(lambda: team.running("own"), "red's own job does not run")
    yield team
    team.clear()


@pytest.fixture
def blue(teams: tuple[Team, Team]) -> Iterator[Team]:
    yield teams[1]
    teams[1].clear()


def blue_runs(blue: Team) -> None:
    """A job for all that is left is admitted and runs."""
    name = f"job-{next(_numbers)}"
    assert blue.job(name, 1, parallelism=14, completions=14).status == 201
    eventually(lambda: (blue.get("/apis/batch/v1", f"jobs/{name}") or {}).get("status", {}).get("ready") == 14,
               "blue's admitted job does not run", 20.0)  # fmt: skip


def message(team: Team, pod: str) -> str:
    found = team.get("/api/v1", f"pods/{pod}")
    conditions = (found["status"].get("conditions") or ()) if found else ()
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


def test_pods_with_a_forged_owner_do_not_run_beyond_its_quota(red: Team, blue: Team) -> None:
    job = red.get("/apis/batch/v1", "jobs/own")
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert red.pod("forged-a", ownerReferences=[owner(job)]).status == 201
    assert red.pod("forged-b", ownerReferences=[owner(job)], labels=labels).status == 201
    blue_runs(blue)
    assert red.gpus_in_use() <= 2
    assert red.get("/api/v1", "pods/forged-a")["spec"].get("nodeName") is None
    eventually(lambda: "quota" in message(red, "forged-b") or red.get("/api/v1", "pods/forged-b") is None,
               lambda: message(red, "forged-b"))  # fmt: skip


def test_an_owner_that_waits_covers_nothing(red: Team, blue: Team) -> None:
    made = red.job("waiting", 8)
    assert made.status == 201
    waiting = made.json()
    assert red.pod("forged", ownerReferences=[owner(waiting)]).status == 201
    blue_runs(blue)
    assert red.gpus_in_use() == 2


def test_a_forged_chain_of_owners_covers_nothing(red: Team, blue: Team) -> None:
    """Deployment, ReplicaSet and pod, each real and each made by the user."""
    job = red.get("/apis/batch/v1", "jobs/own")
    pods = {**template(8, restartPolicy="Always"), "metadata": {"labels": {"app": "x"}}}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "replicas": 2, "template": pods}
    made = red.ask(
        "POST", red.path("/apis/apps/v1", "replicasets"),
        {"metadata": {"name": "middle", "ownerReferences": [owner(job)]}, "spec": spec},
    )  # fmt: skip
    assert made.status == 201, made.body
    child = {"template": template(8)}
    metadata = {"name": "child", "ownerReferences": [owner(job)]}
    assert red.ask("POST", red.path("/apis/batch/v1", "jobs"), {"metadata": metadata, "spec": child}).status == 201
    blue_runs(blue)
    assert red.gpus_in_use() == 2
    red.ask("DELETE", red.path("/apis/apps/v1", "replicasets/middle"))


def test_a_node_of_its_own_choice_is_refused_with_the_field(red: Team, blue: Team) -> None:
    job = red.get("/apis/batch/v1", "jobs/own")
    answer = red.pod("chosen", ownerReferences=[owner(job)], spec={"nodeName": "h200-0"})
    assert answer.status == 403, answer.body
    assert "spec.nodeName: Forbidden: " in answer.json()["message"]
    assert f"quota for {GPU} is exceeded (asked 8, used 2, held 2)" in answer.json()["message"]
    blue_runs(blue)


def test_a_binding_by_whoever_may_bind_keeps_to_quota(red: Team, blue: Team) -> None:
    """Other schedulers bind; they are held to the same."""
    job = red.get("/apis/batch/v1", "jobs/own")
    made = red.pod("bound", ownerReferences=[owner(job)], spec={"schedulerName": "mine"})
    assert made.status == 201
    binding = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "h200-0"}}
    assert red.ask("POST", red.path("/api/v1", "pods/bound/binding"), binding).status == 403  # edit may not bind
    answer = red.service.ask("POST", red.path("/api/v1", "pods/bound/binding"), binding)
    assert answer.status == 403, answer.body
    assert "target.name: " in answer.json()["message"]
    blue_runs(blue)


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_system_priority_classes_are_refused_with_the_field(red: Team, blue: Team, name: str) -> None:
    blue_runs(blue)
    job = red.get("/apis/batch/v1", "jobs/own")
    critical = {"priorityClassName": name}
    answers = [
        red.pod("critical", ownerReferences=[owner(job)], spec=critical),
        red.job("critical", 8, template=template(8, **critical)),
    ]
    paths = ["spec.priorityClassName", "spec.template.spec.priorityClassName"]
    for answer, path in zip(answers, paths, strict=True):
        assert answer.status == 403, answer.body
        assert f"{path}: pods with {name} priorityClass is not permitted in red namespace" in answer.json()["message"]
    assert blue.gpus_in_use() == 14


def test_no_pod_of_higher_priority_evicts_one_of_an_admitted_workload(red: Team, blue: Team) -> None:
    """Not even the cluster's own: whose workload has to go is Kueue's decision."""
    blue_runs(blue)
    service = red.service
    pod = {
        "metadata": {"name": "critical"},
        "spec": {**template(8)["spec"], "priorityClassName": "system-node-critical"},
    }
    eventually(lambda: service.ask("GET", "/api/v1/namespaces/kube-system/serviceaccounts/default").status == 200, "")
    assert service.ask("POST", "/api/v1/namespaces/kube-system/pods", pod).status == 201
    where = "/api/v1/namespaces/kube-system/pods/critical"

    def refused() -> bool:
        conditions = service.ask("GET", where).json()["status"].get("conditions") or ()
        return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)

    eventually(refused, "the scheduler said nothing")
    time.sleep(0.5)
    assert blue.gpus_in_use() == 14
    service.ask("DELETE", where)


def test_pods_left_without_a_job_leave_too(red: Team, blue: Team) -> None:
    """`--cascade=orphan` gives the quota back; the next job may not run beside what was left."""
    answer = red.ask("DELETE", red.path("/apis/batch/v1", "jobs/own"), {"propagationPolicy": "Orphan"})
    assert answer.status == 200, answer.body
    eventually(lambda: red.get("/apis/batch/v1", "jobs/own") is None, "the job is still there")
    assert red.job("next", 2).status == 201
    for _ in range(20):
        assert red.gpus_in_use() <= 2
        time.sleep(0.1)
    blue_runs(blue)


def test_the_note_on_a_running_pod_stays(red: Team) -> None:
    (pod,) = red.get("/api/v1", "pods")["items"]
    patch = {"metadata": {"annotations": {"kueue.x-k8s.io/workload": None}}}
    where = red.path("/api/v1", f"pods/{pod['metadata']['name']}")
    answer = red.ask("PATCH", where, patch, media=MERGE)
    assert answer.status == 403, answer.body
    assert "metadata.annotations[kueue.x-k8s.io/workload]: Forbidden: " in answer.json()["message"]


def test_a_running_pod_cannot_give_its_gpus_back_and_keep_them(red: Team) -> None:
    (pod,) = red.get("/api/v1", "pods")["items"]
    container = {**pod["spec"]["containers"][0], "resources": {}}
    where = red.path("/api/v1", f"pods/{pod['metadata']['name']}/resize")
    answer = red.service.ask("PATCH", where, {"spec": {"containers": [container]}}, media=MERGE)  # edit may not
    assert answer.status == 422, answer.body
    assert "only cpu and memory resources are mutable" in answer.json()["message"]


def test_an_unsuspended_job_of_a_held_queue_starts_no_process(tmp_path: Path) -> None:
    with bounded(tmp_path / "home") as service:
        eventually(lambda: service.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default").status == 200, "")
        queues = service.ask("GET", f"{KUEUE}/namespaces/default/localqueues").json()["items"]
        queue = f"{KUEUE}/namespaces/default/localqueues/{queues[0]['metadata']['name']}"
        assert service.ask("PATCH", queue, {"spec": {"stopPolicy": "Hold"}}, media=MERGE).status == 200
        witness = tmp_path / "it-ran"
        container = {
            "name": "c", "image": "x", "command": ["sh", "-c", f"touch {witness}; sleep 60"],
            "resources": {"requests": {"cpu": "100m"}},
        }  # fmt: skip
        pods = {"restartPolicy": "Never", "runtimeClassName": "gpuaas-process", "containers": [container]}
        labels = {QUEUE: queues[0]["metadata"]["name"]}
        job = {"metadata": {"name": "held", "labels": labels}, "spec": {"template": {"spec": pods}}}
        assert service.ask("POST", "/apis/batch/v1/namespaces/default/jobs", job).status == 201
        where = "/apis/batch/v1/namespaces/default/jobs/held"
        ends = time.monotonic() + 4
        while time.monotonic() < ends:
            assert service.ask("PATCH", where, {"spec": {"suspend": False}}, media=MERGE).status in (200, 403, 409, 422)
            time.sleep(0.02)
        assert not witness.exists()
        assert service.ask("PATCH", queue, {"spec": {"stopPolicy": "None"}}, media=MERGE).status == 200
        eventually(witness.exists, "the job did not start when its queue was let go", 20.0)
