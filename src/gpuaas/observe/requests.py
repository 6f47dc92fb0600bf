"""Counts of API requests: plain dictionaries on the hot path, Prometheus' text only when somebody asks."""

from collections import Counter
from collections.abc import Iterator


class RequestCounter:
    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()
        self._refused: Counter[tuple[str, int]] = Counter()

    def seen(self, verb: str, resource: str) -> None:
        self._seen[verb, resource] += 1

    def refused(self, method: str, code: int) -> None:
        self._refused[method, code] += 1

    def samples(self) -> Iterator[tuple[str, dict[str, str], int]]:
        for (verb, resource), count in sorted(self._seen.items()):
            yield "seen", {"verb": verb.upper(), "resource": resource}, count
        for (method, code), count in sorted(self._refused.items()):
            yield "refused", {"verb": method, "code": str(code)}, count
