"""Settings of the C library's heap that return free memory to the system: bodies of lists come and go in megabytes.

glibc keeps long blocks for itself once it has seen some freed, and free memory below the top of its heap until it is
asked. Where there is no glibc, nothing is done.
"""

import ctypes
from typing import Any

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h
_LONG = 1 << 20


def configure() -> None:
    """Blocks from a megabyte on are mapped, and gone when freed."""
    _call("mallopt", _MMAP_THRESHOLD, _LONG)


def trim() -> None:
    """Gives free pages back to the system; takes a few milliseconds."""
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> None:
    function: Any = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)
