"""Charts as SVG, rendered by the server: columns, stacked columns, bars, time ranges and a line.

Geometry is in attributes, appearance in CSS classes. Labels are escaped, though none comes from an agent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

WIDTH, HEIGHT = 360, 216
LEFT, RIGHT, TOP, FLOOR = 34.0, 350.0, 14.0, 180.0
LABEL_X, ROW_X, ROW_END = 132, 140, 316.0  # of horizontal bars
SPAN_X, SPAN_END = 74.0, 340.0
MAX_BARS = 7
MAX_LABEL_LENGTH = 20
CHARACTER_WIDTH = 7.2  # average of the widest fallback font, at 12 px

#: Ticks of a logarithmic time axis, in seconds.
MARKS: dict[int, str] = {
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    86400: "1 d",
    7 * 86400: "7 d",
    30 * 86400: "30 d",
    365 * 86400: "1 y",
    3650 * 86400: "10 y",
}

SvgElements = list[SafeString]


@dataclass(frozen=True, kw_only=True)
class ChartColumn:
    """One column: its label, the size of its two parts, and the text above it."""

    label: str
    first: int
    second: int = 0
    above: str = ""


@dataclass(frozen=True, kw_only=True)
class TimeRange:
    """One line of a range chart: from the 10th to the 90th percentile, with a dot at the median."""

    label: str
    p10: timedelta
    p50: timedelta
    p90: timedelta
    at_median: str
    at_end: str


def svg_picture(shapes: SvgElements, *, label: str) -> SafeString:
    """Return the elements as one picture; ``label`` describes it for screen readers."""
    inside = format_html_join("", "{}", ((shape,) for shape in shapes))
    return format_html('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>', WIDTH, HEIGHT, label, inside)


# --- columns ----------------------------------------------------------------------------------------------------------


def column_chart(parts: Sequence[ChartColumn], *, axis: str, legend: str) -> SvgElements:
    """Return columns of ``first``, whose hatched foot shows how much of it is ``second``."""
    shapes, scale = _count_axis(max(part.first for part in parts))
    shapes.insert(0, _HATCHING)
    for x, wide, part in _slots(parts, gap=0.265):
        top = scale(part.first)
        if part.first:
            shapes.append(_rect("bar", x, top, wide, FLOOR - top, rounded=True))
            shapes.append(_text(f"{part.first}", x + wide / 2, top - 5, "v m"))
        if part.second:
            foot = scale(part.second)
            shapes.append(_rect("", x, foot, wide, FLOOR - foot, fill="url(#soon)"))
        shapes.append(_text(part.label, x + wide / 2, 196, "m"))
    shapes.append(_text(axis, LEFT, 212))
    if legend:
        shapes.append(_rect("", 214, 202, 14, 11, fill="url(#soon)"))
        shapes.append(_text(legend, 234, 212))
    return shapes


def stacked_column_chart(parts: Sequence[ChartColumn], *, axis: str, legend: tuple[str, str]) -> SvgElements:
    """Return columns of ``first`` with ``second`` on top of it."""
    shapes, scale = _count_axis(max(part.first + part.second for part in parts))
    every = _label_every(len(parts))
    for place, (x, wide, part) in enumerate(_slots(parts, gap=0.3)):
        top, line = scale(part.first + part.second), scale(part.first)
        if part.first:
            shapes.append(_rect("bar", x, line, wide, FLOOR - line))
        if part.second:
            shapes.append(_rect("bar2", x, top, wide, line - top))
        if part.above:
            shapes.append(_text(part.above, x + wide / 2, top - 5, "v m"))
        if (len(parts) - 1 - place) % every == 0:
            shapes.append(_text(part.label, x + wide / 2, 196, "m"))
    shapes += [_text(axis, LEFT, 212), _rect("bar", 166, 203, 10, 10, rounded=True), _text(legend[0], 181, 212)]
    return [*shapes, _rect("bar2", 234, 203, 10, 10, rounded=True), _text(legend[1], 249, 212)]


def _count_axis(highest: int) -> tuple[SvgElements, _Scale]:
    step = nice_step(highest, most=5)
    end = max(step * math.ceil(highest / step), step)
    scale = _Scale(low=0, high=end)
    shapes = []
    for count in range(0, end + 1, step):
        shapes.append(_line("grid" if count else "base", LEFT, scale(count), RIGHT, scale(count)))
        shapes.append(_text(f"{count}", 28, scale(count) + 4, "e"))
    return shapes, scale


def nice_step(highest: int, *, most: int) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, ... that divides an axis into at most ``most`` steps."""
    step = 1
    for step in (figure * 10**power for power in range(12) for figure in (1, 2, 5)):
        if step * most >= highest:
            break
    return step


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """Maps values to heights in the picture."""

    low: float
    high: float

    def __call__(self, value: float) -> float:
        return FLOOR - (value - self.low) / (self.high - self.low) * (FLOOR - TOP)


