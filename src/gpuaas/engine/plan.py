"""What one cycle decided, for whom and why: the engine's only output.

A plan is immutable news about the past: the engine has already taken it as done (admitted items hold their quota,
victims are marked as leaving). Sentences are made when they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from gpuaas.engine.assign import Assignment
from gpuaas.engine.preempt import Rule
from gpuaas.engine.reasons import SEVERITY, Reason, Token
from gpuaas.engine.values import PodSetAdmission


class Loan(NamedTuple):
    """What a queue uses beyond its own nominal quota once this is admitted, and the cohort that provides it."""

    flavor: str
    resource: str
    amount: int
    cohort: str


class Admitted(NamedTuple):
    key: str
    uid: str
    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]
    level: int = 0
    """How high in the cohort tree the quota comes from; 0 when it is the queue's own."""
    loans: tuple[Loan, ...] = ()
    considered: str = ""
    """Upstream's words about flavors that were borrowed, or tried and not taken; empty when the first one just fitted."""
    replaces: str = ""
    """The key of the workload whose quota passes to it; that one is over."""


class Preempted(NamedTuple):
    """A victim, the rule that allows it, and what it gives back."""

    key: str
    uid: str
    cluster_queue: str
    rule: Rule
    by: str
    by_uid: str
    by_job_uid: str
    by_queue: str
    path: str
    by_path: str
    frees: tuple[tuple[str, str, int], ...]
    message: str


class Skipped(NamedTuple):
    """A workload that was looked at and not admitted."""

    key: str
    cluster_queue: str
    token: Token
    words: str = ""
    """Upstream's sentence, where it is not made from an assignment."""
    assignment: Assignment | None = None
    waits_for: tuple[str, ...] = ()
    """Keys of the victims whose departure it waits for."""

    @property
    def message(self) -> str:
        if self.words or self.assignment is None:
            return self.words
        message = self.assignment.message()
        if self.waits_for:
            message += f". Pending the preemption of {len(self.waits_for)} workload(s)"
        return message

    @property
    def reasons(self) -> tuple[Reason, ...]:
        if self.assignment is None:
            return ()
        return tuple(reason for choice in self.assignment.sets for reason in choice.reasons)


@dataclass(slots=True)
class Plan:
    cycle: int
    admissions: list[Admitted] = field(default_factory=list)
    preemptions: list[Preempted] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    faults: list[tuple[str, Exception]] = field(default_factory=list)
    """Workloads that could not be judged, by key, and why."""
    heads: int = 0
    """How many workloads were looked at."""
    left: int = 0
    """How many trees are to be looked at in the next cycle."""

    @property
    def changed(self) -> bool:
        return bool(self.admissions or self.preemptions)


def no_fit_token(assignment: Assignment) -> Token:
    """The one word for an assignment that fits nowhere.

    Flavors of a resource group are alternatives, so that the mildest of their reasons counts; pod sets are all needed,
    so that the worst of theirs does.
    """
    worst = Token.TOPOLOGY
    found = False
    for choice in assignment.sets:
        if choice.error or not choice.reasons:
            continue
        found = True
        per_flavor: dict[str, Token] = {}
        for reason in choice.reasons:
            token = per_flavor.get(reason.flavor, reason.token)
            per_flavor[reason.flavor] = max(token, reason.token, key=SEVERITY.__getitem__)
        mildest = min(per_flavor.values(), key=SEVERITY.__getitem__)
        worst = max(worst, mildest, key=SEVERITY.__getitem__)
    return worst if found else Token.NO_MATCHING_FLAVOR


HUMAN_RULES = {
    Rule.IN_QUEUE: "prioritization in the ClusterQueue",
    Rule.RECLAIM: "reclamation within the cohort",
    Rule.FAIR_SHARING: "Fair Sharing within the cohort",
    Rule.RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


def preemption_message(uid: str, job_uid: str, rule: Rule, by_path: str, path: str) -> str:
    return (
        f"Preempted to accommodate a workload (UID: {uid or 'UNKNOWN'}, JobUID: {job_uid or 'UNKNOWN'}) due to "
        f"{HUMAN_RULES[rule]}; preemptor path: {by_path}; preemptee path: {path}"
    )
