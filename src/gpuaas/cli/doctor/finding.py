"""What a check finds: a level, one sentence, and the command that fixes it."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from gpuaas.assembly.home import Home
    from gpuaas.client.http import HttpClient

Level = Literal["green", "yellow", "red"]
"""red: something does not work; yellow: it works, but not as its user expects; green: checked and right."""

LEVELS: tuple[Level, ...] = ("red", "yellow", "green")


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    check: str  # a stable name that scripts can search for, such as "kueue-queues-active"
    message: str
    fix: str = ""  # one command; empty where there is nothing to do

    def row(self) -> dict[str, Any]:
        return asdict(self)


LocalCheck = Callable[["Home"], list[Finding]]
ClusterCheck = Callable[["HttpClient"], Awaitable[list[Finding]]]


def worst_first(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (LEVELS.index(finding.level), finding.check, finding.message))
