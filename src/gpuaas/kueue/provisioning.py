"""The provisioning-request check, decided: which request a workload needs, and what its state makes of the check.

A check of this controller asks a cluster autoscaler for room with a ProvisioningRequest of the workload's pods, and goes
by the answer. The loop around it is `controllers.kueue.provisioning`'s; how a failed request is named from the answer,
retried and given up on follows upstream word for word.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.kueue.integrations import keys
from gpuaas.kueue.integrations.podsets import Flavors, from_assignment, injected
from gpuaas.kueue.resources import amounts
from gpuaas.kueue.workload_state import conditions_of, is_true

View = Mapping[str, Any]
Object = dict[str, Any]

CONTROLLER: Final = "kueue.x-k8s.io/provisioning-request"
GROUP: Final = "kueue.x-k8s.io"
CONFIG_KIND: Final = "ProvisioningRequestConfig"
CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS: Final = "autoscaling.x-k8s.io/provisioning-class-name"
NOT_ACTIVE: Final = "the check is not active"
NOT_NEEDED: Final = "the provisioning request is not needed"
_LONGEST: Final = 247
_MOST_ATTEMPTS: Final = 1000
_SAME_NEEDS: Final = ("nodeSelector", "tolerations", "affinity", "resources", "resourceClaims")


class Inconsistent(Exception):
    """The workload's assignments are not those of its pod sets."""


# Names.


def request_name(workload: str, check: str, attempt: int) -> str:
    return _limited(f"{workload}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    return _limited(f"ppt-{request}-{pod_set}")


def attempt_of(request: str, workload: str, check: str) -> int | None:
    """None for a request of another workload or check."""
    if len(request) > _LONGEST:  # it was cut: a name gives no number back
        return next((n for n in range(1, _MOST_ATTEMPTS) if request_name(workload, check, n) == request), None)
    found = re.fullmatch(re.escape(f"{workload}-{check}-") + "([0-9]+)", request)
    return None if found is None else int(found[1])


def _limited(name: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:5]}"


# Checks and their configurations.


def parameters_problem(check: View, config_kind: str = CONFIG_KIND) -> str:
    """What is wrong with the check's reference to a configuration of this kind; empty if nothing is."""
    ref = (check.get("spec") or {}).get("parameters")
    if ref is None:
        return "missing parameters reference"
    if not ref.get("name"):
        return "empty name: bad parameters reference"
    for what, found, right in (("group", ref.get("apiGroup", ""), GROUP), ("kind", ref.get("kind", ""), config_kind)):
        if found != right:
            return f'wrong {what} "{found}", expecting "{right}": bad parameters reference'
    return ""


def config_named(check: View) -> str:
    """The configuration a check of this controller uses; empty if it names none."""
    spec = check.get("spec") or {}
    if spec.get("controllerName") != CONTROLLER or parameters_problem(check):
        return ""
    return str(spec["parameters"]["name"])


# Requests.


@dataclass(frozen=True, slots=True)
class Part:
    """Pod sets that are asked for as one."""

    name: str
    pod_set: View
    assignment: View
    count: int


def is_needed(workload: View, config: View) -> bool:
    """Whether there are pods that use what the configuration manages."""
    return any(True for _ in _used(workload, config))


def parts(workload: View, config: View) -> list[Part]:
    policy = config["spec"].get("podSetMergePolicy")
    found: list[Part] = []
    for pod_set, assignment, count in _used(workload, config):
        alike = next((i for i, each in enumerate(found) if _may_merge(each.pod_set, pod_set, policy)), None)
        if alike is None:
            found.append(Part(_name(pod_set), pod_set, assignment, count))
        else:
            one = found[alike]
            found[alike] = Part(one.name, one.pod_set, one.assignment, one.count + count)
    return found


def _used(workload: View, config: View) -> Iterable[tuple[View, View, int]]:
    given = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
    assignments = {_name(each): each for each in given}
    managed = frozenset(config["spec"].get("managedResources") or ())
    for pod_set in (workload.get("spec") or {}).get("podSets") or ():
        most = pod_set.get("count", 1)
        if most <= 0 or (managed and not _uses(pod_set, managed)):
            continue
        assignment = assignments.get(_name(pod_set))
        if assignment is None:
            raise Inconsistent(f'inconsistent podSet assignments: missing assignment for PodSet "{_name(pod_set)}"')
        count = assignment.get("count", most)
        if count > 0:
            yield pod_set, assignment, count


