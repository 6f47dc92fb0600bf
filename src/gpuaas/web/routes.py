"""Addresses to pages and actions: patterns such as `/queues/{name}`, the most literal one first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar
from urllib.parse import quote

from gpuaas.web.page import Action, Page

T = TypeVar("T", Page, Action)
_PART = re.compile(r"\{(\w+)\}")


class Routes(Generic[T]):
    def __init__(self, routed: Iterable[T]) -> None:
        ordered = sorted(routed, key=lambda each: each.path.count("{"))
        self.by_name: dict[str, T] = {each.name: each for each in ordered}
        self._patterns: list[tuple[re.Pattern[str], T]] = [(re.compile(_pattern(each.path)), each) for each in ordered]

    def find(self, path: str) -> tuple[T, dict[str, str]] | None:
        for pattern, routed in self._patterns:
            if (found := pattern.fullmatch(path)) is not None:
                return routed, found.groupdict()
        return None


def filled(pattern: str, parts: Mapping[str, str]) -> str:
    """The path of a pattern; each part stays one segment."""
    return _PART.sub(lambda found: quote(parts[found[1]], safe=":"), pattern)


def named(title: str, parts: Mapping[str, str]) -> str:
    """A title with its parts, unquoted."""
    return _PART.sub(lambda found: parts.get(found[1], found[0]), title)


def _pattern(path: str) -> str:
    return "".join(
        f"(?P<{each[1:-1]}>[^/]+)" if each.startswith("{") else re.escape(each) for each in re.split(r"(\{\w+\})", path)
    )
