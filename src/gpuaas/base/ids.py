"""Ids and chance, injected: uids of objects and the random ends of generated names.

`SystemIds` draws from the operating system; `SeededIds` gives the same ids in the same order every time.
"""

import random
import uuid
from typing import Protocol

# Kubernetes leaves out vowels and look-alikes so that no generated name is a word.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class IdSource(Protocol):
    def uid(self) -> str:
        """A UUID in its usual spelling."""

    def suffix(self, length: int = 5) -> str:
        """Characters that end a generated name."""


class SystemIds:
    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def uid(self) -> str:
        return str(uuid.uuid4())

    def suffix(self, length: int = 5) -> str:
        return "".join(self._random.choices(_ALPHABET, k=length))


class SeededIds:
    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def suffix(self, length: int = 5) -> str:
        return "".join(self._random.choices(_ALPHABET, k=length))
