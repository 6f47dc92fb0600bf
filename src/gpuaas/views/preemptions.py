"""Rows of the preemption ledger, in the order of their times, so that the latest cost what is shown of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from gpuaas.base.quantity import parse_quantity
from gpuaas.kueue.ledger import is_gpu

View = Mapping[str, Any]
MOST: Final = 20_000
"""Entries that are kept for pages, the newest; the ledger itself keeps what its objects say."""


class PartyRow(msgspec.Struct, rename="camel", gc=False):
    namespace: str
    workload: str
    job: str
    """`kind/name` of what the user made; the workload's own name where that is not known."""
    cluster_queue: str
    priority: int
    user: str = ""


class PreemptionRow(msgspec.Struct, rename="camel", gc=False):
    name: str
    at: str
    victim: PartyRow
    preemptor: PartyRow
    rule: str
    message: str
    gpus: int
    """What the victim gave back."""
    ran_seconds: int
    gpu_seconds_lost: int
    victim_uid: str = ""


class Preemptions:
    def __init__(self) -> None:
        self._rows: dict[str, PreemptionRow] = {}
        self._by_time: list[tuple[str, str]] = []

    def changed(self, namespace: str, name: str, entry: View | None) -> None:
        key = f"{namespace}/{name}"
        before = self._rows.pop(key, None)
        if before is not None:
            del self._by_time[bisect_left(self._by_time, (before.at, key))]
        if entry is not None:
            row = self._rows[key] = row_of(entry)
            insort(self._by_time, (row.at, key))
            if len(self._by_time) > MOST:
                del self._rows[self._by_time.pop(0)[1]]

    def latest(
        self, takes: Callable[[str], bool], since: str = "", before: tuple[str, str] | None = None
    ) -> Iterator[tuple[tuple[str, str], PreemptionRow]]:
        """The newest first, back to a time, of the victims' namespaces that `takes` says; each with its sort key, by
        which the next page goes on (`before`)."""
        at = len(self._by_time) if before is None else bisect_left(self._by_time, before)
        for place in range(at - 1, -1, -1):
            time, key = self._by_time[place]
            if time < since:
                return
            if takes(key.partition("/")[0]):
                yield (time, key), self._rows[key]


def row_of(entry: View) -> PreemptionRow:
    spec = entry["spec"]
    freed = spec.get("freed") or {}
    return PreemptionRow(
        name=entry["metadata"]["name"],
        at=spec["at"],
        victim=_party(spec["victim"]),
        preemptor=_party(spec["preemptor"]),
        rule=spec["rule"],
        message=spec.get("message", ""),
        gpus=sum(parse_quantity(amount).value for resource, amount in freed.items() if is_gpu(resource)),
        ran_seconds=spec.get("ranSeconds", 0),
        gpu_seconds_lost=spec.get("gpuSecondsLost", 0),
        victim_uid=spec["victim"].get("uid", ""),
    )


def _party(found: View) -> PartyRow:
    kind, _, name = found.get("owner", "").partition("/")
    return PartyRow(
        namespace=found.get("namespace", ""),
        workload=found.get("name", ""),
        job=f"{kind.lower()}/{name}" if name else f"workload/{found.get('name', '')}",
        cluster_queue=found.get("clusterQueue", ""),
        priority=found.get("priority", 0),
        user=found.get("user", ""),
    )
