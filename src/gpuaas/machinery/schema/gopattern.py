"""Regular expressions as Go reads them (RE2).

`go_regex` translates the differences in spelling to Python's: `$` is the very end, `\\z`, `[[:alpha:]]`, `\\pL`, `\\Q…\\E`,
flags in the middle; classes such as `\\d` are ASCII. What Go does not know (look-around, back-references) is refused, as
Go refuses it, with Go's words in `BadPattern`.

Python's engine is quick and tries again what did not match, which for `(a+)+$` takes for ever; RE2 takes time by the
length of the text. So a text goes to Python's only where the tries can be counted and are few.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final


class BadPattern(ValueError):
    """No regular expression for Go; the text starts with `error parsing regexp:`."""

    def __init__(self, why: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {why}: `{part}`")


_MOST_TRIES: Final = 200_000.0  # a few milliseconds


class GoRegex:
    """A pattern; `search` and `finditer` are as those of `re`."""

    __slots__ = ("_linear", "_longest", "_pattern", "_quick")

    def __init__(self, pattern: str) -> None:
        translation = _Translation(pattern)
        translated = translation.run()
        try:
            self._quick = re.compile(translated, re.ASCII)
        except re.error as problem:
            raise _as_go_says(problem, pattern) from None
        except (OverflowError, RecursionError):
            raise BadPattern("expression nests too deeply", pattern) from None
        self._pattern = pattern
        self._longest = translation.longest_for(_MOST_TRIES)
        self._linear: Any = None
        if not self._longest:
            self._linear = _in_linear_time(pattern)

    def search(self, text: str) -> Any:
        return self._for(text).search(text)

    def finditer(self, text: str) -> Iterator[Any]:
        found: Iterator[Any] = self._for(text).finditer(text)
        return found

    def _for(self, text: str) -> Any:
        if len(text) <= self._longest:
            return self._quick
        if self._linear is None:
            self._linear = _in_linear_time(self._pattern)
        return self._linear


def _in_linear_time(pattern: str) -> Any:
    import re2  # type: ignore[import-untyped]  # loaded on the first such pattern or text

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise BadPattern("expression too large", pattern) from None


@lru_cache(maxsize=4_096)
def go_regex(pattern: str) -> GoRegex:
    return GoRegex(pattern)


_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?(\)|:)")
_REPEAT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_KNOWN_ESCAPES: Final = frozenset("aftnrvdDsSwWbBAz\\.+*?()|[]{}^$-/\"'`,:;<>=!@#%&~_ ")


class _Translation:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.out: list[str] = []
        self.multiline = [False]
        self.closers = [0]  # extra parentheses to close at the end of each open group
        self.repeats = self.choices = 0
        self.nested = False  # what repeats or offers a choice is itself repeated
        self.busy = [False]  # for each open group: whether something repeats or offers a choice in it
        self.closed_busy = False  # the same of the group that ended just now

    def longest_for(self, tries: float) -> int:
        """How long a text may be that a search looks at no more than so often, at the very worst."""
        if self.nested or self.choices > 16:
            return 0
        return int((tries / 2**self.choices) ** (1 / (self.repeats + 1)))

    def run(self) -> str:
        while self.at < len(self.text):
            self._step(self.text[self.at])
        self.out.append(")" * self.closers[-1])
        return "".join(self.out)

    def _step(self, char: str) -> None:
        closed_busy, self.closed_busy = self.closed_busy, False
        match char:
            case "\\":
                self.out.append(self._escape(in_class=False))
            case "[":
                self.out.append(self._class())
            case "(":
                self._open()
            case ")":
                extra = self.closers.pop() if len(self.closers) > 1 else 0
                if len(self.multiline) > 1:
                    self.multiline.pop()
                    self.closed_busy = self.busy.pop()
                    self.busy[-1] |= self.closed_busy
                self.out.append(")" * extra + ")")
                self.at += 1
            case "$":
                self.out.append("$" if self.multiline[-1] else r"\Z")
                self.at += 1
            case "*" | "+" | "?" | "{":
                self._repetition(of_busy=closed_busy)
            case "|":
                self.choices += 1
                self.busy[-1] = True
                self.out.append(char)
                self.at += 1
            case _:
                self.out.append(char)
                self.at += 1

    def _repetition(self, *, of_busy: bool) -> None:
        counted = _REPEAT.match(self.text, self.at)
        operator = counted.group() if counted else self.text[self.at]
        if operator == "{":
            self.out.append(r"\{")
            self.at += 1
            return
        if counted and max(int(number) for number in counted.groups() if number) > 1000:
            raise BadPattern("invalid repeat count", operator)
        self.busy[-1] = True
        if operator == "?":
            self.choices += 1
        else:
            self.repeats += 1
            self.nested = self.nested or of_busy
        self.at += len(operator)
        if self.text[self.at : self.at + 1] == "?":
            operator += "?"
            self.at += 1
        after = self.text[self.at : self.at + 1]
        if after and after in "*+?":  # Python would read a possessive quantifier
            raise BadPattern("invalid nested repetition operator", operator + after)
        self.out.append(operator)

    def _open(self) -> None:
        flags = _FLAGS.match(self.text, self.at)
        if flags:
            self._flags(flags)
            return
        rest = self.text[self.at :]
        if rest.startswith("(?") and not re.match(r"\(\?(P?<[A-Za-z_]\w*>|:)", rest):
            raise BadPattern("invalid or unsupported Perl syntax", rest[:4] if rest[:3] == "(?<" else rest[:3])
        self._enter()
        if rest.startswith("(?<"):
            self.out.append("(?P<")
            self.at += 3
        else:
            self.out.append("(")
            self.at += 1

    def _enter(self) -> None:
        self.closers.append(0)
        self.multiline.append(self.multiline[-1])
        self.busy.append(False)

    def _flags(self, found: re.Match[str]) -> None:
        on, off, end = found.group(1), found.group(2) or "", found.group(3)
        if "U" in on + off:
            raise BadPattern("invalid or unsupported Perl syntax", found.group())
        spelled = f"(?{on}{'-' + off if off else ''}:" if on or off else "(?:"
        if end == ":":
            self._enter()
        else:  # in force until the end of the enclosing group
            self.closers[-1] += 1
        self.multiline[-1] = ("m" in on) or (self.multiline[-1] and "m" not in off)
        self.out.append(spelled)
        self.at = found.end()

    def _class(self) -> str:
        start = self.at
        self.at += 1
        parts = ["["]
        if self.text[self.at : self.at + 1] == "^":
            parts.append("^")
            self.at += 1
        first = True
        while True:
            char = self.text[self.at : self.at + 1]
            if not char:
                raise BadPattern("missing closing ]", self.text[start:])
            if char == "]" and not first:
                self.at += 1
                return "".join([*parts, "]"])
            parts.append(self._class_member(char))
            first = False

    def _class_member(self, char: str) -> str:
        if char == "\\":
            return self._escape(in_class=True)
        posix = re.compile(r"\[:(\^?)(\w+):\]").match(self.text, self.at)
        if posix:
            if posix.group(2) not in _POSIX or posix.group(1):
                raise BadPattern("invalid character class range", posix.group())
            self.at = posix.end()
            return _POSIX[posix.group(2)]
        self.at += 1
        return "\\" + char if char in "[]&~|" else char

    def _escape(self, *, in_class: bool) -> str:
        rest = self.text[self.at : self.at + 2]
        if len(rest) < 2:
            raise BadPattern("trailing backslash at end of expression", "")
        if rest in (r"\p", r"\P"):
            return self._category(negated=rest == r"\P", in_class=in_class)
        if rest == r"\Q":
            literal, _, _ = self.text[self.at + 2 :].partition(r"\E")
            self.at = min(len(self.text), self.at + 4 + len(literal))
            return re.escape(literal)
        code = re.compile(r"\\x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))|\\([0-7]{3})").match(self.text, self.at)
        if code:
            self.at = code.end()
            number = int(code.group(3), 8) if code.group(3) else int(code.group(1) or code.group(2), 16)
            return re.escape(chr(number))
        if rest[1] not in _KNOWN_ESCAPES:
            raise BadPattern("invalid escape sequence", rest)
        self.at += 2
        return r"\Z" if rest == r"\z" else re.escape(rest[1]) if rest[1] in "/\"'`,:;<>=!@#%&~_ " else rest

    def _category(self, *, negated: bool, in_class: bool) -> str:
        found = re.compile(r"\\[pP](?:\{\^?(\w+)\}|(\w))").match(self.text, self.at)
        name = (found.group(1) or found.group(2)) if found else ""
        ranges = _category_ranges(name)
        if not found or not ranges or (negated and in_class):
            raise BadPattern("invalid character class range", found.group() if found else self.text[self.at :])
        self.at = found.end()
        if in_class:
            return ranges
        return f"[^{ranges}]" if negated else f"[{ranges}]"


@lru_cache(maxsize=64)
def _category_ranges(name: str) -> str:
    """The characters of a Unicode category, as the inside of a class; nothing if there is no such category."""
    points = [point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)).startswith(name)]
    spans: list[list[int]] = []
    for point in points:
        if spans and spans[-1][1] == point - 1:
            spans[-1][1] = point
        else:
            spans.append([point, point])
    return "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in spans)


def _as_go_says(problem: re.error, pattern: str) -> BadPattern:
    match problem.msg:
        case "missing ), unterminated subpattern":
            return BadPattern("missing closing )", pattern)
        case "unbalanced parenthesis":
            return BadPattern("unexpected )", pattern)
        case "nothing to repeat" | "multiple repeat":
            return BadPattern("missing argument to repetition operator", pattern[problem.pos or 0 :][:1])
        case text if text.startswith("bad character range "):
            return BadPattern("invalid character class range", text.removeprefix("bad character range "))
        case text:
            return BadPattern(text, pattern)
