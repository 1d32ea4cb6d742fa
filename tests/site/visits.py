"""One visit to every page of a site, and what was seen there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tests.site.browser import Watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")

# Folded parts are unfolded, so that what they hold is looked at too; nothing is caught halfway through a transition.
UNFOLD = """() => {
  document.querySelectorAll("details").forEach((details) => (details.open = true));
  const style = document.createElement("style");
  style.textContent = "*, ::before, ::after { transition: none !important; animation: none !important }";
  document.head.append(style);
}"""
# Images below the fold load when they are scrolled to; those of the other theme never do.
SCROLLED = """() => [...document.images].filter((image) => image.checkVisibility())
  .forEach((image) => (image.loading = "eager"))"""
LOADED = "() => [...document.images].every((image) => image.complete || !image.checkVisibility())"
TYPESET = "() => !window.MathJax?.startup?.promise || MathJax.startup.promise.then(() => true)"
BROKEN_IMAGES = """() => [...document.images]
  .filter((image) => image.checkVisibility() && image.naturalWidth === 0)
  .map((image) => image.outerHTML.slice(0, 200))"""
NAMELESS = """() => [...document.querySelectorAll("main img, main svg")]
  .filter((picture) => picture.checkVisibility() && !picture.closest("[aria-hidden=true], mjx-container, button, a"))
  .filter((picture) => !(picture.getAttribute("alt") ?? picture.getAttribute("aria-label") ?? "").trim())
  .map((picture) => picture.outerHTML.slice(0, 200))"""
MATHEMATICS = """() => ({
  written: document.querySelectorAll(".math").length,
  typeset: document.querySelectorAll(".math > mjx-container").length,
  errors: [...document.querySelectorAll("mjx-merror, [data-mjx-error]")].map((error) => error.textContent),
})"""
TOO_WIDE = """() => document.scrollingElement.scrollWidth <= innerWidth ? [] :
  [...document.querySelectorAll("body *")]
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 5)
    .map((element) => element.outerHTML.slice(0, 160))"""
# What juts out to the left of a box cannot be scrolled to.
UNREACHABLE = """() => [...document.querySelectorAll("main *")]
  .filter((element) => element.checkVisibility() && element.getBoundingClientRect().left < -1)
  .filter((element) => !element.closest("mjx-assistive-mml, thead, svg, .visually-hidden"))
  .slice(0, 5)
  .map((element) => element.outerHTML.slice(0, 160))"""


@dataclass
class Visit:
    """What was seen on a page."""

    errors: list[str]
    left: list[str]
    failed: list[str]
    weight: int
    broken_images: list[str]
    nameless_pictures: list[str]
    mathematics: dict[str, Any]
    too_wide: list[str]
    unreachable: list[str]
    contrast: dict[str, list[str]] = field(default_factory=dict)
    texts: int = 0


def settle(page: Page) -> None:
    """Wait until everything has loaded, the images below the fold too, and every equation stands."""
    page.evaluate(SCROLLED)
    page.wait_for_load_state("networkidle")
    page.evaluate(TYPESET)
    page.wait_for_function(LOADED)


def visit(browser: Browser, origin: str, site: Path, address: str) -> Visit:
    """Open the page on a desktop screen, then look at it in both themes and on a phone."""
    with Watched(browser, origin=origin, viewport=DESKTOP, reduced_motion="reduce") as watched:
        page = watched.page
        failed: list[str] = []
        asked: set[str] = set()
        page.on("requestfailed", lambda request: failed.append(f"{request.url}: {request.failure}"))
        page.on("response", lambda reply: reply.status < 400 or failed.append(f"{reply.url}: {reply.status}"))
        page.on("request", lambda request: asked.add(urlsplit(request.url).path))
        page.goto(f"{origin}/{address}")
        page.evaluate(UNFOLD)
        settle(page)
        found: dict[str, Any] = {
            name: page.evaluate(script)
            for name, script in (
                ("broken_images", BROKEN_IMAGES),
                ("nameless_pictures", NAMELESS),
                ("mathematics", MATHEMATICS),
            )
        }
        files = {site / unquote(path).lstrip("/") for path in asked}
        weight = sum(file.stat().st_size for file in files if file.is_file())
        contrast, texts = {}, 0
        for size, viewport in (("desktop", DESKTOP), ("phone", PHONE)):
            page.set_viewport_size(viewport)  # type: ignore[arg-type]
            for theme in ("light", "dark"):
                page.evaluate("theme => Object.assign(document.documentElement.dataset, {theme, mode: theme})", theme)
                seen = page.evaluate(CONTRAST)
                contrast[f"{size}, {theme}"] = seen["failures"]
                texts += seen["count"]
        found |= {"too_wide": page.evaluate(TOO_WIDE), "unreachable": page.evaluate(UNREACHABLE)}
        settle(page)  # in the dark theme, whose pictures have not been asked for before
        found["broken_images"] += page.evaluate(BROKEN_IMAGES)
        return Visit(watched.errors, watched.left, failed, weight, contrast=contrast, texts=texts, **found)


def shortcomings(visits: dict[str, Visit], of: Callable[[Visit], Any]) -> dict[str, Any]:
    """What a look at each page finds fault with, by page; pages without fault are left out."""
    return {page: fault for page, seen in visits.items() if (fault := of(seen))}
