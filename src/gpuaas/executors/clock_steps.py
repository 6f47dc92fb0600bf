"""Steps of the wall clock: how far it was put back, as the monotonic clock shows.

What ends at a moment of the wall clock would otherwise wait for as long as the clock was put back. A small step is
left alone: time synchronization makes them all the time.
"""

from gpuaas.base.clock import Clock

_NOTICED = 5.0  # seconds


class ClockSteps:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now() - clock.monotonic()

    def back(self) -> float:
        """Seconds by which the clock was put back since the last look; 0 where it was not."""
        offset = self._clock.now() - self._clock.monotonic()
        step, self._offset = self._offset - offset, offset
        return step if step > _NOTICED else 0.0
