"""The plainest shell, read but not run: which commands of a script come to their turn, and with which words.

`commands` gives them one after the other and gets how each ended, so that `&&`, `||` and `if` go the way they would.
Variables have their values, sums are done. A test that cannot be done from outside (whether there is a file, what a program
says) is taken to be passed, unless passing it is what makes the script give up.

Scripts come from anyone who may write a pod, so everything is bounded by the pod's `Budget` (module limits) before it is
done: characters read, characters that variables expand to, commands and expansions, depth. There are no loops, and
reading takes time in proportion to the text.
"""

import operator
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from gpuaas.executors.limits import EXPANDED, NESTING, SCRIPT, STEPS, Budget, check

_PIECE = re.compile(r"""'[^']*'?|"[^"]*"?|(?P<end>;|\n|&&|\|\|)|[^'";\n&|]+|[&|]""")
_BLANK = re.compile(r"[ \t\r\n]*")
_VALUE = re.compile(r"\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
_SUM = re.compile(r"\$\(\(([^()]*)\)\)|\$\(expr ([^()]*)\)|`expr ([^`]*)`")
_NAME = re.compile(r"[A-Za-z_]\w*")
_TERM = re.compile(r"\s*(-?[0-9]{1,19})\s*([-+*/%])\s*(-?[0-9]{1,19})\s*|\s*(-?[0-9]{1,19})\s*")
_LONGEST_SUM = 100  # characters; two numbers and a sign are shorter
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_QUOTED = re.compile(r"('[^']*')")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_KEYWORDS = frozenset({"do", "then", "else", "elif", "if", "fi"})
_LEADING = re.compile(r"[ \t\r\n]*(do|then|else|elif|if|fi)(?![^ \t\r\n])")
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
# What words are made of, as the standard library's shlex has it in POSIX mode, whose time is quadratic in a word's length.
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)|(?P<comment>\#[^\n]*)|(?P<plain>[^ \t\r\n'"\\\#]+)|\\(?P<escaped>.)"""
    r"""|'(?P<single>[^']*+)'|"(?P<double>(?:[^"\\]++|\\.)*+)\"""",
    re.DOTALL,
)
_ESCAPED = re.compile(r'\\(["\\])')

Words = list[str]
Parts = Sequence[tuple[str, str]]


@dataclass(slots=True)
class _If:
    """An open `if`: whether one of its branches was taken, and whether we are in it."""

    taken: bool
    inside: bool


def commands(text: str, values: Mapping[str, str], budget: Budget) -> Generator[Words, int, None]:
    """The commands that come to their turn. Send the exit code of each; the next one is the answer."""
    budget.spend(SCRIPT, len(text))
    known, parts, open_ifs = dict(values), _parts(text), list[_If]()
    budget.spend(STEPS, len(parts))
    giving_up = _giving_up(parts)
    code = 0
    for position, (joint, part) in enumerate(parts):
        words = _words(_expanded(part, known, budget))
        passes = (joint != "&&" or code == 0) and (joint != "||" or code != 0)
        words, asked = _open(words, open_ifs)
        if asked:
            passed = _test(words)
            passed = position not in giving_up if passed is None else passed
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
    first = 0
    while first < len(words) and words[first] in _KEYWORDS:
        keyword = words[first]
        first += 1
        match keyword:
            case "if":
                open_ifs.append(_If(taken=not all(each.inside for each in open_ifs), inside=False))
                check(NESTING, len(open_ifs))
                return words[first:], True
            case "elif" if open_ifs:
                return words[first:], True
            case "else" if open_ifs:
                open_ifs[-1].inside = not open_ifs[-1].taken
            case "fi" if open_ifs:
                open_ifs.pop()
    return words[first:], False


def _test(words: Sequence[str]) -> bool | None:
    """What a test comes to; None where only the container could know."""
    positive = True
    start = 0
    while start < len(words) and words[start] == "!":
        positive, start = not positive, start + 1
    words = words[start:]
    if words and words[0] in ("[", "[[", "test"):
        found = _compared([word for word in words[1:] if word not in ("]", "]]")])
    else:
        found = _PLAIN.get(words[0]) if len(words) == 1 else None
    return None if found is None else found is positive


def _compared(words: Sequence[str]) -> bool | None:
    positive = True
    start = 0
    while start < len(words) and words[start] == "!":
        positive, start = not positive, start + 1
    found: bool | None
    match list(words[start:]):
        case ["-z", text]:
            found = text == ""
        case ["-z"]:
            found = True
        case ["-n", text]:
            found = text != ""
        case ["-n"]:
            found = False
        case [first, "=" | "==", second]:
            found = first == second
        case [first, "!=", second]:
            found = first != second
        case [first, sign, second] if sign in _NUMBERS and _NUMBER.fullmatch(first) and _NUMBER.fullmatch(second):
            found = _NUMBERS[sign](int(first), int(second))
        case _:
            return None
    return found is positive


