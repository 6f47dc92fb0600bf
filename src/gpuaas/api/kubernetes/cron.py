"""Cron schedules as CronJobs write them: `*/5 9-17 * * MON-FRI`, `@daily`, `@every 1h30m`, read strictly.

`parse_schedule` raises ValueError with the words of the parser Kubernetes uses. When they come is the cron job
controller's question.
"""

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

_MONTHS: Final = {
    name: index + 1
    for index, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"])
}
_DAYS: Final = {name: index for index, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: Final = (
    (0, 59, dict[str, int]()),
    (0, 23, dict[str, int]()),
    (1, 31, dict[str, int]()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_LONGEST: Final = (1 << 63) / 1e9  # seconds in a Go duration
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Every:
    seconds: float


@dataclass(frozen=True, slots=True)
class Fields:
    """A day matches when day of month and day of week both do, or, if both are restricted, when either does."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    any_day: bool
    any_weekday: bool

    def has(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month and in_week if self.any_day or self.any_weekday else in_month or in_week


def parse_schedule(text: str) -> Fields | Every:
    if not text:
        raise ValueError("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        return _word(text)
    fields = text.split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    parsed = [_field(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (frozenset(found) for found, _ in parsed)
    return Fields(minutes, hours, days, months, weekdays, any_day=parsed[2][1], any_weekday=parsed[4][1])


def _word(text: str) -> Fields | Every:
    if text in _WORDS:
        return parse_schedule(_WORDS[text])
    if not text.startswith(_EVERY):
        raise ValueError(f"unrecognized descriptor: {text}")
    span = text.removeprefix(_EVERY)
    parts = _SPAN.findall(span)
    if not parts or "".join(number + unit for number, unit in parts) != span:
        raise ValueError(f'failed to parse duration {text}: time: invalid duration "{span}"')
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > _LONGEST:
        raise ValueError(f'failed to parse duration {text}: time: invalid duration "{span}"')
    return Every(max(1.0, float(int(seconds))))


def _field(text: str, low: int, high: int, names: dict[str, int]) -> tuple[set[int], bool]:
    """The values of a field, and whether it restricts nothing."""
    values: set[int] = set()
    star = False
    for expression in filter(None, text.split(",")):
        found, is_star = _range(expression, low, high, names)
        values |= found
        star = star or is_star
    return values, star


def _range(expression: str, low: int, high: int, names: dict[str, int]) -> tuple[set[int], bool]:
    span, *steps = expression.split("/")
    first, *rest = span.split("-")
    star = first in ("*", "?")
    if star:
        start, end = low, high
    else:
        start = _number(first, names)
        if len(rest) > 1:
            raise ValueError(f"too many hyphens: {expression}")
        end = _number(rest[0], names) if rest else start
    step = 1
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {expression}")
    if steps:
        step = _number(steps[0], {})
        end = end if rest else high
        star = star and step <= 1
    if start < low:
        raise ValueError(f"beginning of range ({start}) below minimum ({low}): {expression}")
    if end > high:
        raise ValueError(f"end of range ({end}) above maximum ({high}): {expression}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {expression}")
    return set(range(start, end + 1, step)), star


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise ValueError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
