"""Calls webhooks, and retries a verb with their answers (module webhooks says about what, and why so).

The questions of judges go out side by side, those of changers one by one. What goes wrong on the way is an answer too:
whether it stops the write is for the webhook's failure policy to say.
"""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Final

import msgspec

from gpuaas.apiserver.codec import encode
from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.apiserver.webhook_client import Refused, post, words
from gpuaas.apiserver.webhooks import Question, Reply, Unasked

_ROUNDS: Final = 100  # far more than there can be webhooks to ask; a webhook whose answers keep changing ends here


def asks_webhooks(verb: Callable[..., Awaitable[Outcome]]) -> Callable[..., Awaitable[Outcome]]:
    """A verb about which webhooks may have something to say."""

    @wraps(verb)
    def run(op: Operation, *args: object) -> Awaitable[Outcome]:
        if not op.cluster.admission.webhooks.hear(op):
            return verb(op, *args)
        return _asking(verb, op, args)

    return run


async def _asking(verb: Callable[..., Awaitable[Outcome]], op: Operation, args: tuple[object, ...]) -> Outcome:
    answers: dict[Any, Any] = {}
    for _ in range(_ROUNDS):
        attempt = replace(op, warnings=[], answers=answers)
        try:
            return await verb(attempt, *map(_fresh, args))
        except Unasked as unasked:
            questions = unasked.questions
        finally:
            op.warnings[:] = attempt.warnings
            op.dry_run = attempt.dry_run
        replies = await asyncio.gather(*(_ask(question, op) for question in questions))
        answers.update((question.key, reply) for question, reply in zip(questions, replies, strict=True))
    raise RuntimeError("webhooks answer every time otherwise")


def _fresh(arg: object) -> object:
    """A body of its own for every beginning."""
    return msgspec.json.decode(encode(arg)) if isinstance(arg, dict | list) else arg


async def _ask(question: Question, op: Operation) -> Reply:
    hook, uid = question.hook, op.cluster.ids.uid()
    version = next(each for each in hook.said["admissionReviewVersions"] if each in ("v1", "v1beta1"))
    kind = {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}"}
    seconds = hook.said.get("timeoutSeconds", 10)
    target = f"?timeout={seconds}s"
    try:
        async with asyncio.timeout(seconds):
            asked = encode({**kind, "request": {"uid": uid, **question.request}})
            body = await post(hook.url, hook.authority, target, asked)
    except (OSError, ValueError) as error:
        why = words(hook.url, hook.authority, error)
        return Reply(failure=f'failed to call webhook: Post "{hook.url}{target}": {why}')
    except Refused as error:
        return Reply(failure=f"failed to call webhook: {error}")
    try:
        return _reply(msgspec.json.decode(body), kind["apiVersion"], uid, mutating=question.mutating)
    except (ValueError, TypeError, AttributeError) as error:
        return Reply(failure=f"received invalid webhook response: {error}")


def _reply(review: Any, api_version: str, uid: str, *, mutating: bool) -> Reply:
    said = review.get("response")
    if said is None:
        raise ValueError("webhook response was absent")
    if api_version.endswith("/v1"):
        if said.get("uid", "") != uid:
            raise ValueError(f'expected response.uid="{uid}", got "{said.get("uid", "")}"')
        got = f"{review.get('apiVersion', '')}, Kind={review.get('kind', '')}"
        if got != f"{api_version}, Kind=AdmissionReview":
            raise ValueError(f"expected webhook response of {api_version}, Kind=AdmissionReview, got {got}")
    for unwanted in () if mutating else ("patch", "patchType"):
        if said.get(unwanted) and api_version.endswith("/v1"):
            raise ValueError(f"validating webhook may not return response.{unwanted}")
    return Reply(
        allowed=said.get("allowed") is True,
        patch=_patch(said) if mutating else None,
        warnings=[str(each) for each in said.get("warnings") or ()],
        result=said.get("status"),
    )


def _patch(said: Any) -> Any:
    patch, form = said.get("patch"), said.get("patchType")
    if bool(patch) != (form is not None):
        there, missing = ("patch", "patchType") if patch else ("patchType", "patch")
        raise ValueError(f"webhook returned response.{there} but not response.{missing}")
    if not patch:
        return None
    if form != "JSONPatch":
        raise ValueError(f"unsupported patch type {form}")
    try:
        return msgspec.json.decode(base64.b64decode(patch, validate=True))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"the patch cannot be read: {error}") from None
