"""Kinds that are stored with their defaults and few rules more."""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.metadata import View
from gpuaas.base.names import is_path_segment

_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"
_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Final = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


class Plain(Behaviour):
    """No rules and no generation: what most kinds without a status are."""

    generation = False


class PathNamed(Plain):
    """A kind whose names only have to fit into a URL."""

    name_messages = staticmethod(is_path_segment)


class Guarded(Behaviour):
    """An update says which state it was made from."""

    unconditional_update = False


class GuardedPlain(Plain):
    unconditional_update = False


class RuntimeClass(GuardedPlain):
    allow_create_on_update = True


class HorizontalPodAutoscaler(Behaviour):
    generation = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if obj.get("apiVersion") == "autoscaling/v1":
            return
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        behavior = spec.get("behavior")
        if behavior is not None:
            behavior["scaleUp"] = {**_fresh(_SCALE_UP), **(behavior.get("scaleUp") or {})}
            behavior["scaleDown"] = {**_fresh(_SCALE_DOWN), **(behavior.get("scaleDown") or {})}


class NetworkPolicy(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


class Ingress(Behaviour):
    def warnings(self, obj: View, old: View | None) -> list[str]:
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        if old is not None or _INGRESS_CLASS not in annotations or (obj.get("spec") or {}).get("ingressClassName"):
            return []
        return [f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]


class IngressClass(Behaviour):
    def default(self, obj: Object) -> None:
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None:
            parameters.setdefault("scope", "Cluster")


class StorageClass(Plain):
    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")


class CSIDriver(GuardedPlain):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
            spec.setdefault(field, False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]


class Endpoints(Plain):
    allow_create_on_update = True

    def default(self, obj: Object) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")


class EndpointSlice(Behaviour):
    def default(self, obj: Object) -> None:
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")


class WebhookConfiguration(Guarded):
    def default(self, obj: Object) -> None:
        for webhook in obj.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("timeoutSeconds", 10)
            _default_match(webhook)
            if obj.get("kind") == "MutatingWebhookConfiguration":
                webhook.setdefault("reinvocationPolicy", "Never")
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")


class AdmissionPolicy(Guarded):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        _default_resources(spec.get("matchConstraints"))


class AdmissionPolicyBinding(Guarded):
    def default(self, obj: Object) -> None:
        _default_resources((obj.get("spec") or {}).get("matchResources"))


class APIService(Behaviour):
    generation = False

    def default(self, obj: Object) -> None:
        service = (obj.get("spec") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


class FlowSchema(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("matchingPrecedence"):
            spec["matchingPrecedence"] = 1000


class PriorityLevelConfiguration(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        for kind, shares in (("exempt", 0), ("limited", 30)):
            if spec.get(kind) is not None:
                if spec[kind].get("nominalConcurrencyShares") is None:
                    spec[kind]["nominalConcurrencyShares"] = shares
                spec[kind].setdefault("lendablePercent", 0)
        queuing = ((spec.get("limited") or {}).get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for field, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
                queuing[field] = queuing.get(field) or value


class ResourceClaim(Plain):
    def default(self, obj: Object) -> None:
        default_device_requests(obj.get("spec") or {})


class ResourceClaimTemplate(Plain):
    def default(self, obj: Object) -> None:
        default_device_requests((obj.get("spec") or {}).get("spec") or {})


class CertificateSigningRequest(Plain):
    field_selectors = ("spec.signerName",)

    def fields(self, obj: View) -> Mapping[str, str]:
        return {"spec.signerName": (obj.get("spec") or {}).get("signerName", "")}


def default_device_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        asked = [request["exactly"]] if request.get("exactly") is not None else []
        for part in [*asked, *(request.get("firstAvailable") or ())]:
            if not part.get("allocationMode"):
                part["allocationMode"] = "ExactCount"
            if part["allocationMode"] == "ExactCount" and not part.get("count"):
                part["count"] = 1


def _default_match(part: Object) -> None:
    part.setdefault("matchPolicy", "Equivalent")
    part.setdefault("namespaceSelector", {})
    part.setdefault("objectSelector", {})


def _default_resources(resources: Object | None) -> None:
    if resources is None:
        return
    _default_match(resources)
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in resources.get(field) or ():
            rule.setdefault("scope", "*")


def _fresh(rules: Mapping[str, Any]) -> dict[str, Any]:
    """A copy whose lists may be changed."""
    return {**rules, "policies": [dict(policy) for policy in rules["policies"]]}
