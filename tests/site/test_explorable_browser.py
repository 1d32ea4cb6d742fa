"""The static player in a browser that reaches nothing: what a reader of the site sees, touches and types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from nips26lib.chapter.explore import Choice, Slider, frame, output, places_for
from nips26lib.chapter.figures import INK, style
from tests.site.browser import Watched, launch, requires_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.browser, requires_chromium]

AMPLITUDES = (0.5, 1.0, 1.5, 2.0)
SHAPES = ("sine", "square", "line")
ALT = "A wave over time; its height grows with the amplitude."


def wave(amplitude: float, shape: str) -> Figure:
    figure, axes = plt.subplots()
    time = np.linspace(0, 1, 50)
    height = {"sine": np.sin(6 * time), "square": np.sign(np.sin(6 * time)), "line": time}[shape]
    axes.plot(time, amplitude * height)
    axes.fill_between(time, 0, amplitude * height, alpha=0.2)
    axes.set(xlabel="time [s]", ylabel="height [m]", ylim=(-1.2, 1.2), title=f"{shape}, {amplitude:g}")  # clipped
    return figure


def bars(count: int) -> Figure:
    figure, axes = plt.subplots(figsize=(4, 3))
    axes.bar(range(count), range(1, count + 1))
    axes.set(xlabel="number", ylabel="size")
    return figure


WAVE = {
    "amplitude": Slider(AMPLITUDES, 1.0, "Amplitude of the wave", format="{:.1f} m"),
    "shape": Choice(SHAPES, "sine", "Shape"),
}


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with two explorables, the second one twice, and a theme that follows the reader's system."""
    with plt.rc_context(style()):
        first = output(
            wave,
            WAVE,
            title="A wave",
            alt=ALT,
            caption="It is clipped at 1.2 m.",
        )["text/html"]
        second = output(
            bars, {"count": Slider((1, 2, 3), 2, "Bars")}, title="Bars", alt="Bars that rise from left to right."
        )["text/html"]
    file = tmp_path_factory.mktemp("page") / "page.html"
    light = "body{font:16px sans-serif;margin:16px;background:#fff;color:#222}"
    dark = "@media (prefers-color-scheme:dark){body{background:#121212;color:#ced6dd}}"
    file.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Page</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{light}{dark}</style></head><body>{first}<p>Between.</p>{second}{second}</body></html>",
        encoding="utf-8",
    )
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as started:
        yield started


@pytest.fixture
def open_page(browser: Browser, page_file: Path) -> Iterator[Any]:
    """Opens the page, its network cut; at the end no request may have left and nothing may have gone wrong."""
    opened: list[Watched] = []

    def open_with(**context: Any) -> Page:
        watched = Watched(browser, **context)
        opened.append(watched)
        watched.page.goto(page_file.as_uri())
        if context.get("java_script_enabled", True):
            watched.page.wait_for_function("document.querySelectorAll('.nips26-picture svg').length === 3")
        return watched.page

    yield open_with
    for watched in opened:
        assert watched.errors == []
        assert watched.left == []
        watched.context.close()


def player(page: Page, number: int = 0) -> Locator:
    return page.locator(".nips26-explorable").nth(number)


def shown(root: Locator) -> str:
    return root.locator(".nips26-picture").evaluate("node => node.innerHTML")


def expected(page: Page, svg: str, number: int = 1) -> str:
    """A freshly computed frame as this browser writes it after parsing."""
    svg = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>nips26-{number}-", svg).replace(INK, "currentColor")
    return page.evaluate(
        "svg => { const box = document.createElement('div'); box.innerHTML = svg; return box.innerHTML }", svg
    )


def without_label(markup: str) -> str:
    return re.sub(r' role="img" aria-label="[^"]*"', "", markup)


def fresh(amplitude: float, shape: str) -> str:
    with plt.rc_context(style()):
        return frame(wave, {"amplitude": amplitude, "shape": shape}, places_for(wave, WAVE))


