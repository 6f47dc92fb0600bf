"""Kueue's Configuration file (config.kueue.x-k8s.io, v1beta1 and v1beta2) as a `Configuration`.

Upstream's defaults, but for one: without a list of frameworks every integration is on. A mistake is refused with field,
finding and remedy, all of them at once; what upstream knows and has no meaning here is accepted with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuaas.base.fielderrors import child, duplicate, invalid, keyed, not_supported, required, type_invalid
from gpuaas.base.quantity import parse_quantity
from gpuaas.base.selectors import NOT_IN, LabelSelector, Requirement
from gpuaas.engine.config import BOTH_STRATEGIES, Config
from gpuaas.engine.supervise import ReadyRules
from gpuaas.engine.usage_share import UsageConfig
from gpuaas.kueue.configuration.devices import DEVICE_GATES, read_device_rules
from gpuaas.kueue.configuration.fields import Findings, Section
from gpuaas.kueue.configuration.gates import OFF, ON
from gpuaas.kueue.configuration.multikueue import read_multikueue
from gpuaas.kueue.configuration.settings import Configuration, MetricsConfig, NodeRules, ReasonRules
from gpuaas.kueue.dra.rules import DeviceRules
from gpuaas.kueue.integrations.config import JobsConfig
from gpuaas.kueue.integrations.registry import FRAMEWORKS
from gpuaas.kueue.metric_labels import read_custom_labels
from gpuaas.kueue.resources import ReadRules, ResourceRules, Transformation
from gpuaas.machinery.yamltext import YamlError, load_yaml

GROUP = "config.kueue.x-k8s.io"
BETA1, BETA2 = f"{GROUP}/v1beta1", f"{GROUP}/v1beta2"
OTHER_FRAMEWORKS = frozenset(
    {
        "kubeflow.org/mpijob", "ray.io/rayservice", "workload.codeflare.dev/appwrapper",
        "leaderworkerset.x-k8s.io/leaderworkerset", "sparkoperator.k8s.io/sparkapplication", "kubeflow.org/paddlejob",
        "kubeflow.org/tfjob", "kubeflow.org/xgboostjob", "kubeflow.org/jaxjob",
    }
) - FRAMEWORKS  # fmt: skip
"""What upstream integrates besides."""
NAME_LABEL = "kubernetes.io/metadata.name"
_IN_CONFIG_MAP = "controller_manager_config.yaml"
_STRATEGIES = (BOTH_STRATEGIES[:1], BOTH_STRATEGIES[1:], BOTH_STRATEGIES)
_NODE_GATES = {
    "TASFailedNodeReplacement": "replaces",
    "TASFailedNodeReplacementFailFast": "fail_fast",
    "TASReplaceNodeOnPodTermination": "on_pod_termination",
    "TASReplaceNodeOnNodeTaints": "on_taints",
    "TASReplaceNodeDueToNotReadyOverFixedTime": "over_time",
    "SkipReassignmentForPodOwnedWorkloads": "keeps_single_pods",
    "FailureRecoveryPolicy": "frees_pods",
}
_READ_GATES = {
    "ReclaimablePods": "reclaims",
    "PriorityBoost": "boosts",
    "TASRespectNodeAffinityPreferred": "preferences",
    "PartialAdmission": "reduces",
}
_JOB_GATES = {
    "ValidateRayAndSparkJobUpdates": "checks_whoever_was_held",
    "WorkloadPriorityClassDefaulting": "default_class",
    "ElasticJobsViaWorkloadSlices": "elastic",
}
_PLACED_SLICES = "ElasticJobsViaWorkloadSlicesWithTAS"
_ENGINE_GATES = (
    "PrioritizePreemptorWorkloads",
    "TASBalancedPlacement",
    "RecomputeAssignmentUponPreemptionTargetsOverlap",
)
_REASON_GATES = ("UnadmittedWorkloadsObservability", "UnadmittedWorkloadsExplicitStatus")
_ELSEWHERE = {
    "webhook": "webhooks are part of the server",
    "leaderElection": "there is one process",
    "health": "health is answered at /readyz and /livez",
    "pprofBindAddress": "there is no profiler to serve",
    "controller": "controllers choose their own concurrency",
    "tls": "TLS is the server's",
    "internalCertManagement": "certificates are the server's own",
    "clientConnection": "controllers work in the server's process",
    "queueVisibility": "the visibility API is always served",
    "visibilityServer": "the visibility API is served with all others",
}


class ConfigurationError(Exception):
    """The text cannot be a configuration; one line for each mistake."""


@dataclass(frozen=True, slots=True)
class Reading:
    configuration: Configuration
    warnings: tuple[str, ...] = ()


def read_configuration(text: str) -> Reading:
    return configuration_of(document_of(text))


def document_of(text: str) -> dict[str, Any]:
    """The Configuration in a file: itself, or in the ConfigMap upstream is installed with."""
    try:
        found = load_yaml(text)
        if isinstance(found, dict) and found.get("kind") == "ConfigMap":
            found = load_yaml(str((found.get("data") or {}).get(_IN_CONFIG_MAP, "")))
    except YamlError as error:
        raise ConfigurationError(str(error)) from None
    if not isinstance(found, dict):
        raise ConfigurationError(f"kind: Required value: must be Configuration, of {BETA2}")
    return found


def configuration_of(document: Mapping[str, Any]) -> Reading:
    findings = Findings()
    top = Section(document, "", findings)
    _identity(top)
    reader = _Reader(top, newest=document.get("apiVersion") != BETA1)
    configuration = reader.configuration()
    top.done()
    if findings.errors:
        raise ConfigurationError("\n".join(map(str, findings.errors)))
    return Reading(configuration, tuple(findings.warnings))


def _identity(top: Section) -> None:
    for name, allowed in (("apiVersion", (BETA1, BETA2)), ("kind", ("Configuration",))):
        if name not in top:
            top.text(name)
            top.error(required(name, f"must be {' or '.join(allowed)}"))
        else:
            top.choice(name, allowed[-1], allowed)
    top.mapping("metadata")
    for name, why in _ELSEWHERE.items():
        top.without_effect(name, why)


class _Reader:
    def __init__(self, top: Section, *, newest: bool) -> None:
        self._top = top
        self._newest = newest

    def configuration(self) -> Configuration:
        top = self._top
        gates = self._gates()
        namespaces = self._namespaces()
        ready, block, by_creation = self._ready(disabled=gates.get("DisableWaitForPodsReady", False))
        frameworks, copied = self._integrations()
        rules, ignore_undeclared, devices = self._resources(gates)
        finished, deactivated = self._retention(honoured=gates.get("ObjectRetentionPolicies", True))
        metrics = self._metrics(gates)
        jobs = JobsConfig(
            manage_without_queue=top.boolean("manageJobsWithoutQueueName", False),
            namespaces=namespaces,
            frameworks=frameworks,
            wait_for_pods_ready=ready is not None,
            label_keys_to_copy=tuple(dict.fromkeys((*copied, *metrics.custom.copied(annotations=False)))),
            annotation_keys_to_copy=metrics.custom.copied(annotations=True),
            delete_deactivated_after=deactivated,
            **{name: gates[gate] for gate, name in _JOB_GATES.items() if gate in gates},
        )
        ignore_undeclared = ignore_undeclared and gates.get("QuotaCheckStrategy", True)
        of_engine = (gates.get(gate, False) for gate in _ENGINE_GATES)
        sharing = self._usage_sharing(honoured=gates.get("AdmissionFairSharing", True))
        engine = Config(self._fair_sharing(), ignore_undeclared, sharing, block, *of_engine)
        nodes = NodeRules(**{name: gates[gate] for gate, name in _NODE_GATES.items() if gate in gates})
        counts = ReadRules(**{name: gates[gate] for gate, name in _READ_GATES.items() if gate in gates})
        granular, explicit = (gates.get(gate, False) for gate in _REASON_GATES)
        reasons = ReasonRules(granular, granular and explicit)
        return Configuration(
            jobs, engine, ready, by_creation, rules, finished, metrics, nodes, counts, reasons, devices,
            read_multikueue(top),
        )  # fmt: skip

    def _namespaces(self) -> LabelSelector:
        """Kueue's own pods must never wait for Kueue."""
        top = self._top
        own = top.text("namespace") or "kueue-system"
        given = top.selector("managedJobsNamespaceSelector")
        if given is None:
            return LabelSelector((Requirement(NAME_LABEL, NOT_IN, ("kube-system", own)),))
        for name in ("kube-system", own):
            if given.matches({NAME_LABEL: name}):
                path, found = "managedJobsNamespaceSelector", top.mapping("managedJobsNamespaceSelector")
                top.error(invalid(path, found, f'should not match the "{name}" namespace'))
        return given

    def _integrations(self) -> tuple[frozenset[str] | None, tuple[str, ...]]:
        section = self._top.section("integrations")
        if section is None:
            return None, ()
        section.without_effect("externalFrameworks", "their controllers are not here")
        if not self._newest:
            section.without_effect("podOptions", "managedJobsNamespaceSelector says where pods are held")
        found = section.texts("frameworks")
        for index, name in enumerate(found):
            path = child(section.path("frameworks"), index)
            if name in found[:index]:
                section.error(duplicate(path, name))
            elif name in OTHER_FRAMEWORKS:
                section.warn(path, f"has no effect here: there is no integration for {name}")
            elif name not in FRAMEWORKS:
                section.error(not_supported(path, name, [*FRAMEWORKS, *OTHER_FRAMEWORKS]))
        copied = tuple(section.texts("labelKeysToCopy"))
        section.done()
        return frozenset(found) & FRAMEWORKS if found else None, copied

    def _ready(self, *, disabled: bool) -> tuple[ReadyRules | None, bool, bool]:
        """The rules, whether admission waits for them, whether requeuing goes by creation."""
        section = self._top.section("waitForPodsReady")
        enabled = self._newest
        if section is not None and not self._newest:
            enabled = section.boolean("enable", False)
        if section is None:
            return (ReadyRules() if enabled and not disabled else None), False, False
        timeout = section.seconds("timeout") or (1800.0 if self._newest else 300.0)
        recovery = section.seconds("recoveryTimeout")
        block = section.boolean("blockAdmission", not self._newest)
        requeuing = section.section("requeuingStrategy") or Section({}, "", Findings())
        by_creation = requeuing.choice("timestamp", "Eviction", ("Creation", "Eviction")) == "Creation"
        base, most = requeuing.count("backoffBaseSeconds"), requeuing.count("backoffMaxSeconds")
        limit = requeuing.count("backoffLimitCount")
        requeuing.done()
        section.done()
        if not enabled or disabled:
            return None, False, by_creation
        rules = ReadyRules(
            timeout=_millis(timeout),
            recovery_timeout=_millis(timeout if recovery is None else recovery) or None,
            backoff_base=60_000 if base is None else base * 1000,
            backoff_max=3_600_000 if most is None else most * 1000,
            backoff_limit=limit,
        )
        return rules, block, by_creation

    def _fair_sharing(self) -> tuple[str, ...] | None:
        section = self._top.section("fairSharing")
        if section is None or (not self._newest and not section.boolean("enable", False)):
            return None
        path, found = section.path("preemptionStrategies"), tuple(section.texts("preemptionStrategies"))
        if not found and self._newest:
            section.error(required(path, "must be specified"))
        elif found and found not in _STRATEGIES:
            section.error(not_supported(path, list(found), [",".join(each) for each in _STRATEGIES], in_order=True))
        section.done()
        return found or BOTH_STRATEGIES

    def _usage_sharing(self, *, honoured: bool) -> UsageConfig | None:
        section = self._top.section("admissionFairSharing")
        if section is None:
            return None
        half_life = section.seconds("usageHalfLifeTime") or 0.0
        sampling = section.seconds("usageSamplingInterval") or 300.0
        weights = section.numbers("resourceWeights")
        section.done()
        if not honoured:
            return None
        return UsageConfig(_millis(half_life), _millis(sampling), tuple(sorted(weights.items())))

    def _resources(self, gates: Mapping[str, bool]) -> tuple[ResourceRules, bool, DeviceRules]:
        section = self._top.section("resources")
        devices = read_device_rules(section, gates)
        if section is None:
            return ResourceRules(), False, devices
        excluded = tuple(section.texts("excludeResourcePrefixes"))
        made = [_transformation(each) for each in section.sections("transformations")]
        seen: set[str] = set()
        for index, each in enumerate(made):
            if each.input in seen:
                section.error(duplicate(child(section.path("transformations"), index, "input"), each.input))
            seen.add(each.input)
        strategy = section.choice("quotaCheckStrategy", "BlockUndeclared", ("BlockUndeclared", "IgnoreUndeclared"))
        if excluded and strategy == "IgnoreUndeclared":
            words = "excludeResourcePrefixes is not allowed when quotaCheckStrategy is IgnoreUndeclared"
            section.error(invalid(section.path("quotaCheckStrategy"), strategy, words))
        section.done()
        return ResourceRules(excluded, tuple(made)), strategy == "IgnoreUndeclared", devices

    def _retention(self, *, honoured: bool) -> tuple[float | None, float | None]:
        section = self._top.section("objectRetentionPolicies")
        workloads = section.section("workloads") if section is not None else None
        if section is not None:
            section.done()
        if workloads is None:
            return None, None
        kept = workloads.seconds("afterFinished"), workloads.seconds("afterDeactivatedByKueue")
        workloads.done()
        return kept if honoured else (None, None)

    def _metrics(self, gates: Mapping[str, bool]) -> MetricsConfig:
        local_queues = gates.get("LocalQueueMetrics", True)
        section = self._top.section("metrics")
        if section is None:
            return MetricsConfig(local_queues=local_queues)
        section.without_effect("bindAddress", "metrics are at /metrics of the API server")
        custom = read_custom_labels(section, enabled=gates.get("CustomMetricLabels", False))
        resources = section.boolean("enableClusterQueueResources", False)
        local = section.section("localQueueMetrics")
        selector = None
        if local is not None:
            local_queues = local.boolean("enable", False) and local_queues
            selector = local.selector("localQueueSelector")
            local.done()
        section.done()
        return MetricsConfig(resources, local_queues, selector, custom)

    def _gates(self) -> dict[str, bool]:
        found = self._top.mapping("featureGates")
        # Pods of jobs that grow keep their places either way.
        honoured = {_PLACED_SLICES}
        honoured |= {"DisableWaitForPodsReady", "LocalQueueMetrics", "CustomMetricLabels", "QuotaCheckStrategy"}
        honoured |= {"ObjectRetentionPolicies", "AdmissionFairSharing"}
        honoured |= {*_NODE_GATES, *_READ_GATES, *_JOB_GATES, *_REASON_GATES, *_ENGINE_GATES, *DEVICE_GATES}
        for name, value in found.items():
            path = keyed("featureGates", name)
            if not isinstance(value, bool):
                self._top.error(type_invalid(path, value, "must be true or false"))
            elif name not in ON | OFF:
                self._top.warn(path, "is not a feature gate of Kueue 0.19 and has no effect")
            elif value != (name in ON) and name not in honoured:
                self._top.warn(path, f"has no effect here: behaviour is that of {name}={str(name in ON).lower()}")
        if found.get(_PLACED_SLICES) is True and found.get("ElasticJobsViaWorkloadSlices") is False:
            words = f"{_PLACED_SLICES} requires ElasticJobsViaWorkloadSlices to be enabled"
            self._top.error(invalid("featureGates", _PLACED_SLICES, words))
        return {name: value for name, value in found.items() if isinstance(value, bool)}


def _transformation(section: Section) -> Transformation:
    found, outputs = section.text("input"), []
    if not found:
        section.error(required(section.path("input"), "the resource that is transformed"))
    for resource, amount in section.mapping("outputs").items():
        try:
            outputs.append((resource, parse_quantity(str(amount))))
        except ValueError:
            path = keyed(section.path("outputs"), resource)
            section.error(invalid(path, amount, "must be a quantity such as 5, 500m or 2Gi"))
    keeps = section.choice("strategy", "Retain", ("Retain", "Replace")) == "Retain"
    times = section.text("multiplyBy") or None
    section.done()
    return Transformation(found, tuple(outputs), keeps, times)


def _millis(seconds: float) -> int:
    return round(seconds * 1000)
