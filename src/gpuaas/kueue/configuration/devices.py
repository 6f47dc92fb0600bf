"""`resources.deviceClassMappings` of Kueue's Configuration, and the feature gates about devices, as `DeviceRules`.

Upstream's limits and words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gpuaas.base.fielderrors import child, duplicate, invalid, required, too_many
from gpuaas.base.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name
from gpuaas.kueue.configuration.fields import Section
from gpuaas.kueue.dra.rules import CAPACITY, COUNTER, DeviceMapping, DeviceRules, Source
from gpuaas.kueue.dra.selectors import compiled

DEVICE_GATES: Final = {
    "KueueDRAIntegration": "counts",
    "KueueDRARejectWorkloadsWhenDRADisabled": "refuses",
    "KueueDRAIntegrationExtendedResource": "extended",
    "KueueDRAIntegrationPartitionableDevices": "partitions",
    "KueueDRAIntegrationConsumableCapacity": "shares",
}
_GATE_OF: Final = {
    COUNTER: "KueueDRAIntegrationPartitionableDevices",
    CAPACITY: "KueueDRAIntegrationConsumableCapacity",
}
_MOST_MAPPINGS: Final = 16
_MOST_CLASSES: Final = 8
_LONGEST_DRIVER: Final = 63
_ONE_SOURCE: Final = "exactly one source type must be set per entry"


def read_device_rules(resources: Section | None, gates: Mapping[str, bool]) -> DeviceRules:
    set_gates = {name: gates[gate] for gate, name in DEVICE_GATES.items() if gate in gates}
    rules = DeviceRules((), **set_gates)
    return rules if resources is None else replace(rules, mapped=_mappings(resources, rules))


def _mappings(resources: Section, rules: DeviceRules) -> tuple[DeviceMapping, ...]:
    sections = resources.sections("deviceClassMappings")
    if len(sections) > _MOST_MAPPINGS:
        resources.error(too_many(resources.path("deviceClassMappings"), len(sections), _MOST_MAPPINGS))
    made: list[DeviceMapping] = []
    for section in sections:
        name, classes = section.text("name"), section.texts("deviceClassNames")
        _check_name(section, section.path("name"), name)
        if any(each.resource == name for each in made):
            section.error(duplicate(section.path("name"), name))
        made.append(DeviceMapping(name, tuple(classes), _sources(section, rules)))
        _check_classes(section, made)
        section.done()
    return tuple(made)


def _check_classes(section: Section, made: list[DeviceMapping]) -> None:
    mapping, path = made[-1], section.path("deviceClassNames")
    if not mapping.classes:
        section.error(required(path, "at least one device class name is required"))
    if len(mapping.classes) > _MOST_CLASSES:
        section.error(too_many(path, len(mapping.classes), _MOST_CLASSES))
    for index, name in enumerate(mapping.classes):
        at = child(path, index)
        _check_name(section, at, name)
        if name in mapping.classes[:index]:
            section.error(duplicate(at, name))
        others = [each for each in made[:-1] if name in each.classes and each.resource != mapping.resource]
        if not others:
            continue
        mine, theirs = _first_counter(mapping), {_first_counter(each) for each in others} - {""}
        if not mine or not theirs:
            section.error(invalid(at, name, f"device class already mapped to resource {others[0].resource}"))
        elif mine in theirs:
            section.error(invalid(at, name, f'device class already has a counter source for counter "{mine}"'))


def _first_counter(mapping: DeviceMapping) -> str:
    found = mapping.sources[:1]
    return found[0].name if found and found[0].kind == COUNTER else ""


def _sources(section: Section, rules: DeviceRules) -> tuple[Source, ...]:
    made: list[Source] = []
    for each in section.sections("sources"):
        where = each.path(COUNTER).removesuffix(f".{COUNTER}")
        found = {kind: each.section(kind) for kind in (COUNTER, CAPACITY)}
        each.done()
        given = [(kind, source) for kind, source in found.items() if source is not None]
        if not given:
            each.error(required(where, _ONE_SOURCE))
        elif len(given) > 1:
            each.error(invalid(where, "counter+capacity", _ONE_SOURCE))
        elif not (rules.partitions if given[0][0] == COUNTER else rules.shares):
            kind = given[0][0]
            each.error(invalid(each.path(kind), True, f"{kind} sources require {_GATE_OF[kind]} to be enabled"))
        else:
            made.append(_source(*given[0]))
    if len({each.kind for each in made}) > 1:
        words = "cannot mix counter and capacity sources in the same mapping"
        section.error(invalid(section.path("sources"), len(made), words))
    return tuple(made)


def _source(kind: str, section: Section) -> Source:
    name, driver = section.text("name"), section.text("driver")
    selector = section.section("deviceSelector")
    cel = selector.section("cel") if selector is not None else None
    expression = cel.text("expression") if cel is not None else ""
    for read in (cel, selector, section):
        if read is not None:
            read.done()
    path = section.path("name")
    problems = is_dns1123_label(name) if kind == COUNTER else is_qualified_name(name)
    if not name:
        section.error(required(path))
    elif problems:
        section.error(invalid(path, name, ",".join(problems)))
    _check_driver(section, driver)
    path = child(section.path("deviceSelector"), "cel", "expression")
    found = compiled(expression) if expression else None
    if not expression:
        section.error(required(path))
    elif isinstance(found, str):
        section.error(invalid(path, expression, f"CEL compilation failed: {found}"))
    return Source(kind, driver, name, expression)


def _check_driver(section: Section, driver: str) -> None:
    path = section.path("driver")
    if not driver:
        section.error(required(path))
    elif len(driver) > _LONGEST_DRIVER:
        section.error(invalid(path, driver, f"must not exceed {_LONGEST_DRIVER} characters"))
    elif is_dns1123_subdomain(driver):
        section.error(invalid(path, driver, ",".join(is_dns1123_subdomain(driver))))


def _check_name(section: Section, path: str, name: str) -> None:
    problems = is_qualified_name(name)
    if problems:
        section.error(invalid(path, name, "; ".join(problems)))
    if len(name) > 253:
        section.error(invalid(path, name, "must not exceed 253 characters"))
