"""A container's environment and command line as its pod says: plain values, references, `$(NAME)` in words.

What a reference needs (config maps, secrets) is given; a missing one that is not optional is an error with the words
kubelets use.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gpuaas.base.errors import ApiError, NotFound
from gpuaas.base.fielderrors import quote

View = Mapping[str, Any]
Lookup = Callable[[str, str], Awaitable[View]]  # (ConfigMap or Secret, name) -> its data

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.\-][A-Za-z0-9_.\-]*)\)")


class Missing(Exception):
    """Something the environment refers to is not there."""


async def environment_of(pod: View, container: View, lookup: Lookup, inherited: Mapping[str, str]) -> dict[str, str]:
    found = dict(inherited)
    for source in container.get("envFrom") or ():
        for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if source.get(key):
                data = await _data(kind, source[key], lookup)
                found |= {f"{source.get('prefix') or ''}{name}": value for name, value in data.items()}
    for variable in container.get("env") or ():
        value = await _value(pod, container, variable, lookup)
        if value is not None:
            found[variable["name"]] = expanded(value, found)
    return found


def known_values(pod: View, container: View) -> dict[str, str]:
    """The part of it that the pod itself says."""
    found: dict[str, str] = {}
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        if source.get("fieldRef"):
            found[variable["name"]] = _field(pod, source["fieldRef"]["fieldPath"])
        elif not source:
            found[variable["name"]] = expanded(str(variable.get("value") or ""), found)
    return found


def expanded(text: str, values: Mapping[str, str]) -> str:
    """`$(NAME)` becomes its value; one that is not known stays, and `$$` is one `$`."""

    def put(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return values.get(match[1], match[0])

    return _REFERENCE.sub(put, text)


def command_of(container: View, environment: Mapping[str, str]) -> list[str]:
    words: Sequence[str] = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [expanded(word, environment) for word in words]


async def _value(pod: View, container: View, variable: View, lookup: Lookup) -> str | None:
    source = variable.get("valueFrom") or {}
    if source.get("fieldRef"):
        return _field(pod, source["fieldRef"]["fieldPath"])
    if source.get("resourceFieldRef"):
        return _resource(container, source["resourceFieldRef"]["resource"])
    for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        reference = source.get(key)
        if not reference:
            continue
        data = await _data(kind, reference, lookup)
        if reference["key"] in data:
            return str(data[reference["key"]])
        if reference.get("optional"):
            return None
        namespace = pod["metadata"].get("namespace")
        raise Missing(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference.get('name')}")
    return str(variable.get("value") or "")


async def _data(kind: str, reference: View, lookup: Lookup) -> View:
    try:
        return await lookup(kind, reference.get("name") or "")
    except ApiError as error:
        if reference.get("optional"):
            return {}
        raise Missing(not_there(kind, reference.get("name") or "", error)) from None


def not_there(kind: str, name: str, error: ApiError) -> str:
    """In a kubelet's words, which are not the server's."""
    return f"{kind.lower()} {quote(name)} not found" if isinstance(error, NotFound) else error.message


def _field(pod: View, path: str) -> str:
    found = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if found:
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    value: Any = pod
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def _resource(container: View, name: str) -> str:
    kind, _, resource = name.partition(".")
    return str(((container.get("resources") or {}).get(kind) or {}).get(resource, "0"))
