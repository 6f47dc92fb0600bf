"""How many streams to pods may be open at once: of one user, and in all. Each costs a process or a connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from gpuaas.base.errors import TooManyRequests

OF_USER: Final = 64
IN_ALL: Final = 256


class Sessions:
    def __init__(self, of_user: int = OF_USER, in_all: int = IN_ALL) -> None:
        self._limits = of_user, in_all
        self._open: Counter[str] = Counter()

    def check(self, user: str) -> None:
        """Refuses one more where there is no room for it."""
        of_user, in_all = self._limits
        if self._open[user] >= of_user:
            raise TooManyRequests(
                f'user "{user}" has {self._open[user]} sessions of exec, attach and port-forward open, '
                f"at most {of_user} are allowed: end one of them"
            )
        if self._open.total() >= in_all:
            raise TooManyRequests(
                f"{self._open.total()} sessions of exec, attach and port-forward are open, at most {in_all} are allowed"
            )

    def begin(self, user: str) -> Callable[[], None]:
        """Counts one more; call what is returned when it has ended."""
        self.check(user)
        self._open[user] += 1
        ended = False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._open[user] -= 1
                if not self._open[user]:
                    del self._open[user]

        return end
