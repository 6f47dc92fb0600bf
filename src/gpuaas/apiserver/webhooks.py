"""Admission webhooks: who registered for a write is asked about it, and may change or refuse it.

A verb never waits, so no webhook can be called in the middle of one. `change` and `judge` look for the answer among those the
operation brings; where there is none they raise `Unasked`, module webhook_retry calls the webhook, and the verb is retried with what it
learned, on whatever is true by then. Only webhooks with a URL are asked: a service has no address here, and who brings
one that needs it is warned (gpuaas.api.kubernetes.rules.webhooks).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuaas.api.kinds import Object
from gpuaas.apiserver.catalogue import Version
from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.mutations import take_over
from gpuaas.apiserver.operation import Operation
from gpuaas.apiserver.policies import Request, check_matching
from gpuaas.base.errors import ApiError, BadRequest, Internal
from gpuaas.machinery.jsonpatch import PatchRefused, apply_json_patch
from gpuaas.machinery.schema.cel import CelError
from gpuaas.machinery.schema.policies import Policy, compile_policy

if TYPE_CHECKING:
    from gpuaas.apiserver.cluster import Cluster

View = Mapping[str, Any]
_GROUP: Final = "admissionregistration.k8s.io"
_SERVER_MADE: Final = ("uid", "creationTimestamp", "generation")  # which a new object gets after it was changed
_QUIET: Final = ("None", "NoneOnDryRun")


@dataclass(frozen=True, slots=True)
class Hook:
    name: str
    said: View
    policy: Policy  # its conditions

    @property
    def url(self) -> str:
        return str(self.said["clientConfig"]["url"])

    @property
    def authority(self) -> str:
        return str(self.said["clientConfig"].get("caBundle") or "")

    @property
    def meant(self) -> View:
        return {**self.said, "resourceRules": self.said["rules"]}


@dataclass(frozen=True, slots=True)
class Question:
    hook: Hook
    request: View
    key: tuple[str, bytes]  # the same question is not asked twice about one write
    mutating: bool


@dataclass(frozen=True, slots=True)
class Reply:
    allowed: bool = True
    patch: Any = None
    warnings: Sequence[str] = ()
    result: View | None = None
    failure: str = ""  # why there is no reply


class Unasked(Exception):
    """The verb cannot go on before these are answered."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__()
        self.questions = questions


class DeniedByWebhook(ApiError):
    def __init__(self, name: str, result: View) -> None:
        why = result.get("message") or result.get("reason")
        words = f'admission webhook "{name}" denied the request'
        super().__init__(
            f"{words}: {why}" if why else f"{words} without explanation", details=result.get("details") or None
        )
        self.code = max(int(result.get("code") or 0), 400)
        self.reason = str(result.get("reason") or "")


class Hooks:
    """The webhooks of one kind of configuration, in the order of their names, as long as none changes."""

    def __init__(self, cluster: "Cluster", plural: str) -> None:
        self._store, self._prefix, self._aside = cluster.store, f"{_GROUP}/{plural}/", cluster.aside
        self._known: tuple[Hook, ...] = ()
        self._seen = 0

    def for_write(self, op: Operation) -> tuple[Hook, ...]:
        changed = self._store.changed(self._prefix)
        if changed != self._seen:
            self._known, self._seen = tuple(self._found()), changed
        return self._known if self._known and op.resource.group != _GROUP else ()

    def _found(self) -> Iterator[Hook]:
        configurations = (entry.obj for entry in self._store.list(self._prefix))
        for hooks in self._aside.each("admission", configurations, _hooks_of):
            yield from hooks


def _hooks_of(configuration: View) -> list[Hook]:
    found: list[Hook] = []
    for said in configuration.get("webhooks") or ():
        if (said.get("clientConfig") or {}).get("url") and said.get("rules"):
            conditions = {key: said[key] for key in ("matchConditions", "failurePolicy") if key in said}
            hook = Hook(said["name"], said, compile_policy(conditions))
            check_matching(hook.meant)
            found.append(hook)
    return found


