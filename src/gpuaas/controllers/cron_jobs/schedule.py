"""Cron schedules: `*/5 9-17 * * MON-FRI`, `@daily`, `@every 1h30m`, in any time zone.

Times are Unix seconds. A day matches when day of month and day of week both do, or, if both are restricted, when
either does. A local time that a change of the clocks skips does not happen; one that happens twice counts twice.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|µs|ns|m|s)")
_SEARCH_DAYS = 366 * 5 + 2  # as far as the real parser looks; 30 February never comes


class Schedule(Protocol):
    def next(self, after: float) -> float | None:
        """The first time later than `after`; None if there is none within five years."""


@dataclass(frozen=True, slots=True)
class Every:
    seconds: float

    def next(self, after: float) -> float | None:
        return float(int(after)) + self.seconds


@dataclass(frozen=True, slots=True)
class Cron:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    any_day: bool
    any_weekday: bool
    zone: tzinfo

    def next(self, after: float) -> float | None:
        start = datetime.fromtimestamp(after, self.zone)
        day = start.date()
        # An hour earlier than now may come again when the clocks are put back.
        hour = start.hour - 1
        for _ in range(_SEARCH_DAYS):
            if self._matches(day):
                for candidate in sorted(self.hours):
                    later = (
                        [moment for moment in self._moments(day, candidate) if moment > after]
                        if candidate >= hour
                        else ()
                    )
                    if later:
                        return min(later)
            day += timedelta(days=1)
            hour = 0
        return None

    def _matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month = day.day in self.days
        in_week = day.isoweekday() % 7 in self.weekdays
        return in_month and in_week if self.any_day or self.any_weekday else in_month or in_week

    def _moments(self, day: date, hour: int) -> Iterator[float]:
        for minute in self.minutes:
            for fold in (0, 1):
                local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone, fold=fold)
                moment = local.timestamp()
                # A skipped time comes back as another one.
                if datetime.fromtimestamp(moment, self.zone).replace(tzinfo=None) == local.replace(tzinfo=None):
                    yield moment


def parse_schedule(text: str, zone: str = "") -> Schedule:
    """Raises ValueError with words for what is no schedule."""
    text = text.strip()
    found = re.match(r"(?:CRON_TZ|TZ)=(\S+)\s+(.*)", text)
    if found:
        zone, text = found.groups()
    place = load_zone(zone)
    if text.startswith("@every "):
        return Every(_duration(text.removeprefix("@every ").strip()))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ValueError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minute, hour, day, month, weekday = fields
    return Cron(
        _field(minute, 0, 59),
        _field(hour, 0, 23),
        _field(day, 1, 31),
        _field(month, 1, 12, _MONTHS),
        _field(weekday, 0, 6, _DAYS),
        any_day=_is_any(day),
        any_weekday=_is_any(weekday),
        zone=place,
    )


def load_zone(zone: str) -> tzinfo:
    """ "" is UTC; a name nobody knows is a ValueError."""
    if not zone or zone in ("UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(zone)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"unknown time zone {zone}") from error


def _is_any(field: str) -> bool:
    return any(part.split("/")[0] in ("*", "?") for part in field.split(","))


def _field(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        values |= _part(part, low, high, names)
    return frozenset(values)


def _part(text: str, low: int, high: int, names: tuple[str, ...]) -> set[int]:
    span, slash, step_text = text.partition("/")
    first_text, dash, last_text = span.partition("-")
    if first_text in ("*", "?") and not dash:
        first, last = low, high
    else:
        first = _number(first_text, names)
        last = _number(last_text, names) if dash else first
        if slash and not dash:
            last = high  # `5/15` goes on to the end
    step = _number(step_text, ()) if slash else 1
    if first < low:
        raise ValueError(f"beginning of range ({first}) below minimum ({low}): {text}")
    if last > high:
        raise ValueError(f"end of range ({last}) above maximum ({high}): {text}")
    if first > last:
        raise ValueError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")
    return set(range(first, last + 1, step))


def _number(text: str, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + (1 if names is _MONTHS else 0)
    if not text.isdigit():
        raise ValueError(f"failed to parse int from {text}")
    return int(text)


def _duration(text: str) -> float:
    total, at = 0.0, 0
    for found in _DURATION.finditer(text):
        if found.start() != at:
            break
        total += float(found.group(1)) * _UNITS[found.group(2)]
        at = found.end()
    if at != len(text) or not text:
        raise ValueError(f"failed to parse duration @every {text}")
    return max(1.0, float(int(total)))
