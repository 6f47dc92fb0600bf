"""Custom labels of metrics: what may be asked for, and what an object says to it."""

from typing import Any

import pytest

from gpuaas.kueue.configuration.file import ConfigurationError, configuration_of
from gpuaas.kueue.metric_labels import UNTRACKED, CustomLabel, values

BETA2 = "config.kueue.x-k8s.io/v1beta2"


def read(*labels: dict[str, Any]) -> Any:
    gates = {"CustomMetricLabels": True}
    document = {"apiVersion": BETA2, "kind": "Configuration", "featureGates": gates}
    return configuration_of({**document, "metrics": {"customLabels": list(labels)}}).configuration


MISTAKES: list[tuple[list[dict[str, Any]], str]] = [
    ([{"name": "a-b"}], '[0].name: Invalid value: "a-b": must match ^[a-zA-Z][a-zA-Z0-9_]*$'),
    ([{"name": "a"}, {"name": "a"}], '[1].name: Duplicate value: "a"'),
    (
        [{"name": "a", "sourceLabelKey": "x", "sourceAnnotationKey": "y"}],
        '[0].sourceAnnotationKey: Invalid value: "y": sourceLabelKey and sourceAnnotationKey are mutually exclusive',
    ),
    ([{"name": "a", "sourceLabelKey": "no label"}], '[0].sourceLabelKey: Invalid value: "no label": name part'),
    (
        [{"name": "a", "sourceKind": "Job"}],
        '[0].sourceKind: Unsupported value: "Job": supported values: "ClusterQueue", "Cohort", "LocalQueue", "Workload"',
    ),
    (
        [{"name": "a", "sourceKind": "Workload"}],
        "[0].trackedValues: Invalid value: []: must not be empty when sourceKind is 'Workload'",
    ),
    ([{"name": "a", "trackedValues": ["x", "x"]}], "must not contain duplicates"),
    (
        [{"name": "a", "trackedValues": [str(n) for n in range(17)]}],
        "[0].trackedValues: Too many: 17: must have at most 16 items",
    ),
    (
        [{"name": "a", "sourceKind": "Workload", "trackedValues": [str(n) for n in range(13)]}],
        "must not be greater than 12 when sourceKind is 'Workload'",
    ),
    (
        [{"name": f"a{n}"} for n in range(7)],
        "too many custom labels for source kind ClusterQueue: found 7, expected <= 6",
    ),
    ([{"name": f"a{n}"} for n in range(21)], "customLabels: Too many: 21: must have at most 20 items"),
]


@pytest.mark.parametrize(("labels", "words"), MISTAKES)
def test_a_mistake_is_answered_with_field_finding_and_remedy(labels: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(*labels)
    assert any(line.startswith("metrics.customLabels") and words in line for line in str(refused.value).splitlines())


def test_what_workloads_are_counted_by_their_jobs_pass_on() -> None:
    jobs = read(
        {"name": "kind", "sourceKind": "Workload", "trackedValues": ["a"]},
        {"name": "cost", "sourceAnnotationKey": "x.io/cost", "sourceKind": "Workload", "trackedValues": ["1"]},
        {"name": "team"},
    ).jobs
    assert (jobs.label_keys_to_copy, jobs.annotation_keys_to_copy) == (("kind",), ("x.io/cost",))


SAID: list[tuple[str, CustomLabel, str]] = [
    ("a label", CustomLabel("team", "ClusterQueue", "team"), "vision"),
    ("an annotation", CustomLabel("cost", "ClusterQueue", "cost", annotation=True), "12"),
    ("nothing for one that is not there", CustomLabel("x", "ClusterQueue", "x"), ""),
    ("a tracked value", CustomLabel("team", "ClusterQueue", "team", tracked=("vision",)), "vision"),
    ("no value that is not tracked", CustomLabel("team", "ClusterQueue", "team", tracked=("speech",)), UNTRACKED),
]


@pytest.mark.parametrize(("label", "value"), [row[1:] for row in SAID], ids=[row[0] for row in SAID])
def test_an_object_tells(label: CustomLabel, value: str) -> None:
    obj = {"metadata": {"labels": {"team": "vision"}, "annotations": {"cost": "12"}}}
    assert values((label,), obj) == (value,)


def test_an_object_that_is_not_there_has_empty_values() -> None:
    assert values((CustomLabel("team", "Cohort", "team"),), None) == ("",)
