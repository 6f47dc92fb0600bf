"""What a container's command would do in time, as far as it can be seen from outside: its echoes, sleeps and exit.

Only the plainest commands are understood (echo, printf, sleep, exit, true, false), and what Kubernetes' test image
(agnhost) does in many manifests; which of a script's commands come to their turn is module shell's matter. What loops
runs for ever, what is not understood takes no time but leaves a line in the log. Nothing is executed.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuaas.executors.shell import commands

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SLEEP = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_LOOPS = re.compile(r"\b(while|until|for)\b|\btail\s+-f\b")
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_SERVERS = frozenset({"netexec", "pause", "serve-hostname", "test-webserver"})  # of the test image
_NOT_RUN = "(simulated) "


@dataclass(frozen=True, slots=True)
class Script:
    """`seconds` is None where it never ends by itself; `lines` come so many seconds after the start."""

    lines: tuple[tuple[float, str], ...] = ()
    seconds: float | None = 0.0
    exit_code: int = 0
    understood: bool = True  # False: it does something whose duration nobody can know


def read_script(container: Mapping[str, Any], values: Mapping[str, str] | None = None) -> Script:
    """`values` are those of its environment, as far as they are known."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not words:
        return Script(understood=False)
    text = _shell_text(words)
    if text is None:
        return _run(_single(words))
    read = _run(commands(text, values or {}))
    if _LOOPS.search(text):
        return Script(lines=tuple(line for line in read.lines if not line[1].startswith(_NOT_RUN)), seconds=None)
    return read


def _shell_text(words: Sequence[str]) -> str | None:
    """The script of `sh -c SCRIPT`; None for a plain command."""
    if words[0].rsplit("/", 1)[-1] not in _SHELLS:
        return None
    for position, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-[a-z]*c[a-z]*", word):
            rest = [one for one in words[position + 1 :] if one != "--"]
            return rest[0] if rest else ""
    return None


def _single(words: Sequence[str]) -> Generator[list[str], int, None]:
    yield list(words)


def _run(turns: Generator[list[str], int, None]) -> Script:
    now, code, understood = 0.0, 0, True
    lines: list[tuple[float, str]] = []
    words = next(turns, None)
    while words is not None:
        match words[0].rsplit("/", 1)[-1], list(words[1:]):
            case "sleep", arguments:
                pause = _pause(arguments)
                if pause is None:
                    return Script(tuple(lines), None)
                now, code = now + pause, 0
            case "echo", arguments:
                lines.append((now, " ".join(one for one in arguments if one not in ("-n", "-e"))))
                code = 0
            case "printf", [form, *_]:
                lines += [(now, line) for line in form.replace("\\n", "\n").splitlines()]
            case "exit", arguments:
                return Script(tuple(lines), now, _code(arguments, code), understood)
            case "true" | ":" | "set" | "cd" | "export", _:
                code = 0
            case "false", _:
                code = 1
            case "agnhost", [_, *_]:
                return _run(_single(words[1:]))
            case "entrypoint-tester", _:
                lines.append((now, " ".join(words)))
            case name, _ if name in _SERVERS:
                return Script(tuple(lines), None)
            case _ if "--" in words[:-1]:  # what runs something else: what it runs counts
                inner = _run(_single(words[words.index("--") + 1 :]))
                if inner.seconds is None:
                    return Script(tuple(lines), None)
                lines += [(now + offset, line) for offset, line in inner.lines]
                now, code, understood = now + inner.seconds, inner.exit_code, understood and inner.understood
            case _:
                lines.append((now, f"{_NOT_RUN}{' '.join(words)}"))
                code, understood = 0, False
        try:
            words = turns.send(code)
        except StopIteration:
            words = None
    return Script(tuple(lines), now, code, understood)


def _pause(arguments: Sequence[str]) -> float | None:
    total = 0.0
    for word in arguments:
        if word in ("infinity", "inf"):
            return None
        found = _SLEEP.fullmatch(word)
        total += float(found[1]) * _UNITS[found[2]] if found else 0.0
    return total


def _code(arguments: Sequence[str], last: int) -> int:
    return int(arguments[0]) & 0xFF if arguments and arguments[0].isdigit() else last
