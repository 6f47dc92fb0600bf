"""Waiting longer after each failure in a row: doubling from `first` to `limit`."""

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    first: float
    limit: float
    failures: int = 0

    def next(self) -> float:
        delay = self.delay(self.failures)
        self.failures += 1
        return delay

    def delay(self, failures: int) -> float:
        """The wait after `failures` earlier ones; large counts are cut before the power overflows."""
        return float(min(self.first * 2.0 ** min(failures, 60), self.limit))

    def reset(self) -> None:
        self.failures = 0
