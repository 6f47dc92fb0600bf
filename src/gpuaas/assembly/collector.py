"""When Python collects cycles of garbage: while no request runs.

A look at what is new costs as much as the new objects, nearly all of which are there to stay, and all requests wait for
it. Neither requests nor decisions nor writes leave rings behind (their tests say so), so there is no hurry: a burst is
served without, and the next quiet moment is used. Should none come, Python looks by itself.
"""

import gc
from collections.abc import Callable
from typing import Final

from gpuaas.base.clock import Clock

_EVERY: Final = 1.0
_NEW: Final = 25_000  # objects that make a look worth it
_MOST: Final = 1_000_000  # new ones after which Python looks by itself
_YOUNG: Final = 20  # looks at the new before one at those that outlived them


def begin() -> None:
    """What start-up made lives as long as we do: looking at it again and again costs and finds nothing."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(_MOST, _YOUNG, 50)


async def collect_when_quiet(clock: Clock, quiet: Callable[[], bool]) -> None:
    """Until cancelled."""
    while True:
        await clock.sleep(_EVERY)
        new, looks, _ = gc.get_count()
        if quiet() and new > _NEW:
            gc.collect(1 if looks >= _YOUNG else 0)