def _uses(pod_set: View, managed: frozenset[str]) -> bool:
    spec = (pod_set.get("template") or {}).get("spec") or {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        own = container.get("resources") or {}
        if not managed.isdisjoint(own.get("requests") or ()) or not managed.isdisjoint(own.get("limits") or ()):
            return True
    return False


def _may_merge(one: View, other: View, policy: str | None) -> bool:
    match policy:
        case "IdenticalPodTemplates":
            return bool(one.get("template") == other.get("template"))
        case "IdenticalWorkloadSchedulingRequirements":
            a, b = ((each.get("template") or {}).get("spec") or {} for each in (one, other))
            return all(_requests(a, kind) == _requests(b, kind) for kind in ("containers", "initContainers")) and all(
                a.get(field) == b.get(field) for field in _SAME_NEEDS
            )
        case _:
            return False


def _requests(spec: View, kind: str) -> list[dict[str, int]]:
    containers = spec.get(kind) or ()
    asked = (amounts((each.get("resources") or {}).get("requests")) for each in containers)
    return [{name: amount.nano for name, amount in each.items()} for each in asked]


def request_for(workload: View, name: str, config: View, found: Sequence[Part]) -> Object:
    """The request, but for who owns it."""
    notes = workload["metadata"].get("annotations") or {}
    passed = {key.removeprefix(keys.PROVISIONING): value for key, value in notes.items() if _is_passed(key)}
    return {
        "metadata": {"name": name, "namespace": workload["metadata"]["namespace"], "labels": {keys.MANAGED: "true"}},
        "spec": {
            "provisioningClassName": config["spec"]["provisioningClassName"],
            "parameters": {**(config["spec"].get("parameters") or {}), **passed},
            "podSets": [
                {"podTemplateRef": {"name": template_name(name, each.name)}, "count": each.count} for each in found
            ],
        },
    }


def template_for(workload: View, request: str, part: Part, flavors: Flavors) -> Object:
    """The pods of a part as they will be: with what their flavors add, and requests where they only have limits."""
    info = from_assignment(part.assignment, part.pod_set, flavors)
    template = injected(part.pod_set.get("template") or {}, info)
    spec = {**template["spec"]}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_with_requests(each) for each in spec[kind]]
    spec = _with_requests(spec)
    return {
        "metadata": {
            "name": template_name(request, part.name),
            "namespace": workload["metadata"]["namespace"],
            "labels": {keys.MANAGED: "true"},
        },
        "template": {**template, "spec": spec},
    }


def _is_passed(annotation: str) -> bool:
    return annotation.startswith(keys.PROVISIONING)


def _with_requests(owner: Object) -> Object:
    own = owner.get("resources") or {}
    if not own.get("limits"):
        return owner
    return {**owner, "resources": {**own, "requests": {**own["limits"], **(own.get("requests") or {})}}}


def newest(requests: Iterable[Object], workload: str, check: str, config: View) -> Object | None:
    """The last request for a check, if it still says what the configuration does."""
    found = [(attempt_of(each["metadata"]["name"], workload, check), each) for each in requests]
    mine = [(attempt, each) for attempt, each in found if attempt is not None and _follows(each, config)]
    return max(mine, key=lambda pair: pair[0])[1] if mine else None


def _follows(request: View, config: View) -> bool:
    spec, wanted = request.get("spec") or {}, config["spec"]
    if spec.get("provisioningClassName") != wanted["provisioningClassName"]:
        return False
    said = spec.get("parameters") or {}
    return all(said.get(key) == value for key, value in (wanted.get("parameters") or {}).items())


def next_attempt(workload: View, check: View, request: View | None) -> int | None:
    """The number of the request to make now; None while there is one to wait for, or nothing to ask."""
    if check.get("state") == "Ready":
        return None
    if request is None:
        return int(check.get("retryCount") or 0) + 1
    said = conditions_of(request)
    is_over = is_true(said.get("Failed")) or (
        is_true(said.get("BookingExpired")) and not is_true(conditions_of(workload).get("Admitted"))
    )
    if not is_over or check.get("state") != "Pending":
        return None
    return (attempt_of(request["metadata"]["name"], workload["metadata"]["name"], check["name"]) or 1) + 1


