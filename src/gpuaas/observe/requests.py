"""Counts of API requests: plain dictionaries on the hot path, Prometheus' text only when it is scraped.

Prometheus' library is imported with the first scrape: it costs a start 50 ms and most servers are never scraped.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_METHODS = frozenset(("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"))
_OTHER = "other"  # a client can make up as many methods as it likes: they are counted as one

Lines = Callable[[], Iterable[str]]
"""Tells metrics in Prometheus' text form."""


class RequestCounter:
    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()
        self._refused: Counter[tuple[str, int]] = Counter()

    def seen(self, verb: str, resource: str) -> None:
        self._seen[verb, resource] += 1

    def refused(self, method: str, code: int) -> None:
        self._refused[method if method in _METHODS else _OTHER, code] += 1

    def collect(self) -> "Iterator[Metric]":
        """For a Prometheus registry."""
        from prometheus_client.core import CounterMetricFamily

        seen = CounterMetricFamily("apiserver_request", "Requests by verb and resource", labels=("verb", "resource"))
        for (verb, resource), count in sorted(self._seen.items()):
            seen.add_metric((verb.upper(), resource), count)
        yield seen
        refused = CounterMetricFamily(
            "gpuaas_request_refused", "Requests answered with an error", labels=("method", "code")
        )
        for (method, code), count in sorted(self._refused.items()):
            refused.add_metric((method, str(code)), count)
        yield refused


def render(requests: RequestCounter, stores: Mapping[str, tuple[int, int]], more: Sequence[Lines] = ()) -> bytes:
    """The text a scrape gets. `stores`: revision and number of objects of each cluster; `more`: what others tell."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    registry.register(requests)
    registry.register(_Stores(stores))
    ProcessCollector(registry=registry)
    text: bytes = generate_latest(registry)
    return text + "".join(f"{line}\n" for tell in more for line in tell()).encode()


class _Stores:
    def __init__(self, stores: Mapping[str, tuple[int, int]]) -> None:
        self._stores = stores

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import GaugeMetricFamily

        revisions = GaugeMetricFamily(
            "gpuaas_store_revision", "The last revision a cluster has committed", labels=("cluster",)
        )
        objects = GaugeMetricFamily("gpuaas_store_objects", "How many objects a cluster keeps", labels=("cluster",))
        for name, (revision, count) in self._stores.items():
            revisions.add_metric((name,), revision)
            objects.add_metric((name,), count)
        yield revisions
        yield objects
