"""Labels and annotations of queues, cohorts and workloads that are added to the labels of Kueue's metrics.

What the Configuration's `metrics.customLabels` asks for, as values, and what an object has to say to it. Reading and
judging the file's section is here as well; which metric takes whose labels is `observe.kueue`'s.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.fielderrors import duplicate, invalid, too_many
from gpuaas.base.names import is_qualified_name
from gpuaas.kueue.configuration.fields import Section

Labels = tuple[str, ...]
WORKLOAD: Final = "Workload"
UNTRACKED: Final = "kueue.x-k8s.io/_UNTRACKED_VALUE_"
"""The label's value in place of one that is not tracked."""
_MOST: Final = 20
_MOST_OF: Final = {"ClusterQueue": 6, "Cohort": 6, "LocalQueue": 6, WORKLOAD: 2}
_MOST_TRACKED: Final = 16
_MOST_TRACKED_OF_WORKLOADS: Final = 12
_NAME: Final = "[a-zA-Z][a-zA-Z0-9_]*"


@dataclass(frozen=True, slots=True)
class CustomLabel:
    name: str
    source: str
    """The kind of object whose value it is."""
    key: str
    annotation: bool = False
    tracked: tuple[str, ...] = ()
    """The tracked values; empty: every value."""

    def value_of(self, obj: Mapping[str, Any] | None) -> str:
        found = ((obj or {}).get("metadata") or {}).get("annotations" if self.annotation else "labels") or {}
        value = str(found.get(self.key, ""))
        return value if not self.tracked or value in self.tracked else UNTRACKED


@dataclass(frozen=True, slots=True)
class CustomLabels:
    all: tuple[CustomLabel, ...] = ()

    def of(self, source: str) -> tuple[CustomLabel, ...]:
        return tuple(each for each in self.all if each.source == source)

    def names(self) -> dict[str, Labels]:
        """The labels in the metrics, by the kind of object they come from."""
        return {source: tuple(f"custom_{each.name}" for each in self.of(source)) for source in _MOST_OF}

    def copied(self, *, annotations: bool) -> tuple[str, ...]:
        """What a workload must take over from its job for this."""
        return tuple(each.key for each in self.of(WORKLOAD) if each.annotation == annotations)


def values(labels: Iterable[CustomLabel], obj: Mapping[str, Any] | None) -> Labels:
    return tuple(each.value_of(obj) for each in labels)


def read_custom_labels(section: Section, *, enabled: bool) -> CustomLabels:
    """The section `metrics`; without the feature gate it is judged, and has no effect."""
    path, found = section.path("customLabels"), section.sections("customLabels")
    if len(found) > _MOST:
        section.error(too_many(path, len(found), _MOST))
    made = [_label(each) for each in found]
    seen: set[str] = set()
    for each, label in zip(found, made, strict=True):
        if label.name in seen:
            section.error(duplicate(each.path("name"), label.name))
        seen.add(label.name)
    for source, number in sorted(Counter(each.source for each in made).items()):
        if number > _MOST_OF[source]:
            words = f"too many custom labels for source kind {source}: found {number}, expected <= {_MOST_OF[source]}"
            section.error(invalid(path, [each.name for each in made], words))
    if made and not enabled:
        section.warn(path, "has no effect while the feature gate CustomMetricLabels is off")
    return CustomLabels(tuple(made) if enabled else ())


def _label(section: Section) -> CustomLabel:
    name, label, annotation = (section.text(each) for each in ("name", "sourceLabelKey", "sourceAnnotationKey"))
    source = section.choice("sourceKind", "ClusterQueue", tuple(_MOST_OF))
    tracked = section.texts("trackedValues")
    section.done()
    if not re.fullmatch(_NAME, name):
        section.error(invalid(section.path("name"), name, f"must match ^{_NAME}$"))
    if label and annotation:
        words = "sourceLabelKey and sourceAnnotationKey are mutually exclusive"
        section.error(invalid(section.path("sourceAnnotationKey"), annotation, words))
    field = "sourceLabelKey" if label else "sourceAnnotationKey" if annotation else "name"
    for words in is_qualified_name(label or annotation or name):
        section.error(invalid(section.path(field), label or annotation or name, words))
    _judge_tracked(section, source, tracked)
    return CustomLabel(name, source, label or annotation or name, bool(annotation) and not label, tuple(tracked))


def _judge_tracked(section: Section, source: str, tracked: Sequence[str]) -> None:
    path = section.path("trackedValues")
    if source == WORKLOAD:
        if not tracked:
            section.error(invalid(path, tracked, "must not be empty when sourceKind is 'Workload'"))
        if len(tracked) > _MOST_TRACKED_OF_WORKLOADS:
            words = f"must not be greater than {_MOST_TRACKED_OF_WORKLOADS} when sourceKind is 'Workload'"
            section.error(invalid(path, tracked, words))
    elif len(tracked) > _MOST_TRACKED:
        section.error(too_many(path, len(tracked), _MOST_TRACKED))
    if len(set(tracked)) < len(tracked):
        section.error(invalid(path, tracked, "must not contain duplicates"))
