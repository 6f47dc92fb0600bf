"""Why workloads wait, in one word each, as the scheduler found when it last looked: for pages that show whole queues.

Workloads of one shape fare alike, so the word is kept by shape: recording costs what a cycle skipped, and counting a
queue costs its shapes, not its workloads. `gpuaas why` judges one workload again, in full (engine.explain).
"""

from collections import Counter
from weakref import WeakKeyDictionary

from gpuaas.engine.engine import Engine
from gpuaas.engine.items import Item, Shape
from gpuaas.engine.plan import Plan
from gpuaas.engine.queues import Queue
from gpuaas.engine.reasons import Token
from gpuaas.kueue.unadmitted import reason_of

_MOST_HELD = 500  # of workloads that are looked at one by one


class WaitingReasons:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tokens: WeakKeyDictionary[Shape, Token] = WeakKeyDictionary()

    def looked(self, plan: Plan) -> None:
        for skipped in plan.skipped:
            item = self._engine.items.get(skipped.key)
            if item is not None:
                self._tokens[item.shape] = skipped.token

    def of(self, key: str) -> str:
        """The reason of one workload (`namespace/name`); "" where it does not wait."""
        item = self._engine.items.get(key)
        if item is None or item.reserved:
            return ""
        return reason_of(Token.QUEUE_MISSING if item.queue is None else self._token(item, item.queue))

    def counted(self, cluster_queue: str) -> list[tuple[str, int]]:
        """How many workloads of a ClusterQueue wait for which reason, the most first."""
        queue = self._engine.forest.queues.get(cluster_queue)
        if queue is None:
            return []
        found: Counter[Token] = Counter()
        pending = queue.pending
        for shape, number in pending.shapes():
            found[self._of_shape(shape, queue)] += number
        for place, item in enumerate(pending.held.values()):
            found[self._token(item, queue) if place < _MOST_HELD else Token.BACKING_OFF] += 1
        if pending.inflight is not None:
            found[self._of_shape(pending.inflight.shape, queue)] += 1
        return sorted(
            ((reason_of(token), number) for token, number in found.items()), key=lambda pair: (-pair[1], pair[0])
        )

    def _token(self, item: Item, queue: Queue) -> Token:
        if item.held:
            refusal = self._engine.refusal(item)
            return Token.BACKING_OFF if refusal is None else refusal[0]
        return self._of_shape(item.shape, queue)

    def _of_shape(self, shape: Shape, queue: Queue) -> Token:
        """One that was never looked at waits behind the others of its queue."""
        if queue.inactive is not None:
            return Token.QUEUE_STOPPED
        return self._tokens.get(shape, Token.BEHIND_OTHERS)
