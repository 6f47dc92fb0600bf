"""What the configuration says of devices: which resource stands for which device classes, and whether they count.

Values; a file becomes them in `configuration_devices`, and `device_claims` counts by them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counter:
    """What a device of this driver takes of a counter is what it takes of the quota."""

    driver: str
    name: str
    selector: str


@dataclass(frozen=True, slots=True)
class DeviceMapping:
    resource: str
    classes: tuple[str, ...]
    counters: tuple[Counter, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceRules:
    mapped: tuple[DeviceMapping, ...] = ()
    counts: bool = True
    """Claims are counted at all; otherwise who claims is refused, or taken as if it did not."""
    refuses: bool = True
    extended: bool = True
    """Classes that are asked for by the name of a resource count as well."""
    partitions: bool = True
    """Counters count."""

    @property
    def in_bytes(self) -> tuple[str, ...]:
        """Resources that are counted in what counters say."""
        return tuple(each.resource for each in self.mapped if each.counters)

    def resource(self, device_class: str) -> str | None:
        return next((each.resource for each in self.mapped if device_class in each.classes), None)

    def counters(self, device_class: str) -> list[tuple[str, Counter]]:
        mapped = (each for each in self.mapped if self.partitions and device_class in each.classes)
        return [(each.resource, counter) for each in mapped for counter in each.counters]