def _giving_up(parts: Parts) -> set[int]:
    """The questions after which the script, up to the end of their branch, leaves as a failure. One pass over all parts.

    The first `exit` behind a question decides, if it comes before the end of the branch.
    """
    found = set[int]()
    questions: list[int | None] = []  # of each open `if`, where the branch began that no `exit` has decided yet
    undecided = list[int]()  # which of these there are, by depth
    for position, (_, part) in enumerate(parts):
        start = 0
        while keyword := _LEADING.match(part, start):
            start = keyword.end()
            if keyword[1] == "if":
                questions.append(position)
                undecided.append(len(questions) - 1)
            elif keyword[1] in ("elif", "else", "fi") and questions:
                if undecided and undecided[-1] == len(questions) - 1:
                    undecided.pop()
                questions.pop()
                if keyword[1] != "fi":
                    questions.append(position if keyword[1] == "elif" else None)
                if keyword[1] == "elif":
                    undecided.append(len(questions) - 1)
        if not undecided or not part[start:].lstrip().startswith("exit"):
            continue
        words = _words(part[start:])
        if words[:1] == ["exit"]:
            if words[1:] != ["0"] and len(words) > 1:
                found.update(question for depth in undecided if (question := questions[depth]) is not None)
            undecided.clear()
    return found


def _parts(text: str) -> Parts:
    """(what joins it to the one before, text) at `;`, newlines, `&&` and `||`, but not inside quotes; none are blank."""
    parts: list[tuple[str, str]] = []
    joint, start = ";", 0
    for piece in _PIECE.finditer(text):
        if piece["end"] is None:
            continue
        if not _BLANK.fullmatch(part := text[start : piece.start()]):
            parts.append((joint, part))
        joint, start = piece["end"], piece.end()
    if not _BLANK.fullmatch(last := text[start:]):
        parts.append((joint, last))
    return parts


def _words(part: str) -> Words:
    """Split at blanks, quotes taken away; at blanks alone where a quote or a backslash has no end."""
    words: Words = []
    pieces: list[str] = []
    end = 0
    for token in _TOKEN.finditer(part):
        if token.start() != end:
            return part.split()
        end = token.end()
        match token.lastgroup:
            case "space" | "comment":
                if pieces:
                    words.append("".join(pieces))
                    pieces = []
            case "double":
                pieces.append(_ESCAPED.sub(r"\1", token["double"]))
            case kind:
                assert kind is not None
                pieces.append(token[kind])
    if end != len(part):
        return part.split()
    return [*words, "".join(pieces)] if pieces else words


def _expanded(part: str, values: Mapping[str, str], budget: Budget) -> str:
    """Variables and sums, except in single quotes; an unknown variable stays as it is written."""

    def value(found: re.Match[str]) -> str:
        return values.get(found[1] or found[2], found[0])

    def total(found: re.Match[str]) -> str:
        text = next(text for text in found.groups() if text is not None)
        if len(text) > _LONGEST_SUM:
            return found[0]
        if found[1] is not None:
            text = _NAME.sub(lambda name: _short(values.get(name[0], name[0])), text)
        return _sum(text) or found[0]

    def expand(piece: str) -> str:
        if "$" not in piece and "`" not in piece:
            return piece
        budget.spend(STEPS, piece.count("$") + piece.count("`"))
        budget.spend(EXPANDED, _expanded_length(piece, values))
        piece = _VALUE.sub(value, piece)
        sums = piece.count("$(") + piece.count("`")
        if not sums:
            return piece
        budget.spend(STEPS, sums)
        return _SUM.sub(total, piece)

    if "$" not in part and "`" not in part:
        return part
    return "".join(piece if piece.startswith("'") else expand(piece) for piece in _QUOTED.split(part))


def _expanded_length(piece: str, values: Mapping[str, str]) -> int:
    length = len(piece)
    for found in _VALUE.finditer(piece):
        value = values.get(found[1] or found[2])
        if value is not None:
            length += len(value) - len(found[0])
    return length


def _short(value: str) -> str:
    """What may be a number in a sum."""
    return value if len(value) <= _LONGEST_SUM else "?"


def _sum(text: str) -> str:
    """Two numbers at most; empty where it is more than that. Numbers have 64 bits, as in shells."""
    found = _TERM.fullmatch(text.replace("\\", ""))
    if found is None:
        return ""
    if found[4]:
        return found[4]
    first, sign, second = int(found[1]), found[2], int(found[3])
    return "" if sign in "/%" and not second else str(_wrapped(_SUMS[sign](first, second)))


def _wrapped(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
