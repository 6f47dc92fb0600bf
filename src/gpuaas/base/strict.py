"""Strict modes: the originals whose behaviour is kept exactly, where the default is kinder to users.

`gpuaas up --strict nvidia,multikueue` keeps the list in the home. Code that differs from an original asks
`original in strict` at the place where it differs; docs/reference/differences.md lists those places.
"""

from typing import Literal, get_args

Original = Literal["multikueue", "nvidia", "odh"]
Strict = frozenset[Original]

ORIGINALS: tuple[Original, ...] = get_args(Original)
NOT_STRICT: Strict = frozenset()


def read_strict(text: str) -> Strict:
    """Parses a comma-separated list; `none` and an empty text mean none. Raises ValueError naming the wrong item."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    if items == ["none"]:
        return NOT_STRICT
    chosen = [original for original in ORIGINALS if original in items]
    if unknown := [item for item in items if item not in ORIGINALS]:
        raise ValueError(f'"{unknown[0][:40]}" is none of {", ".join(ORIGINALS)}; or none')
    return frozenset(chosen)


def write_strict(strict: Strict) -> str:
    return ",".join(original for original in ORIGINALS if original in strict)
