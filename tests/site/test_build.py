"""The built files: links, sources, what the directives put there, and what an address of the repository changes."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import yaml

from tests.site.building import ROOT, build, pages

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("site")]

LOADING = {tag: "src" for tag in ("script", "img", "iframe", "source", "video", "audio")} | {"link": "href"}


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids.update(value for name, value in found.items() if name in ("id", "name") and value)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADING and LOADING[tag] in found:
            self.loads.append(found[LOADING[tag]])


def read(site: Path) -> dict[str, _Page]:
    return {page: _Page((site / page).read_text(encoding="utf-8")) for page in pages(site)}


def test_every_link_inside_the_site_leads_somewhere(site: Path) -> None:
    found, broken = read(site), []
    for page, content in found.items():
        for link in content.links:
            if urlsplit(link).scheme:
                continue
            target = urlsplit(urljoin(f"http://site/{page}", link))
            path, fragment = unquote(target.path).lstrip("/"), unquote(target.fragment)
            if not (site / path).is_file() or (fragment and path in found and fragment not in found[path].ids):
                broken.append(f"{page}: {link}")
    assert not broken


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    foreign = {page: [load for load in content.loads if urlsplit(load).netloc] for page, content in read(site).items()}
    assert not {page: loads for page, loads in foreign.items() if loads}


def test_no_page_points_at_a_place_to_run_it_that_is_not_known(fixture_book: Path) -> None:
    site = fixture_book / "_build" / "html"
    for page, content in read(site).items():
        hosts = {urlsplit(link).netloc for link in content.links} - {""}
        assert not hosts & {"github.com", "mybinder.org", "colab.research.google.com"}, page


def test_the_notebook_can_be_downloaded(fixture_book: Path) -> None:
    site = fixture_book / "_build" / "html"
    links = _Page((site / "book/guarantees/tiny.html").read_text(encoding="utf-8")).links
    assert [link for link in links if link.endswith(".ipynb")] == ["../../_sources/book/guarantees/tiny.ipynb"]


def test_cited_source_has_its_own_page(fixture_book: Path) -> None:
    site = fixture_book / "_build" / "html"
    chapter = (site / "book/guarantees/tiny.html").read_text(encoding="utf-8")
    links = [link for link in _Page(chapter).links if "/sources/" in link]
    code = (fixture_book / "nips26lib/chapter/figures.py").read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(code, 1) if text.startswith("def figure_png("))
    assert links == [f"../../sources/nips26lib/chapter/figures.py.html#L{line}"]
    assert f'id="L{line}"' in (site / "sources/nips26lib/chapter/figures.py.html").read_text(encoding="utf-8")


def test_the_map_shows_the_chapters_that_exist(fixture_book: Path) -> None:
    page = (fixture_book / "_build/html/book/index.html").read_text(encoding="utf-8")
    assert "Does x &lt; y survive the trip &amp; arrive as text?" in page
    assert "1 not testable at this preset" in page
    assert "Three curves fall with the dose &amp; never cross." in page
    assert "A chapter without a notebook" not in page
    assert "Optimization" not in page


def test_reproducibility_shows_the_stored_run_the_sweep_and_the_latest_run(fixture_book: Path) -> None:
    page = (fixture_book / "_build/html/book/reproducibility.html").read_text(encoding="utf-8")
    for text in ("3 claims in 1 chapter", "preset laptop, seed 1000, ", "20 runs on one GPU, 2026-12-02"):
        assert text in page
    assert "preset smoke, seed 1, cpu, 41 s, 2026-12-01" in page
    assert "<strong>0.750 [0.600, 0.900], n = 12</strong>" in page  # stored
    assert "<strong>0.812 [0.700, 0.950], n = 12</strong>" in page  # the sweep
    assert "<strong>0.875 [" in page  # the later of two runs
    assert "<strong>0.110 [" not in page  # the earlier one
    assert "The tiny decoder is written for clarity." in page


def test_a_warning_fails_the_build(fixture_book: Path, tmp_path: Path) -> None:
    book = shutil.copytree(fixture_book, tmp_path / "book", ignore=shutil.ignore_patterns("_build"))
    page = book / "book" / "reading-guide.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[lost](nowhere.md)\n", encoding="utf-8")
    result = build(book)
    assert result.returncode != 0
    assert "nowhere" in result.stdout + result.stderr


def test_a_given_address_brings_buttons_and_links(fixture_book: Path, tmp_path: Path) -> None:
    book = shutil.copytree(fixture_book, tmp_path / "book", ignore=shutil.ignore_patterns("_build"))
    result = build(book, NIPS26_REPOSITORY="https://github.com/someone/papers", NIPS26_REVISION="v1")
    assert result.returncode == 0, result.stdout + result.stderr
    links = _Page((book / "_build/html/book/guarantees/tiny.html").read_text(encoding="utf-8")).links
    notebook = "book/guarantees/tiny.ipynb"
    assert f"https://mybinder.org/v2/gh/someone/papers/v1?urlpath=lab/tree/{notebook}" in links
    assert f"https://colab.research.google.com/github/someone/papers/blob/colab/{notebook}" in links
    assert f"https://github.com/someone/papers/blob/v1/{notebook}" in links
    source = "https://github.com/someone/papers/blob/v1/nips26lib/chapter/figures.py#L"
    assert any(link.startswith(source) for link in links)
    assert not (book / "_build/html/sources").exists()


def test_an_address_that_is_none_fails_the_build_and_says_why(fixture_book: Path, tmp_path: Path) -> None:
    book = shutil.copytree(fixture_book, tmp_path / "book", ignore=shutil.ignore_patterns("_build"))
    result = build(book, NIPS26_REPOSITORY="someone/papers")
    assert result.returncode != 0
    assert "https://github.com/OWNER/NAME" in result.stdout + result.stderr


def test_the_contents_list_the_chapters_that_exist_in_order() -> None:
    catalogue = yaml.safe_load((ROOT / "book" / "chapters.yml").read_text(encoding="utf-8"))
    parts = [part["slug"] for part in catalogue["parts"]]
    names = [
        f"book/{record['part']}/{record['slug']}"
        for record in sorted(catalogue["chapters"], key=lambda record: parts.index(record["part"]))
    ]
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    listed = [chapter["file"] for part in contents["parts"] for chapter in part["chapters"]]
    chapters = [name for name in listed if name.split("/")[1] in parts]
    assert chapters == [name for name in names if (ROOT / f"{name}.ipynb").is_file()]


def test_the_fixture_is_stored_like_a_chapter(fixture_book: Path) -> None:
    stored = json.loads((fixture_book / "book/guarantees/tiny.ipynb").read_text(encoding="utf-8"))
    kinds = {kind for cell in stored["cells"] for output in cell.get("outputs", ()) for kind in output.get("data", {})}
    assert {"text/html", "text/markdown", "text/plain", "application/vnd.nips26.claims+json"} <= kinds
