"""What has to be there before a pod's containers can start: config maps and secrets it refers to and may not miss.

Kubelets mount volumes first and make up environments afterwards; what is missing they tell of each in its own way.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpuaas.base.errors import ApiError
from gpuaas.executors.environment import Lookup, Missing, environment_of, not_there, remembered
from gpuaas.executors.limits import Budget, ExecRefused

View = Mapping[str, Any]

_ROOT_CA = (
    "kube-root-ca.crt"  # every pod mounts it, and it is there a moment after its namespace: no mistake of its author
)
_KINDS = (("ConfigMap", "configMap"), ("Secret", "secret"))
_OF_VARIABLES = ("configMapKeyRef", "secretKeyRef")


def refers(spec: View) -> bool:
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    return any(next(_mounted(volume), None) for volume in spec.get("volumes") or ()) or any(
        map(_has_references, containers)
    )


async def unmounted(pod: View, lookup: Lookup) -> list[str]:
    """Why volumes of it cannot be mounted, in the words of a kubelet's events."""
    found, lookup = [], remembered(lookup)
    for volume in pod["spec"].get("volumes") or ():
        missing = [words for kind, source in _mounted(volume) if (words := await _missing(kind, source, lookup))]
        if missing:
            whole = missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"
            found.append(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {whole}')
    return found


async def unset(pod: View, lookup: Lookup) -> tuple[dict[str, str], dict[str, ExecRefused]]:
    """Why containers cannot have their environments: what is missing, and which could not be executed with all of it.

    Of init containers, which come one by one, only the first.
    """
    missing: dict[str, str] = {}
    refused: dict[str, ExecRefused] = {}
    budget, lookup = Budget(), remembered(lookup)
    inits = pod["spec"].get("initContainers") or ()
    for number, container in enumerate((*inits, *pod["spec"]["containers"])):
        if not _has_references(container):
            continue
        try:
            (await environment_of(pod, container, lookup, {}, budget)).words(container)
        except Missing as words:
            missing[container["name"]] = str(words)
        except ExecRefused as error:
            refused[container["name"]] = error
        if number < len(inits) and (missing or refused):
            break
    return missing, refused


def _has_references(container: View) -> bool:
    if container.get("envFrom"):
        return True
    sources = [one["valueFrom"] for one in container.get("env") or () if one.get("valueFrom")]
    return any(source.get(key) for source in sources for key in _OF_VARIABLES)


def _mounted(volume: View) -> Iterator[tuple[str, View]]:
    """(ConfigMap or Secret, what is said of it) of those that must be there."""
    for one in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        for kind, key in _KINDS:
            source = one.get(key)
            if source and not source.get("optional") and _name(source) != _ROOT_CA:
                yield kind, source


def _name(source: View) -> str:
    return str(source.get("name") or source.get("secretName") or "")


async def _missing(kind: str, source: View, lookup: Lookup) -> str:
    try:
        data = await lookup(kind, _name(source))
    except ApiError as error:
        return not_there(kind, _name(source), error)
    for item in source.get("items") or ():
        if item["key"] not in data:
            key = item["key"]
            return (
                f"configmap references non-existent config key: {key}"
                if kind == "ConfigMap"
                else f"references non-existent secret key: {key}"
            )
    return ""
