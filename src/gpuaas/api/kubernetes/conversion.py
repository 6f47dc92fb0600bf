"""Events are served in two shapes, the core group's and that of events.k8s.io: a pure function on plain objects, both ways.

The other built-in kind of two shapes, horizontal autoscalers, has a module of its own (`autoscalers`).
"""

from gpuaas.api.kinds import Object

# core field -> events.k8s.io field
_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_EVENT_FIELDS_BACK = {new: old for old, new in _EVENT_FIELDS.items()}
_REPORTERS = ("reportingComponent", "reportingInstance")  # the core shape says them even where they are empty


def convert_event(obj: Object, _version: str) -> Object:
    """To the other group's shape: both call their version v1, so the direction is the object's own."""
    if obj.get("apiVersion") == "v1":
        said = {key: value for key, value in obj.items() if value or key not in _REPORTERS}
        return {_EVENT_FIELDS.get(key, key): value for key, value in said.items()} | {"apiVersion": "events.k8s.io/v1"}
    back = {_EVENT_FIELDS_BACK.get(key, key): value for key, value in obj.items()}
    return dict.fromkeys(_REPORTERS, "") | back | {"apiVersion": "v1"}
