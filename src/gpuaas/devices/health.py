"""Which Xid events make a card unhealthy: NVIDIA's list of application errors, changed by two environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

IGNORED: Final = frozenset((13, 31, 43, 45, 68, 109))
"""Errors of the application, not of the card: a page fault, a timeout, the clean-up after them."""
_ALL: Final = 0


@dataclass(frozen=True, slots=True)
class XidFilter:
    """What is ignored: by Xid, with `_ALL` for every Xid without an entry of its own."""

    ignored: Mapping[int, bool]

    @property
    def off(self) -> bool:
        return self.ignored.get(_ALL, False)

    def is_unhealthy(self, xid: int) -> bool:
        if self.off or not xid > 0:
            return False
        if self.ignored.get(_ALL) is False:
            return True  # all are enabled explicitly
        return not self.ignored.get(xid, False)


def xid_filter(env: Mapping[str, str]) -> XidFilter:
    ignored = dict.fromkeys(_listed(env.get("DP_DISABLE_HEALTHCHECKS", "")), True)
    ignored |= dict.fromkeys(IGNORED, True)
    ignored |= dict.fromkeys(_listed(env.get("DP_ENABLE_HEALTHCHECKS", "")), False)
    return XidFilter(ignored)


def _listed(text: str) -> set[int]:
    """Xids of a comma-separated list; `all` or `xids` anywhere in it means every one. Other words are ignored."""
    words = [word.strip() for word in text.lower().split(",")]
    if "all" in words or "xids" in words:
        return {_ALL}
    return {int(word) for word in words if re.fullmatch(r"[0-9]{1,20}", word) and int(word) < 1 << 64}
