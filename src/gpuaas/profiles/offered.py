"""Which profiles the dashboard's selector offers, in what order, and what it says of a profile.

Filters in order: valid, visible for the feature, enabled, fitting the project's Kueue switch. Valid means without any
warning, and a profile without CPU or memory has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuaas.base.jsontext import read_json
from gpuaas.profiles import units
from gpuaas.profiles.inject import identifiers, queue_of
from gpuaas.profiles.paths import Object
from gpuaas.profiles.units import Unit, WrongUnitError

_DIGITS: Final = "0123456789"
FEATURES: Final = frozenset(("workbench", "model-serving"))
_DISABLED: Final = "opendatahub.io/disabled"
_VISIBILITY: Final = "opendatahub.io/dashboard-feature-visibility"
_MENDED: Final = " Edit the profile to make the profile valid."
INCOMPLETE: Final = f"Omitting CPU or Memory resources is not recommended.{_MENDED}"


def name_of(profile: Object) -> str:
    return str(profile["metadata"]["name"])


def title(profile: Object) -> str:
    return str(_annotations(profile).get("opendatahub.io/display-name") or name_of(profile))


def enabled(profile: Object) -> bool:
    """Absent or exactly "false": any other text disables, as upstream reads it."""
    return _annotations(profile).get(_DISABLED) in (None, "false")


def _annotations(profile: Object) -> dict[str, Any]:
    return profile["metadata"].get("annotations") or {}


# -- Validity -----------------------------------------------------------------------------------------------------------


def warnings(profile: Object) -> list[str]:
    """What is wrong with a profile, in the dashboard's words and order; empty for a valid one."""
    listed = identifiers(profile)
    found = [warning for identifier in listed for warning in _identifier_warnings(identifier)]
    return found if _complete(listed) else [*found, INCOMPLETE]


def details(profile: Object) -> list[str]:
    return [_detail(identifier) for identifier in identifiers(profile)]


def default_resources(profile: Object) -> dict[str, dict[str, Any]]:
    """What the form fills in: requests and limits are both the defaults."""
    counts = {str(i.get("identifier", "")): i.get("defaultCount") for i in identifiers(profile)}
    return {"requests": counts, "limits": dict(counts)}


def _detail(identifier: Object) -> str:
    def shown(field: str) -> str:
        return units.text_of(units.readable(identifier.get(field), identifier.get("resourceType")))

    most = shown("maxCount") if "maxCount" in identifier else "unrestricted"
    return f"Default = {shown('defaultCount')}, Min = {shown('minCount')}, Max = {most}"


def _complete(listed: Sequence[Object]) -> bool:
    def has(name: str, resource_type: str) -> bool:
        return any(i.get("identifier") == name or i.get("resourceType") == resource_type for i in listed)

    return has("cpu", "CPU") and has("memory", "Memory")


def _units_of(identifier: Object) -> tuple[Unit, ...]:
    if identifier.get("resourceType") == "CPU" or identifier.get("identifier") == "cpu":
        return units.CPU
    if identifier.get("resourceType") == "Memory" or identifier.get("identifier") == "memory":
        return units.MEMORY_CHOICES
    return units.OTHER


def _identifier_warnings(identifier: Object) -> list[str]:
    known = _units_of(identifier)
    least, usual = units.text_of(identifier.get("minCount")), units.text_of(identifier.get("defaultCount"))
    most = units.text_of(identifier["maxCount"]) if "maxCount" in identifier else None
    found = [
        *_range_warnings("Minimum allowed", least, known, below=most),
        *_range_warnings("Default", usual, known, above=least, below=most),
        *(_range_warnings("Maximum allowed", most, known) if most is not None else ()),
    ]
    called = identifier.get("resourceType") or identifier.get("displayName")
    counts = (("Minimum count", least), ("Maximum count", most), ("Default count", usual))
    for label, text in counts:
        if text is not None and text.startswith("-"):
            return [*found, f"{label} for {called} cannot be negative.{_MENDED}"]
    try:
        # The form looks at the maximum only if it is set to something: 0 and "" do not count.
        bound = most if identifier.get("maxCount") else None
        values = [
            ("Minimum count", units.split(least, known, strict=True)[0]),
            ("Maximum count", units.split(bound, known, strict=True)[0] if bound is not None else None),
            ("Default count", units.split(usual, known, strict=True)[0]),
        ]
    except WrongUnitError:
        return [*found, f"The resource count for {called} has an invalid unit.{_MENDED}"]
    order = ("Minimum count", "Default count", "Maximum count")
    for label, value in sorted(values, key=lambda pair: order.index(pair[0])):
        if value is not None and not float(value).is_integer():
            found.append(f"{label} for {called} cannot be a decimal.{_MENDED}")
    return found


