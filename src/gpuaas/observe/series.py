"""Counters and histograms as plain numbers by label, and their Prometheus form when somebody asks.

Counting is a dictionary's increment; Prometheus' library is imported with the first scrape. What a metric is called,
which labels it has and what it means stands in a `Measure`; a sample for an unknown one is a KeyError at once.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, float]]
DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    kind: Kind
    words: str
    labels: Labels
    buckets: tuple[float, ...] = ()


class Histogram:
    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0


class Series:
    """The counters and histograms of a catalogue. `common` are labels with a value that never changes."""

    def __init__(self, measures: Mapping[str, Measure], common: Mapping[str, str]) -> None:
        self._measures = measures
        self._common = common
        self._counters: dict[str, Counter[Labels]] = {
            each.name: Counter() for each in measures.values() if each.kind == "counter"
        }
        self._histograms: dict[str, dict[Labels, Histogram]] = {
            each.name: {} for each in measures.values() if each.kind == "histogram"
        }

    def count(self, name: str, *labels: str) -> None:
        self._counters[name][labels] += 1

    def observe(self, name: str, value: float, *labels: str) -> None:
        buckets, known = self._measures[name].buckets, self._histograms[name]
        found = known.get(labels)
        if found is None:
            found = known[labels] = Histogram(len(buckets))
        found.counts[bisect_left(buckets, value)] += 1
        found.total += value

    def forget(self, **labels: str) -> None:
        """Those with all these labels are told no more: what they counted for is gone."""
        known: dict[str, dict[Labels, Any]] = {**self._counters, **self._histograms}
        for name, samples in known.items():
            names = self._measures[name].labels
            if all(label in names for label in labels):
                places = [(names.index(label), value) for label, value in labels.items()]
                for key in [key for key in samples if all(key[place] == value for place, value in places)]:
                    del samples[key]

    def collect(self) -> "Iterator[Metric]":
        for name, counter in self._counters.items():
            if counter:
                yield family(self._measures[name], sorted(counter.items()), self._common)
        for name, known in self._histograms.items():
            if known:
                yield self._histogram(self._measures[name], known)

    def _histogram(self, measure: Measure, known: Mapping[Labels, Histogram]) -> "Metric":
        from prometheus_client.core import HistogramMetricFamily

        made = HistogramMetricFamily(measure.name, measure.words, labels=_names(measure, self._common))
        bounds = [_bound(bound) for bound in (*measure.buckets, float("inf"))]
        for labels, found in sorted(known.items()):
            buckets = list(zip(bounds, map(float, accumulate(found.counts)), strict=True))
            made.add_metric((*labels, *self._common.values()), buckets, found.total)
        return made


def family(measure: Measure, samples: Samples, common: Mapping[str, str]) -> "Metric":
    """A counter or a gauge with these values."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if measure.kind == "counter" else GaugeMetricFamily
    made = kind(measure.name, measure.words, labels=_names(measure, common))
    for labels, value in samples:
        made.add_metric((*labels, *common.values()), value)
    return made


def _names(measure: Measure, common: Mapping[str, str]) -> Sequence[str]:
    return (*measure.labels, *common)


def _bound(value: float) -> str:
    """As Go's client writes it."""
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)
