"""Admission fair sharing: how much each LocalQueue has used lately, so that the one that used less goes first.

Usage decays with a half-life; a fresh admission counts at once as a penalty, before any sample has seen it. Values are
floats in natural units (cores, bytes), as upstream computes them. Which queues look at it is their own setting;
`pending` orders by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpuaas.engine.values import LocalQueue, LQKey, Millis

Amounts = dict[str, float]


@dataclass(frozen=True, slots=True)
class UsageConfig:
    half_life: Millis = 0
    sampling: Millis = 300_000
    weights: tuple[tuple[str, float], ...] = ()
    """How much a resource counts; 1 where nothing is said."""


@dataclass(slots=True)
class Account:
    consumed: Amounts = field(default_factory=dict)
    penalties: dict[str, Amounts] = field(default_factory=dict)
    updated: Millis | None = None


class Ledger:
    def __init__(self, config: UsageConfig) -> None:
        self.configure(config)
        self._accounts: dict[LQKey, Account] = {}

    def configure(self, config: UsageConfig) -> None:
        self.config = config
        self._weights = dict(config.weights)

    def usage(self, queue: LocalQueue | None, key: LQKey) -> float:
        """What the queue has used, weighed; endless for one of no weight."""
        weight = 1.0 if queue is None else queue.weight
        account = self._accounts.get(key)
        if account is None:
            return 0.0 if weight > 0 else float("inf")
        if weight <= 0:
            return float("inf")
        total = dict(account.consumed)
        for penalty in account.penalties.values():
            for resource, amount in penalty.items():
                total[resource] = total.get(resource, 0.0) + amount
        return sum(self._weights.get(resource, 1.0) * amount for resource, amount in sorted(total.items())) / weight

    def penalize(self, key: LQKey, workload: str, requests: Amounts) -> None:
        """A workload got quota: its queue pays at once what the next sample would show."""
        share = decay(self.config.sampling, self.config.half_life)
        self._account(key).penalties[workload] = {r: share * amount for r, amount in requests.items()}

    def forgive(self, key: LQKey, workload: str) -> None:
        """The workload's end, or its reservation's, before it was admitted."""
        account = self._accounts.get(key)
        if account is not None:
            account.penalties.pop(workload, None)

    def fold(self, key: LQKey, workload: str, running: Callable[[], Amounts], now: Millis) -> None:
        """The workload is admitted: its penalty becomes usage, together with what ran since the last sample."""
        account = self._accounts.get(key)
        penalty = account.penalties.pop(workload, None) if account is not None else None
        if account is None or penalty is None:
            return
        self.sample(key, running(), now)
        for resource, amount in penalty.items():
            account.consumed[resource] = account.consumed.get(resource, 0.0) + amount

    def sample(self, key: LQKey, running: Amounts, now: Millis) -> None:
        account = self._account(key)
        updated = now if account.updated is None else max(now, account.updated)
        share = decay(0 if account.updated is None else updated - account.updated, self.config.half_life)
        account.updated = updated
        if self.config.half_life == 0:
            account.consumed = {}
            return
        account.consumed = {
            resource: account.consumed.get(resource, 0.0) * (1 - share) + running.get(resource, 0.0) * share
            for resource in sorted(account.consumed.keys() | running.keys())
        }

    def due(self, key: LQKey, now: Millis) -> bool:
        updated = self._account(key).updated
        return updated is None or now - updated >= self.config.sampling

    def knows(self, key: LQKey) -> bool:
        return key in self._accounts

    def consumed(self, key: LQKey) -> Amounts:
        account = self._accounts.get(key)
        return dict(account.consumed) if account is not None else {}

    def load(self, key: LQKey, consumed: Amounts, updated: Millis) -> None:
        """Take up where an earlier run left off."""
        account = self._account(key)
        account.consumed, account.updated = dict(consumed), updated

    def memento(self) -> dict[LQKey, Account]:
        return {
            key: Account(dict(a.consumed), {w: dict(p) for w, p in a.penalties.items()}, a.updated)
            for key, a in self._accounts.items()
        }

    def restore(self, memento: dict[LQKey, Account]) -> None:
        self._accounts = memento

    def _account(self, key: LQKey) -> Account:
        return self._accounts.setdefault(key, Account())


def decay(elapsed: Millis, half_life: Millis) -> float:
    """The part that time takes away (and that what runs now fills up)."""
    return 0.0 if half_life == 0 else 1.0 - 0.5 ** (elapsed / half_life)
