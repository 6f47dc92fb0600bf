"""What the configuration says of devices: which resource stands for which device classes, and whether they count.

Values; a file becomes them in `configuration_devices`, and `device_claims` counts by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COUNTER: Final = "counter"
CAPACITY: Final = "capacity"


@dataclass(frozen=True, slots=True)
class Source:
    """What a device of this driver takes of a counter, or gives of a capacity, is what it takes of the quota."""

    kind: str
    driver: str
    name: str
    selector: str


@dataclass(frozen=True, slots=True)
class DeviceMapping:
    resource: str
    classes: tuple[str, ...]
    sources: tuple[Source, ...] = ()


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
    shares: bool = False
    """Capacities do."""

    @property
    def in_bytes(self) -> tuple[str, ...]:
        """Resources that are counted in what devices say."""
        return tuple(each.resource for each in self.mapped if each.sources)

    def resource(self, device_class: str) -> str | None:
        return next((each.resource for each in self.mapped if device_class in each.classes), None)

    def sources(self, device_class: str) -> list[tuple[str, Source]]:
        """What devices of a class are counted by, each with its resource; nothing: one by one. All capacities are of the
        resource that stands for the class."""
        found = [
            (each.resource, source) for each in self.mapped if device_class in each.classes for source in each.sources
        ]
        first = self.resource(device_class) or ""
        return [
            (resource if source.kind == COUNTER else first, source)
            for resource, source in found
            if (self.partitions if source.kind == COUNTER else self.shares)
        ]
