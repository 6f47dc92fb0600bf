"""How every command shows what it found: as text that fits a terminal, or all of it, as JSON or YAML.

A table that has too little room loses its least important columns and says which; headings and numbers are never cut.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

ALL_OF_IT = ("json", "yaml")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
# Amounts, ages, times, addresses, 1/2, and uids: half of one says something else.
_NUMBER = re.compile(
    r"[-+]?[0-9][0-9.,:/TZ-]*([A-Za-z%]{1,2}([0-9]+[smhd])?)?( \(.*\))?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_READABLE = 8  # letters of a text that still tell it from others
_NAMED = 3  # of several in one cell
_GAP = 2  # between columns, where there is little room


def how_to_print(*forms: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds -o: text, and the forms."""
    return click.option("-o", "--output", type=click.Choice(["text", *forms]), default="text", help="How to print.")


def show(output: str, value: Any, in_words: Callable[[], None]) -> None:
    """The value as JSON or YAML where that was asked for, else in words."""
    if output == "json":
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    elif output == "yaml":
        from gpuaas.machinery.yamltext import dump_yaml

        click.echo(dump_yaml(value), nl=False)
    else:
        in_words()


def room() -> int:
    """How wide the terminal is; 0 where the output goes elsewhere and takes what it needs."""
    return shutil.get_terminal_size((200, 24)).columns if sys.stdout.isatty() else 0


@dataclass(frozen=True, slots=True)
class Table:
    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]
    spare: Sequence[str] = ()
    """Headings of what can be done without, that first which goes first; after them the last columns go."""

    def print(self) -> None:
        wide = room()
        click.echo("\n".join(self.lines(wide)))
        if gone := self.left_out(wide):
            click.echo(f"left out for lack of room: {', '.join(gone)} (-o json has all)", err=True)

    def left_out(self, room: int) -> list[str]:
        kept = self._kept(room, self._least(self._texts()) if room else [])
        return [heading for index, heading in enumerate(self.headings) if index not in kept]

    def lines(self, room: int) -> list[str]:
        """As wide as needed; where there is less room columns are left out, and of the rest the widest texts cut."""
        texts = self._texts()
        least = self._least(texts) if room else []  # of no consequence where there is room for all
        kept = self._kept(room, least)
        widths = {index: max(len(row[index]) for row in texts) for index in kept}
        gap = 3 if not room or sum(widths.values()) + 3 * (len(kept) - 1) <= room else _GAP
        while room and sum(widths.values()) + gap * (len(kept) - 1) > room:
            longest = max(kept, key=lambda index: (widths[index] > least[index], widths[index]))
            widths[longest] -= 1
        return [(" " * gap).join(_cut(row[index], widths[index]) for index in kept).rstrip() for row in texts]

    def _texts(self) -> list[tuple[str, ...]]:
        return [tuple(self.headings), *(tuple(map(_cell, row)) for row in self.rows)]

    def _least(self, texts: Sequence[Sequence[str]]) -> list[int]:
        """How narrow each column may get."""
        return [
            max(len(heading), *(len(cell) if _NUMBER.fullmatch(cell) else min(len(cell), _READABLE) for cell in cells))
            if cells
            else len(heading)
            for heading, *cells in zip(*texts, strict=True)
        ]

    def _kept(self, room: int, least: Sequence[int]) -> list[int]:
        kept = list(range(len(self.headings)))
        if not room:
            return kept
        spare = [self.headings.index(each) for each in self.spare if each in self.headings]
        for index in (*spare, *(each for each in reversed(kept) if each and each not in spare)):
            if sum(least[each] for each in kept) + _GAP * (len(kept) - 1) <= room:
                break
            kept = [each for each in kept if each != index]
        return kept


@dataclass(frozen=True, slots=True)
class Columns:
    """Which values of rows are shown: always, and where more was asked for. Their names in capitals are the headings."""

    always: tuple[str, ...]
    wide: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    headings: Mapping[str, str] = field(default_factory=dict)

    def table(self, rows: Sequence[Mapping[str, Any]], *, wide: bool = False) -> Table:
        names = self.always + self.wide * wide
        spare = (*reversed(self.wide), *self.spare)
        cells = [[row[name] for name in names] for row in rows]
        return Table([*map(self._heading, names)], cells, [*map(self._heading, spare)])

    def _heading(self, name: str) -> str:
        return self.headings.get(name, name.upper())


def _cell(value: Any) -> str:
    """One line that does nothing to the terminal, as kubectl shows what anybody may have written."""
    if isinstance(value, str) and value.isprintable():
        return value
    if isinstance(value, list):
        more = f" +{len(value) - _NAMED}" if len(value) > _NAMED else ""
        value = ",".join(map(str, value[:_NAMED])) + more
    first, *more_lines = re.split(r"[\f\n\r\v]", "" if value is None else str(value), maxsplit=1)
    return _CONTROL.sub(lambda found: f"^{chr(ord(found[0]) ^ 64)}", first) + "..." * bool(more_lines)


def _cut(cell: str, width: int) -> str:
    """Names differ at their ends: the middle gives way."""
    if len(cell) <= width:
        return cell.ljust(width)
    tail = (width - 1) // 2
    return f"{cell[: width - 1 - tail]}…{cell[len(cell) - tail :]}"