class Webhooks:
    def __init__(self, cluster: "Cluster") -> None:
        self._changing = Hooks(cluster, "mutatingwebhookconfigurations")
        self._judging = Hooks(cluster, "validatingwebhookconfigurations")

    def hear(self, op: Operation) -> bool:
        """Whether there is anybody to ask about writes like this one."""
        return bool(self._changing.for_write(op) or self._judging.for_write(op))

    def change(self, op: Operation, obj: Object | None, old: View | None) -> None:
        if op.answers is None:
            return
        again = [  # who wants to know what others made of it
            (hook, encode(obj))
            for hook in self._changing.for_write(op)
            if self._follow(hook, op, obj, old) and hook.said.get("reinvocationPolicy") == "IfNeeded"
        ]
        for hook, left in again:
            if encode(obj) != left:
                self._follow(hook, op, obj, old)

    def judge(self, op: Operation, obj: View | None, old: View | None) -> None:
        if op.answers is None:
            return
        questions = [
            question
            for hook in self._judging.for_write(op)
            if (question := _question(hook, op, obj, old, mutating=False)) is not None
        ]
        unasked = [each for each in questions if each.key not in op.answers]
        if unasked:
            raise Unasked(unasked)
        for each in questions:
            _heed(each.hook, op, op.answers[each.key])

    def _follow(self, hook: Hook, op: Operation, obj: Object | None, old: View | None) -> bool:
        """Whether it was asked; the object is then as it wants it."""
        question = _question(hook, op, obj, old, mutating=True)
        if question is None or op.answers is None:
            return False
        reply = op.answers.get(question.key)
        if reply is None:
            raise Unasked([question])
        _heed(hook, op, reply)
        if reply.patch:
            if obj is None:
                text = "attempted to modify the object, which is not supported for this operation"
                raise Internal(f'admission webhook "{hook.name}" {text}')
            _patch(op, obj, question.request, reply.patch)
        return True


def _question(hook: Hook, op: Operation, obj: View | None, old: View | None, *, mutating: bool) -> Question | None:
    request = Request(op, obj, old)
    version = request.matched(hook.meant)
    if version is None:
        return None
    facts = request.facts(version)
    if hook.said.get("matchConditions"):
        meant = hook.policy.is_meant(facts)
        if isinstance(meant, list):
            for denial in meant:
                raise Internal(f'failed calling webhook "{hook.name}": {denial.message}')
            return None
        if not meant:
            return None
    if op.dry_run and hook.said.get("sideEffects") not in _QUIET:
        raise BadRequest(f'admission webhook "{hook.name}" does not support dry run')
    said = {
        **facts["request"],
        "object": facts["object"],
        "oldObject": facts["oldObject"],
    }
    if mutating and old is None and obj is not None:
        said["object"] = _before_it_is_new(op, facts["object"])
        if "name" not in said["object"]["metadata"]:
            del said["name"]
    return Question(hook, said, (hook.name, encode(_timeless(said))), mutating)


def _before_it_is_new(op: Operation, shown: View) -> Object:
    """A new object is changed before the server makes it one: it has no uid yet, nor a name it did not bring."""
    meta = {key: value for key, value in shown["metadata"].items() if key not in _SERVER_MADE}
    if meta.get("generateName") and not op.name:
        meta.pop("name", None)
    return {**shown, "metadata": meta}


def _timeless(said: View) -> Object:
    """Without the times of managed fields: asked again a second later, it is the same question."""
    return {
        key: {**value, "metadata": {k: v for k, v in value["metadata"].items() if k != "managedFields"}}
        if key in ("object", "oldObject") and value
        else value
        for key, value in said.items()
    }


def _heed(hook: Hook, op: Operation, reply: Reply) -> None:
    if reply.failure:
        if hook.policy.fails:
            raise Internal(f'failed calling webhook "{hook.name}": {reply.failure}')
        return
    op.warnings.extend(reply.warnings)
    if not reply.allowed:
        raise DeniedByWebhook(hook.name, reply.result or {})


def _patch(op: Operation, obj: Object, request: View, patch: Any) -> None:
    version = _version(op, request)
    made = {key: obj["metadata"][key] for key in (*_SERVER_MADE, "name") if key in obj["metadata"]}
    try:
        take_over(op, obj, apply_json_patch(request["object"], patch), version)
    except PatchRefused as refusal:
        raise Internal(refusal.why) from None
    except (ApiError, CelError) as problem:
        raise Internal(
            str(problem).partition(" cannot be handled as a ")[2].partition(": ")[2] or str(problem)
        ) from None
    obj["metadata"] = {**made, **obj["metadata"]}


def _version(op: Operation, request: View) -> Version:
    return op.resource.versions[request["kind"]["version"]]
