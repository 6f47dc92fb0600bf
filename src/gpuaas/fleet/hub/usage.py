"""What a cluster has left, as amounts and as scores from -100 to 100.

The eight first scores have the names, the order and below half of their scale the values of OCM's
resource-usage-collect-addon. Above it they approach 100 and never reach it: where the original gives 100 to every cluster
with 20 free GPUs, ours still tells 40 from 400. Memory is counted in MiB, as the original means to. All GPUs count,
slices and shared ones too. Four more names: what is free, the largest gang, how many jobs wait and how long.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gpuaas.base.clock import parse_rfc3339
from gpuaas.kueue.ledger import is_gpu
from gpuaas.kueue.workload_state import conditions_of, is_true
from gpuaas.nodefit.amounts import allocatable_of, requests_of
from gpuaas.runtime.metadata import is_deleting, labels_of
from gpuaas.runtime.pods import is_finished

Object = Mapping[str, Any]
PRODUCT: Final = "nvidia.com/gpu.product"
TPU: Final = "google.com/tpu"
_MEBI: Final = 1 << 20
_SCALE: Final = {"cpu": 100_000, "memory": 1_048_576, "gpu": 20, "tpu": 20}  # thousandths, MiB, cards
_WAITING_SCALE: Final = 20  # jobs
_AGE_SCALE: Final = 7200.0  # seconds


class GpuAmounts(msgspec.Struct):
    total: int = 0
    free: int = 0


class Summary(msgspec.Struct, rename="camel"):
    """The amounts behind the scores, as the annotation `gpuaas.dev/summary` carries them."""

    gpus: dict[str, GpuAmounts] = msgspec.field(default_factory=dict)  # by product
    free_gpus: int = 0
    largest_gang: int = 0  # free at once of one product
    largest_on_node: int = 0
    waiting: int = 0
    oldest_waiting_seconds: int = 0
    running: int = 0
    at: str = ""


@dataclass(slots=True)
class _Free:
    cluster: int = 0
    node: int = 0

    def add(self, amount: int) -> None:
        self.cluster += amount
        self.node = max(self.node, amount)


def score(amount: float, scale: float) -> int:
    """-100 for nothing; the original's line up to half of the scale (0); from there on towards 100."""
    if amount <= 0:
        return -100
    half = scale / 2
    return int(200 * amount / scale - 100) if amount <= half else int(100 * (1 - half / amount))


def measure(
    nodes: Sequence[Object], pods: Iterable[Object], workloads: Iterable[Object], now: float
) -> tuple[dict[str, int], Summary]:
    """The scores by name, in the order of the original, and the summary."""
    free = {name: _Free() for name in _SCALE}
    summary = Summary()
    used = _used(pods)
    for node in nodes:
        if not _is_usable(node):
            continue
        taken = used.get(node["metadata"]["name"], {})
        offered = allocatable_of(node)
        left = {name: max(0, amount - taken.get(name, 0)) for name, amount in offered.items()}
        cards = sum(amount for name, amount in left.items() if is_gpu(name))
        free["cpu"].add(left.get("cpu", 0))
        free["memory"].add(left.get("memory", 0) // _MEBI)
        free["gpu"].add(cards)
        free["tpu"].add(left.get(TPU, 0))
        total = sum(amount for name, amount in offered.items() if is_gpu(name))
        if total:
            found = summary.gpus.setdefault(labels_of(node).get(PRODUCT, "GPU"), GpuAmounts())
            found.total += total
            found.free += cards
    _count_jobs(workloads, summary, now)
    summary.free_gpus, summary.largest_on_node = free["gpu"].cluster, free["gpu"].node
    summary.largest_gang = max((each.free for each in summary.gpus.values()), default=0)
    return _scores(free, summary), summary


def _scores(free: Mapping[str, _Free], summary: Summary) -> dict[str, int]:
    scores: dict[str, int] = {}
    for short, name in (("cpu", "cpu"), ("mem", "memory"), ("gpu", "gpu"), ("tpu", "tpu")):
        scores[f"{short}NodeAvailable"] = score(free[name].node, _SCALE[name])
        scores[f"{short}ClusterAvailable"] = score(free[name].cluster, _SCALE[name])
    scores["gpuFree"] = scores["gpuClusterAvailable"]
    scores["gpuLargestGang"] = score(summary.largest_gang, _SCALE["gpu"])
    # Fewer and younger is better: an empty queue is 100.
    scores["queueDepth"] = -score(summary.waiting, _WAITING_SCALE)
    scores["oldestWaiting"] = -score(summary.oldest_waiting_seconds, _AGE_SCALE)
    return scores


def _used(pods: Iterable[Object]) -> dict[str, dict[str, int]]:
    used: dict[str, dict[str, int]] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or is_finished(pod) or is_deleting(pod):
            continue
        on_node = used.setdefault(node, {})
        for name, amount in requests_of(pod).items():
            on_node[name] = on_node.get(name, 0) + amount
    return used


def _is_usable(node: Object) -> bool:
    if (node.get("spec") or {}).get("unschedulable"):
        return False
    said = (node.get("status") or {}).get("conditions") or ()
    return all(each.get("status") == "True" for each in said if each.get("type") == "Ready")


def _count_jobs(workloads: Iterable[Object], summary: Summary, now: float) -> None:
    for each in workloads:
        found = conditions_of(each)
        if is_true(found.get("Finished")) or not (each.get("spec") or {}).get("active", True):
            continue
        if is_true(found.get("Admitted")):
            summary.running += 1
        elif not is_true(found.get("QuotaReserved")):
            summary.waiting += 1
            age = int(now - parse_rfc3339(each["metadata"]["creationTimestamp"]))
            summary.oldest_waiting_seconds = max(summary.oldest_waiting_seconds, age)
