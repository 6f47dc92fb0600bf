"""Annotations of pods that mean something are checked, and agree with the fields that came after them."""

from typing import Any

import pytest
from tests.unit.api.kubernetes.rulebook import complaints, made, pod, refused

from gpuaas.api.kubernetes.rules.profiles import take_profiles

ARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"


def annotated(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", **spec.pop("container", {})}]
    return {**pod(containers=containers, **spec), "metadata": {"name": "p", "annotations": annotations}}


def profile(field: str, kind: str, **more: str) -> dict[str, Any]:
    return {"securityContext": {field: {"type": kind, **more}}}


@pytest.mark.parametrize(
    ("sent", "errors"),
    [
        (annotated({COST: "-5", f"{ARMOR}c": "runtime/default", f"{SECCOMP}c": "docker/default"}), []),
        (annotated({COST: "01"}), [f'metadata.annotations[{COST}]: Invalid value: "01": must be a 32bit integer']),
        (annotated({COST: "2147483648"}), [f'metadata.annotations[{COST}]: Invalid value: "2147483648": must be a 32bit integer']),
        (annotated({MIRROR: "x"}), [f'metadata.annotations[{MIRROR}]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set']),
        (annotated({f"{ARMOR}d": "unconfined"}), [f'metadata.annotations[{ARMOR}d]: Invalid value: "d": container not found']),
        (annotated({f"{ARMOR}c": "x"}), [f'metadata.annotations[{ARMOR}c]: Invalid value: "x": invalid AppArmor profile name: "x"']),
        (annotated({f"{SECCOMP}c": "x"}), [f'metadata.annotations.{SECCOMP}c: Invalid value: "x": must be a valid seccomp profile']),
        (annotated({f"{SECCOMP}c": "localhost/../x"}), [f"metadata.annotations.{SECCOMP}c: Invalid value: \"../x\": must not contain '..'"]),
        (annotated({f"{ARMOR}c": "localhost/x"}, container=profile("appArmorProfile", "Localhost", localhostProfile="x")), []),
        (annotated({f"{ARMOR}c": "localhost/x"}, **profile("appArmorProfile", "Localhost", localhostProfile="y")), ["spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation and field must match"]),
        (annotated({f"{ARMOR}c": "unconfined"}, **profile("appArmorProfile", "RuntimeDefault")), ["spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match"]),
        (annotated({f"{SECCOMP}c": "docker/default"}, container=profile("seccompProfile", "RuntimeDefault")), []),
        (annotated({f"{SECCOMP}c": "unconfined"}, container=profile("seccompProfile", "RuntimeDefault")), ["spec.containers[0].securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"]),
    ],
)  # fmt: skip
def test_what_an_annotation_may_say(sent: dict[str, Any], errors: list[str]) -> None:
    assert refused(sent) == errors


def test_some_annotations_of_a_pod_stay_as_they_are() -> None:
    key = f"{ARMOR}c"
    there = annotated({key: "unconfined"})
    changed = complaints(there, {"metadata": {"annotations": {key: "runtime/default", "a": "b"}}})
    assert changed == [f"metadata.annotations[{key}]: Forbidden: may not remove or update AppArmor annotations"]
    added = complaints(annotated({}), {"metadata": {"annotations": {MIRROR: "x"}}})
    assert f"metadata.annotations[{MIRROR}]: Forbidden: may not add mirror pod annotation" in added


def test_a_pod_is_of_the_host_with_all_its_containers_or_none() -> None:
    of_host = {"securityContext": {"windowsOptions": {"hostProcess": True}}}
    two = [{"name": "a", "image": "i", **of_host}, {"name": "b", "image": "i"}]
    assert refused(pod(containers=two)) == [
        'spec: Invalid value: "": If pod contains any hostProcess containers then all containers must be HostProcess containers',
        "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
    ]
    assert refused(pod(containers=two[1:], hostNetwork=True, **of_host)) == []
    other = [{**two[0], "securityContext": {"windowsOptions": {"hostProcess": False}}}]
    assert refused(pod(containers=other, **of_host)) == [
        "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false:"
        " pod hostProcess value must be identical if both are specified, was true"
    ]


def test_a_disk_of_google_is_called_as_the_real_server_calls_it() -> None:
    assert refused(pod(volumes=[{"name": "v", "gcePersistentDisk": {}}])) == [
        "spec.volumes[0].persistentDisk.pdName: Required value"
    ]


@pytest.mark.parametrize(
    ("said", "spec", "field", "warned"),
    [
        ("runtime/default", {}, {"type": "RuntimeDefault"}, True),
        ("localhost/x", {}, {"type": "Localhost", "localhostProfile": "x"}, True),
        ("localhost/", {}, None, True),
        ("unconfined", profile("appArmorProfile", "Unconfined"), None, False),
        ("unconfined", {"container": profile("appArmorProfile", "Unconfined")}, {"type": "Unconfined"}, False),
        ("unconfined", {"os": {"name": "windows"}}, None, False),
    ],
)
def test_a_profile_in_an_annotation_becomes_a_field(
    said: str, spec: dict[str, Any], field: dict[str, str] | None, warned: bool
) -> None:
    obj = made(annotated({f"{ARMOR}c": said}, **spec))
    warning = f'metadata.annotations[{ARMOR}c]: deprecated since v1.30; use the "appArmorProfile" field instead'
    assert take_profiles(obj) == ([warning] if warned else [])
    assert (obj["spec"]["containers"][0].get("securityContext") or {}).get("appArmorProfile") == field
