"""The one way in for YAML: builds JSON values from the parser's events, within limits that hold before any work is done.

A text has budgets of bytes, values, depth and documents. Aliases and merge keys are the ways to say much with little, so
what they expand to is counted: every value knows its size with all it holds, and an alias adds that size to the total
before the value is copied. Merge keys get their sources through aliases and need no count of their own. There is one
pass over the events without recursion, and the cost is linear in the budgets.

Keys that a mapping holds twice are noted on the way, with their lines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml

from gpuaas.machinery.yamlscalars import BadScalar, resolve_plain, resolve_tagged

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# libyaml compares each %TAG directive with every other one. Text in a document cannot begin with % at the margin.
_DIRECTIVE: Final = re.compile(r"^%", re.MULTILINE)
_MAX_DIRECTIVES: Final = 16
_MAX_REPEATS: Final = 100  # reported duplicate keys
_Scalar, _Alias = yaml.ScalarEvent, yaml.AliasEvent
_MapStart, _MapEnd = yaml.MappingStartEvent, yaml.MappingEndEvent
_ListStart, _ListEnd = yaml.SequenceStartEvent, yaml.SequenceEndEvent
_DocumentEnd = yaml.DocumentEndEvent
_MERGE: Final = "tag:yaml.org,2002:merge"


class Limits(NamedTuple):
    size: int  # bytes of the text
    values: int  # scalars, lists and maps, aliases expanded
    expansion: int  # bytes that aliases add
    depth: int
    documents: int
    key: int = 4096  # characters of a key


# The largest definitions in use have fewer than 100,000 values.
MAX_VALUES: Final = 200_000
# A request.
BODY: Final = Limits(size=3 << 20, values=MAX_VALUES, expansion=1 << 20, depth=200, documents=1)
# A file that a user or an administrator hands in: many objects, each of which becomes a request.
FILE: Final = Limits(size=64 << 20, values=4_000_000, expansion=4 << 20, depth=200, documents=20_000)


class YamlError(ValueError):
    """Not YAML, or not YAML that can be an object, or over a limit; the message says where and which."""


@dataclass(slots=True)
class Document:
    value: Any
    repeats: list[str]  # 'line 6: key "a" already set in map'


@dataclass(slots=True)
class _Open:
    """A list or map whose end has not come yet."""

    made: Any
    anchor: str | None
    began: int  # sizes and values counted before it
    values: int
    key: Any = None
    has_key: bool = False
    merges: bool = False  # the pending key is `<<`
    sources: list[dict[str, Any]] = field(default_factory=list)  # of merge keys; later ones win
    seen: set[str] = field(default_factory=set)


class _Anchored(NamedTuple):
    value: Any
    size: int
    values: int


def documents(text: str | bytes, limits: Limits) -> Iterator[Document]:
    """The documents of a text, one at a time."""
    if len(text) > limits.size:
        raise YamlError(f"yaml: the text has {len(text)} bytes, the limit is {limits.size}")
    parser = None
    try:
        plain = _decoded(text)
        if _too_many_directives(plain):
            raise YamlError(f"yaml: more than {_MAX_DIRECTIVES} directives")
        parser = _Parser(plain)
        yield from _Builder(parser, limits).documents()
    except yaml.MarkedYAMLError as error:
        raise YamlError(f"yaml: {_where(error)}{error.problem}") from None
    except (yaml.YAMLError, BadScalar, UnicodeDecodeError, RecursionError) as error:
        raise YamlError("yaml: " + str(error).replace("\n", " ")) from None
    finally:
        if parser is not None:
            parser.dispose()


def _decoded(text: str | bytes) -> str | bytes:
    """UTF-16 becomes text here, so that what is looked for in the bytes cannot hide in it."""
    if isinstance(text, bytes) and text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return text.decode("utf-16")
    return text


def _too_many_directives(text: str | bytes) -> bool:
    if isinstance(text, bytes):
        if b"%" not in text:
            return False
        text = text.decode("utf-8", "replace")
    elif "%" not in text:
        return False
    lines = text.replace("\r", "\n").replace("\x85", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return sum(1 for _ in zip(_DIRECTIVE.finditer(lines), range(_MAX_DIRECTIVES + 1), strict=False)) > _MAX_DIRECTIVES


class _Builder:
    def __init__(self, parser: Any, limits: Limits) -> None:
        self._parser = parser
        self._limits = limits
        self._values = 0
        self._size = 0  # of all values, aliases expanded: characters of scalars and one for each value
        self._added = 0  # of it, by aliases
        self._anchors: dict[str, _Anchored | None] = {}
        self._stack: list[_Open] = []
        self._root: Any = None
        self._repeats: list[str] = []

    def documents(self) -> Iterator[Document]:
        count = 0
        while True:
            event = self._parser.get_event()
            if event is None or event.__class__ is yaml.StreamEndEvent:
                return
            if event.__class__ is yaml.DocumentStartEvent:
                count += 1
                if count > self._limits.documents:
                    raise YamlError(_of_documents(self._limits.documents))
                self._anchors = {}
                self._root = None
                self._repeats = []
                self._document()
                yield Document(self._root, self._repeats)

    def _document(self) -> None:
        get = self._parser.get_event
        while True:
            event = get()
            kind = event.__class__
            if kind is _Scalar:
                self._leaf(event)
            elif kind is _MapStart or kind is _ListStart:
                self._open(event)
            elif kind is _MapEnd or kind is _ListEnd:
                self._close()
            elif kind is _Alias:
                self._alias(event)
            elif kind is _DocumentEnd:
                return

    def _leaf(self, event: Any) -> None:
        size = len(event.value)
        self._count(size)
        value = _scalar(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, size + 1, 1)
        self._take(event, value)

    def _take(self, event: Any, value: Any) -> None:
        """A scalar or an alias is a key where a map has none yet."""
        if self._awaits_key():
            self._key(self._stack[-1], event, value)
        else:
            self._place(value)

    def _awaits_key(self) -> bool:
        if not self._stack:
            return False
        within = self._stack[-1]
        return not within.has_key and within.made.__class__ is dict

    def _count(self, size: int, values: int = 1) -> None:
        self._values += values
        self._size += size + 1
        if self._values > self._limits.values:
            raise YamlError(f"yaml: more than {self._limits.values} values, which is the limit")

    def _open(self, event: Any) -> None:
        if len(self._stack) >= self._limits.depth:
            raise YamlError(f"exceeded max depth: the limit is {self._limits.depth}")
        if self._awaits_key():
            raise YamlError(f"yaml: line {event.start_mark.line + 1}: a key must be a string, found a list or a map")
        made: Any = {} if event.__class__ is _MapStart else []
        if event.anchor is not None:
            self._anchors[event.anchor] = None  # not before it is complete
        self._stack.append(_Open(made, event.anchor, self._size, self._values))
        self._count(0)

    def _close(self) -> None:
        ended = self._stack.pop()
        made = ended.made
        if ended.sources:
            made = {}
            for source in (*ended.sources, ended.made):
                made.update(source)
        if ended.anchor is not None:
            self._anchors[ended.anchor] = _Anchored(made, self._size - ended.began, self._values - ended.values)
        self._place(made)

    def _alias(self, event: Any) -> None:
        name = event.anchor
        if name not in self._anchors:
            raise YamlError(f"yaml: unknown anchor '{name}' referenced")
        meant = self._anchors[name]
        if meant is None:
            raise YamlError(f"yaml: anchor '{name}' value contains itself")
        self._added += meant.size
        if self._added > self._limits.expansion:
            raise YamlError(_of_aliases(self._limits.expansion, "bytes"))
        if self._values + meant.values > self._limits.values:
            raise YamlError(_of_aliases(self._limits.values, "values"))
        self._count(meant.size - 1, meant.values)
        self._take(event, _copied(meant.value))

    def _key(self, within: _Open, event: Any, value: Any) -> None:
        within.has_key = True
        if event.__class__ is _Scalar:
            within.merges = event.value == "<<" and (event.implicit[0] or event.tag == _MERGE)
            if within.merges:
                return
        key = within.key = _as_key(value)
        if len(key) > self._limits.key:
            raise YamlError(f"yaml: a key has {len(key)} characters, the limit is {self._limits.key}")
        if key in within.seen and len(self._repeats) < _MAX_REPEATS:
            self._repeats.append(f'line {event.start_mark.line + 1}: key "{key}" already set in map')
        within.seen.add(key)

    def _place(self, value: Any) -> None:
        """Puts a complete value where it belongs."""
        if not self._stack:
            self._root = value
            return
        within = self._stack[-1]
        if within.made.__class__ is list:
            within.made.append(value)
            return
        within.has_key = False
        if not within.merges:
            within.made[within.key] = value
            return
        within.merges = False
        sources = value if value.__class__ is list else [value]
        if any(source.__class__ is not dict for source in sources):
            raise YamlError("yaml: map merge requires map or sequence of maps as the value")
        within.sources.extend(reversed(sources))


def _of_aliases(limit: int, unit: str) -> str:
    return (
        "yaml: document contains excessive aliasing: "
        f"with aliases and merge keys expanded it has more than {limit} {unit}, which is the limit"
    )


def _of_documents(limit: int) -> str:
    if limit == 1:
        return "expected one YAML document, found more"
    return f"yaml: more than {limit} documents, which is the limit"


def _scalar(event: Any) -> Any:
    text = event.value
    if not text.isascii():
        # Half a character (a lone surrogate, by its escape) cannot be written again: Go puts the replacement there.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if event.tag is not None and event.tag != "!":
        return resolve_tagged(event.tag, text)
    return resolve_plain(text) if event.implicit[0] else text


def _as_key(value: Any) -> str:
    if value.__class__ is str:
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise YamlError(f"a key must be a string, found {'null' if value is None else 'a list or a map'}")


def _copied(value: Any) -> Any:
    """A tree of its own; its depth is bounded by the depth of the document."""
    if value.__class__ is dict:
        return {key: _copied(item) for key, item in value.items()}
    if value.__class__ is list:
        return [_copied(item) for item in value]
    return value


def _where(error: yaml.MarkedYAMLError) -> str:
    """The line as Go's library counts it: where the surrounding began, if not on the first line, else where it broke."""
    for mark in (error.context_mark, error.problem_mark):
        if mark is not None and mark.line:
            return f"line {mark.line + isinstance(error, yaml.scanner.ScannerError)}: "
    return ""
