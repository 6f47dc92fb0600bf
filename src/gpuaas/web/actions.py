"""What people can do on the pages: cancel a job, stop and resume a queue, change a job's priority.

Each states its effect first, as the engine's what-if computes it (package views, module effects), and is performed
through the API as the user. Whether a button is shown follows from RBAC; whether it works, from the API's own answer.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from gpuaas.base.errors import ApiError, BadRequest, NotFound, Unavailable
from gpuaas.base.numbers import integer
from gpuaas.client.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, PRIORITY_CLASSES, WORKLOADS
from gpuaas.client.protocol import Object, Resource
from gpuaas.engine.values import StopPolicy
from gpuaas.kueue.integrations.keys import PRIORITY_CLASS
from gpuaas.views.effects import Effect, Effects
from gpuaas.web.card_actions import CARD_ACTIONS
from gpuaas.web.notebook_actions import NOTEBOOK_ACTIONS
from gpuaas.web.page import Action, Field, Form, Visit
from gpuaas.web.pages.submit import SUBMIT

_HIGHEST: Final = 2**31 - 1
_JOB: Final = "/jobs/{namespace}/{kind}/{name}"
_POLICIES: Final = (
    (StopPolicy.HOLD.value, "running jobs go on, no other starts"),
    (StopPolicy.HOLD_AND_DRAIN.value, "running jobs are evicted too"),
)


# Jobs.


def _may_cancel(visit: Visit) -> bool:
    return _may_with_job(visit, "delete")


def _may_change_priority(visit: Visit) -> bool:
    where, name = visit.parts["namespace"], visit.parts["name"]
    return _may_with_job(visit, "patch") or visit.may("patch", WORKLOADS, where, name)


def _may_with_job(visit: Visit, verb: str) -> bool:
    where, name = visit.parts["namespace"], visit.parts["name"]
    return any(visit.may(verb, each, where, name) for each in visit.api.resources_of(visit.parts["kind"]))


async def _effect_of_cancel(visit: Visit, _: Form) -> str:
    workload = _workload_of(visit)
    effect = _effects(visit).of_cancel(f"{visit.parts['namespace']}/{workload}")
    return f"Deletes {_job(visit)}; {_said(visit, effect)}"


async def _cancel(visit: Visit, _: Form) -> str:
    resource, name = await _owner(visit, _workload_of(visit))
    await visit.api.delete(resource, name, visit.parts["namespace"])
    return f"{_job(visit)} is cancelled."


async def _effect_of_priority(visit: Visit, form: Form) -> str:
    _, value = await _priority(visit, form)
    workload = _workload_of(visit)
    effect = _effects(visit).of_priority(f"{visit.parts['namespace']}/{workload}", value)
    if effect is None:
        raise NotFound(WORKLOADS.group, WORKLOADS.plural, workload)
    return f"Gives {_job(visit)} priority {value}; {_said(visit, effect)}"


async def _change_priority(visit: Visit, form: Form) -> str:
    name, value = await _priority(visit, form)
    where, workload = visit.parts["namespace"], _workload_of(visit)
    if name:
        resource, owner = await _owner(visit, workload)
        await visit.api.patch(resource, owner, {"metadata": {"labels": {PRIORITY_CLASS: name}}}, where)
    else:
        await visit.api.patch(WORKLOADS, workload, {"spec": {"priority": value}}, where)
    return f"{_job(visit)} has priority {value}" + (f" ({name})." if name else ".")


async def _priority(visit: Visit, form: Form) -> tuple[str, int]:
    """The priority class that is asked for, "" for a plain number, and its value."""
    asked = form["priority"].strip()
    if not asked:
        raise BadRequest("priority: a WorkloadPriorityClass or a whole number was expected, nothing was found")
    value = integer(asked)
    if value is not None:
        if abs(value) > _HIGHEST:
            raise BadRequest(f"priority: {value} was found; at most {_HIGHEST} is allowed")
        return "", value
    found = await visit.api.get(PRIORITY_CLASSES, asked)
    return asked, found["value"]


async def _priority_classes(visit: Visit) -> list[str]:
    try:
        return sorted(each["metadata"]["name"] for each in await visit.api.list(PRIORITY_CLASSES))
    except ApiError:
        return []


async def _owner(visit: Visit, workload: str) -> tuple[Resource, str]:
    """What a person made: the job that the Workload stands for, or the Workload itself."""
    found: Object = await visit.api.get(WORKLOADS, workload, visit.parts["namespace"])
    for owner in found["metadata"].get("ownerReferences") or ():
        resource = visit.api.resource_of(owner["apiVersion"], owner["kind"])
        if owner["name"] == visit.parts["name"] and resource is not None:
            return resource, owner["name"]
    return WORKLOADS, workload


def _workload_of(visit: Visit) -> str:
    parts = visit.parts
    return visit.views.workload_of(visit.user, parts["namespace"], parts["kind"], parts["name"])


def _job(visit: Visit) -> str:
    return f"{visit.parts['kind']}/{visit.parts['name']}"


# Queues.


def _may_set(resource: Resource, visit: Visit) -> bool:
    return visit.may("patch", resource, visit.parts.get("namespace", ""), visit.parts["name"])


async def _effect_of_policy(resource: Resource, resumes: bool, visit: Visit, form: Form) -> str:
    policy, name = _policy(form, resumes), visit.parts["name"]
    effects = _effects(visit)
    if resource is CLUSTER_QUEUES:
        effect = effects.of_cluster_queue(name, policy)
    else:
        effect = effects.of_local_queue(visit.parts["namespace"], name, policy)
    if effect is None:
        raise NotFound(resource.group, resource.plural, name)
    return f"{'Resumes' if resumes else 'Stops'} queue {name}; {_said(visit, effect)}"


async def _set_policy(resource: Resource, resumes: bool, visit: Visit, form: Form) -> str:
    policy, name = _policy(form, resumes), visit.parts["name"]
    change = {"spec": {"stopPolicy": policy.value}}
    await visit.api.patch(resource, name, change, visit.parts.get("namespace", ""))
    return f"Queue {name} is {'resumed' if resumes else 'stopped'}."


def _policy(form: Form, resumes: bool) -> StopPolicy:
    if resumes:
        return StopPolicy.NONE
    known = [value for value, _ in _POLICIES]
    if form["policy"] not in known:
        raise BadRequest(f"policy: {form['policy'][:40]!r} was found; {' or '.join(known)} was expected")
    return StopPolicy(form["policy"])


# Both.


def _effects(visit: Visit) -> Effects:
    if visit.views.effects is None:
        raise Unavailable("the admission engine does not know the queues yet; try again in a moment", retry_after=1)
    return visit.views.effects


def _said(visit: Visit, effect: Effect) -> str:
    return effect.sentence(lambda namespace: visit.may("list", WORKLOADS, namespace)) + "."


def _queue_actions(resource: Resource, path: str, name: str, back: str) -> tuple[Action, Action]:
    field = Field("policy", "What runs now", StopPolicy.HOLD.value, _POLICIES)
    stop = Action(
        f"stop-{name}",
        f"{path}/stop",
        "Stop queue {name}",
        "Stop",
        partial(_may_set, resource),
        partial(_effect_of_policy, resource, False),
        partial(_set_policy, resource, False),
        back,
        (field,),
        danger=True,
    )
    resume = Action(
        f"resume-{name}",
        f"{path}/resume",
        "Resume queue {name}",
        "Resume",
        partial(_may_set, resource),
        partial(_effect_of_policy, resource, True),
        partial(_set_policy, resource, True),
        back,
    )
    return stop, resume


ACTIONS: Final = (
    *NOTEBOOK_ACTIONS,
    *SUBMIT,
    Action(
        "cancel",
        f"{_JOB}/cancel",
        "Cancel {kind}/{name}",
        "Cancel job",
        _may_cancel,
        _effect_of_cancel,
        _cancel,
        "/jobs",
        danger=True,
    ),
    Action(
        "priority",
        f"{_JOB}/priority",
        "Change the priority of {kind}/{name}",
        "Change priority",
        _may_change_priority,
        _effect_of_priority,
        _change_priority,
        _JOB,
        (
            Field(
                "priority",
                "Priority",
                hint="a WorkloadPriorityClass, or a number where the job has no class",
                suggests=_priority_classes,
            ),
        ),
    ),
    *_queue_actions(CLUSTER_QUEUES, "/queues/{name}", "queue", "/queues/{name}"),
    *_queue_actions(LOCAL_QUEUES, "/localqueues/{namespace}/{name}", "local-queue", "/quota"),
    *CARD_ACTIONS,
)
