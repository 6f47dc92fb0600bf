"""The pod security standards: what labels of a namespace mean, and what is said of pods that are against them."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import pod, refused

from gpuaas.api.kubernetes.pod_security import (
    PREFIX,
    Standard,
    is_significant,
    is_stricter,
    policy_of,
    told,
    violations,
    warnings_of_pods,
)

GOOD: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED = Standard("restricted")
BASELINE = Standard("baseline")


def _spec(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a", "image": "x", "securityContext": fields.pop("context", GOOD)}], **fields}


def _labels(**said: str) -> dict[str, str]:
    return {f"{PREFIX}{key.replace('_', '-')}": value for key, value in said.items()} | {"team": "a"}


@pytest.mark.parametrize(
    ("labels", "enforced", "warned"),
    [
        ({}, "privileged:latest", "privileged:latest"),
        (_labels(enforce="baseline"), "baseline:latest", "baseline:latest"),
        (_labels(enforce="baseline", enforce_version="v1.30"), "baseline:v1.30", "baseline:v1.30"),
        (_labels(enforce="baseline", warn="restricted"), "baseline:latest", "restricted:latest"),
        (_labels(enforce="restricted", warn="privileged"), "restricted:latest", "privileged:latest"),
        (_labels(audit="restricted"), "privileged:latest", "privileged:latest"),
        (_labels(enforce="strict"), "restricted:latest", "privileged:latest"),
    ],
)
def test_what_a_namespace_asks_for(labels: dict[str, str], enforced: str, warned: str) -> None:
    policy, _ = policy_of(labels)
    assert (str(policy.enforce), str(policy.warn)) == (enforced, warned)


def test_labels_that_cannot_be_read_are_told() -> None:
    _, errors = policy_of(_labels(enforce="strict", warn_version="1.30"))
    assert [str(error) for error in errors] == [
        f'metadata.labels[{PREFIX}enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted',
        f'metadata.labels[{PREFIX}warn-version]: Invalid value: "1.30": must be "latest" or "v1.x"',
    ]


AGAINST_BASELINE: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": (_spec(), ""),
    "a bare container": ({"containers": [{"name": "a"}]}, ""),
    "the host's namespaces": (
        _spec(hostNetwork=True, hostIPC=True),
        "host namespaces (hostNetwork=true, hostIPC=true)",
    ),
    "privileges": (
        _spec(context={"privileged": True}),
        'privileged (container "a" must not set securityContext.privileged=true)',
    ),
    "capabilities": (
        _spec(context={"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}}),
        'non-default capabilities (container "a" must not include "NET_RAW", "SYS_ADMIN" in'
        " securityContext.capabilities.add)",
    ),
    "paths of the host": (
        _spec(volumes=[{"name": "v", "hostPath": {}}, {"name": "w", "hostPath": {}}]),
        'hostPath volumes (volumes "v", "w")',
    ),
    "ports of the host": (
        {"containers": [{"name": n, "ports": [{"hostPort": p}]} for n, p in (("a", 90), ("b", 8080))]},
        'hostPort (containers "a", "b" use hostPorts 8080, 90)',
    ),
    "probes of others": (
        {"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}}}]},
        'probe or lifecycle host (container "a" uses probe or lifecycle host "h")',
    ),
    "profiles": (
        _spec(securityContext={"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}}),
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined"), seccompProfile (pod must'
        ' not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    "options of SELinux": (
        _spec(context={"seLinuxOptions": {"type": "spc_t", "role": "r"}}),
        'seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "spc_t"; role may not be set)',
    ),
    "the kernel's settings": (
        _spec(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}, {"name": "kernel.msgmax"}]}),
        "forbidden sysctls (kernel.msgmax)",
    ),
    "all of /proc": (
        _spec(context={"procMount": "Unmasked"}),
        'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    ),
    "all of /proc, as a user of its own": (_spec(context={"procMount": "Unmasked"}, hostUsers=False), ""),
    "processes of the host": (
        _spec(securityContext={"windowsOptions": {"hostProcess": True}}),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
    ),
}


@pytest.mark.parametrize(("spec", "text"), AGAINST_BASELINE.values(), ids=list(AGAINST_BASELINE))
def test_against_the_baseline(spec: dict[str, Any], text: str) -> None:
    assert told(violations(BASELINE, {}, spec)) == text
    assert violations(Standard(), {}, spec) == []


AGAINST_RESTRICTED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": (_spec(), ""),
    "a bare container": (
        {"containers": [{"name": "a"}]},
        'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false),'
        ' unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot !='
        ' true (pod or container "a" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "a"'
        ' must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    ),
    "a bare container on Windows": (
        {"containers": [{"name": "a"}], "os": {"name": "windows"}, "hostUsers": False},
        "",
    ),
    "volumes": (
        _spec(volumes=[{"name": "v", "nfs": {}}, {"name": "w", "emptyDir": {}}]),
        'restricted volume types (volume "v" uses restricted volume type "nfs")',
    ),
    "root": (
        _spec(securityContext={"runAsNonRoot": False, "runAsUser": 0}),
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod must not set"
        " runAsUser=0)",
    ),
    "more capabilities": (
        _spec(context=GOOD | {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "CHOWN"]}}),
        'unrestricted capabilities (container "a" must not include "CHOWN" in securityContext.capabilities.add)',
    ),
}


@pytest.mark.parametrize(("spec", "text"), AGAINST_RESTRICTED.values(), ids=list(AGAINST_RESTRICTED))
def test_against_the_restricted_standard(spec: dict[str, Any], text: str) -> None:
    assert told(violations(RESTRICTED, {}, spec)) == text


def test_a_namespace_that_gets_stricter_is_told_of_its_pods() -> None:
    pods = [{"metadata": {"name": n}, "spec": {"hostNetwork": n == "p2", "containers": []}} for n in ("p3", "p1", "p2")]
    pods += [{"metadata": {"name": n}, "spec": {"hostPID": True, "containers": []}} for n in ("q2", "q1")]
    assert warnings_of_pods("ns", BASELINE, pods) == [
        'existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"',
        "p2 (and 2 other pods): host namespaces",
    ]
    assert warnings_of_pods("ns", BASELINE, pods[:2]) == []


def test_stricter_is_a_higher_level_or_another_version() -> None:
    levels = (Standard(), BASELINE, RESTRICTED)
    found = [(str(a.level), str(b.level)) for a in levels for b in levels if is_stricter(a, b)]
    assert found == [("baseline", "privileged"), ("restricted", "privileged"), ("restricted", "baseline")]
    assert is_stricter(BASELINE, Standard("restricted", "v1.20"))


def test_a_pod_is_looked_at_again_when_its_images_change() -> None:
    before = pod()
    assert not is_significant({**before, "metadata": {"labels": {"a": "b"}}}, before)
    assert is_significant(pod(containers=[{"name": "main", "image": "other"}]), before)
    assert is_significant(pod(ephemeralContainers=[{"name": "debug", "image": "other"}]), before)


def test_users_of_its_own_do_not_go_with_the_hosts_namespaces() -> None:
    assert refused(pod(hostUsers=False, hostNetwork=True, hostPID=True, hostIPC=True)) == [
        "spec.hostNetwork: Forbidden: when `hostUsers` is false",
        "spec.HostPID: Forbidden: when `hostUsers` is false",
        "spec.HostIPC: Forbidden: when `hostUsers` is false",
    ]
    asked = {"sysctls": [{"name": name, "value": "1"} for name in ("net.a", "kernel.shm_rmid_forced", "vm.x")]}
    assert refused(pod(hostNetwork=True, hostIPC=True, securityContext=asked)) == [
        "spec.securityContext.sysctls[0].name: Invalid value: \"net.a\": may not be specified when 'hostNetwork' is true",
        'spec.securityContext.sysctls[1].name: Invalid value: "kernel.shm_rmid_forced":'
        " may not be specified when 'hostIPC' is true",
    ]
