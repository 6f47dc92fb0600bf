"""Horizontal autoscalers lose nothing in the older version: annotations carry what it has no fields for."""

import json
from typing import Any

import pytest

from gpuaas.api.kubernetes.autoscalers import convert_autoscaler

CARRIED = "autoscaling.alpha.kubernetes.io/"
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
USUAL = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
}
POLICY = {"type": "Pods", "value": 1, "periodSeconds": 60}


def newer(metrics: list[Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": {"maxReplicas": 3, "metrics": metrics, **spec},
    }


def older(spec: dict[str, Any], **texts: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": "a",
            "annotations": {f"{CARRIED}{key.replace('_', '-')}": text for key, text in texts.items()},
        },
        "spec": {"maxReplicas": 3, **spec},
    }


def annotations(obj: dict[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def test_one_share_of_the_cpu_needs_no_annotation() -> None:
    found = convert_autoscaler(newer([CPU]), "v1")
    assert found["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    assert "annotations" not in found["metadata"]


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (MEMORY, '{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}'),
        (
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "rate", "selector": {"matchLabels": {"z": "<", "a": "&"}}},
                    "target": {"type": "AverageValue", "averageValue": "1k"},
                },
            },
            '{"type":"Pods","pods":{"metricName":"rate","targetAverageValue":"1k",'
            '"selector":{"matchLabels":{"a":"\\u0026","z":"\\u003c"}}}}',
        ),
        (
            {
                "type": "Object",
                "object": {
                    "describedObject": {"kind": "Service", "name": "s"},
                    "target": {"type": "AverageValue", "averageValue": "5"},
                    "metric": {"name": "hits"},
                },
            },
            '{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"hits",'
            '"targetValue":"0","averageValue":"5"}}',
        ),
        (
            {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "3"}}},
            '{"type":"External","external":{"metricName":"q","targetValue":"3"}}',
        ),
        (
            {
                "type": "ContainerResource",
                "containerResource": {
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 9},
                    "container": "c",
                },
            },
            '{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":9,"container":"c"}}',
        ),
    ],
)
def test_other_metrics_are_carried_in_the_words_of_an_older_time_and_come_back(metric: Any, text: str) -> None:
    found = convert_autoscaler(newer([metric, CPU]), "v1")
    assert annotations(found) == {f"{CARRIED}metrics": f"[{text}]"}
    assert convert_autoscaler(found, "v2") == newer([metric, CPU])


def test_behaviour_is_carried_in_capitals_and_comes_back() -> None:
    behavior = {"scaleUp": {"selectPolicy": "Min", "policies": [POLICY]}}
    found = convert_autoscaler(newer([CPU], behavior=behavior), "v1")
    assert annotations(found)[f"{CARRIED}behavior"] == (
        '{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":"Min",'
        '"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":60}],"Tolerance":null},"ScaleDown":null}'
    )
    assert convert_autoscaler(found, "v2") == newer([CPU], behavior=behavior)


def test_a_status_keeps_its_metrics_and_conditions() -> None:
    status = {
        "desiredReplicas": 2,
        "currentReplicas": 1,
        "currentMetrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageValue": "5m", "averageUtilization": 7}},
            }
        ],
        "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
    }
    found = convert_autoscaler({**newer([CPU]), "status": status}, "v1")
    assert found["status"] == {"desiredReplicas": 2, "currentReplicas": 1, "currentCPUUtilizationPercentage": 7}
    assert json.loads(annotations(found)[f"{CARRIED}conditions"]) == status["conditions"]
    assert convert_autoscaler(found, "v2")["status"] == status


def test_a_status_without_annotations_tells_of_the_cpu_alone() -> None:
    found = convert_autoscaler({**older({}), "status": {"currentCPUUtilizationPercentage": 7}}, "v2")
    current = {"name": "cpu", "current": {"averageUtilization": 7}}
    assert found["status"] == {"currentMetrics": [{"type": "Resource", "resource": current}]}


@pytest.mark.parametrize(
    ("text", "metrics"),
    [
        ('[{"TYPE":"Resource","resource":{"Name":"memory","targetaveragevalue":"1024Mi","more":1}}]', [MEMORY]),
        ("[]", [USUAL]),
        ("null", [USUAL]),
        ("[{", [USUAL]),
        ("{}", [USUAL]),
        ('[{"type":7}]', [USUAL]),
        ('[{"type":"Resource","resource":{"targetAverageUtilization":7.5}}]', [USUAL]),
        ('[{"type":"Resource","resource":{"targetAverageUtilization":4294967296}}]', [USUAL]),
        ('[{"type":"External","external":{"targetValue":"lots"}}]', [USUAL]),
        ("[null]", [{"type": ""}]),
        ("[" * 100_000, [USUAL]),
    ],
)
def test_carried_metrics_are_read_as_go_reads_them_or_not_at_all(text: str, metrics: list[Any]) -> None:
    found = convert_autoscaler(older({}, metrics=text), "v2")
    assert found["spec"]["metrics"] == metrics
    assert annotations(found) == {}


def test_rules_that_name_no_policy_are_refused_later_not_filled_in() -> None:
    found = convert_autoscaler(older({}, behavior='{"ScaleUp":{"SelectPolicy":"Min"}}'), "v2")
    assert found["spec"]["behavior"] == {"scaleUp": {"selectPolicy": "Min", "policies": []}}


def test_only_the_conversion_writes_the_annotations_it_reads() -> None:
    said = newer([CPU])
    said["metadata"]["annotations"] = {f"{CARRIED}metrics": "[]", f"{CARRIED}scale-up-tolerance": "1", "mine": "1"}
    assert annotations(convert_autoscaler(said, "v1")) == {"mine": "1"}
