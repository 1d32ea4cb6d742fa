from __future__ import annotations

import dataclasses
import math
import re
from html.parser import HTMLParser

import pytest
from scipy import stats

from nips26lib.chapter.figures import PALETTE
from nips26lib.runs.report import html_report
from nips26lib.runs.summary import summarize
from tests.runs.test_summary import VALUES, claim, failed, five, record

VOID = {"meta", "line", "rect", "circle", "polygon"}


class Page(HTMLParser):
    """Reads a page, and that every element is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_a_dot_a_run_in_the_order_of_the_values() -> None:
    page = Page(html_report(summarize([*five(), failed(7, "no luck")]), "Claims over runs"))
    dots = page.all("circle")
    places = [float(dot["cx"]) for dot in dots]
    assert len(dots) == 5 and [sorted(places).index(place) for place in places] == [0, 2, 3, 4, 1]
    # Linear: the same step of the value is the same step on the axis.
    assert places[2] - places[1] == pytest.approx(places[1] - places[0], abs=0.2)
    assert [dot["fill"] for dot in dots] == ["var(--ground)", *["var(--dot)"] * 4], "hollow where it is not met"
    (threshold,) = [line for line in page.all("line") if "stroke-dasharray" in line]
    assert float(threshold["x1"]) == pytest.approx((places[0] + places[1]) / 2, abs=0.2), "1.0 lies half-way"
    (shade,) = page.all("rect")
    assert float(shade["x"]) == pytest.approx(float(threshold["x1"])) and float(shade["width"]) > 0, "above it, met"
    (picture,) = page.all("svg")
    assert picture["role"] == "img" and "gain: 1.95 [" in picture["aria-label"]
    for word in ("reproduced 4/5", "It gains.", "Seed 7 failed:", "no luck", "6 runs"):
        assert word in page.text, word


def test_the_page_needs_nothing_else_and_runs_nothing() -> None:
    hostile = "<script>alert(1)</script> & \"onload='x' quotes\" 'too'"
    spoilt = claim(1.0, hostile, statement=hostile, reason=hostile)
    spoilt["measurements"][0] |= {"quantity": hostile, "unit": hostile}
    odd = {**spoilt, "statement": "another"}
    runs = [record(0, spoilt), failed(1, hostile), record(2, odd)]
    each = [dataclasses.replace(run, chapter=hostile, overrides={hostile: 1}) for run in runs]
    text = html_report(summarize(each), hostile)
    page = Page(text)
    assert page.all("script") == [] and page.text.count("<script>") >= 8
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert {tag for tag, _ in page.elements} <= {
        "html", "head", "meta", "title", "style", "body", "main", "section", "h1", "h2", "h3", "p", "ul", "li", "code",
        "div", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "svg", "text", *VOID,
    }  # fmt: skip
    assert not re.search(r"(src|href|url)\s*[=(]|@import|https?:", text)


@pytest.mark.parametrize("values", [
    [0.0], [1.0, 1.0, 1.0], [-3.0, -1e-9, 5.0], [1e-12, 1e12], [1.0] * 1000, [-2.0, -2.0], [1.5e308, -1.5e308],
    [5e-324], [2, 3], [n / 100 for n in range(1000)],
])  # fmt: skip
def test_every_dot_is_inside_the_picture_and_none_hides_another(values: list[float]) -> None:
    page = Page(html_report(summarize(record(n, claim(v)) for n, v in enumerate(values)), "x"))
    (picture,) = page.all("svg")
    width, height = map(float, picture["viewbox"].split()[2:])
    dots = [(float(dot["cx"]), float(dot["cy"]), float(dot["r"])) for dot in page.all("circle")]
    assert len(dots) == len(values) == len(set(dots))
    assert all(r < x < width - r and r < y < height - r for x, y, r in dots)
    assert height < 300
    for line in page.all("line"):
        assert all(0 <= float(line[end]) <= width for end in ("x1", "x2"))
        assert all(0 <= float(line[end]) <= height for end in ("y1", "y2"))


def test_dots_that_fit_do_not_touch() -> None:
    page = Page(html_report(summarize(record(n, claim(1 + n % 7 / 40)) for n in range(60)), "x"))
    dots = [(float(dot["cx"]), float(dot["cy"]), float(dot["r"])) for dot in page.all("circle")]
    for n, (x, y, r) in enumerate(dots):
        assert all(math.hypot(x - a, y - b) >= 2 * r for a, b, _ in dots[:n])


def test_the_interval_is_drawn_where_it_is() -> None:
    page = Page(html_report(summarize(five()), "x"))
    places = [float(dot["cx"]) for dot in page.all("circle")]
    scale = (places[3] - places[0]) / (VALUES[3] - VALUES[0])
    ends = stats.t.interval(0.95, 4, loc=1.95, scale=stats.sem(VALUES))
    (bar,) = [line for line in page.all("line") if line.get("stroke-width") == "3"]
    for name, end in zip(("x1", "x2"), ends, strict=True):
        assert float(bar[name]) == pytest.approx(places[0] + (end - VALUES[0]) * scale, abs=0.2)


def test_the_table_scrolls_in_a_frame_of_its_own_and_holds_every_claim() -> None:
    untested = {"id": "C2", "statement": "It scales.", "verdict": "not testable here", "measurements": []}
    untested["reason"] = "It needs <more>."
    summary = summarize([*(record(n, claim(v), untested) for n, v in enumerate(VALUES)), record(9, claim(2.0))])
    text = html_report(summary, "x")
    page = Page(text)
    names = [name for name, _ in page.elements]
    frame = names.index("table") - 1
    assert page.elements[frame][1]["class"] == "wide" and ".wide { overflow-x: auto;" in text
    assert len(page.all("tr")) == 3 and len(page.all("td")) == 12 and len(page.all("th")) == 6
    for word in ("reproduced 5/6", "not testable here", "It needs <more>.", "Note: missing in seed 9: 'C2'"):
        assert word in page.text, word


def test_colours_are_legible_in_both_schemes() -> None:
    text = html_report(summarize(five()), "x")
    light, dark = text.split("@media (prefers-color-scheme: dark)")
    assert f"--dot: {PALETTE[0]};" in light
    for scheme in (light, dark):
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", scheme))
        against = {name: contrast(colour, colours["ground"]) for name, colour in colours.items()}
        assert min(against["ink"], against["soft"]) >= 4.5
        assert min(against[name] for name in ("dot", "good", "bad", "line")) >= 3


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, relative luminance and contrast ratio."""

    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def test_side_of_the_condition() -> None:
    for relation, left in ((">=", False), ("<", True), ("<=", True), (">", False)):
        each = [claim(value) for value in VALUES]
        for one in each:
            one["measurements"][0]["relation"] = relation
        page = Page(html_report(summarize(record(n, one) for n, one in enumerate(each)), "x"))
        (shade,) = page.all("rect")
        (edge,) = [float(line["x1"]) for line in page.all("line") if "stroke-dasharray" in line]
        left_end, right_end = float(shade["x"]), float(shade["x"]) + float(shade["width"])
        assert (right_end if left else left_end) == pytest.approx(edge, abs=0.11)
        assert (left_end == 20.0) is left and right_end - left_end > 20


def test_no_runs() -> None:
    assert "There are no runs." in Page(html_report(summarize([]), "x")).text
