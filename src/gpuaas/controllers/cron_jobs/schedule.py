"""When a cron schedule comes, in any time zone. How one is written is gpuaas.api.kubernetes.cron's.

Times are Unix seconds. A local time that a change of the clocks skips does not happen; one that happens twice counts
twice.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from gpuaas.api.kubernetes import cron

_SEARCH_DAYS = 366 * 5 + 2  # as far as the real parser looks; 30 February never comes


@dataclass(frozen=True, slots=True)
class Schedule:
    parsed: cron.Fields | cron.Every
    zone: tzinfo

    def next(self, after: float) -> float | None:
        """The first time later than `after`; None if there is none within five years."""
        if isinstance(self.parsed, cron.Every):
            return float(int(after)) + self.parsed.seconds
        return self._next(self.parsed, after)

    def _next(self, fields: cron.Fields, after: float) -> float | None:
        start = datetime.fromtimestamp(after, self.zone)
        day = start.date()
        # An hour earlier than now may come again when the clocks are put back.
        hour = start.hour - 1
        for _ in range(_SEARCH_DAYS):
            if fields.has(day):
                for candidate in sorted(fields.hours):
                    later = (
                        [moment for moment in self._moments(fields, day, candidate) if moment > after]
                        if candidate >= hour
                        else ()
                    )
                    if later:
                        return min(later)
            day += timedelta(days=1)
            hour = 0
        return None

    def _moments(self, fields: cron.Fields, day: date, hour: int) -> Iterator[float]:
        for minute in fields.minutes:
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
    return Schedule(cron.parse_schedule(text), load_zone(zone))


def load_zone(zone: str) -> tzinfo:
    """ "" is UTC; an unknown name is a ValueError."""
    if not zone or zone in ("UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(zone)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"unknown time zone {zone}") from error
