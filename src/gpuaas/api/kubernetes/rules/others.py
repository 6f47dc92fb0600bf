"""Kinds that are stored with their defaults and without rules beyond their schemas: nothing here acts on them."""

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.api.kubernetes.autoscalers import cpu_metrics
from gpuaas.base.names import is_path_segment


class Plain(Behaviour):
    """No rules and no generation: what most kinds without a status are."""

    generation = False


class PathNamed(Plain):
    """A kind whose names only have to fit into a URL."""

    name_messages = staticmethod(is_path_segment)


class GuardedPlain(Plain):
    unconditional_update = False


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


class NetworkPolicy(Behaviour):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


class HorizontalPodAutoscaler(Plain):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            spec["metrics"] = cpu_metrics()


class PersistentVolume(Plain):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}


class PersistentVolumeClaim(Plain):
    """Claims are never bound: pods that mount one run without it."""

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}


class StorageClass(Plain):
    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")


class APIService(PathNamed):
    def default(self, obj: Object) -> None:
        service = (obj.get("spec") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)
