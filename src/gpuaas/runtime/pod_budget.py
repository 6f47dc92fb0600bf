"""How many pods may wait for a node: of one owner, and in one namespace. Controllers create no more than that ahead.

Kubernetes lets a Job of parallelism 100,000 fill the cluster with pods that nothing can run; here they would fill one
process. So a controller's create of a pod is refused while too many of its owner's, or of its namespace's, have no node;
it is tried again, and pods that got a node make room for the next. A pod group needs all its pods before any is admitted:
for its pods only the namespace's budget counts. What people create themselves is theirs to bound, with count/pods quotas.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from gpuaas.base.errors import ApiError
from gpuaas.kueue.integrations.keys import GROUP_NAME
from gpuaas.runtime.informer import Informer
from gpuaas.runtime.metadata import controller_of, labels_of

OF_OWNER: Final = 1_000
OF_NAMESPACE: Final = 10_000
LOOK_AGAIN: Final = 10.0  # seconds
UNPLACED: Final = "unplaced"  # index of pods: those without a node, by owner and by namespace
_ENDED: Final = ("Succeeded", "Failed")


class TooManyWaiting(ApiError):
    code = 403
    reason = "Forbidden"


class PodBudget:
    def __init__(self) -> None:
        self._on_the_way: Counter[str] = Counter()  # created, and not in the view yet

    @contextmanager
    def spent(self, view: Informer, pod: Mapping[str, Any], namespace: str) -> Iterator[None]:
        """Around the create of a pod until the view shows it; raises TooManyWaiting."""
        view.add_index(UNPLACED, _unplaced)
        keys = tuple(_keys(pod, namespace))
        for key in keys:
            limit = OF_NAMESPACE if key == _of_namespace(namespace) else OF_OWNER
            if view.count(UNPLACED, key) + self._on_the_way[key] >= limit:
                raise TooManyWaiting(_words(pod, namespace, limit, owner=limit == OF_OWNER))
        self._on_the_way.update(keys)
        try:
            yield
        finally:
            self._on_the_way.subtract(keys)
            for key in keys:
                if self._on_the_way[key] <= 0:
                    del self._on_the_way[key]


def _words(pod: Mapping[str, Any], namespace: str, limit: int, *, owner: bool) -> str:
    reference = controller_of(pod) or {}
    whose = f"{reference.get('kind')} {reference.get('name')}" if owner else f"namespace {namespace}"
    return (
        f"{limit} pods of {whose} wait for a node already, and no more may: "
        "the others are created when these have found one"
    )


def _unplaced(pod: Mapping[str, Any]) -> Iterable[str]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if spec.get("nodeName") or status.get("phase") in _ENDED:
        return ()
    return _keys(pod, pod["metadata"].get("namespace") or "")


def _keys(pod: Mapping[str, Any], namespace: str) -> Iterable[str]:
    reference = controller_of(pod)
    if reference is not None and GROUP_NAME not in labels_of(pod):
        yield f"owner/{reference['uid']}"
    yield _of_namespace(namespace)


def _of_namespace(namespace: str) -> str:
    return f"namespace/{namespace}"