def test_every_point_of_the_grid_shows_the_figure_of_a_fresh_computation(open_page):
    page = open_page()
    root = player(page)
    slider, select = root.locator("input[type=range]"), root.locator("select")
    seen = set()
    slider.focus()
    page.keyboard.press("Home")
    for amplitude in AMPLITUDES:
        for shape in SHAPES:
            select.select_option(label=shape)
            assert without_label(shown(root)) == expected(page, fresh(amplitude, shape))
            assert root.locator("output").inner_text() == f"{amplitude:.1f} m"
            seen.add(shown(root))
        slider.focus()
        page.keyboard.press("ArrowRight")
    assert len(seen) == len(AMPLITUDES) * len(SHAPES)


def test_untouched_it_shows_the_default_and_says_so(open_page):
    page = open_page()
    root = player(page)
    assert without_label(shown(root)) == expected(page, fresh(1.0, "sine"))
    assert page.get_by_role("img", name=f"{ALT} (Amplitude of the wave: 1.0 m, Shape: sine)").count() == 1
    assert page.get_by_role("group", name="A wave").count() == 1


def test_the_controls_carry_names_and_values_for_a_screen_reader(open_page):
    page = open_page()
    slider = page.get_by_role("slider", name="Amplitude of the wave", exact=True)
    assert slider.get_attribute("aria-valuetext") == "1.0 m"
    slider.press("End")
    assert slider.get_attribute("aria-valuetext") == "2.0 m"
    page.get_by_role("combobox", name="Shape", exact=True).select_option(label="line")
    assert page.get_by_role("img", name="(Amplitude of the wave: 2.0 m, Shape: line)").count() == 1


def test_players_on_one_page_are_independent(open_page):
    page = open_page()
    others = [shown(player(page, number)) for number in (0, 2)]
    before = shown(player(page, 1))
    player(page, 1).locator("input").press("ArrowRight")
    assert shown(player(page, 1)) != before
    assert [shown(player(page, number)) for number in (0, 2)] == others


def test_no_id_occurs_twice_and_every_reference_has_its_target(open_page):
    page = open_page()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(node => node.id)")
    assert len(ids) > 10 and len(set(ids)) == len(ids)
    for number in range(3):
        markup = shown(player(page, number))
        targets = re.findall(r'href="#([^"]+)"|url\((?:&quot;|")?#([^")&]+)', markup)
        inside = set(re.findall(r'\sid="([^"]+)"', markup))
        assert targets and {one or other for one, other in targets} <= inside


def test_a_script_that_runs_again_changes_nothing(open_page):
    page = open_page()
    player(page).locator("input").press("End")
    before = page.locator("body").inner_html()
    page.evaluate(
        """() => {
            const old = document.querySelector('.nips26-explorable > script:last-of-type');
            const script = document.createElement('script');
            script.textContent = old.textContent;
            document.head.append(script);
        }"""
    )
    page.wait_for_timeout(200)
    assert page.locator("body").inner_html() == before


@pytest.mark.parametrize("saved_at", ["Home", "End"])
def test_a_page_saved_from_the_browser_still_works(open_page, page_file, saved_at, tmp_path):
    page = open_page()
    player(page).locator("input").press(saved_at)
    copy = tmp_path / "saved.html"
    copy.write_text(page.content(), encoding="utf-8")
    page.goto(copy.as_uri())
    page.wait_for_function("document.querySelectorAll('.nips26-controls').length === 3")
    root = player(page)
    page.wait_for_function("document.querySelector('output').textContent === '1.0 m'")
    assert root.locator("input").count() == 1
    root.locator("input").press("ArrowRight")
    assert without_label(shown(root)) == expected(page, fresh(1.5, "sine"))


