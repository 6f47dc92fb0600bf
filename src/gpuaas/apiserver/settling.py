"""Answers that speak of a write still in flight wait until it is committed.

A verb decides on the newest state, committed or not. Telling a client of it earlier would let it see a conflict with a
version it cannot read yet, or have "nothing to change" acknowledged about a state that a crash could still undo.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps

from gpuaas.apiserver.operation import Operation, Outcome
from gpuaas.base.errors import AlreadyExists, Conflict

_STEP = 0.0005
_MOST_STEPS = 4000  # two seconds: a key that is written all the time is answered about in the end


def told_when_visible(
    verb: Callable[..., Awaitable[Outcome]],
) -> Callable[..., Awaitable[Outcome]]:
    """A verb whose refusals by what others wrote come when that can be read."""

    @wraps(verb)
    def run(op: Operation, *args: object, **kwargs: object) -> Awaitable[Outcome]:
        try:
            return verb(op, *args, **kwargs)
        except (Conflict, AlreadyExists) as refusal:
            if op.cluster.store.latest(op.key) is op.cluster.store.get(op.key):
                raise
            return _refused(op, refusal)

    return run


async def _refused(op: Operation, refusal: Exception) -> Outcome:
    await committed(op)
    raise refusal


async def unchanged(op: Operation, outcome: Outcome) -> Outcome:
    """Nothing to write: true once what is there is committed."""
    if op.cluster.store.latest(op.key) is not op.cluster.store.get(op.key):
        await committed(op)
    return outcome


async def committed(op: Operation) -> None:
    store, key = op.cluster.store, op.key
    for _ in range(_MOST_STEPS):
        if store.latest(key) is store.get(key):
            return
        await asyncio.sleep(_STEP)
