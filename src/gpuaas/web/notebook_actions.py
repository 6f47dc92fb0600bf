"""What can be done with a notebook on the pages: stop it, start it again."""

from __future__ import annotations

from functools import partial
from typing import Final

from gpuaas.base.clock import rfc3339
from gpuaas.base.errors import BadRequest
from gpuaas.profiles.notebook_state import BY_KUEUE, STOPPED, is_stopped
from gpuaas.views.notebooks import NOTEBOOKS, QUEUE
from gpuaas.web.page import Action, Form, Visit

_PATH: Final = "/notebooks/{namespace}/{name}"


def _may(visit: Visit) -> bool:
    return visit.may("patch", NOTEBOOKS, visit.parts["namespace"], visit.parts["name"])


async def _effect(starts: bool, visit: Visit, _: Form) -> str:
    name = visit.parts["name"]
    found = await visit.api.get(NOTEBOOKS, name, visit.parts["namespace"])
    if is_stopped(found) is not starts:
        raise BadRequest(f"notebook/{name} {'is not stopped' if starts else 'is stopped already'}")
    if starts:
        return f"Starts notebook/{name}: it goes to its queue, and runs when it is admitted."
    return f"Stops notebook/{name}: what runs in its kernels ends, its files stay, its CPU and GPUs are free."


async def _perform(starts: bool, visit: Visit, _: Form) -> str:
    namespace, name = visit.parts["namespace"], visit.parts["name"]
    found = await visit.api.get(NOTEBOOKS, name, namespace)
    queued = QUEUE in (found["metadata"].get("labels") or {})
    value = (BY_KUEUE if queued else None) if starts else rfc3339(visit.now)
    await visit.api.patch(NOTEBOOKS, name, {"metadata": {"annotations": {STOPPED: value}}}, namespace)
    return f"notebook/{name} {'starts' if starts else 'stops'}."


def _action(starts: bool) -> Action:
    word = "start" if starts else "stop"
    return Action(
        f"{word}-notebook",
        f"{_PATH}/{word}",
        f"{word.capitalize()} notebook {{name}}",
        word.capitalize(),
        _may,
        partial(_effect, starts),
        partial(_perform, starts),
        _PATH,
        danger=not starts,
    )


NOTEBOOK_ACTIONS: Final = (_action(True), _action(False))
