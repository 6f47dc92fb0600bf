"""metadata.managedFields: the list on the wire, and the same as managers with what they own.

A manager is identified by name, operation, API version (updates only) and subresource. Reading the list back and
writing it out again gives the same list; the order is by operation, time, name, version, subresource. At most ten
managers that update are kept: the oldest of a version are merged under one name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from gpuaas.base.clock import parse_rfc3339
from gpuaas.machinery.ssa.fieldset import EMPTY, FieldSet, parse, union
from gpuaas.machinery.ssa.gotext import to_json

MAX_UPDATE_MANAGERS: Final = 10
ANCIENT: Final = "ancient-changes"


class Manager(NamedTuple):
    name: str
    operation: str  # Apply, Update
    api_version: str  # "" for Apply: an applier stays the same when it changes version
    subresource: str = ""

    def identifier(self) -> str:
        """Kubernetes' name of a manager; sorting by it is sorting as Kubernetes does."""
        fields = {"manager": self.name, "operation": self.operation, "apiVersion": self.api_version}
        fields["subresource"] = self.subresource
        inner = ",".join(f"{to_json(key)}:{to_json(value)}" for key, value in fields.items() if value)
        return "{" + inner + "}"


@dataclass(frozen=True, slots=True)
class Owned:
    """What a manager owns, in the terms of which version, and since when it does."""

    fields: FieldSet
    api_version: str
    time: str = ""
    entry: dict[str, Any] | None = None  # where it was read from, while it says the same

    def holding(self, fields: FieldSet) -> "Owned":
        return self if fields is self.fields else replace(self, fields=fields, entry=None)

    def since(self, time: str) -> "Owned":
        return replace(self, time=time, entry=None)


Managers = dict[Manager, Owned]


class BadManagedFields(ValueError):
    """A managedFields list that cannot be read; the text says why."""


def read(entries: Sequence[dict[str, Any]], *, trusted: bool) -> Managers:
    """Managers of a list. `trusted`: this server wrote it, so the field sets need no second look."""
    managers: Managers = {}
    for index, entry in enumerate(entries):
        if not trusted:
            _check(index, entry)
        operation, version = entry["operation"], entry["apiVersion"]
        manager = Manager(
            entry.get("manager", ""),
            operation,
            "" if operation == "Apply" else version,
            entry.get("subresource", ""),
        )
        fields: FieldSet = entry.get("fieldsV1") or EMPTY
        if trusted:
            managers[manager] = Owned(fields, version, entry.get("time") or "", entry)
        else:
            managers[manager] = Owned(_parse(fields), version, entry.get("time") or "")
    return managers


def _parse(fields: Any) -> FieldSet:
    try:
        return parse(fields)
    except ValueError as error:
        raise BadManagedFields(f"error decoding set: {error}") from error


def _check(index: int, entry: Any) -> None:
    if not isinstance(entry, dict) or entry.get("operation") not in ("Apply", "Update"):
        raise BadManagedFields("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise BadManagedFields("apiVersion must not be empty")
    kind = entry.get("fieldsType")
    if not kind:
        raise BadManagedFields(f"missing fieldsType in managed fields entry {index}")
    if kind != "FieldsV1":
        raise BadManagedFields(f'invalid fieldsType "{kind}" in managed fields entry {index}')


def write(managers: Managers) -> list[dict[str, Any]]:
    """The list for the wire; entries that say what they said before are the same objects."""
    if len(managers) == 1:
        ((manager, owned),) = managers.items()
        return [owned.entry or _entry(manager, owned)]
    ordered = sorted(managers.items(), key=_order)
    return [owned.entry or _entry(manager, owned) for manager, owned in ordered]


def _order(item: tuple[Manager, Owned]) -> tuple[str, float, str, str, str]:
    manager, owned = item
    return (manager.operation, _seconds(owned.time), manager.name, owned.api_version, manager.subresource)


def _seconds(time: str) -> float:
    return int(parse_rfc3339(time)) if time else 0


def _entry(manager: Manager, owned: Owned) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": owned.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned.fields,
    }
    if not owned.time:
        del entry["time"]
    if not manager.name:
        del entry["manager"]
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def cap(managers: Managers) -> Managers:
    """At most ten managers that update: the oldest of each version are merged into one."""
    updaters = [manager for manager in managers if manager.operation == "Update"]
    if len(updaters) <= MAX_UPDATE_MANAGERS:
        return managers
    updaters.sort(key=lambda manager: (_seconds(managers[manager].time), manager.identifier()))
    result = dict(managers)
    first_of: dict[str, Manager] = {}
    merging: dict[Manager, list[FieldSet]] = {}
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    for manager in updaters:
        if not excess:
            break
        owned = managers[manager]
        version = owned.api_version
        if version not in first_of:
            first_of[version] = manager
            continue
        bucket = Manager(ANCIENT, "Update", version)
        if bucket not in result:
            result[bucket] = result.pop(first_of[version])
        parts = merging.setdefault(bucket, [result[bucket].fields])
        parts.append(owned.fields)
        result.pop(manager, None)
        result[bucket] = Owned(EMPTY, version, owned.time)
        excess -= 1
    for bucket, parts in merging.items():
        result[bucket] = result[bucket].holding(_united(parts))
    return result


def _united(parts: list[FieldSet]) -> FieldSet:
    """The union of many: two and two, so that no set is walked again for each small one that joins it."""
    while len(parts) > 1:
        pairs = [union(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]
