"""Charts drawn on the server: plain values in, SVG text out.

Geometry is in presentation attributes and colour in classes, because the Content-Security-Policy refuses `style`.
Horizontal positions are percentages, so a chart fills its place at any width while strokes, patterns and text keep their
size. Every text from outside goes through markupsafe. Patterns (`#p-…`) stand once in the page's frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

_GLYPHS: Final[Mapping[str, tuple[str, str]]] = {
    "Pending": ("wait", '<circle cx="7" cy="7" r="5.2"/>'),
    "Reserved": ("wait", '<circle cx="7" cy="7" r="5.2"/><path class="full" d="M7 7V3.6A3.4 3.4 0 0 1 10.4 7z"/>'),
    "Admitted": ("run", '<circle cx="7" cy="7" r="5.2"/><path class="full" d="M7 3.6a3.4 3.4 0 0 1 0 6.8z"/>'),
    "Running": ("run", '<circle class="full" cx="7" cy="7" r="6"/>'),
    "Succeeded": ("ok", '<circle class="full" cx="7" cy="7" r="6"/><path class="cut" d="M4.4 7.2l1.8 1.8 3.4-3.8"/>'),
    "Failed": (
        "bad",
        '<circle class="full" cx="7" cy="7" r="6"/><path class="cut" d="M4.9 4.9l4.2 4.2m0-4.2L4.9 9.1"/>',
    ),
    "Evicted": ("move", '<path d="M12 10.5c0-3.2-1.6-4.8-4.6-4.8H2.6m3.2-3.2L2.6 5.7l3.2 3.2"/>'),
    "Inactive": ("calm", '<path d="M4.8 2.8v8.4M9.2 2.8v8.4"/>'),
    "Active": ("ok", '<circle class="full" cx="7" cy="7" r="6"/>'),
    "Ready": ("ok", '<circle class="full" cx="7" cy="7" r="6"/>'),
    "Stopped": ("calm", '<path d="M4.8 2.8v8.4M9.2 2.8v8.4"/>'),
    "": ("calm", '<circle cx="7" cy="7" r="5.2" stroke-dasharray="2 2"/>'),
}
_PATTERNS: Final = {"borrowed": "p-lines", "lent": "p-dots"}
LARGEST_SERIES: Final = 7


@dataclass(frozen=True, slots=True)
class Part:
    """A run of a bar: `kind` is `used`, `borrowed`, `lent`, `pending` or a series class (`s1` to `s8`, `others`)."""

    kind: str
    amount: float
    title: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """One team's amounts, a value for each step of time."""

    name: str
    tone: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment, as a share of the axis from 0 to 1."""

    at: float
    title: str


@dataclass(frozen=True, slots=True)
class Move:
    """A preemption: when (0 to 1), how long the lost run was on the same axis, from which lane to which, how large."""

    at: float
    lost: float
    victim: str
    preemptor: str
    gpus: float
    title: str


def glyph(state: str) -> Markup:
    """The shape of a state, to stand before its word."""
    tone, drawing = _GLYPHS.get(state, _GLYPHS[""])
    return Markup(
        f'<svg class="glyph t-{tone}" width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">{drawing}</svg>'
    )


def tones(names: Iterable[str]) -> dict[str, str]:
    """A series class for each name. A name keeps its colour as long as the set of names stays; eight are distinct."""
    taken: dict[str, str] = {}
    used: set[int] = set()
    for name in sorted(set(names)):
        wish = sum(name.encode()) % 8
        free = next((step for step in range(8) if (wish + step) % 8 not in used), None)
        place = wish if free is None else (wish + free) % 8
        used.add(place)
        taken[name] = f"s{place + 1}"
    return taken


def bar(
    parts: Sequence[Part],
    scale: float,
    *,
    tick: float | None = None,
    limit: float | None = None,
    label: str,
    thin: bool = False,
) -> Markup:
    """Parts side by side on a scale that the bars of a page share; `tick` is the nominal amount, `limit` the most. What
    goes beyond the scale is cut off at the right edge, where an outline then stays open."""
    top, height = (0, 8) if thin else (3, 14)
    drawn = [_rect("track", 0, 100, top, height)]
    at = 0.0
    for part in parts:
        size = _share(part.amount, scale)
        if size <= 0:
            continue
        if part.kind == "pending":
            place = f'x="{at:.2f}%" y="{top + 1}" width="{size:.2f}%" height="{height - 2}"'
            drawn.append(f'<rect class="pending-edge" {place}>{_title(part.title)}</rect>')
        else:
            drawn.append(_rect(part.kind, at, size, top, height, part.title))
            if part.kind in _PATTERNS:
                drawn.append(_patterned(_PATTERNS[part.kind], at, size, top, height))
        at += size
    if limit is not None and limit <= scale:
        drawn.append(_upright("limit", _share(limit, scale), top, top + height))
    if tick is not None and scale > 0:
        drawn.append(_upright("tick", min(_share(tick, scale), 99.7), 0, height + 2 * top))
    kind = "bar thin" if thin else "bar"
    return Markup(f'<svg class="{kind}" role="img" aria-label="{escape(label)}">{"".join(drawn)}</svg>')


def strip(series: Sequence[Series], capacity: float, marks: Sequence[Mark], *, label: str) -> Markup:
    """Stacked steps over time against a line of capacity, with moments as ticks above. One rectangle for each run of
    equal values, so that an hour of one job is one rectangle."""
    length = max((len(each.values) for each in series), default=0)
    totals = [sum(each.values[step] for each in series) for step in range(length)]
    top = max([capacity, *totals, 1.0])
    drawn = [f'<line class="axis" x1="0" x2="100%" y1="{share}%" y2="{share}%"/>' for share in (0, 50, 100)]
    base = [0.0] * length
    for each in series:
        for first, last, value in _runs(each.values, base):
            height = 100 * value / top
            y = 100 - 100 * base[first] / top - height
            place = f'x="{100 * first / length:.2f}%" y="{y:.2f}%" width="{100 * (last - first) / length:.2f}%"'
            title = _title(f"{each.name}: {value:g}")
            drawn.append(f'<rect class="{escape(each.tone)}" {place} height="{height:.2f}%">{title}</rect>')
        base = [below + value for below, value in zip(base, each.values, strict=True)]
    if capacity:
        y = 100 - 100 * capacity / top
        drawn.append(f'<line class="capacity" x1="0" x2="100%" y1="{y:.2f}%" y2="{y:.2f}%"/>')
    for mark in marks:
        x = f"{100 * min(max(mark.at, 0), 1):.2f}%"
        drawn.append(f'<line class="mark" x1="{x}" x2="{x}" y1="-8" y2="4">{_title(mark.title)}</line>')
    return Markup(f'<svg class="plot" role="img" aria-label="{escape(label)}">{"".join(drawn)}</svg>')


def timeline(lanes: Sequence[str], moves: Sequence[Move], *, label: str) -> Markup:
    """A lane for each queue; a move goes from the victim's lane to the preemptor's at its moment, its tail is the run
    that was lost and as high as it held GPUs."""
    lane, foot = 44, 4
    at = {name: 16 + lane * number + lane // 2 for number, name in enumerate(lanes)}
    largest = max((each.gpus for each in moves), default=0) or 1
    drawn = []
    for name in lanes:
        drawn.append(f'<text class="lane-name" x="0" y="{at[name] - 14}">{escape(name)}</text>')
        drawn.append(f'<line class="lane-line" x1="0" x2="100%" y1="{at[name]}" y2="{at[name]}"/>')
    for each in moves:
        if each.victim not in at:
            continue
        y, x = at[each.victim], 100 * each.at
        high = 4 + 14 * each.gpus / largest
        lost = min(100 * each.lost, x)
        title = _title(each.title)
        drawn.append(
            f'<g>{title}<rect class="tail" x="{x - lost:.2f}%" width="{lost:.2f}%" y="{y - high / 2:.1f}" height="{high:.1f}"/>'
        )
        if each.preemptor in at and each.preemptor != each.victim:
            drawn.append(f'<line class="arrow" x1="{x:.2f}%" x2="{x:.2f}%" y1="{y}" y2="{at[each.preemptor]}"/>')
            drawn.append(f'<circle class="dot-preemptor" cx="{x:.2f}%" cy="{at[each.preemptor]}" r="4"/>')
        drawn.append(f'<circle class="dot-victim" cx="{x:.2f}%" cy="{y}" r="4"/></g>')
    height = 16 + lane * len(lanes) + foot
    return Markup(
        f'<svg class="plot tall" height="{height}" role="img" aria-label="{escape(label)}">{"".join(drawn)}</svg>'
    )


def _runs(values: Sequence[float], base: Sequence[float]) -> list[tuple[int, int, float]]:
    """(first, after the last, value) of each run of steps whose value and base stay; without zeros."""
    found: list[tuple[int, int, float]] = []
    start = 0
    for step in range(1, len(values) + 1):
        if step == len(values) or values[step] != values[start] or base[step] != base[start]:
            if values[start]:
                found.append((start, step, values[start]))
            start = step
    return found


def _share(amount: float, scale: float) -> float:
    """In percent; at most ten times the scale; more is not visible."""
    return 0.0 if scale <= 0 else max(0.0, min(1_000.0, 100 * amount / scale))


def _rect(kind: str, x: float, width: float, y: float, height: float, title: str = "") -> str:
    place = f'x="{x:.2f}%" y="{y:g}" width="{width:.2f}%" height="{height:g}"'
    return f'<rect class="{escape(kind)}" {place}>{_title(title)}</rect>'


def _patterned(pattern: str, x: float, width: float, y: float, height: float) -> str:
    return f'<rect fill="url(#{pattern})" x="{x:.2f}%" y="{y:g}" width="{width:.2f}%" height="{height:g}" pointer-events="none"/>'


def _upright(kind: str, x: float, top: float, bottom: float) -> str:
    return f'<line class="{kind}" x1="{x:.2f}%" x2="{x:.2f}%" y1="{top:g}" y2="{bottom:g}"/>'


def _title(words: str) -> str:
    return f"<title>{escape(words)}</title>" if words else ""


def number(amount: float) -> str:
    """`16`, `1,024`, `0.14`, `88.6`; a zero is a zero."""
    whole = round(amount)
    if abs(amount - whole) < 0.005:
        return f"{whole:,}"
    return f"{amount:,.1f}" if amount >= 10 else f"{amount:.2f}".rstrip("0")


def share(amount: float, most: float, label: str) -> Markup:
    """A thin bar of one amount among others."""
    return bar([Part("used", amount)], most, label=label, thin=True)
