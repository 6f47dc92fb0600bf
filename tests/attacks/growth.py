"""How the cost of a function grows with the size of its input: CPU time at 1x, 2x and 4x, compared within one run.

    grown = growth(lambda size: b"[" + b"1," * size + b"1]", parse_json, 50_000)
    grown.check("JSON list")

`make(size)` builds the input (not measured) and `work(input)` is measured by the CPU time of its thread, so that other
processes count little. The smallest of several rounds stands for each size. A linear function costs 4 times as much at
four times the size, a quadratic one 16 times; `check` allows 8. A refusal (`ApiError`, `ValueError`) is a result like
any other: a limit that is reached makes the cost constant.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuaas.base.errors import ApiError

FACTORS = (1, 2, 4)
ALLOWED = 8.0  # times the cost at 4 times the size: 4 is linear, 16 quadratic
NEGLIGIBLE = 0.1  # CPU seconds at 4 times the size: noise and caches count too much to compare, and nobody waits long


@dataclass(frozen=True)
class Growth:
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]  # CPU time for each size

    @property
    def ratio(self) -> float:
        """The cost at the largest size in units of the cost at the smallest."""
        return self.seconds[-1] / max(self.seconds[0], 1e-6)

    @property
    def worst(self) -> float:
        return max(self.seconds)

    def check(self, name: str, *, allowed: float = ALLOWED) -> Growth:
        """Prints the figures; fails where the cost grows faster than the size."""
        costs = ", ".join(
            f"{size:,}: {seconds * 1000:.1f} ms" for size, seconds in zip(self.sizes, self.seconds, strict=True)
        )
        text = f"{name}: {costs} (ratio {self.ratio:.1f})"
        print(text)
        assert self.worst < NEGLIGIBLE or self.ratio <= allowed, f"more than linear: {text}"
        return self


def growth(
    make: Callable[[int], Any],
    work: Callable[[Any], object],
    size: int,
    *,
    rounds: int = 3,
    limit: float = 20.0,
    clock: Callable[[], float] = time.thread_time,
) -> Growth:
    """Measures `work(make(n))` for n of 1, 2 and 4 times `size`; ends early where one run exceeds `limit` CPU seconds.

    `clock`: time.process_time where a part of the work is done in another thread.
    """
    sizes = tuple(size * factor for factor in FACTORS)
    inputs = [make(each) for each in sizes]
    best = [float("inf")] * len(sizes)
    for _ in range(rounds):
        for index, given in enumerate(inputs):
            spent = cpu_time(work, given, clock)
            best[index] = min(best[index], spent)
            if spent > limit:
                return Growth(sizes[: index + 1], tuple(best[: index + 1]))
    return Growth(sizes, tuple(best))


def cpu_time(work: Callable[[Any], object], given: Any, clock: Callable[[], float] = time.thread_time) -> float:
    """CPU seconds for one call, without pauses of the garbage collector; a refusal is a result."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    began = clock()
    try:
        work(given)
    except (ApiError, ValueError):
        pass
    finally:
        spent = clock() - began
        if enabled:
            gc.enable()
    return spent