def _slots(parts: Sequence[ChartColumn], *, gap: float) -> list[tuple[float, float, ChartColumn]]:
    slot = (RIGHT - LEFT) / len(parts)
    wide = min(slot * (1 - gap), 44.0)
    return [(LEFT + slot * place + (slot - wide) / 2, wide, part) for place, part in enumerate(parts)]


def _label_every(parts: int) -> int:
    """Return how many columns share a label, which is as wide as a seventh of the axis."""
    return math.ceil(parts / 6)


# --- rows -------------------------------------------------------------------------------------------------------------


def bar_chart(counts: Sequence[tuple[str, int]], *, axis: str) -> SvgElements:
    """Return horizontal bars; after the sixth, the others are one bar."""
    shown = list(counts)
    if len(shown) > MAX_BARS:
        shown = [*shown[: MAX_BARS - 1], (_("others"), sum(count for __, count in shown[MAX_BARS - 1 :]))]
    longest = max((count for __, count in shown), default=1)
    shapes = []
    for place, (label, count) in enumerate(shown):
        wide, y = count / longest * (ROW_END - ROW_X), 10 + 25 * place
        shapes.append(_text(shortened(label), LABEL_X, y + 12, "e"))
        shapes.append(_rect("bar", ROW_X, y, wide, 16, rounded=True))
        shapes.append(_text(f"{count}", ROW_X + wide + 7, y + 12, "v"))
    base = 10 + 25 * len(shown)
    return [*shapes, _line("base", ROW_X, 4, ROW_X, base), _text(axis, ROW_X, base + 22)]


# --- spans ------------------------------------------------------------------------------------------------------------


def range_chart(lines: Sequence[TimeRange], *, axis: str) -> SvgElements:
    """Return the ranges on a logarithmic time axis, at most four."""
    marks = _marks([line.p10 for line in lines], [line.p90 for line in lines])
    low, high = math.log(marks[0]), math.log(marks[-1])

    def x_of(length: timedelta) -> float:
        seconds = min(max(length.total_seconds(), marks[0]), marks[-1])
        return SPAN_X + (math.log(seconds) - low) / (high - low) * (SPAN_END - SPAN_X)

    shapes, free_from = [], 0.0
    for seconds in marks:
        x, half = x_of(timedelta(seconds=seconds)), len(MARKS[seconds]) * CHARACTER_WIDTH / 2
        shapes.append(_line("grid", x, 20, x, 172))
        if x - half >= free_from:
            shapes.append(_text(MARKS[seconds], x, 188, "m"))
            free_from = x + half + 4
    step = 152 / max(len(lines), 3)
    for place, line in enumerate(lines):
        y = 20 + step * place + step / 2
        begin, median, end = x_of(line.p10), x_of(line.p50), x_of(line.p90)
        shapes += [_text(shortened(line.label, longest=11), 0, y + 4, "v"), _line("span", begin, y, end, y)]
        shapes += [
            _circle(median, y, 6),
            _text(line.at_median, _inside(median, line.at_median, begin=SPAN_X), y - 11, "v m"),
        ]
        shapes.append(_text(line.at_end, _inside(end, line.at_end, begin=SPAN_X), y + 19, "m"))
    return [*shapes, _text(axis, 0, 212)]


def _marks(lowest: Sequence[timedelta], highest: Sequence[timedelta]) -> list[int]:
    """Return the ticks that enclose all values, at least two."""
    least = min(length.total_seconds() for length in lowest)
    most = max(length.total_seconds() for length in highest)
    begin = max((mark for mark in list(MARKS)[:-1] if mark <= least), default=min(MARKS))
    end = min((mark for mark in MARKS if mark >= most and mark > begin), default=max(MARKS))
    return [mark for mark in MARKS if begin <= mark <= end]


# --- a curve ----------------------------------------------------------------------------------------------------------


