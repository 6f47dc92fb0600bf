"""Spans of time as Kubernetes shows them to people: `45s`, `3m20s`, `5h12m`, `12d`.

`human_duration` takes seconds; `age` takes an object's RFC 3339 time and the current one.
"""

from gpuaas.base.clock import parse_rfc3339

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3_600, 86_400, 365 * 86_400


def human_duration(seconds: float) -> str:
    """Two units at most, and only one where the second would not matter."""
    whole = int(seconds)
    if whole < -1:  # clocks of two machines may differ a little
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def age(timestamp: str | None, now: float) -> str:
    """How long ago an RFC 3339 time was; `<unknown>` when there is none."""
    return human_duration(now - parse_rfc3339(timestamp)) if timestamp else "<unknown>"


def _two(whole: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = whole % large // small
    return f"{whole // large}{large_name}{rest}{small_name}" if rest else f"{whole // large}{large_name}"
