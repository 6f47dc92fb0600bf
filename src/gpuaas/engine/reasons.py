"""Why something is not admitted: one token of ours, upstream's words, and the numbers they were made from.

Reasons keep numbers and give sentences only when asked: most are never read. Tokens follow the finer reasons that
upstream has behind a gate; the QuotaReserved condition's own reason stays `Pending`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpuaas.engine.amounts import text


class Token(Enum):
    """The one word for why a workload was not admitted, worst last."""

    TOPOLOGY = "TopologyPlacementFailed"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    MISCONFIGURED = "Misconfigured"
    QUEUE_STOPPED = "Suspended"
    CHECKS_FAILED = "PendingEvaluation"
    BACKING_OFF = "BackingOff"
    QUEUE_MISSING = "QueueMissing"
    BEHIND_OTHERS = "BehindOthersInQueue"


SEVERITY = {Token.TOPOLOGY: 1, Token.WAITING_FOR_QUOTA: 2, Token.EXCEEDS_MAX_QUOTA: 3, Token.NO_MATCHING_FLAVOR: 4}


@dataclass(frozen=True, slots=True)
class Unfit:
    """A flavor that these pods cannot use, or a resource without quota."""

    words: str
    flavor: str = ""
    token: Token = Token.NO_MATCHING_FLAVOR

    @property
    def message(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class TooMuch:
    """More than the queue could ever get of a flavor, with all preemption."""

    flavor: str
    resource: str
    assumed: int
    requested: int
    capacity: int
    token: Token = Token.EXCEEDS_MAX_QUOTA

    @property
    def message(self) -> str:
        return (
            f"insufficient quota for {self.resource} in flavor {self.flavor}, previously considered podsets requests "
            f"({text(self.resource, self.assumed)}) + current podset request ({text(self.resource, self.requested)}) "
            f"> maximum capacity ({text(self.resource, self.capacity)})"
        )


@dataclass(frozen=True, slots=True)
class TooLittleFree:
    """The quota exists, and others use it."""

    flavor: str
    resource: str
    missing: int
    requested: int
    token: Token = Token.WAITING_FOR_QUOTA

    @property
    def message(self) -> str:
        return (
            f"insufficient unused quota for {self.resource} in flavor {self.flavor}, "
            f"{text(self.resource, self.missing)} more needed"
        )


Reason = Unfit | TooMuch | TooLittleFree