# What a request makes of its check.


def judged(workload: View, check: Object, config: View | None, request: View | None) -> Object:
    """The check's state now; the same object when nothing changed. `config` None: there is none."""
    if config is None:
        return _becoming(check, "Pending", NOT_ACTIVE)
    if not is_needed(workload, config):
        if check.get("state") == "Ready":
            return check
        return _without(_becoming(check, "Ready", NOT_NEEDED), "podSetUpdates")
    return check if request is None else _by_request(workload, check, config, request)


def _by_request(workload: View, check: Object, config: View, request: View) -> Object:
    said = conditions_of(request)
    admitted = is_true(conditions_of(workload).get("Admitted"))
    if is_true(said.get("Failed")):
        return _failed(workload, check, config, request, "failure", said["Failed"].get("message", ""))
    if is_true(said.get("CapacityRevoked")):
        # Pods that come later would wait for ever: the nodes are gone.
        active = (workload.get("spec") or {}).get("active", True)
        return _becoming(check, "Rejected", said["CapacityRevoked"].get("message", "")) if active else check
    if is_true(said.get("BookingExpired")):
        words = said["BookingExpired"].get("message", "")
        return check if admitted else _failed(workload, check, config, request, "booking expired", words)
    if is_true(said.get("Provisioned")):
        if check.get("state") == "Ready":
            return check
        ready = _becoming(check, "Ready", said["Provisioned"].get("message", ""))
        return {**ready, "podSetUpdates": _updates(workload, request, config)}
    if is_true(said.get("Accepted")):
        # The condition that is not true yet names the expected time.
        eta = said.get("Provisioned")
        return check if eta is None else _becoming(check, "Pending", eta.get("message", ""))
    return _becoming(check, "Pending", "")


def _failed(workload: View, check: Object, config: View, request: View, what: str, words: str) -> Object:
    rules = config["spec"].get("retryStrategy") or {}
    attempt = attempt_of(request["metadata"]["name"], workload["metadata"]["name"], check["name"]) or 1
    if attempt > rules.get("backoffLimitCount", 3):
        return _becoming(check, "Rejected", words)
    message = f"Retrying after {what}: {words}"
    retried = int(check.get("retryCount") or 0)
    if attempt <= retried:
        return _becoming(check, check.get("state", "Pending"), message)  # this failure has been answered already
    wait = min(rules.get("backoffBaseSeconds", 60) * 2**retried, rules.get("backoffMaxSeconds", 1800))
    made = _becoming(check, "Retry", message)
    return made if made.get("requeueAfterSeconds") == wait else {**made, "requeueAfterSeconds": wait}


def _updates(workload: View, request: View, config: View) -> list[Object]:
    name = request["metadata"]["name"]
    names = {
        template_name(name, _name(each)): _name(each) for each in (workload.get("spec") or {}).get("podSets") or ()
    }
    details = (request.get("status") or {}).get("provisioningClassDetails") or {}
    wanted = (config["spec"].get("podSetUpdates") or {}).get("nodeSelector") or ()
    selector = {
        each["key"]: details[each["valueFromProvisioningClassDetail"]]
        for each in wanted
        if each["valueFromProvisioningClassDetail"] in details
    }
    update: Object = {"annotations": {CONSUMES: name, CLASS: request["spec"]["provisioningClassName"]}}
    if selector:
        update["nodeSelector"] = selector
    return [{"name": names.get(each["podTemplateRef"]["name"], ""), **update} for each in request["spec"]["podSets"]]


def _becoming(check: Object, state: str, message: str) -> Object:
    if check.get("state") == state and check.get("message", "") == message:
        return check
    return {**check, "state": state, "message": message}


def _without(check: Object, field: str) -> Object:
    return {key: value for key, value in check.items() if key != field}


def _name(pod_set: View) -> str:
    return str(pod_set.get("name", keys.MAIN))
