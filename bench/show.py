"""Tables that fit a terminal, and one line that says what is being done."""

import sys
from collections.abc import Sequence


def table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    print(f"\n{title}")
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  " + "  ".join(cells).rstrip())


def progress(text: str) -> None:
    """Over and over on one line of a terminal; elsewhere a line each."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)