def _range_warnings(
    label: str, text: str, known: tuple[Unit, ...], *, above: str | None = None, below: str | None = None
) -> list[str]:
    value = units.split(text, known)[0]
    if value is None:
        return [f"{label} value must be provided."]
    if value == 0:
        return [f"{label} value must be a positive number."]
    if label == "Maximum allowed":
        return []
    too_small = above is not None and units.split(above, known)[0] is not None and units.larger(above, text, known)
    too_large = below is not None and units.split(below, known)[0] is not None and units.larger(text, below, known)
    if not (too_small or too_large):
        return []
    if label == "Default":
        return ["Default value must be equal to or between the minimum and maximum allowed limits."]
    return ["Minimum allowed value cannot exceed the maximum allowed value (if specified)."]


# -- The list -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Project:
    """What of the project and the installation decides. `queues` is None while the LocalQueues are not known."""

    kueue_managed: bool = False
    kueue_enabled: bool = False
    queues: frozenset[str] | None = None


def visible(profiles: Iterable[Object], features: Sequence[str]) -> list[Object]:
    """Valid profiles that are shown for one of the features."""
    return [profile for profile in profiles if not warnings(profile) and shown_for(profile, features)]


def offered(
    profiles: Iterable[Object], features: Sequence[str], project: Project, order: Sequence[str]
) -> list[Object]:
    chosen = [p for p in visible(profiles, features) if enabled(p) and fits(p, project)]
    return ordered(chosen, order)


def fits(profile: Object, project: Project) -> bool:
    """Whether the project's Kueue switch lets the profile be used there."""
    queued = ((profile.get("spec") or {}).get("scheduling") or {}).get("type") == "Queue"
    if not project.kueue_managed:
        return not queued
    if not project.kueue_enabled or not queued:
        return False
    queue = queue_of(profile)
    return project.queues is None or not queue or queue in project.queues


def shown_for(profile: Object, features: Sequence[str]) -> bool:
    try:
        listed = read_json(_annotations(profile).get(_VISIBILITY) or "[]")
    except ValueError:
        return True
    known = [feature for feature in listed if feature in FEATURES] if isinstance(listed, list) else []
    return not known or not features or any(feature in known for feature in features)


def ordered(profiles: Iterable[Object], order: Sequence[str] = ()) -> list[Object]:
    """In the administrator's order, the rest by name: without case, numbers by value."""
    by_name = {name_of(profile): profile for profile in sorted(profiles, key=lambda p: natural(name_of(p)))}
    first = [name for name in dict.fromkeys(order) if name in by_name]
    return [by_name[name] for name in (*first, *(name for name in by_name if name not in set(first)))]


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key: `gpu-2` before `gpu-10`, punctuation before digits before letters."""
    parts = re.findall(r"[0-9]+|[^0-9]", text.lower())
    return tuple((1, int(part), "") if part[0] in _DIGITS else (2 if part.isalpha() else 0, 0, part) for part in parts)


def banner(profiles: Sequence[Object]) -> dict[str, str] | None:
    """The warning above the list of profiles; None while nothing is wrong."""
    found = [warnings(profile) for profile in profiles]
    invalid = [any(warning != INCOMPLETE for warning in listed) for listed in found]
    incomplete = [INCOMPLETE in listed for listed in found]
    some_enabled = any(enabled(profile) for profile in profiles)
    if not profiles or (not any(invalid) and not any(incomplete) and some_enabled):
        return None
    you_need = "You must have at least one {} for users to create workbenches or deploy models. {}"
    mend = "Take the appropriate actions below to"
    if all(invalid):
        message = you_need.format("valid hardware profile enabled", f"{mend} re-validate your profiles.")
        return {"title": "All hardware profiles are invalid", "message": message}
    if not some_enabled:
        message = you_need.format("hardware profile enabled", "Enable one or more profiles in the table below.")
        return {"title": "All hardware profiles are disabled", "message": message}
    if any(invalid):
        message = f"One or more of your defined hardware profiles are invalid. {mend} revalidate your profiles."
        return {"title": "One or more hardware profiles are invalid", "message": message}
    who, whose = ("All", "All of") if all(incomplete) else ("One or more", "One or more of")
    return {
        "title": f"{who} hardware profiles are incomplete",
        "message": f"{whose} your defined hardware profiles are missing either CPU or Memory. This is not recommended.",
    }
