"""What a CustomResourceDefinition's status says: which of its names hold, whether it is established, who approved it.

Pure. Two kinds of a group must not go by one name; who has it keeps it, and who comes later is not established until it
is free. A definition that was established stays so: it goes on under the names it has. Module `definitions` knows who
has which name.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from gpuaas.api.kinds import Object
from gpuaas.api.kubernetes.rules.definitions import approval
from gpuaas.base.fielderrors import quote


class Taken(NamedTuple):
    """The names of a group that are in use by other definitions."""

    resources: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()


def taken_by(names: Mapping[str, Any]) -> Taken:
    resources = {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
    return Taken(frozenset(resources), frozenset({names.get("kind", ""), names.get("listKind", "")}))


def accepted_names(definition: Mapping[str, Any], taken: Taken) -> tuple[Object, str, str]:
    """The names that hold, and the reason and message why not all that are wanted do (none if they do)."""
    wanted = definition["spec"]["names"]
    held: Object = {"plural": "", "kind": "", **((definition.get("status") or {}).get("acceptedNames") or {})}
    reason = message = ""
    for field in ("plural", "singular", "shortNames", "kind", "listKind"):
        used = taken.kinds if field in ("kind", "listKind") else taken.resources
        conflicts = _conflicts(wanted.get(field), held.get(field), used)
        if conflicts:
            reason, message = f"{field[0].upper()}{field[1:]}Conflict", _aggregated(conflicts)
        else:
            held[field] = wanted.get(field)
    held["categories"] = wanted.get("categories")
    return {key: value for key, value in held.items() if value or key in ("plural", "kind")}, reason, message


def _conflicts(wanted: Any, held: Any, used: Collection[str]) -> list[str]:
    if wanted == held:
        return []
    new = [name for name in wanted or () if name not in (held or ())] if isinstance(wanted, list) else [wanted]
    return [f"{quote(name)} is already in use" for name in new if name in used]


def _aggregated(messages: list[str]) -> str:
    """As Go tells of several errors at once."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def is_established(definition: Mapping[str, Any]) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def status_of(definition: Mapping[str, Any], taken: Taken, now: str) -> Object:
    spec, old = definition["spec"], definition.get("status") or {}
    names, reason, message = accepted_names(definition, taken)
    stored = list(old.get("storedVersions") or ())
    storage = next((each["name"] for each in spec["versions"] if each.get("storage")), "")
    if storage and storage not in stored:
        stored.append(storage)
    conditions = {each["type"]: each for each in old.get("conditions") or ()}
    for kind, said in _conditions(definition, reason, message).items():
        conditions[kind] = _condition(kind, said, conditions.get(kind), now)
    return {"conditions": list(conditions.values()), "acceptedNames": names, "storedVersions": stored}


def _conditions(definition: Mapping[str, Any], reason: str, message: str) -> dict[str, tuple[str, str, str]]:
    """By type: status, reason and message."""
    said = {"NamesAccepted": ("True", "NoConflicts", "no conflicts found")}
    if reason:
        said["NamesAccepted"] = ("False", reason, message)
    if not reason or is_established(definition):
        said["Established"] = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        said["Established"] = ("False", "NotAccepted", "not all names are accepted")
    approved = approval(definition, definition["spec"]["group"])
    return said if approved is None else {**said, "KubernetesAPIApprovalPolicyConformant": approved}


def _condition(kind: str, said: tuple[str, str, str], old: Mapping[str, Any] | None, now: str) -> Object:
    status, reason, message = said
    since = old["lastTransitionTime"] if old is not None and old["status"] == status else now
    return {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