def test_on_a_phone_nothing_overflows_and_targets_are_large(open_page):
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for control in page.locator(".nips26-explorable :is(input, select)").all():
        box = control.bounding_box()
        assert box["height"] >= 44 and box["x"] >= 0 and box["x"] + box["width"] <= 390
    box = player(page).locator("input").bounding_box()
    before = shown(player(page))
    page.touchscreen.tap(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
    assert player(page).locator("output").inner_text() == "2.0 m"
    assert shown(player(page)) != before


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_does_not_jump(open_page, width):
    page = open_page(viewport={"width": width, "height": 844})
    tall = "document.documentElement.scrollHeight"
    heights = {page.evaluate(tall)}
    for key in ("End", "Home"):
        player(page).locator("input").press(key)
        heights.add(page.evaluate(tall))
    assert len(heights) == 1


def test_without_scripts_the_default_frames_stand_as_pictures(open_page):
    page = open_page(java_script_enabled=False)
    assert page.locator(".nips26-controls").count() == 0
    pictures = page.locator(".nips26-explorable img")
    assert pictures.count() == 3
    assert page.get_by_role("img", name=ALT, exact=True).is_visible()
    box = pictures.first.bounding_box()
    assert box["width"] == pytest.approx(6.4 * 96, abs=1) and box["height"] == pytest.approx(3.6 * 96, abs=1)


def test_without_scripts_the_picture_fits_a_phone(open_page):
    page = open_page(java_script_enabled=False, viewport={"width": 390, "height": 844})
    box = page.locator(".nips26-explorable img").first.bounding_box()
    assert box["x"] + box["width"] <= 390
    assert box["width"] / box["height"] == pytest.approx(6.4 / 3.6, rel=0.02)


CONTRAST = """() => {
    const light = (colour) => {
        const part = colour.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255)
            .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
        return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
    };
    const ground = light(getComputedStyle(document.body).backgroundColor);
    const ratio = (colour) => (Math.max(light(colour), ground) + 0.05) / (Math.min(light(colour), ground) + 0.05);
    const all = (selector) => [...document.querySelectorAll(`.nips26-explorable ${selector}`)];
    const text = all(':is(label, output, select, strong, figcaption, svg)');
    const inked = all('svg [style]').filter((node) => /fill: ?currentcolor/i.test(node.getAttribute('style')));
    return {
        text: text.map((node) => ratio(getComputedStyle(node).color)),
        ground: text.map((node) => getComputedStyle(node).backgroundColor),
        ink: inked.map((node) => ratio(getComputedStyle(node).fill)),
    };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_ink_can_be_read_in_both_themes(open_page, scheme):
    page = open_page(color_scheme=scheme)
    found = page.evaluate(CONTRAST)
    assert len(found["text"]) >= 15 and min(found["text"]) >= 4.5
    assert set(found["ground"]) == {"rgba(0, 0, 0, 0)"}
    assert len(found["ink"]) >= 6 and min(found["ink"]) >= 4.5


def test_a_browser_that_cannot_unpack_keeps_the_picture_and_says_so(browser, page_file):
    with Watched(browser) as watched:
        watched.page.add_init_script("delete window.DecompressionStream")
        watched.page.goto(page_file.as_uri())
        watched.page.locator(".nips26-failed").first.wait_for()
        assert player(watched.page).locator("img").is_visible()
        assert "did not start" in player(watched.page).locator(".nips26-failed").inner_text()


def test_it_starts_where_a_module_loader_is_around(browser, page_file, tmp_path):
    """An AMD loader (require.js in older notebook views) must neither be needed nor be addressed."""
    file = tmp_path / "amd.html"
    loader = "<script>window.define=()=>{throw Error('define called')};define.amd={};window.require=define</script>"
    file.write_text(page_file.read_text(encoding="utf-8").replace("<head>", f"<head>{loader}"), encoding="utf-8")
    with Watched(browser) as watched:
        watched.page.goto(file.as_uri())
        watched.page.wait_for_function("document.querySelectorAll('.nips26-picture svg').length === 3")
        assert watched.errors == []
