from __future__ import annotations
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placed:
    flavor: str
    values: tuple[str, ...]
    requests: tuple[tuple[str, int], ...]
    count: int


class Places:
    def only(self, queue): return False
    def mismatch(self, queue, pod_set, flavor, resources): return ""
    def add(self, placed): pass
    def remove(self, placed): pass
    def fits(self, placed): return True
    def learn(self, x): pass
    def forget(self, k, n): pass
    def placed(self, w, p): return ()
