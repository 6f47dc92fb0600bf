"""The plainest shell, read but not run: which commands of a script come to their turn, and with which words.

`commands` gives them one after the other and is told how each ended, so that `&&`, `||` and `if` go the way they would.
Variables have their values, sums are done. A test nobody can do from outside (whether there is a file, what a program
says) is taken to be passed, unless passing it is what makes the script give up.
"""

import operator
import re
import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

_END = re.compile(r"(;|\n|&&|\|\|)")
_VALUE = re.compile(r"\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
_SUM = re.compile(r"\$\(\(([^()]*)\)\)|\$\(expr ([^()]*)\)|`expr ([^`]*)`")
_NAME = re.compile(r"[A-Za-z_]\w*")
_TERM = re.compile(r"\s*(-?\d+)\s*([-+*/%])\s*(-?\d+)\s*|\s*(-?\d+)\s*")
_QUOTED = re.compile(r"('[^']*')")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_KEYWORDS = frozenset({"do", "then", "else", "elif", "if", "fi"})
_SUMS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
}
_PLAIN: Mapping[str, bool] = {"true": True, ":": True, "false": False}
_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}

Words = list[str]


@dataclass(slots=True)
class _If:
    """An open `if`: whether one of its branches was taken, and whether we are in it."""

    taken: bool
    inside: bool


def commands(text: str, values: Mapping[str, str]) -> Generator[Words, int, None]:
    """The commands that come to their turn. Send the exit code of each; the next one is the answer."""
    known, parts, open_ifs = dict(values), _parts(text), list[_If]()
    code = 0
    for position, (joint, part) in enumerate(parts):
        words = _words(_expanded(part, known))
        passes = (joint != "&&" or code == 0) and (joint != "||" or code != 0)
        words, asked = _open(words, open_ifs)
        if asked:
            passed = _test(words)
            passed = not _gives_up(parts[position + 1 :]) if passed is None else passed
            open_ifs[-1].inside = passed and not open_ifs[-1].taken
            open_ifs[-1].taken |= passed
            continue
        if not words or not passes or not all(each.inside for each in open_ifs):
            continue
        if assigned := _ASSIGNED.fullmatch(words[0]) if len(words) == 1 else None:
            known[assigned[1]], code = assigned[2], 0
            continue
        tested = _test(words) if words[0] in ("[", "[[", "test") else None
        if tested is not None or words[0] in ("[", "[[", "test"):
            code = int(tested is False)
            continue
        code = yield words


def _open(words: Words, open_ifs: list[_If]) -> tuple[Words, bool]:
    """Follows the keywords in front; what is left, and whether it is the question of an `if`."""
    while words and words[0] in _KEYWORDS:
        keyword, words = words[0], words[1:]
        match keyword:
            case "if":
                open_ifs.append(_If(taken=not all(each.inside for each in open_ifs), inside=False))
                return words, True
            case "elif" if open_ifs:
                return words, True
            case "else" if open_ifs:
                open_ifs[-1].inside = not open_ifs[-1].taken
            case "fi" if open_ifs:
                open_ifs.pop()
    return words, False


def _test(words: Sequence[str]) -> bool | None:
    """What a test comes to; None where only the container could know."""
    if words[:1] == ["!"]:
        inner = _test(words[1:])
        return None if inner is None else not inner
    if words and words[0] in ("[", "[[", "test"):
        return _compared([word for word in words[1:] if word not in ("]", "]]")])
    return _PLAIN.get(words[0]) if len(words) == 1 else None


def _compared(words: Sequence[str]) -> bool | None:
    match list(words):
        case ["!", *rest]:
            inner = _compared(rest)
            return None if inner is None else not inner
        case ["-z", text]:
            return text == ""
        case ["-z"]:
            return True
        case ["-n", text]:
            return text != ""
        case ["-n"]:
            return False
        case [first, "=" | "==", second]:
            return first == second
        case [first, "!=", second]:
            return first != second
        case [first, sign, second] if sign in _NUMBERS and _is_number(first) and _is_number(second):
            return _NUMBERS[sign](int(first), int(second))
        case _:
            return None


def _gives_up(rest: Sequence[tuple[str, str]]) -> bool:
    """Whether what follows, up to the end of its branch, leaves the script as a failure."""
    depth = 0
    for _, part in rest:
        words = _words(part)
        while words and words[0] in _KEYWORDS:
            keyword, words = words[0], words[1:]
            if keyword == "if":
                depth += 1
            elif keyword == "fi":
                depth -= 1
            if depth < 0 or (depth == 0 and keyword in ("else", "elif")):
                return False
        if words[:1] == ["exit"]:
            return words[1:] != ["0"] and len(words) > 1
    return False


def _parts(text: str) -> list[tuple[str, str]]:
    """(what joins it to the one before, text) at `;`, newlines, `&&` and `||`, but not inside quotes."""
    parts: list[tuple[str, str]] = []
    joint, current, quote, position = ";", "", "", 0
    while position < len(text):
        char = text[position]
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif end := _END.match(text, position):
            parts.append((joint, current))
            joint, current, position = end[1], "", end.end()
            continue
        current += char
        position += 1
    return [*parts, (joint, current)]


def _words(part: str) -> Words:
    try:
        return shlex.split(part, comments=True)
    except ValueError:
        return part.split()


def _expanded(part: str, values: Mapping[str, str]) -> str:
    """Variables and sums, except in single quotes; a variable nobody knows stays as it is written."""

    def value(found: re.Match[str]) -> str:
        return values.get(found[1] or found[2], found[0])

    def total(found: re.Match[str]) -> str:
        text = next(text for text in found.groups() if text is not None)
        if found[1] is not None:
            text = _NAME.sub(lambda name: values.get(name[0], name[0]), text)
        return _sum(text) or found[0]

    def expand(piece: str) -> str:
        return _SUM.sub(total, _VALUE.sub(value, piece))

    if "$" not in part and "`" not in part:
        return part
    return "".join(piece if piece.startswith("'") else expand(piece) for piece in _QUOTED.split(part))


def _sum(text: str) -> str:
    """Two numbers at most; empty where it is more than that."""
    found = _TERM.fullmatch(text.replace("\\", ""))
    if found is None:
        return ""
    if found[4]:
        return found[4]
    first, sign, second = int(found[1]), found[2], int(found[3])
    return "" if sign in "/%" and not second else str(_SUMS[sign](first, second))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None
