from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

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
    (threshold,) = [line for line in page.all("line") if "stroke-dasharray" in line]
    assert float(threshold["x1"]) == pytest.approx((places[0] + places[1]) / 2, abs=0.2), "1.0 lies half-way"
    (shade,) = page.all("rect")
    assert float(shade["x"]) == pytest.approx(float(threshold["x1"])) and float(shade["width"]) > 0, "above it, met"
    (picture,) = page.all("svg")
    assert picture["role"] == "img" and "gain: 1.95 [" in picture["aria-label"]
    for word in ("reproduced 4/5", "It gains.", "Seed 7 failed:", "no luck", "6 runs"):
        assert word in page.text, word


def test_the_page_needs_nothing_else_and_runs_nothing() -> None:
    hostile = "<script>alert(1)</script> & \"quotes\" 'too'"
    text = html_report(summarize([record(0, claim(1.0, statement=hostile)), failed(1, hostile)]), hostile)
    page = Page(text)
    assert page.all("script") == [] and hostile in page.text
    assert not re.search(r"(src|href|url)\s*[=(]|@import|https?:", text)


@pytest.mark.parametrize("values", [
    [0.0], [1.0, 1.0, 1.0], [-3.0, -1e-9, 5.0], [1e-12, 1e12], [1.0] * 200, [-2.0, -2.0],
])  # fmt: skip
def test_every_dot_is_inside_the_picture_and_none_hides_another(values: list[float]) -> None:
    page = Page(html_report(summarize(record(n, claim(v)) for n, v in enumerate(values)), "x"))
    (picture,) = page.all("svg")
    width, height = map(float, picture["viewbox"].split()[2:])
    dots = [(float(dot["cx"]), float(dot["cy"])) for dot in page.all("circle")]
    assert len(dots) == len(values) == len(set(dots))
    assert all(0 < x < width and 0 < y < height for x, y in dots)
    for line in page.all("line"):
        assert all(0 <= float(line[end]) <= width for end in ("x1", "x2"))


def test_side_of_the_condition() -> None:
    for relation, left in ((">=", False), ("<", True), ("<=", True), (">", False)):
        each = [claim(value) for value in VALUES]
        for one in each:
            one["measurements"][0]["relation"] = relation
        page = Page(html_report(summarize(record(n, one) for n, one in enumerate(each)), "x"))
        (shade,) = page.all("rect")
        assert (float(shade["x"]) == 20.0) is left


def test_no_runs() -> None:
    assert "There are no runs." in Page(html_report(summarize([]), "x")).text
