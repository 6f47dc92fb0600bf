"""The budgets of a pod on a node: how much of what it says is expanded, interpreted, written and kept. All of them are here.

Sizes of arguments and environments are those of Linux: execve refuses a string of 128 KiB and, with the usual stack,
2 MiB of strings and pointers in all. The rest bounds the work that one pod can cause, before the work is done: a
`Budget` belongs to one pod, is spent in the order of its containers and does not depend on time, so that a control
plane that starts again comes to the same end.
"""

from dataclasses import dataclass
from typing import ClassVar, Final


@dataclass(frozen=True, slots=True)
class Limit:
    most: int
    what: str  # with {found} and {most}


MAX_STRING: Final = 128 * 1024 - 1  # MAX_ARG_STRLEN without the final NUL
MAX_EXEC: Final = 2 * 1024 * 1024  # ARG_MAX with a stack of 8 MiB
POINTER: Final = 9  # what a string costs beside its characters: its NUL and a pointer
MAX_CONTAINERS: Final = 1000

# Of all containers of a pod together.
STRINGS: Final = Limit(
    8 * MAX_EXEC, "arguments and environments of the pod take {found} bytes, at most {most} are allowed"
)
VARIABLES: Final = Limit(20_000, "the pod sets {found} variables, at most {most} are allowed")
REFERENCES: Final = Limit(65_536, 'the pod has {found} "$" to expand, at most {most} are allowed')

# Of the shell scripts of a pod on a simulated node.
SCRIPT: Final = Limit(128 * 1024, "its scripts have {found} characters, at most {most} are read")
EXPANDED: Final = Limit(128 * 1024, "its variables expand to {found} characters, at most {most} are allowed")
STEPS: Final = Limit(5_000, "it takes {found} commands and expansions, at most {most} are allowed")
OUTPUT: Final = Limit(256 * 1024, "it writes {found} characters, at most {most} are allowed")
LINES: Final = Limit(5_000, "it writes {found} lines, at most {most} are allowed")
NESTING: Final = Limit(16, "its commands are nested {found} deep, at most {most} are allowed")


class LimitExceeded(Exception):
    """A container asks for more than a limit allows; the text names the limit, what was found and what is allowed."""

    reason: ClassVar[str] = "Error"  # of the container's state
    exit_code: ClassVar[int] = 1


class ExecRefused(LimitExceeded):
    """The kernel would not execute it: reason and exit code are those a container runtime reports."""

    reason = "StartError"
    exit_code = 128


class ScriptRefused(LimitExceeded):
    """The simulated shell does not interpret it any further."""

    reason = "SimulationLimit"


class Budget:
    """What the containers of one pod may still spend."""

    def __init__(self) -> None:
        self._spent: dict[Limit, int] = {}

    def spend(self, limit: Limit, amount: int) -> None:
        found = self._spent.get(limit, 0) + amount
        self._spent[limit] = found
        check(limit, found)


def check(limit: Limit, found: int) -> None:
    if found > limit.most:
        words = limit.what.format(found=found, most=limit.most)
        if limit in _OF_EXEC:
            raise ExecRefused(f"argument list too long: {words}")
        raise ScriptRefused(f"the simulated shell does not run this script: {words}")


_OF_EXEC: Final = frozenset({STRINGS, VARIABLES, REFERENCES})


@dataclass(frozen=True, slots=True)
class LogLimits:
    """As a kubelet's containerLogMaxSize and containerLogMaxFiles: a container keeps their product of its newest output."""

    max_size: int = 10 * 1024 * 1024
    max_files: int = 5

    @property
    def kept(self) -> int:
        return self.max_size * self.max_files
