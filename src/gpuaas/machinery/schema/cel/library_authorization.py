"""`authorizer` in the expressions of policies: may this user, or a service account, do something?

The questions are put together here, step by step; who is asked, and knows the answer, comes with the value of the
variable. Each question has a high price, as upstream: an expression can ask two.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from gpuaas.base.names import is_dns1123_label, is_dns1123_subdomain
from gpuaas.machinery.schema.cel.library import add
from gpuaas.machinery.schema.cel.types import BOOL, STRING, Type
from gpuaas.machinery.schema.cel.values import CelError, name_class

AUTHORIZER: Final = Type("kubernetes.authorization.Authorizer")
PATH_CHECK: Final = Type("kubernetes.authorization.PathCheck")
GROUP_CHECK: Final = Type("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = Type("kubernetes.authorization.ResourceCheck")
DECISION: Final = Type("kubernetes.authorization.Decision")


@dataclass(frozen=True, slots=True)
class Question:
    """Empty for a path: resource, and for a resource: path."""

    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    account: tuple[str, str] | None = None  # the namespace and name of a service account, instead of who asks


class Answer(NamedTuple):
    allowed: bool
    reason: str


Ask = Callable[[Question], Answer]


@dataclass(frozen=True, slots=True)
class Authorizer:
    ask: Ask
    account: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class PathCheck:
    ask: Ask
    question: Question


@dataclass(frozen=True, slots=True)
class GroupCheck:
    ask: Ask
    question: Question


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    ask: Ask
    question: Question


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path:
        raise CelError("path must not be empty")
    return PathCheck(authorizer.ask, Question(path=path, account=authorizer.account))


def _group(authorizer: Authorizer, group: str) -> GroupCheck:
    return GroupCheck(authorizer.ask, Question(group=group, account=authorizer.account))


def _account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if is_dns1123_subdomain(name):
        raise CelError("Invalid service account name")
    if is_dns1123_label(namespace):
        raise CelError("Invalid service account namespace")
    return Authorizer(authorizer.ask, (namespace, name))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource:
        raise CelError("resource must not be empty")
    return ResourceCheck(check.ask, replace(check.question, resource=resource))


def _with(key: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def narrowed(check: ResourceCheck, value: str) -> ResourceCheck:
        more: dict[str, Any] = {key: value}
        return ResourceCheck(check.ask, replace(check.question, **more))

    return narrowed


def _selecting(check: ResourceCheck, _selector: str) -> ResourceCheck:
    """Roles know nothing of selectors: who may list at all may list a part."""
    return check


def _check(check: ResourceCheck | PathCheck, verb: str) -> Answer:
    return check.ask(replace(check.question, verb=verb))


def _authorization() -> None:
    add("path", (AUTHORIZER, STRING), PATH_CHECK, _path, method=True)
    add("group", (AUTHORIZER, STRING), GROUP_CHECK, _group, method=True)
    add("serviceAccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _account, method=True)
    add("resource", (GROUP_CHECK, STRING), RESOURCE_CHECK, _resource, method=True)
    for key in ("subresource", "namespace", "name"):
        add(key, (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _with(key), method=True)
    for name in ("fieldSelector", "labelSelector"):
        add(name, (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _selecting, method=True)
    add("check", (PATH_CHECK, STRING), DECISION, _check, method=True)
    add("check", (RESOURCE_CHECK, STRING), DECISION, _check, method=True)
    add("allowed", (DECISION,), BOOL, lambda answer: answer.allowed, method=True)
    add("reason", (DECISION,), STRING, lambda answer: answer.reason, method=True)
    add("errored", (DECISION,), BOOL, lambda _: False, method=True)
    add("error", (DECISION,), STRING, lambda _: "", method=True)


for _class, _type in (
    (Authorizer, AUTHORIZER),
    (PathCheck, PATH_CHECK),
    (GroupCheck, GROUP_CHECK),
    (ResourceCheck, RESOURCE_CHECK),
    (Answer, DECISION),
):
    name_class(_class, _type.name)
_authorization()
