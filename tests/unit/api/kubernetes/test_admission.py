"""What other objects have to say about a pod: accounts, priorities, limit ranges, quotas."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import made, pod, refused, service

from gpuaas.api.kubernetes import admission
from gpuaas.api.kubernetes.pod_resources import pod_totals
from gpuaas.base.errors import Forbidden

_CPU = {
    "type": "Container",
    "min": {"cpu": "100m"},
    "max": {"cpu": "2"},
    "default": {"cpu": "500m"},
    "defaultRequest": {"cpu": "200m"},
}


def _pod(**resources: Any) -> dict[str, Any]:
    return made(pod(containers=[{"name": "main", "image": "x", "resources": resources}]))


def _range(*limits: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"metadata": {"name": "range"}, "spec": {"limits": list(limits)}}]


def _quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    zero = dict.fromkeys(hard, "0")
    return {
        "metadata": {"name": "q"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": {**zero, **(used or {})}},
    }


def test_a_pod_runs_as_its_account() -> None:
    obj = _pod()
    account = {"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "pull"}]}
    admission.use_service_account(obj, account, "abcde")
    spec = obj["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert [volume["name"] for volume in spec["volumes"]] == ["kube-api-access-abcde"]
    assert spec["containers"][0]["volumeMounts"] == [
        {
            "name": "kube-api-access-abcde",
            "readOnly": True,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        }
    ]
    assert refused({**obj, "status": {}}) == []


@pytest.mark.parametrize(
    ("on_pod", "on_account", "mounted"),
    [(None, None, True), (False, None, False), (None, False, False), (True, False, True)],
)
def test_who_decides_about_the_token(on_pod: bool | None, on_account: bool | None, mounted: bool) -> None:
    obj = made(pod(automountServiceAccountToken=on_pod))
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": on_account}
    admission.use_service_account(obj, account, "x")
    assert bool(obj["spec"].get("volumes")) == mounted


def test_priorities() -> None:
    classes = {
        "high": {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"},
        "usual": {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True},
    }
    named, unnamed, alone = made(pod(priorityClassName="high")), made(pod()), made(pod())
    admission.resolve_priority(named, classes)
    admission.resolve_priority(unnamed, classes)
    admission.resolve_priority(alone, {})
    chosen = [
        (o["spec"].get("priorityClassName"), o["spec"]["priority"], o["spec"]["preemptionPolicy"])
        for o in (named, unnamed, alone)
    ]
    assert chosen == [("high", 100, "Never"), ("usual", 5, "PreemptLowerPriority"), (None, 0, "PreemptLowerPriority")]


def test_a_priority_is_not_the_users_to_say() -> None:
    with pytest.raises(Forbidden, match="the integer value of priority \\(7\\) must not be provided in pod spec"):
        admission.resolve_priority(made(pod(priority=7)), {})
    with pytest.raises(Forbidden, match="no PriorityClass with name none was found"):
        admission.resolve_priority(made(pod(priorityClassName="none")), {})


def test_pods_wait_five_minutes_for_their_node() -> None:
    obj = made(pod(tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]))
    admission.add_default_tolerations(obj)
    assert [item["key"] for item in obj["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    patient = made(pod(tolerations=[{"operator": "Exists"}]))
    admission.add_default_tolerations(patient)
    assert patient["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_a_new_node_takes_no_pods_yet() -> None:
    node: dict[str, Any] = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    admission.taint_new_node(node)
    admission.taint_new_node(node)
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["a", "node.kubernetes.io/not-ready"]


def test_a_limit_range_fills_in_what_is_left_out() -> None:
    obj = _pod()
    assert admission.apply_limit_ranges(obj, _range(_CPU), create=True) == []
    assert obj["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "200m"}}
    assert obj["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container main; cpu limit for container main"
    }


@pytest.mark.parametrize(
    ("limit", "resources", "errors"),
    [
        (_CPU, {"limits": {"cpu": "3"}}, ["maximum cpu usage per Container is 2, but limit is 3"]),
        (_CPU, {"requests": {"cpu": "50m"}}, ["minimum cpu usage per Container is 100m, but request is 50m"]),
        ({"type": "Pod", "min": {"memory": "1Gi"}}, {}, ["minimum memory usage per Pod is 1Gi.  No request is specified"]),
        ({"type": "Pod", "max": {"memory": "1Gi"}}, {"limits": {"memory": "2Gi"}}, ["maximum memory usage per Pod is 1Gi, but limit is 2Gi"]),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}, {"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}}, ["cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000"]),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}, {}, []),
    ],
)  # fmt: skip
def test_what_is_out_of_range(limit: dict[str, Any], resources: dict[str, Any], errors: list[str]) -> None:
    assert admission.apply_limit_ranges(_pod(**resources), _range(limit), create=True) == errors


def test_limit_ranges_leave_existing_pods_alone() -> None:
    assert admission.apply_limit_ranges(_pod(limits={"cpu": "3"}), _range(_CPU), create=False) == []


def test_claims_have_a_range_too() -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
    limit = {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}}
    assert admission.claim_limit_errors(claim, _range(limit)) == [
        "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 5Gi"
    ]


def test_a_write_is_booked() -> None:
    quota = _quota({"pods": "5", "requests.nvidia.com/gpu": "4", "services": "1"}, {"pods": "2"})
    obj = _pod(limits={"nvidia.com/gpu": "3"})
    ((booked, used),) = admission.charge_quotas([quota], "", "pods", obj, None)
    assert booked is quota
    assert used == {"pods": "3", "requests.nvidia.com/gpu": "3", "services": "0"}
    assert quota["status"]["used"]["pods"] == "2"


@pytest.mark.parametrize(
    ("hard", "resources", "why"),
    [
        ({"requests.nvidia.com/gpu": "2"}, {"limits": {"nvidia.com/gpu": "4"}}, "exceeded quota: q, requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=2"),
        ({"cpu": "1", "limits.memory": "1Gi"}, {"limits": {"cpu": "2", "memory": "2Gi"}}, "exceeded quota: q, requested: cpu=2,limits.memory=2Gi, used: cpu=0,limits.memory=0, limited: cpu=1,limits.memory=1Gi"),
        ({"cpu": "1", "limits.memory": "1Gi"}, {}, "failed quota: q: must specify cpu for: main; limits.memory for: main"),
        ({"pods": "0"}, {}, "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"),
    ],
)  # fmt: skip
def test_what_a_quota_refuses(hard: dict[str, str], resources: dict[str, Any], why: str) -> None:
    with pytest.raises(Forbidden) as refusal:
        admission.charge_quotas([_quota(hard)], "", "pods", _pod(**resources), None)
    assert refusal.value.message == f'pods "x" is forbidden: {why}'


@pytest.mark.parametrize(
    ("spec", "resources", "pod_spec", "counted"),
    [
        ({"scopes": ["BestEffort"]}, {}, {}, True),
        ({"scopes": ["BestEffort"]}, {"requests": {"cpu": "1"}}, {}, False),
        ({"scopes": ["Terminating"]}, {}, {"activeDeadlineSeconds": 5}, True),
        ({"scopes": ["NotTerminating"]}, {}, {"activeDeadlineSeconds": 5}, False),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}, {}, {"priorityClassName": "high"}, True),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}, {}, {}, False),
    ],
)  # fmt: skip
def test_scopes(spec: dict[str, Any], resources: dict[str, Any], pod_spec: dict[str, Any], counted: bool) -> None:
    obj = _pod(**resources)
    obj["spec"].update(pod_spec)
    assert bool(admission.charge_quotas([_quota({"pods": "5"}, **spec)], "", "pods", obj, None)) == counted


def test_other_kinds_count_too() -> None:
    balanced = made(service(type="LoadBalancer"))
    hard = {"services": "5", "services.loadbalancers": "1", "services.nodeports": "5", "count/jobs.batch": "2"}
    ((_, used),) = admission.charge_quotas([_quota(hard)], "", "services", balanced, None)
    assert used == {"services": "1", "services.loadbalancers": "1", "services.nodeports": "1", "count/jobs.batch": "0"}
    ((_, used),) = admission.charge_quotas([_quota(hard)], "batch", "jobs", {"metadata": {}}, None)
    assert used["count/jobs.batch"] == "1"


def test_an_update_costs_the_difference() -> None:
    def claim(size: str) -> dict[str, Any]:
        spec = {"storageClassName": "fast", "resources": {"requests": {"storage": size}}}
        return {"metadata": {"name": "c"}, "spec": spec}

    hard = {"requests.storage": "10Gi", "fast.storageclass.storage.k8s.io/requests.storage": "10Gi"}
    quota = _quota(hard, dict.fromkeys(hard, "2Gi"))
    ((_, used),) = admission.charge_quotas([quota], "", "persistentvolumeclaims", claim("5Gi"), claim("2Gi"))
    assert used == dict.fromkeys(hard, "5Gi")
    assert admission.charge_quotas([quota], "", "persistentvolumeclaims", claim("1Gi"), claim("2Gi")) == []


def test_counting_anew_forgets_what_is_gone() -> None:
    done = {**_pod(limits={"nvidia.com/gpu": "1"}), "status": {"phase": "Succeeded"}}
    running = _pod(limits={"nvidia.com/gpu": "2"})
    quota = _quota({"pods": "9", "requests.nvidia.com/gpu": "9", "count/pods": "9"})
    used = admission.quota_usage(quota, [("", "pods", done), ("", "pods", running), ("", "secrets", {})])
    assert used == {"pods": "1", "requests.nvidia.com/gpu": "2", "count/pods": "2"}


def test_init_containers_run_before_and_sidecars_beside() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [container("1", restartPolicy="Always"), container("5")],
        "containers": [container("2"), container("1")],
        "overhead": {"cpu": "500m"},
    }
    assert str(pod_totals({"spec": spec}, "requests")["cpu"]) == "6500m"
    assert str(pod_totals({"spec": {**spec, "initContainers": []}}, "requests", overhead=False)["cpu"]) == "3"
