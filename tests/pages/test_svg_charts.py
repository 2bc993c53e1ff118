"""SVG charts: every shape fits its picture, and they contain no script."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviewqueue.pages.insights import svg_charts
from reviewqueue.pages.insights.chart_captions import percent

counts = st.integers(0, 10**6)
labels = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=60)
lengths = st.integers(0, 40 * 365 * 86400).map(lambda seconds: timedelta(seconds=seconds))


def elements_in(rendered: svg_charts.SvgElements) -> list[ElementTree.Element]:
    """Every shape of the picture; it must be well-formed, without style or script, and inside its picture."""
    svg = svg_charts.svg_picture(rendered, label="A plot")
    root = ElementTree.fromstring(svg)  # noqa: S314  rendered one line above
    shapes = [shape for shape in root.iter() if shape.tag != "pattern"]
    for shape in shapes:
        assert not {"style", "onload", "href"} & set(shape.attrib)
        for name in ("x", "x1", "x2", "cx"):
            assert -0.1 <= float(shape.get(name, 0)) <= svg_charts.WIDTH
        for name in ("y", "y1", "y2", "cy"):
            assert -0.1 <= float(shape.get(name, 0)) <= svg_charts.HEIGHT
        assert float(shape.get("x", 0)) + float(shape.get("width", 0)) <= svg_charts.WIDTH
        assert float(shape.get("height", 0)) >= 0
    return shapes


@given(st.lists(st.tuples(labels, counts, counts), min_size=1, max_size=14))
def test_columns_and_stacks_fit_their_picture(parts: list[tuple[str, int, int]]):
    elements_in(
        svg_charts.column_chart(
            [svg_charts.ChartColumn(label=word, first=a, second=min(a, b)) for word, a, b in parts], axis="", legend="x"
        )
    )
    elements_in(
        svg_charts.stacked_column_chart(
            [svg_charts.ChartColumn(label=word, first=a, second=b) for word, a, b in parts], axis="", legend=("a", "b")
        )
    )


@given(st.lists(st.tuples(labels, st.integers(1, 10**9)), max_size=20))
def test_rows_fit_their_picture_and_the_eighth_code_is_one_of_others(rows: list[tuple[str, int]]):
    bars = [shape for shape in elements_in(svg_charts.bar_chart(rows, axis="refused")) if shape.get("class") == "bar"]
    assert len(bars) == min(len(rows), svg_charts.MAX_BARS)


@given(st.lists(st.tuples(labels, lengths, lengths, lengths), min_size=1, max_size=4))
def test_durations_fit_their_picture_from_zero_to_decades(lines: list[tuple[str, timedelta, timedelta, timedelta]]):
    drawn = []
    for label, *three in lines:
        p10, p50, p90 = sorted(three)
        drawn.append(
            svg_charts.TimeRange(label=label, p10=p10, p50=p50, p90=p90, at_median="1 min", at_end="90 % within 2 min")
        )
    elements_in(svg_charts.range_chart(drawn, axis="log"))


@given(st.lists(st.tuples(labels, st.none() | st.floats(0, 100)), min_size=1, max_size=14))
def test_a_curve_fits_its_picture_and_has_gaps_for_missing_values(points: list[tuple[str, float | None]]):
    shapes = elements_in(svg_charts.line_chart(points, axis="%"))
    assert sum(shape.tag == "circle" for shape in shapes) == sum(share is not None for _, share in points)
    drawn = [len(shape.get("points", "").split()) for shape in shapes if shape.tag == "polyline"]
    runs = [len(list(run)) for run in re.findall("x+", "".join("." if it is None else "x" for _, it in points))]
    assert drawn == [length for length in runs if length > 1]


def test_a_label_is_never_markup():
    picture = svg_charts.svg_picture(svg_charts.bar_chart([('<script>"&', 3)], axis="x"), label='"><script>')
    assert "<script" not in picture


@pytest.mark.parametrize(
    ("highest", "step"), [(0, 1), (1, 1), (5, 1), (6, 2), (10, 2), (11, 5), (26, 10), (101, 50), (999, 200)]
)
def test_an_axis_has_round_steps(highest: int, step: int):
    assert svg_charts.nice_step(highest, most=5) == step


@pytest.mark.parametrize(
    ("part", "whole", "words"), [(0, 3, "0.0 %"), (2, 3, "66.6 %"), (1999, 2000, "99.9 %"), (7, 7, "100 %")]
)
def test_only_all_of_them_are_a_hundred_percent(part: int, whole: int, words: str):
    assert percent(part, whole) == words


def texts_at(shapes: svg_charts.SvgElements) -> list[tuple[str, float, float]]:
    return [
        (words, float(x), float(y))
        for shape in shapes
        for x, y, words in re.findall(r'<text[^>]* x="([\d.-]+)" y="([\d.-]+)">([^<]*)</text>', shape)
    ]


def test_marks_of_a_long_time_axis_do_not_overprint_each_other():
    second, years = timedelta(seconds=1), timedelta(days=3000)
    line = svg_charts.TimeRange(label="High", p10=second, p50=second, p90=years, at_median="1 s", at_end="8 y")
    marks = [(words, x) for words, x, y in texts_at(svg_charts.range_chart([line], axis="")) if y == 188]
    assert len(marks) > 3
    for (left, x1), (right, x2) in pairwise(marks):
        assert x2 - x1 >= (len(left) + len(right)) * svg_charts.CHARACTER_WIDTH / 2


def test_two_values_of_a_curve_side_by_side_have_one_label():
    points: list[tuple[str, float | None]] = [(f"{day} Nov", None) for day in range(1, 29)]
    shapes = svg_charts.line_chart([*points, ("29 Nov", 50.0), ("30 Nov", 100.0)], axis="")
    assert [words for words, _, _ in texts_at(shapes) if words.endswith("%")] == ["100 %"]
