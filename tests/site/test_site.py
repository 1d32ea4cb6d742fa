"""The built sites in a browser that can reach nothing but the site itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.site.browser import Watched, launch, requires_chromium
from tests.site.building import pages, serving
from tests.site.visits import CONTRAST, PHONE, Visit, settle, shortcomings, visit

pytestmark = [requires_chromium, pytest.mark.browser, pytest.mark.timeout(900), pytest.mark.xdist_group("site")]

PICTURE = "() => document.activeElement.closest('.nips26-explorable').querySelector('.nips26-picture').innerHTML"
SECOND_PICTURES = "() => [...document.querySelectorAll('.only-dark')].filter((image) => image.checkVisibility()).length"
LARGEST_PAGE = 3_000_000  # bytes, with everything that it loads


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with launch() as started:
        yield started


@pytest.fixture(scope="module")
def origin(site: Path) -> Iterator[str]:
    with serving(site) as address:
        yield address


@pytest.fixture(scope="module")
def visits(browser, origin: str, site: Path) -> dict[str, Visit]:
    return {page: visit(browser, origin, site, page) for page in pages(site)}


def test_it_has_the_pages_of_a_book(visits: dict[str, Visit]) -> None:
    expected = {"book/index.html", "book/reading-guide.html", "book/reproducibility.html", "search.html"}
    assert expected <= visits.keys()
    assert not shortcomings(visits, lambda seen: seen.texts < 20)


def test_no_request_leaves_the_site(visits: dict[str, Visit]) -> None:
    assert not shortcomings(visits, lambda seen: seen.left)


def test_every_request_is_answered(visits: dict[str, Visit]) -> None:
    assert not shortcomings(visits, lambda seen: seen.failed)


def test_no_console_error(visits: dict[str, Visit]) -> None:
    assert not shortcomings(visits, lambda seen: seen.errors)


def test_every_equation_is_typeset(visits: dict[str, Visit]) -> None:
    assert not shortcomings(visits, lambda seen: seen.mathematics["errors"])
    assert not shortcomings(
        visits,
        lambda seen: seen.mathematics if seen.mathematics["written"] != seen.mathematics["typeset"] else None,
    )


def test_every_image_is_loaded_and_has_a_text(visits: dict[str, Visit]) -> None:
    assert not shortcomings(visits, lambda seen: seen.broken_images)
    assert not shortcomings(visits, lambda seen: seen.nameless_pictures)


def test_nothing_is_wider_than_a_phone(visits: dict[str, Visit]) -> None:
    assert not shortcomings(visits, lambda seen: seen.too_wide)
    assert not shortcomings(visits, lambda seen: seen.unreachable)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_all_text_stands_out(visits: dict[str, Visit], size: str, theme: str) -> None:
    assert not shortcomings(visits, lambda seen: seen.contrast[f"{size}, {theme}"])


def test_pages_are_light(visits: dict[str, Visit]) -> None:
    assert not shortcomings(visits, lambda seen: seen.weight if seen.weight > LARGEST_PAGE else None)


def test_the_top_of_the_site_leads_to_the_book(browser, origin: str) -> None:
    with Watched(browser, origin=origin) as watched:
        watched.page.goto(origin)
        watched.page.wait_for_url("**/book/index.html")
        assert "executable" in watched.page.title()


@pytest.mark.parametrize("page", ["book/index.html", "book/reading-guide.html", "book/reproducibility.html"])
def test_a_page_is_readable_without_scripts(browser, origin: str, page: str) -> None:
    with Watched(browser, origin=origin) as watched:
        watched.page.goto(f"{origin}/{page}")
        settle(watched.page)
        with_scripts = watched.page.locator("article").inner_text()
    with Watched(browser, origin=origin, java_script_enabled=False) as watched:
        watched.page.goto(f"{origin}/{page}")
        article = watched.page.locator("article")
        assert article.is_visible()
        assert article.inner_text().split() == with_scripts.split()
        assert not watched.page.evaluate(CONTRAST)["failures"]
        assert not watched.page.evaluate(SECOND_PICTURES)


def test_search_finds_a_page_by_a_word_in_it(browser, origin: str) -> None:
    with Watched(browser, origin=origin) as watched:
        watched.page.goto(f"{origin}/search.html?q=overrides")
        hit = watched.page.locator('#search-results a[href*="reading-guide.html"]').first
        hit.wait_for()
        hit.click()
        watched.page.wait_for_url("**/book/reading-guide.html*")
        assert not watched.errors
        assert not watched.left


def test_the_theme_switch_changes_the_page(browser, origin: str) -> None:
    with Watched(browser, origin=origin, color_scheme="light") as watched:
        watched.page.goto(f"{origin}/book/index.html")
        ground = "() => getComputedStyle(document.body).backgroundColor"
        before = watched.page.evaluate(ground)
        for _ in range(3):
            watched.page.locator(".theme-switch-button").first.click()
            if watched.page.evaluate("document.documentElement.dataset.theme") == "dark":
                break
        watched.page.wait_for_function(f"before => ({ground})() !== before", arg=before)


def test_explorables_are_reached_and_moved_by_keyboard(browser, origin: str, site: Path) -> None:
    with_one = [page for page in pages(site) if "nips26-frames" in (site / page).read_text(encoding="utf-8")]
    inside = "() => Boolean(document.activeElement.closest('.nips26-explorable'))"
    for page in with_one:
        with Watched(browser, origin=origin, viewport=PHONE) as watched:
            watched.page.goto(f"{origin}/{page}")
            settle(watched.page)
            watched.page.locator(".nips26-explorable input, .nips26-explorable select").first.wait_for()
            for _ in range(400):
                watched.page.keyboard.press("Tab")
                if watched.page.evaluate(inside):
                    break
            assert watched.page.evaluate(inside), f"{page}: Tab never reached an explorable"
            pictures = []
            for key in ("Home", "End"):
                watched.page.keyboard.press(key)
                pictures.append(watched.page.evaluate(PICTURE))
            assert pictures[0] != pictures[1], f"{page}: the keys changed nothing"


def test_a_chapter_works_when_opened_as_a_file(browser, fixture_book: Path) -> None:
    site = fixture_book / "_build" / "html"
    with Watched(browser) as watched:
        watched.page.goto((site / "book" / "guarantees" / "tiny.html").as_uri())
        settle(watched.page)
        watched.page.wait_for_function("() => document.querySelector('.math > mjx-container')")
        assert watched.page.locator(".math").count() == watched.page.locator(".math > mjx-container").count()
        watched.page.locator(".nips26-explorable input").first.wait_for()
        assert not watched.errors
        assert not watched.left
