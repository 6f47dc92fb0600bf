"""How often one thing may be done: a few times at once, then so many times a second."""


class Pace:
    """A bucket of turns. It fills with time; time comes in as a number."""

    __slots__ = ("_at", "_burst", "_left", "_rate")

    def __init__(self, burst: int, rate: float) -> None:
        self._burst, self._rate = burst, rate
        self._left, self._at = float(burst), 0.0

    def wait(self, now: float) -> float:
        """Seconds until it may be done again."""
        self._left, self._at = min(self._burst, self._left + (now - self._at) * self._rate), now
        return max(0.0, (1 - self._left) / self._rate)

    def spend(self) -> None:
        self._left -= 1
