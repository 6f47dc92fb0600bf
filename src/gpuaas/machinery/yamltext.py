"""YAML as Kubernetes reads and writes it: JSON's types only, and the words that mean yes and no in YAML 1.1.

libyaml's loader where it is there. A document whose aliases would unfold into far more values than it has letters is
refused: it costs nothing to send and everything to encode. Mistakes are told in the words of Go's YAML library.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DumperBase: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_UNFOLDED = 100_000  # values a document may have on top of one for each of its letters
_MAX_DEPTH = 200
_TIMESTAMP, _BOOL, _STRING, _INT, _FLOAT = (
    f"tag:yaml.org,2002:{name}" for name in ("timestamp", "bool", "str", "int", "float")
)
# The base library wants a point and a sign in numbers with an exponent; Go's wants neither.
_EXPONENT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+$")
_YES = frozenset(("y", "yes", "true", "on"))
# What the base library's constructors raise for a value that its tag does not fit (`!!int x`, `!!timestamp x`).
_STUMBLES = (ValueError, AttributeError, TypeError, KeyError, IndexError, OverflowError)
# The base library leaves the one-letter words out.
_LETTERS = re.compile(r"^[yYnN]$")


class _Loader(_Base):  # type: ignore[misc]  # its base is libyaml's loader or the pure one, whichever is there
    pass


class _Dumper(_DumperBase):  # type: ignore[misc]
    pass


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
for _first in "yYnN":
    _Loader.yaml_implicit_resolvers.setdefault(_first, []).insert(0, (_BOOL, _LETTERS))
for _first in "-+.0123456789":
    _Loader.yaml_implicit_resolvers.setdefault(_first, []).append((_FLOAT, _EXPONENT))
_Loader.add_constructor(_BOOL, lambda _loader, node: node.value.lower() in _YES)


def _integer(loader: Any, node: Any) -> int | str:
    """What is too large for 64 bits is text if it is not in decimals, as in Go: Python would make a number of it that
    nobody can write down again."""
    value: int = loader.construct_yaml_int(node)
    if -(1 << 63) <= value < (1 << 64):
        return value
    text = str(node.value)
    return text if ":" in text or text.lstrip("+-_").startswith("0") else value


_Loader.add_constructor(_INT, _integer)


class YamlError(ValueError):
    """Not YAML, or not YAML that can be an object; the message says where."""


def load_yaml(text: str | bytes) -> Any:
    documents = list(load_yaml_documents(text))
    if len(documents) > 1:
        raise YamlError(f"expected one YAML document, found {len(documents)}")
    return documents[0] if documents else None


def load_yaml_documents(text: str | bytes) -> Iterator[Any]:
    try:
        _check_depth(text)
        for document in yaml.load_all(text, Loader=_Loader):
            yield _as_json(document, [_UNFOLDED + len(text)])
    except yaml.MarkedYAMLError as error:
        raise YamlError(f"yaml: {_where(error)}{error.problem}") from None
    except YamlError:
        raise
    except (yaml.YAMLError, RecursionError, *_STUMBLES) as error:
        raise YamlError("yaml: " + str(error).replace("\n", " ")) from None


def _check_depth(text: str | bytes) -> None:
    """libyaml builds documents by recursion, in C: what is nested too deep would not raise but end the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise YamlError("exceeded max depth")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def duplicate_keys(text: str | bytes) -> list[str]:
    """What a strict reader says about keys that a mapping holds twice, each with its line."""
    found: list[str] = []
    pending = [yaml.compose(text, Loader=_Loader)]
    visited: set[int] = set()  # aliases lead to the same node again, even to one around them
    while pending:
        node = pending.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    found.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
                seen.add(str(key.value))
            pending.extend(value for _, value in reversed(node.value))
        elif isinstance(node, yaml.SequenceNode):
            pending.extend(reversed(node.value))
    return found


def dump_yaml(value: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=True, width=1 << 30
    )
    return text


def _represent_text(dumper: Any, text: str) -> Any:
    """Text that would be read as something else is put in double quotes, several lines stay several lines."""
    if "\n" in text:
        return dumper.represent_scalar(_STRING, text, style="|")
    reads_as = dumper.resolve(yaml.ScalarNode, text, (True, False))
    ambiguous = reads_as != _STRING or _LETTERS.match(text) is not None
    return dumper.represent_scalar(_STRING, text, style='"' if ambiguous else None)


_Dumper.add_representer(str, _represent_text)
_Dumper.ignore_aliases = lambda _dumper, _value: True


def _where(error: yaml.MarkedYAMLError) -> str:
    """The line as Go's library counts it: where the surrounding began, if not on the first line, else where it broke."""
    for mark in (error.context_mark, error.problem_mark):
        if mark is not None and mark.line:
            return f"line {mark.line + isinstance(error, yaml.scanner.ScannerError)}: "
    return ""


def _as_json(value: Any, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise YamlError("the document unfolds into far more values than it has letters")
    if isinstance(value, dict):
        return {_key(key): _as_json(item, budget) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item, budget) for item in value]
    if isinstance(value, str):
        return _whole(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise YamlError(f"a value of type {type(value).__name__} has no place in an object")


def _whole(text: str) -> str:
    """Half a character (a lone surrogate, by its escape) cannot be written again: Go puts the replacement there."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return _whole(str(key))
    raise YamlError(f"a key must be a string, found {key!r}")
