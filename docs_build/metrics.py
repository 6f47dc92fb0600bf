"""The page of metrics: Kueue's from their catalogue, the server's from what a scrape of them looks like."""

import re
from collections.abc import Iterable
from typing import Final

from docs_build.markdown import code, codes, table
from gpuaas.apiserver.health import Health
from gpuaas.observe.kueue import BUILD_INFO, COMMON, MEASURES
from gpuaas.observe.requests import RequestCounter, render
from gpuaas.observe.series import Kind, Measure

_INTRODUCTION: Final = (
    "`/metrics` of the API server tells all of them in Prometheus' text format, `/metrics/slis` those of the health checks;"
    " who scrapes needs the right to `get` these paths, except for `/metrics` of a server that only this machine reaches. A"
    " metric is there once it has something to tell."
)
_OF_KUEUE: Final = (
    "As Kueue 0.19 names them, with its labels and buckets; the meaning is told in our words. Each has the label"
    f" {codes(f'{name}={value}' for name, value in COMMON.items())} as well. Some want to be asked for in"
    " [Kueue's configuration](../guides/configuration.md): quotas and use of single resources"
    " (`metrics.enableClusterQueueResources`), what is in the way of workloads (feature gate"
    " `UnadmittedWorkloadsObservability`), shares (`fairSharing`, `admissionFairSharing`), and labels of your own"
    " (`metrics.customLabels`, with the feature gate `CustomMetricLabels`). Metrics of LocalQueues are on unless `metrics.localQueueMetrics.enable` is false."
)
_LINE: Final = re.compile(r"# (HELP|TYPE) (\S+) (.*)")


def body() -> str:
    kueue = [*MEASURES.values(), BUILD_INFO]
    local = [each for each in kueue if each.name.startswith("kueue_local_queue_")]
    cohorts = [each for each in kueue if each.name.startswith("kueue_cohort_")]
    parts = [_INTRODUCTION, "## Of the API server", _table(_of_the_server())]
    parts.append("Beside them stand the `process_*` metrics of Prometheus' own library, where the system tells them.")
    parts += ["## Of Kueue", _OF_KUEUE]
    parts += [
        "### Of the whole, and of ClusterQueues",
        _table(each for each in kueue if each not in (*local, *cohorts)),
    ]
    parts += ["### Of LocalQueues", _table(local), "### Of cohorts", _table(cohorts)]
    return "\n\n".join(parts)


def _table(measures: Iterable[Measure]) -> str:
    rows = [(code(each.name), _type(each), codes(each.labels), _words(each)) for each in measures]
    return table(("metric", "type", "labels", "what it tells"), rows)


def _words(measure: Measure) -> str:
    if not measure.words:
        raise ValueError(f"{measure.name}: a metric without help")
    return measure.words


def _type(measure: Measure) -> str:
    if not measure.buckets:
        return measure.kind
    return f"{measure.kind}, {measure.buckets[0]:g} to {measure.buckets[-1]:g} s"


def _of_the_server() -> list[Measure]:
    """Made to count once, and read as a scraper reads it."""
    requests, health = RequestCounter(), Health()
    requests.seen("get", "pods")
    requests.refused("GET", 404)
    health.answer("readyz", stored=True, ending=False, query={})
    text = (render(requests, {"local": (1, 1)}) + health.metrics()).decode()
    found: dict[str, dict[str, str]] = {}
    for kind, name, words in _LINE.findall(text):
        found.setdefault(name, {})[kind] = words
    return [_measure(name, said, text) for name, said in found.items() if not name.startswith("process_")]


def _measure(name: str, said: dict[str, str], text: str) -> Measure:
    sample = re.search(rf"^{name}\{{(.*)\}}", text, re.MULTILINE)
    labels = tuple(re.findall(r'(\w+)="', sample[1])) if sample else ()
    kind: Kind = "counter" if said["TYPE"] == "counter" else "gauge"
    return Measure(name, kind, said["HELP"].rstrip("."), labels)
