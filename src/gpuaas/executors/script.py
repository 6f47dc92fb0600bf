"""What a container's command would do in time, as far as it can be seen from outside: its echoes, sleeps and exit.

Only the plainest commands are understood (echo, printf, sleep, exit, true, false), and what Kubernetes' test image
(agnhost) does in many manifests; which of a script's commands come to their turn is module shell's matter. What loops
runs for ever, what is not understood takes no time but leaves a line in the log. Nothing is executed. What passes a limit
(module limits) ends there as a failure, with the limit as its message.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.executors.environment import Environment, check_words
from gpuaas.executors.limits import LINES, NESTING, OUTPUT, Budget, LimitExceeded, ScriptRefused, check
from gpuaas.executors.shell import commands

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SLEEP = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")
_CODE = re.compile(r"[0-9]{1,19}")
_LOOPS = re.compile(r"\b(while|until|for)\b|\btail\s+-f\b")
_OPTIONS = re.compile(r"-[a-z]+")
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_SERVERS = frozenset({"netexec", "pause", "serve-hostname", "test-webserver"})  # of the test image
_NOT_RUN = "(simulated) "
_FOREVER = 1e9  # seconds; what sleeps longer never ends


@dataclass(frozen=True, slots=True)
class Script:
    """`seconds` is None where it never ends by itself; `lines` come so many seconds after the start."""

    lines: tuple[tuple[float, str], ...] = ()
    seconds: float | None = 0.0
    exit_code: int = 0
    understood: bool = True  # False: it does something of unknown duration
    reason: str = ""  # where a limit ended it
    message: str = ""


Smi = Callable[[Sequence[str]], "Sequence[str] | None"]  # arguments to lines; None for what is not understood


def _no_smi(_: Sequence[str]) -> None:
    return None


def refused(error: LimitExceeded, lines: Sequence[tuple[float, str]] = (), seconds: float = 0.0) -> Script:
    """What is left of a script that passed a limit."""
    lines = (*lines, (seconds, f"{_NOT_RUN}{error}"))
    return Script(lines, seconds, error.exit_code, reason=error.reason, message=str(error))


def read_script(
    container: Mapping[str, Any],
    budget: Budget,
    environment: Environment | None = None,
    smi: Smi = _no_smi,
) -> Script:
    """`environment` is its environment as far as it is known; without one its words are taken as they are written.
    `smi`: what nvidia-smi prints in it."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not words:
        return Script(understood=False)
    try:
        if environment is not None:
            words = environment.words(container)
        else:
            check_words(words, budget)
    except LimitExceeded as error:
        return refused(error)
    text = _shell_text(words)
    if text is None:
        return _run(_single(words), budget, smi)
    read = _run(commands(text, environment.values if environment is not None else {}, budget), budget, smi)
    if _LOOPS.search(text) and not read.message:
        return Script(lines=tuple(line for line in read.lines if not line[1].startswith(_NOT_RUN)), seconds=None)
    return read


def _shell_text(words: Sequence[str]) -> str | None:
    """The script of `sh -c SCRIPT`; None for a plain command."""
    if words[0].rsplit("/", 1)[-1] not in _SHELLS:
        return None
    for position, word in enumerate(words[1:], 1):
        if word.startswith("-") and "c" in word and _OPTIONS.fullmatch(word):
            return next((one for one in words[position + 1 :] if one != "--"), "")
    return None


def _single(words: Sequence[str]) -> Generator[list[str], int, None]:
    yield list(words)


def _run(turns: Generator[list[str], int, None], budget: Budget, smi: Smi, depth: int = 0) -> Script:
    run = _Run(budget, smi, depth)
    try:
        check(NESTING, depth)
        words = next(turns, None)
        while words is not None and run.take(words):
            words = turns.send(run.code)
    except StopIteration:
        pass
    except ScriptRefused as error:
        return refused(error, run.lines, run.now)
    if run.forever:
        return Script(tuple(run.lines), None)
    return Script(tuple(run.lines), run.now, run.code, run.understood, run.reason, run.message)


class _Run:
    """How far a script has come."""

    def __init__(self, budget: Budget, smi: Smi, depth: int) -> None:
        self.lines: list[tuple[float, str]] = []
        self.now, self.code, self.forever, self.understood = 0.0, 0, False, True
        self.reason = self.message = ""
        self._budget = budget
        self._smi = smi
        self._depth = depth

    def take(self, words: list[str]) -> bool:
        """One command; whether others come after it."""
        match words[0].rsplit("/", 1)[-1], words[1:]:
            case "sleep", arguments:
                pause = _pause(arguments)
                self.code, self.forever = 0, pause is None
                self.now += pause or 0.0
                return not self.forever
            case "echo", arguments:
                self._write(" ".join(one for one in arguments if one not in ("-n", "-e")))
                self.code = 0
            case "printf", [form, *_]:
                for line in form.replace("\\n", "\n").splitlines():
                    self._write(line)
            case "exit", arguments:
                self.code = _code(arguments, self.code)
                return False
            case "true" | ":" | "set" | "cd" | "export", _:
                self.code = 0
            case "false", _:
                self.code = 1
            case "nvidia-smi", arguments if (printed := self._smi(arguments)) is not None:
                for line in printed:
                    self._write(line)
                self.code = 0
            case "agnhost", [_, *_] as rest:
                return self._take_over(rest, last=True)
            case "entrypoint-tester", _:
                self._write(" ".join(words))
            case name, _ if name in _SERVERS:
                self.forever = True
                return False
            case _ if "--" in words[:-1]:  # what runs something else: what it runs counts
                return self._take_over(words[words.index("--") + 1 :], last=False)
            case _:
                self._write(f"{_NOT_RUN}{' '.join(words)}")
                self.code, self.understood = 0, False
        return True

    def _take_over(self, words: list[str], *, last: bool) -> bool:
        inner = _run(_single(words), self._budget, self._smi, self._depth + 1)
        self.lines += [(self.now + offset, line) for offset, line in inner.lines]
        self.code, self.understood = inner.exit_code, self.understood and inner.understood
        self.forever, self.reason, self.message = inner.seconds is None, inner.reason, inner.message
        self.now += inner.seconds or 0.0
        return not (last or self.forever or self.message)

    def _write(self, line: str) -> None:
        self._budget.spend(LINES, 1)
        self._budget.spend(OUTPUT, len(line))
        self.lines.append((self.now, line))


def _pause(arguments: Sequence[str]) -> float | None:
    total = 0.0
    for word in arguments:
        if word in ("infinity", "inf"):
            return None
        found = _SLEEP.fullmatch(word)
        total += float(found[1]) * _UNITS[found[2]] if found else 0.0
    return total if total <= _FOREVER else None


def _code(arguments: Sequence[str], last: int) -> int:
    return int(arguments[0]) & 0xFF if arguments and _CODE.fullmatch(arguments[0]) else last
