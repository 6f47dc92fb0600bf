"""The rules a job's author may add: which failures do not count, which end the job, when success is enough."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuaas.controllers.jobs.indexes import parse_indexes

Pod = Mapping[str, Any]


class Failure(NamedTuple):
    """What the failure policy makes of one failed pod."""

    counts: bool = True
    fails_job: str = ""  # the message, where the job must fail
    fails_index: bool = False


def match_failure(policy: Mapping[str, Any] | None, pod: Pod) -> Failure:
    """The first rule that matches decides; with none the failure counts."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        what = _what_matched(rule, pod)
        if not what:
            continue
        match rule.get("action"):
            case "Ignore":
                return Failure(counts=False)
            case "FailIndex":
                return Failure(fails_index=True)
            case "FailJob":
                return Failure(fails_job=f"{what} matching FailJob rule at index {number}")
            case _:
                return Failure()
    return Failure()


def _what_matched(rule: Mapping[str, Any], pod: Pod) -> str:
    """In words what the rule found, "" if nothing."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    status = pod.get("status") or {}
    if rule.get("onExitCodes"):
        for one in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
            code = ((one.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
            if code and _matches_code(rule["onExitCodes"], one, code):
                return f"Container {one['name']} for pod {name} failed with exit code {code}"
        return ""
    for condition in status.get("conditions") or ():
        for pattern in rule.get("onPodConditions") or ():
            if condition["type"] == pattern["type"] and condition["status"] == pattern.get("status", "True"):
                return f"Pod {name} has condition {condition['type']}"
    return ""


def _matches_code(requirement: Mapping[str, Any], container: Mapping[str, Any], code: int) -> bool:
    wanted = requirement.get("containerName")
    if wanted is not None and wanted != container["name"]:
        return False
    listed = code in (requirement.get("values") or ())
    return listed if requirement.get("operator") == "In" else not listed


def match_success(policy: Mapping[str, Any] | None, succeeded: set[int], completions: int) -> str:
    """The message where a rule of the success policy holds, "" if none does."""
    if not succeeded:
        return ""
    rules: Sequence[Mapping[str, Any]] = (policy or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            required = parse_indexes(rule["succeededIndexes"], completions)
            have = len(required & succeeded)
            met = bool(required) and (have == len(required) or (count is not None and have >= count))
        else:
            met = count is not None and len(succeeded) >= count
        if met:
            return f"Matched rules at index {number}"
    return ""
