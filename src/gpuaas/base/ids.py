"""Ids and chance, injected: uids of objects and the random ends of generated names.

`SystemIds` draws from the operating system; `SeededIds` gives the same ids in the same order every time.
"""

import random
import uuid
from typing import Protocol

# Kubernetes leaves out vowels and look-alikes so that no generated name is a word.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_UID_BYTES = 16
_BLOCK = 4096
_FAIR = 256 // len(_ALPHABET) * len(_ALPHABET)


class IdSource(Protocol):
    def uid(self) -> str:
        """A UUID in its usual spelling."""

    def suffix(self, length: int = 5) -> str:
        """Characters that end a generated name."""


class SystemIds:
    """Chance comes from the system in blocks: asking for each id would let go of the interpreter each time."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()
        self._block = b""
        self._used = 0

    def uid(self) -> str:
        drawn = self._drawn(_UID_BYTES).hex()
        # As RFC 9562 wants a random one: version 4, and a variant of 8, 9, a or b.
        variant = "89ab"[int(drawn[16], 16) & 3]
        return f"{drawn[:8]}-{drawn[8:12]}-4{drawn[13:16]}-{variant}{drawn[17:20]}-{drawn[20:]}"

    def suffix(self, length: int = 5) -> str:
        letters = ""
        while len(letters) < length:
            # A byte beyond the last whole alphabet would favour the first letters.
            letters += "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in self._drawn(length) if byte < _FAIR)
        return letters[:length]

    def _drawn(self, size: int) -> bytes:
        if self._used + size > len(self._block):
            self._block, self._used = self._random.randbytes(max(size, _BLOCK)), 0
        self._used += size
        return self._block[self._used - size : self._used]


class SeededIds:
    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def suffix(self, length: int = 5) -> str:
        return "".join(self._random.choices(_ALPHABET, k=length))
