"""Kinds that are stored with their defaults and few rules more."""

from gpuaas.api.kinds import Behaviour, Object
from gpuaas.base.names import is_path_segment


class Plain(Behaviour):
    """No rules and no generation: what most kinds without a status are."""

    generation = False


class PathNamed(Plain):
    """A kind whose names only have to fit into a URL."""

    name_messages = staticmethod(is_path_segment)


class GuardedPlain(Plain):
    unconditional_update = False


class CSIDriver(GuardedPlain):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
            spec.setdefault(field, False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]


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
