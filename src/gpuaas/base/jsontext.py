"""JSON that others wrote into an annotation: read within limits, or refused with one error.

Stricter than `json.loads`: NaN, Infinity, numbers without a float and half surrogate pairs are no JSON, so whatever is read can
be written as JSON and as UTF-8 again. Nesting that is too deep for the reader is an error like any other.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

LONGEST: Final = 1 << 18  # characters; all annotations of an object together have no more


def read_json(text: str, longest: int = LONGEST) -> Any:
    """Raises ValueError, and nothing else."""
    if len(text) > longest:
        raise ValueError(f"{len(text)} characters were found; at most {longest} are allowed")
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