def line_chart(points: Sequence[tuple[str, float | None]], *, axis: str) -> SvgElements:
    """Return percentages over time, with gaps where there is none. The axis starts at a multiple of ten and says so."""
    known = [percent for __, percent in points if percent is not None]
    floor = min(int(min(known, default=0) // 10 * 10), 90)
    scale, shapes = _Scale(low=floor, high=100), []
    for mark in range(floor, 101, nice_step(100 - floor, most=5)):
        shapes.append(_line("grid" if mark > floor else "base", LEFT, scale(mark), RIGHT, scale(mark)))
        shapes.append(_text(f"{mark}", 28, scale(mark) + 4, "e"))
    step = (RIGHT - LEFT - 48) / max(len(points) - 1, 1)
    places = [(LEFT + 20 + step * number, label, percent) for number, (label, percent) in enumerate(points)]
    shapes += _strokes([(x, None if percent is None else scale(percent)) for x, _label, percent in places])
    every = _label_every(len(points))
    for number, (x, label, percent) in enumerate(places):
        if percent is not None:
            shapes.append(_circle(x, scale(percent), 3.5))
        if (len(points) - 1 - number) % every == 0:
            shapes.append(_text(label, x, 196, "m"))
    ends = [place for place in places if place[2] is not None]
    labelled = [ends[0], ends[-1]] if ends and ends[-1][0] - ends[0][0] > 8 * CHARACTER_WIDTH else ends[-1:]
    for x, _label, percent in labelled:
        assert percent is not None  # noqa: S101  just filtered
        y = scale(percent)
        text = f"{percent:.1f} %" if percent < 100 else "100 %"
        shapes.append(_text(text, _inside(x, text, begin=LEFT), y - 9 if y > TOP + 12 else y + 18, "v m"))
    return [*shapes, _text(_("{axis}; axis starts at {floor}").format(axis=axis, floor=floor), LEFT, 212)]


def _strokes(points: Sequence[tuple[float, float | None]]) -> SvgElements:
    """Return a polyline for each stretch of points without a gap."""
    stretches: list[list[str]] = [[]]
    for x, y in points:
        if y is None:
            stretches.append([])
        else:
            stretches[-1].append(f"{x:.1f},{y:.1f}")
    return [
        format_html('<polyline class="curve" points="{}"/>', " ".join(stretch))
        for stretch in stretches
        if len(stretch) > 1
    ]


# --- elements -----------------------------------------------------------------------------------------------------------

_HATCHING = format_html(
    '<defs><pattern id="soon" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
    '<path class="hatch" d="M0 1.5h6"/></pattern></defs>{}',
    "",
)


def shortened(label: str, *, longest: int = MAX_LABEL_LENGTH) -> str:
    """Return a label that fits beside the axis; the table has the whole one."""
    return label if len(label) <= longest else f"{label[: longest - 1]}…"


def _inside(x: float, text: str, *, begin: float) -> float:
    """Return the nearest position of a centred text at which it is not cut off, in any usual font."""
    half = len(text) * CHARACTER_WIDTH / 2
    return min(max(x, begin + half), WIDTH - half)


def _text(content: str, x: float, y: float, name: str = "") -> SafeString:
    return format_html('<text{} x="{}" y="{}">{}</text>', _class(name), _n(x), _n(y), content)


def _line(name: str, x1: float, y1: float, x2: float, y2: float) -> SafeString:
    return format_html('<line{} x1="{}" y1="{}" x2="{}" y2="{}"/>', _class(name), _n(x1), _n(y1), _n(x2), _n(y2))


def _rect(
    name: str, x: float, y: float, wide: float, high: float, *, rounded: bool = False, fill: str = ""
) -> SafeString:
    look = format_html(' fill="{}"', fill) if fill else ""
    corner = format_html(' rx="{}"', 2) if rounded else ""
    return format_html(
        '<rect{}{} x="{}" y="{}" width="{}" height="{}"{}/>',
        *(_class(name), look, _n(x), _n(y), _n(wide), _n(max(high, 0)), corner),
    )


def _circle(x: float, y: float, radius: float) -> SafeString:
    return format_html('<circle class="dot" cx="{}" cy="{}" r="{}"/>', _n(x), _n(y), radius)


def _class(name: str) -> SafeString | str:
    return format_html(' class="{}"', name) if name else ""


def _n(value: float) -> str:
    """Return a coordinate as text, the same in every locale."""
    return f"{value:.1f}"
