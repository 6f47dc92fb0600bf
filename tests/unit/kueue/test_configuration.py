"""What a Configuration file means: upstream's defaults, what each knob becomes, and what a mistake is answered with."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuaas.base.quantity import parse_quantity
from gpuaas.base.selectors import from_label_selector
from gpuaas.engine.config import BOTH_STRATEGIES, Config
from gpuaas.engine.supervise import ReadyRules
from gpuaas.engine.usage_share import UsageConfig
from gpuaas.kueue.configuration.fields import parse_duration
from gpuaas.kueue.configuration.file import ConfigurationError, configuration_of, read_configuration
from gpuaas.kueue.configuration.settings import Configuration, MetricsConfig, NodeRules, ReasonRules
from gpuaas.kueue.dra.rules import DeviceMapping, DeviceRules, Source
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.kueue.integrations.registry import FRAMEWORKS, kinds_of
from gpuaas.kueue.metric_labels import CustomLabel, CustomLabels
from gpuaas.kueue.resources import ReadRules
from gpuaas.machinery.yamltext import load_yaml


def read(version: str = "v1beta2", **fields: Any) -> Configuration:
    return configuration_of(_document(version, fields)).configuration


def warnings(version: str = "v1beta2", **fields: Any) -> tuple[str, ...]:
    return configuration_of(_document(version, fields)).warnings


def refusal(version: str = "v1beta2", **fields: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as found:
        configuration_of(_document(version, fields))
    return str(found.value).splitlines()


def _document(version: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration", **fields}


def test_an_empty_file_is_upstreams_default_with_every_integration_on() -> None:
    assert read() == Configuration()
    assert read().ready == ReadyRules(timeout=1_800_000, recovery_timeout=1_800_000)
    assert all(read().jobs.enables(name) for name in FRAMEWORKS)
    assert warnings() == ()


KNOBS: list[tuple[str, dict[str, Any], Any, Any]] = [
    (
        "what stands for which devices",
        {
            "resources": {
                "deviceClassMappings": [
                    {"name": "gpus", "deviceClassNames": ["gpu.example.com"]},
                    {
                        "name": "gpu.memory",
                        "deviceClassNames": ["mig.example.com"],
                        "sources": [
                            {
                                "counter": {
                                    "driver": "gpu.example.com",
                                    "name": "memory",
                                    "deviceSelector": {"cel": {"expression": "true"}},
                                }
                            }
                        ],
                    },
                ]
            }
        },
        "devices",
        DeviceRules(
            (
                DeviceMapping("gpus", ("gpu.example.com",)),
                DeviceMapping(
                    "gpu.memory", ("mig.example.com",), (Source("counter", "gpu.example.com", "memory", "true"),)
                ),
            )
        ),
    ),
    ("no devices", {"featureGates": {"KueueDRAIntegration": False}}, "devices", DeviceRules(counts=False)),
    ("jobs without a queue", {"manageJobsWithoutQueueName": True}, "jobs", JobsConfig(manage_without_queue=True)),
    (
        "which namespaces",
        {"managedJobsNamespaceSelector": {"matchLabels": {"team": "ai"}}},
        "jobs",
        JobsConfig(namespaces=from_label_selector({"matchLabels": {"team": "ai"}}) or JobsConfig().namespaces),
    ),
    (
        "which kinds of jobs, and which of their labels",
        {"integrations": {"frameworks": ["batch/job", "ray.io/raycluster"], "labelKeysToCopy": ["team"]}},
        "jobs",
        JobsConfig(frameworks=frozenset({"batch/job", "ray.io/raycluster"}), label_keys_to_copy=("team",)),
    ),
    (
        "how long pods may take, and what follows",
        {
            "waitForPodsReady": {
                "timeout": "5m",
                "recoveryTimeout": "90s",
                "requeuingStrategy": {"backoffLimitCount": 3, "backoffBaseSeconds": 10, "backoffMaxSeconds": 600},
            }
        },
        "ready",
        ReadyRules(300_000, 90_000, 10_000, 600_000, 3),
    ),
    (
        "recovery takes as long as starting",
        {"waitForPodsReady": {"timeout": "5m"}},
        "ready",
        ReadyRules(300_000, 300_000),
    ),
    (
        "recovery may take for ever",
        {"waitForPodsReady": {"recoveryTimeout": "0s"}},
        "ready",
        ReadyRules(recovery_timeout=None),
    ),
    ("nobody waits for pods", {"featureGates": {"DisableWaitForPodsReady": True}}, "ready", None),
    (
        "failed nodes wait for replacement",
        {"featureGates": {"TASFailedNodeReplacementFailFast": False, "TASReplaceNodeOnNodeTaints": False}},
        "nodes",
        NodeRules(fail_fast=False, on_taints=False),
    ),
    (
        "what of a workload counts",
        {"featureGates": {"ReclaimablePods": False, "PriorityBoost": True, "TASRespectNodeAffinityPreferred": True}},
        "counts",
        ReadRules(reclaims=False, boosts=True, preferences=True),
    ),
    (
        "finer reasons, from the start",
        {"featureGates": {"UnadmittedWorkloadsObservability": True, "UnadmittedWorkloadsExplicitStatus": True}},
        "reasons",
        ReasonRules(granular=True, explicit=True),
    ),
    (
        "undeclared resources count where the gate for it is closed",
        {"resources": {"quotaCheckStrategy": "IgnoreUndeclared"}, "featureGates": {"QuotaCheckStrategy": False}},
        "engine",
        Config(),
    ),
    (
        "admission one at a time",
        {"waitForPodsReady": {"blockAdmission": True}},
        "engine",
        Config(block_admission=True),
    ),
    (
        "requeuing by creation",
        {"waitForPodsReady": {"requeuingStrategy": {"timestamp": "Creation"}}},
        "requeue_by_creation",
        True,
    ),
    (
        "fair sharing",
        {"fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]}},
        "engine",
        Config(fair_sharing=("LessThanInitialShare",)),
    ),
    (
        "admission fair sharing",
        {"admissionFairSharing": {"usageHalfLifeTime": "10m", "resourceWeights": {"cpu": 2}}},
        "engine",
        Config(usage_sharing=UsageConfig(600_000, 300_000, (("cpu", 2.0),))),
    ),
    (
        "resources without quota",
        {"resources": {"quotaCheckStrategy": "IgnoreUndeclared"}},
        "engine",
        Config(ignore_undeclared=True),
    ),
    ("finished workloads", {"objectRetentionPolicies": {"workloads": {"afterFinished": "1h"}}}, "finished_kept", 3600),
    (
        "jobs Kueue gave up on",
        {"objectRetentionPolicies": {"workloads": {"afterDeactivatedByKueue": "0s"}}},
        "jobs",
        JobsConfig(delete_deactivated_after=0.0),
    ),
    (
        "metrics of queues",
        {"metrics": {"enableClusterQueueResources": True, "localQueueMetrics": {"enable": False}}},
        "metrics",
        MetricsConfig(cluster_queue_resources=True, local_queues=False),
    ),
    (
        "custom labels of metrics",
        {
            "featureGates": {"CustomMetricLabels": True},
            "metrics": {
                "customLabels": [
                    {"name": "team"},
                    {"name": "cost", "sourceAnnotationKey": "billing.io/centre", "sourceKind": "LocalQueue"},
                ]
            },
        },
        "metrics",
        MetricsConfig(
            custom=CustomLabels(
                (
                    CustomLabel("team", "ClusterQueue", "team"),
                    CustomLabel("cost", "LocalQueue", "billing.io/centre", annotation=True),
                )
            )
        ),
    ),
]


@pytest.mark.parametrize(("fields", "part", "value"), [row[1:] for row in KNOBS], ids=[row[0] for row in KNOBS])
def test_a_knob_changes_its_part_and_nothing_else(fields: dict[str, Any], part: str, value: Any) -> None:
    expected = replace(Configuration(), **{part: value})
    if part == "ready" and value is None:
        expected = replace(expected, jobs=JobsConfig(wait_for_pods_ready=False))
    assert read(**fields) == expected
    assert warnings(**fields) == ()


def test_resources_are_excluded_and_transformed_as_the_file_says() -> None:
    rules = read(
        resources={
            "excludeResourcePrefixes": ["example.com/"],
            "transformations": [
                {"input": "nvidia.com/mig-1g.5gb", "strategy": "Replace", "outputs": {"memory-of-gpus": "5Gi"}}
            ],
        }
    ).resources
    asked = {"example.com/x": parse_quantity("1"), "nvidia.com/mig-1g.5gb": parse_quantity("2")}
    assert {name: amount.value for name, amount in rules.applied(asked).items()} == {"memory-of-gpus": 10 << 30}


def test_an_older_file_waits_for_pods_only_where_it_says_so() -> None:
    assert read("v1beta1").ready is None
    assert read("v1beta1", waitForPodsReady={"enable": False, "timeout": "1m"}).ready is None
    waits = read("v1beta1", waitForPodsReady={"enable": True})
    assert waits.ready == ReadyRules(timeout=300_000, recovery_timeout=300_000)
    assert waits.engine.block_admission


def test_an_older_file_shares_fairly_only_where_it_says_so() -> None:
    assert read("v1beta1", fairSharing={"preemptionStrategies": ["LessThanInitialShare"]}).engine.fair_sharing is None
    assert read("v1beta1", fairSharing={"enable": True}).engine.fair_sharing == BOTH_STRATEGIES


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    (
        "devices without a class",
        {"resources": {"deviceClassMappings": [{"name": "gpus", "deviceClassNames": []}]}},
        "resources.deviceClassMappings[0].deviceClassNames: Required value: at least one device class name is required",
    ),
    (
        "two resources of one name",
        {
            "resources": {
                "deviceClassMappings": [
                    {"name": "g", "deviceClassNames": ["a"]},
                    {"name": "g", "deviceClassNames": ["b"]},
                ]
            }
        },
        'resources.deviceClassMappings[1].name: Duplicate value: "g"',
    ),
    (
        "a class that stands for two",
        {
            "resources": {
                "deviceClassMappings": [
                    {"name": "g", "deviceClassNames": ["a"]},
                    {"name": "h", "deviceClassNames": ["a"]},
                ]
            }
        },
        'resources.deviceClassMappings[1].deviceClassNames[0]: Invalid value: "a": device class already mapped to resource g',
    ),
    (
        "a source that is none",
        {"resources": {"deviceClassMappings": [{"name": "g", "deviceClassNames": ["a"], "sources": [{}]}]}},
        "resources.deviceClassMappings[0].sources[0]: Required value: exactly one source type must be set per entry",
    ),
    (
        "a source of what is shared",
        {
            "resources": {
                "deviceClassMappings": [
                    {"name": "g", "deviceClassNames": ["a"], "sources": [{"capacity": {"name": "x"}}]}
                ]
            }
        },
        "resources.deviceClassMappings[0].sources[0].capacity: Invalid value: true: capacity sources require KueueDRAIntegrationConsumableCapacity to be enabled",
    ),
    (
        "a counter without a driver",
        {
            "resources": {
                "deviceClassMappings": [
                    {
                        "name": "g",
                        "deviceClassNames": ["a"],
                        "sources": [{"counter": {"name": "m", "deviceSelector": {"cel": {"expression": "true"}}}}],
                    }
                ]
            }
        },
        "resources.deviceClassMappings[0].sources[0].counter.driver: Required value",
    ),
    (
        "a counter without a selector",
        {
            "resources": {
                "deviceClassMappings": [
                    {
                        "name": "g",
                        "deviceClassNames": ["a"],
                        "sources": [{"counter": {"name": "m", "driver": "d.example.com"}}],
                    }
                ]
            }
        },
        "resources.deviceClassMappings[0].sources[0].counter.deviceSelector.cel.expression: Required value",
    ),
    (
        "a length of time that is none",
        {"waitForPodsReady": {"timeout": "5 minutes"}},
        'waitForPodsReady.timeout: Invalid value: "5 minutes": must be a length of time such as 30s, 5m or 1h30m',
    ),
    (
        "a number where a length of time belongs",
        {"waitForPodsReady": {"timeout": 300}},
        "waitForPodsReady.timeout: Invalid value: 300: must be a length of time such as 30s, 5m or 1h30m",
    ),
    (
        "a negative time",
        {"objectRetentionPolicies": {"workloads": {"afterFinished": "-1h"}}},
        'objectRetentionPolicies.workloads.afterFinished: Invalid value: "-1h": must be greater than or equal to 0',
    ),
    (
        "a negative count",
        {"waitForPodsReady": {"requeuingStrategy": {"backoffLimitCount": -1}}},
        "waitForPodsReady.requeuingStrategy.backoffLimitCount: Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        "another timestamp",
        {"waitForPodsReady": {"requeuingStrategy": {"timestamp": "Now"}}},
        'waitForPodsReady.requeuingStrategy.timestamp: Unsupported value: "Now": '
        'supported values: "Creation", "Eviction"',
    ),
    (
        "fair sharing without strategies",
        {"fairSharing": {}},
        "fairSharing.preemptionStrategies: Required value: must be specified",
    ),
    (
        "strategies in the wrong order",
        {"fairSharing": {"preemptionStrategies": ["LessThanInitialShare", "LessThanOrEqualToFinalShare"]}},
        "fairSharing.preemptionStrategies: Unsupported value: "
        '["LessThanInitialShare","LessThanOrEqualToFinalShare"]: supported values: "LessThanOrEqualToFinalShare", '
        '"LessThanInitialShare", "LessThanOrEqualToFinalShare,LessThanInitialShare"',
    ),
    (
        "the same framework twice",
        {"integrations": {"frameworks": ["pod", "pod"]}},
        'integrations.frameworks[1]: Duplicate value: "pod"',
    ),
    (
        "a selector that takes Kueue's own namespace",
        {"managedJobsNamespaceSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}},
        'managedJobsNamespaceSelector: Invalid value: {"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}: '
        'should not match the "kube-system" namespace',
    ),
    (
        "an operator that is none",
        {"managedJobsNamespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
        'managedJobsNamespaceSelector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator',
    ),
    (
        "one input twice",
        {"resources": {"transformations": [{"input": "a"}, {"input": "a"}]}},
        'resources.transformations[1].input: Duplicate value: "a"',
    ),
    (
        "an amount that is none",
        {"resources": {"transformations": [{"input": "a", "outputs": {"b": "lots"}}]}},
        'resources.transformations[0].outputs[b]: Invalid value: "lots": must be a quantity such as 5, 500m or 2Gi',
    ),
    (
        "exclusion where nothing is checked anyway",
        {"resources": {"excludeResourcePrefixes": ["a"], "quotaCheckStrategy": "IgnoreUndeclared"}},
        'resources.quotaCheckStrategy: Invalid value: "IgnoreUndeclared": '
        "excludeResourcePrefixes is not allowed when quotaCheckStrategy is IgnoreUndeclared",
    ),
    (
        "yes where true belongs",
        {"manageJobsWithoutQueueName": "yes"},
        'manageJobsWithoutQueueName: Invalid value: "yes": must be true or false',
    ),
    (
        "a gate that is neither on nor off",
        {"featureGates": {"MultiKueue": 1}},
        "featureGates[MultiKueue]: Invalid value: 1: must be true or false",
    ),
]


@pytest.mark.parametrize(("fields", "words"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_answered_with_field_finding_and_remedy(fields: dict[str, Any], words: str) -> None:
    assert words in refusal(**fields)


def test_all_mistakes_are_told_at_once() -> None:
    assert len(refusal(manageJobsWithoutQueueName=1, fairSharing={}, waitForPodsReady={"timeout": "x"})) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "kind: Required value: must be Configuration, of config.kueue.x-k8s.io/v1beta2"),
        (
            "kind: Configuration",
            "apiVersion: Required value: must be config.kueue.x-k8s.io/v1beta1 or config.kueue.x-k8s.io/v1beta2",
        ),
        (
            "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Job}",
            'kind: Unsupported value: "Job": supported values: "Configuration"',
        ),
        ("a: [", "yaml: "),
    ],
)
def test_what_is_no_configuration_is_told_so(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as found:
        read_configuration(text)
    assert words in str(found.value)


def test_the_config_map_upstream_is_installed_with_is_read_too() -> None:
    inner = "apiVersion: config.kueue.x-k8s.io/v1beta2\\nkind: Configuration\\nmanageJobsWithoutQueueName: true\\n"
    text = f'{{kind: ConfigMap, data: {{controller_manager_config.yaml: "{inner}"}}}}'
    assert read_configuration(text).configuration.jobs.manage_without_queue


EFFECTLESS: list[tuple[dict[str, Any], str]] = [
    ({"webhook": {"port": 9443}}, "webhook: has no effect here: webhooks are part of the server"),
    ({"metrics": {"bindAddress": ":8443"}}, "metrics.bindAddress: has no effect here: metrics are at /metrics"),
    (
        {"integrations": {"frameworks": ["sparkoperator.k8s.io/sparkapplication"]}},
        "integrations.frameworks[0]: has no effect here",
    ),
    ({"featureGates": {"FlavorFungibility": False}}, "featureGates[FlavorFungibility]: has no effect here"),
    (
        {"metrics": {"customLabels": [{"name": "team"}]}},
        "metrics.customLabels: has no effect while the feature gate CustomMetricLabels is off",
    ),
    ({"featureGates": {"Flying": True}}, "featureGates[Flying]: is not a feature gate of Kueue 0.19"),
    ({"waitForPodReady": {}}, "waitForPodReady: is not known and has no effect; did you mean waitForPodsReady?"),
    (
        {"waitForPodsReady": {"timeOut": "5m"}},
        "waitForPodsReady.timeOut: is not known and has no effect; did you mean timeout?",
    ),
]


@pytest.mark.parametrize(("fields", "words"), EFFECTLESS)
def test_what_has_no_effect_here_is_accepted_with_a_warning(fields: dict[str, Any], words: str) -> None:
    told = warnings(**fields)
    assert len(told) == 1
    assert told[0].startswith(words)


@pytest.mark.parametrize("gate", ["MultiKueue", "PartialAdmission"])
def test_a_gate_set_to_what_it_is_anyway_is_no_news(gate: str) -> None:
    assert warnings(featureGates={gate: True}) == ()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300ms", 0.3), ("1h30m", 5400), ("1.5h", 5400), ("0", 0), ("+5s", 5), ("-5s", -5), (".5s", 0.5),
        ("", None), ("5", None), ("5d", None), ("s", None), ("1h ", None), ("9999999999h", None),
    ],
)  # fmt: skip
def test_lengths_of_time_are_read_as_go_reads_them(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


def test_a_section_whose_gate_is_off_has_no_effect() -> None:
    gates = {"ObjectRetentionPolicies": False, "AdmissionFairSharing": False}
    kept = {"workloads": {"afterFinished": "1h", "afterDeactivatedByKueue": "1h"}}
    sharing = {"usageHalfLifeTime": "10m"}
    assert read(featureGates=gates, objectRetentionPolicies=kept, admissionFairSharing=sharing) == Configuration()


def test_places_for_growing_jobs_need_growing_jobs() -> None:
    gates = {"ElasticJobsViaWorkloadSlices": False, "ElasticJobsViaWorkloadSlicesWithTAS": True}
    [words] = refusal(featureGates=gates)
    assert "ElasticJobsViaWorkloadSlicesWithTAS requires ElasticJobsViaWorkloadSlices to be enabled" in words


# Which kinds answer for others.


def test_a_kind_that_is_off_answers_for_nobody() -> None:
    reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "controller": True}
    child = {"metadata": {"ownerReferences": [reference]}}
    assert kinds_of(None).owner_managed(child)
    assert not kinds_of(frozenset({"batch/job"})).owner_managed(child)


def test_a_notebook_is_held_where_stateful_sets_are() -> None:
    assert JobsConfig(frameworks=frozenset({"statefulset"})).enables("kubeflow.org/notebook")
    assert JobsConfig(frameworks=frozenset({"kubeflow.org/notebook"})).enables("kubeflow.org/notebook")
    assert not JobsConfig(frameworks=frozenset({"batch/job"})).enables("kubeflow.org/notebook")


# What the guide says.


def documented() -> list[tuple[str, str]]:
    """Each knob of the guide's table, with its example."""
    text = (Path(__file__).parents[3] / "docs" / "guides" / "configuration.md").read_text()
    return re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \| ", text, re.MULTILINE)


def test_the_guide_has_a_table() -> None:
    assert len(documented()) > 20


@pytest.mark.parametrize(("knob", "example"), documented(), ids=lambda text: str(text)[:60])
def test_every_documented_knob_is_honoured(knob: str, example: str) -> None:
    value: Any = load_yaml(example)
    for part in reversed(knob.split(".")):
        value = {part: value}
    reading = configuration_of(_document("v1beta2", value))
    assert reading.warnings == ()
    assert reading.configuration != Configuration()
