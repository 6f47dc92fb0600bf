"""Custom labels of metrics: read from the metric's objects when it is counted or scraped.

There only while the configuration asks for such labels. Counters keep the values of the time they counted at; what is
computed at a scrape has the values of that moment.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from gpuaas.client.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES
from gpuaas.client.protocol import Object, Resource
from gpuaas.kueue.metric_labels import WORKLOAD, CustomLabels, values
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.observe.kueue import object_of, widened
from gpuaas.observe.series import Labels, Series
from gpuaas.runtime.informer import Informer


def tell_custom_labels(
    series: Series, labels: CustomLabels, workloads: Informer, of: Callable[[Resource], Informer]
) -> "AdmittedByLabels | None":
    """Counts with these labels from now on; gives who counts workloads by theirs, if anybody asks for that."""
    if labels.all:
        series.tell(CustomValues(labels, of(CLUSTER_QUEUES), of(COHORTS), of(LOCAL_QUEUES)))
    return AdmittedByLabels(labels, workloads) if labels.of(WORKLOAD) else None


class CustomValues:
    """Finds the objects by the labels that metrics have anyway."""

    def __init__(self, labels: CustomLabels, cluster_queues: Informer, cohorts: Informer, local_queues: Informer):
        self.measures = widened(labels.names())
        self._labels = {source: labels.of(source) for source in labels.names()}
        self._informers = {"ClusterQueue": cluster_queues, "Cohort": cohorts, "LocalQueue": local_queues}

    def extended(self, name: str, labels: Labels) -> Labels:
        found = object_of(name, labels)
        return labels if found is None else (*labels, *self.of(*found))

    def of(self, source: str, namespace: str, name: str) -> Labels:
        asked = self._labels[source]
        return values(asked, self._informers[source].get(namespace, name)) if asked else ()


class AdmittedByLabels:
    """How many workloads of a ClusterQueue are admitted, by the values of their own custom labels."""

    def __init__(self, labels: CustomLabels, workloads: Informer) -> None:
        self._labels = labels.of(WORKLOAD)
        self._places: dict[tuple[str, str], tuple[str, Labels]] = {}
        self._counts: dict[str, Counter[Labels]] = {}
        workloads.subscribe(self._changed)

    def of(self, cluster_queue: str) -> Iterator[tuple[Labels, int]]:
        return iter(self._counts.get(cluster_queue, {}).items())

    def _changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        key = obj["metadata"]["namespace"], obj["metadata"]["name"]
        queue = "" if new is None else _holder(new)
        place = (queue, values(self._labels, new)) if queue else None
        before = self._places.pop(key, None)
        if place is not None:
            self._places[key] = place
        for found, sign in ((before, -1), (place, 1)):
            if found is not None:
                self._counts.setdefault(found[0], Counter())[found[1]] += sign
        if before is not None and not any(self._counts[before[0]].values()):
            del self._counts[before[0]]


def _holder(obj: Object) -> str:
    """The ClusterQueue it is admitted in; empty while it is not."""
    conditions = conditions_of(obj)
    if is_true(conditions.get("Finished")) or not (obj.get("spec") or {}).get("active", True):
        return ""
    given = (obj.get("status") or {}).get("admission")
    if not given or not is_true(conditions.get("Admitted")) or not is_true(conditions.get("QuotaReserved")):
        return ""
    return str(given["clusterQueue"])
