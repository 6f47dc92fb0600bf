"""Where a pod goes: the best node that takes it, or who would have to leave, or the reasons why no node does.

`place` is the whole decision for one pod. The message of `Unplaced` is kube-scheduler's, to the letter, so that tools
and people who read FailedScheduling events find what they know.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gpuaas.nodefit.book import Ask, Book
from gpuaas.nodefit.fit import Refusal, refusal
from gpuaas.nodefit.neighbours import Neighbourhood, concerns_others
from gpuaas.nodefit.preempt import Eviction, find_victims
from gpuaas.nodefit.scores import score

NO_NODES = "no nodes available to schedule pods"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
# What the scheduler says of resource claims, which no pod here has, before it speaks of preemption.
NO_CLAIMS = "no new claims to deallocate"
NEVER = "not eligible due to preemptionPolicy=Never."


@dataclass(frozen=True, slots=True)
class Placed:
    node: str


@dataclass(frozen=True, slots=True)
class Unplaced:
    message: str
    refusals: Mapping[str, Refusal]  # by node
    eviction: Eviction | None = None  # pods of lower priority whose leaving makes room


def place(ask: Ask, book: Book) -> Placed | Unplaced:
    if not len(book):
        return Unplaced(NO_NODES, {})
    neighbourhood = _neighbourhood(ask, book)
    refusals: dict[str, Refusal] = {}
    best: tuple[tuple[int, ...], str] | None = None
    for one in book.places():
        found = refusal(ask, one, neighbourhood)
        if found is not None:
            refusals[one.name] = found
            continue
        rank = score(ask, one, neighbourhood)
        if best is None or rank > best[0]:
            best = (rank, one.name)
    if best is not None:
        return Placed(best[1])
    eviction = find_victims(ask, book, refusals) if ask.may_preempt else None
    return Unplaced(_message(ask, refusals, eviction), refusals, eviction)


def _neighbourhood(ask: Ask, book: Book) -> Neighbourhood | None:
    """None where neither this pod nor one already there says anything about others: then there is nothing to count."""
    return Neighbourhood(ask, book) if book.shunning or concerns_others(ask.spec) else None


def _message(ask: Ask, refusals: Mapping[str, Refusal], eviction: Eviction | None) -> str:
    total = len(refusals)
    reasons = Counter(reason for one in refusals.values() for reason in one.reasons)
    message = f"0/{total} nodes are available: {_counted(reasons)}."
    if not ask.may_preempt:
        return f"{message} {NO_CLAIMS}, preemption: {NEVER}"
    if eviction is not None:
        return message
    tried = Counter(NO_VICTIMS if one.helped else NOT_HELPFUL for one in refusals.values())
    return f"{message} {NO_CLAIMS}, preemption: 0/{total} nodes are available: {_counted(tried)}."


def _counted(reasons: Mapping[str, int]) -> str:
    """Sorted as text, count first: that is the order people see."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
