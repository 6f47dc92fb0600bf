"""AppArmor profiles that are named in annotations, and the fields that took their place.

A new pod gets the fields; templates keep what they say and are warned of (module `pod_warnings`).
"""

from typing import Final

from gpuaas.api.kinds import Object
from gpuaas.base.fielderrors import keyed

APPARMOR_FIELD: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'
APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCAL: Final = "localhost/"
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


def take_profiles(pod: Object) -> list[str]:
    """Gives a new pod's containers the AppArmor profiles its annotations name, and tells that they have a field now."""
    annotations, spec = (pod.get("metadata") or {}).get("annotations"), pod["spec"]
    if not annotations or (spec.get("os") or {}).get("name") == "windows":
        return []
    told: list[str] = []
    whole = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container in (each for kind in _CONTAINERS for each in spec.get(kind) or ()):
        key = f"{APPARMOR}{container.get('name', '')}"
        if key not in annotations or (container.get("securityContext") or {}).get("appArmorProfile"):
            continue
        field = profile_field(annotations[key])
        if field is not None and field != whole:
            container["securityContext"] = {**(container.get("securityContext") or {}), "appArmorProfile": field}
        if field is None or field != whole:
            told.append(f"{keyed('metadata.annotations', key)}: {APPARMOR_FIELD}")
    return told


def profile_field(annotation: str) -> Object | None:
    """The field that says what the annotation does; none if it says nothing that could be said."""
    local = annotation.removeprefix(_LOCAL) if annotation.startswith(_LOCAL) else ""
    if local and local == local.strip():
        return {"type": "Localhost", "localhostProfile": local}
    kinds = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
    return {"type": kinds[annotation]} if annotation in kinds else None
