"""What the site's own Sphinx extension makes, piece by piece; no browser, no Sphinx."""

from __future__ import annotations

import base64
import html
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

INK = "#1b1d21"
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="72pt" height="36pt" viewBox="0 0 72 36">'
    f'<defs><path id="p" d="M0 0h72" style="stroke: {INK.upper()}"/></defs>'
    f'<use href="#p"/><g clip-path="url(#p)" style="fill: {INK}"/><path style="fill: #0072b2"/></svg>'
)


def image(content: bytes, media: str = "image/svg+xml", alt: str = "A line & a <dot>") -> str:
    data = base64.b64encode(content).decode()
    return f'<img alt="{html.escape(alt)}" style="background:#fff" src="data:{media};base64,{data}"/>'


def figure(name: str, content: str) -> str:
    return f'<figure class="nips26-figure" data-name="{name}">{content}</figure>'


def notebook(*outputs: dict[str, Any]) -> dict[str, Any]:
    cells = [{"cell_type": "markdown", "source": "text"}]
    return {"cells": [*cells, {"cell_type": "code", "outputs": [{"data": data} for data in outputs]}]}


def measurement(**changes: Any) -> dict[str, Any]:
    return {
        "quantity": "gain", "value": 2.5, "low": 2.0, "high": 3.0, "unit": "dB", "n": 5,
        "relation": ">=", "threshold": -1.0, "judged_on": "low", "met": True,
    } | changes  # fmt: skip


def bundle(verdict: str = "reproduced", **changes: Any) -> dict[str, Any]:
    claim = {
        "id": "one", "statement": "It gains < a lot.", "tested_at": ["laptop"], "verdict": verdict, "reason": None,
        "measurements": [measurement()],
    } | changes  # fmt: skip
    return {"chapter": "tiny", "preset": "laptop", "seed": 1000, "device": "cpu", "claims": [claim]}


def record(tmp_path: Path) -> Any:
    from nips26lib.runs.catalogue import ChapterRecord, Paper

    return ChapterRecord(
        slug="tiny", part="part", title="A <title>", question="Does x < y hold?", module="tiny", picture="falling",
        paper=Paper(None, (), None, (), "Known from its abstract only."), data=(), claims=("one",), budget={},
        notebook=tmp_path / "book" / "part" / "tiny.ipynb",
    )  # fmt: skip


class TestFigures:
    def test_a_drawing_becomes_part_of_the_page_in_the_colour_of_its_text(self) -> None:
        from nips26_site.figures import with_inline_figures

        made = with_inline_figures(figure("falling", image(SVG.encode())), count(1))
        assert "<img" not in made
        assert INK not in made.lower()
        assert made.count("currentColor") == 2
        assert "#0072b2" in made
        assert 'role="img" aria-label="A line &amp; a &lt;dot&gt;"' in made
        assert "<title>A line &amp; a &lt;dot&gt;</title>" in made

    def test_ids_of_two_drawings_do_not_meet(self) -> None:
        from nips26_site.figures import with_inline_figures

        made = with_inline_figures(image(SVG.encode()) * 2, count(1))
        for prefix in ("drawing1-", "drawing2-"):
            for use in (f'id="{prefix}p"', f'href="#{prefix}p"', f"url(#{prefix}p)"):
                assert made.count(use) == 1

    def test_a_raster_image_stays_and_is_marked(self) -> None:
        from nips26_site.figures import with_inline_figures

        tag = image(b"\x89PNG", "image/png")
        assert with_inline_figures(tag, count(1)) == tag.replace("<img", '<img class="nips26-raster"')

    def test_other_html_stays(self) -> None:
        from nips26_site.figures import with_inline_figures

        text = '<p>data:image/ is a scheme, <img src="picture.png" alt=""></p>'
        assert with_inline_figures(text, count(1)) == text


class TestStored:
    def test_the_picture_is_found_by_name(self) -> None:
        from nips26_site.stored import stored_picture

        other = {"text/html": figure("other", image(b"no", "image/png"))}
        wanted = {"text/html": [figure("falling", image(SVG.encode())), "\n"]}
        found = stored_picture(notebook({"text/plain": "x"}, other, wanted), "falling")
        assert found is not None
        assert (found.media, found.content, found.alt) == ("image/svg+xml", SVG.encode(), "A line & a <dot>")
        assert stored_picture(notebook(other), "falling") is None

    def test_the_latest_run_with_claims_counts(self, tmp_path: Path) -> None:
        from nips26_site.stored import local_evidence

        assert local_evidence(tmp_path / "runs", record(tmp_path)) is None
        runs = {
            "a": ("2026-01-02T00:00:00", bundle("reproduced")),
            "b": ("2026-01-03T00:00:00", bundle("not reproduced")),
            "c": ("2026-01-04T00:00:00", None),
        }
        for name, (started, claims) in runs.items():
            place = tmp_path / "runs" / "tiny" / name
            place.mkdir(parents=True)
            run = {"preset": "smoke", "seed": 3, "device": "cpu", "started": started, "wall_seconds": 41.3}
            (place / "run.json").write_text(json.dumps(run | {"claims": claims}))
        (tmp_path / "runs" / "tiny" / "d").mkdir()
        (tmp_path / "runs" / "tiny" / "d" / "run.json").write_text('{"claims": ')
        found = local_evidence(tmp_path / "runs", record(tmp_path))
        assert found is not None
        assert found.claims["one"]["verdict"] == "not reproduced"
        assert found.source == "preset smoke, seed 3, cpu, 41 s, 2026-01-03"

    def test_a_sweep_says_its_size(self, tmp_path: Path) -> None:
        from nips26_site.stored import sweep_evidence

        assert sweep_evidence(tmp_path, record(tmp_path)) is None
        (tmp_path / "results").mkdir()
        sweep = {"runs": 20, "hardware": "one GPU", "date": "2026-01-02", "claims": bundle()}
        (tmp_path / "results" / "tiny.json").write_text(json.dumps(sweep))
        found = sweep_evidence(tmp_path, record(tmp_path))
        assert found is not None
        assert found.source == "20 runs on one GPU, 2026-01-02"


class TestSources:
    TAG = '<a class="nips26-source" data-path="lib/x.py" data-line="10" href="../../lib/x.py">'

    def test_a_link_leads_to_its_line(self) -> None:
        from nips26_site.sources import with_links

        made = with_links(f"<p>{self.TAG}lib/x.py</a></p>", {"lib/x.py": "../../sources/lib/x.py.html"})
        assert 'href="../../sources/lib/x.py.html#L10"' in made
        assert 'href="../../lib/x.py"' not in made

    def test_other_links_stay(self) -> None:
        from nips26_site.sources import with_links

        text = f'{self.TAG}x</a> <a href="lib/x.py">y</a>'
        assert with_links(text, {"other.py": "z"}) == text

    def test_the_page_holds_the_code_with_a_name_for_each_line(self) -> None:
        from nips26_site.sources import source_page

        page = source_page("lib/sub/x.py", 'a = 1\n\n\ntext = "<b>"\n', "book/index.html", "A <book>")
        for number in range(1, 5):
            assert page.count(f'id="L{number}"') == 1
        assert 'id="L5"' not in page
        assert "<b>" not in page
        assert "A &lt;book&gt;" in page
        assert 'href="../../../book/index.html"' in page


class TestCards:
    def test_text_is_text(self, tmp_path: Path) -> None:
        from nips26_site.cards import card

        made = card(record(tmp_path), "part/tiny.html", "", "")
        assert "A &lt;title&gt;" in made
        assert "x &lt; y" in made
        assert 'href="part/tiny.html"' in made

    def test_verdicts_are_counted_in_words_and_symbols(self) -> None:
        from collections import Counter

        from nips26_site.cards import verdict_line

        made = verdict_line(Counter({"reproduced": 2, "not testable here": 1}))
        assert "✓</span> 2 reproduced" in made
        assert "1 not testable here" in made
        assert "not reproduced" not in made
        assert verdict_line(Counter()) == ""

    def test_a_drawing_has_a_file_for_each_theme(self) -> None:
        from nips26_site.cards import picture_files
        from nips26_site.figures import DARK_INK
        from nips26_site.stored import Picture

        files = picture_files("tiny", Picture("image/svg+xml", SVG.encode(), "alt"))
        assert set(files) == {"tiny-light.svg", "tiny-dark.svg"}
        assert files["tiny-light.svg"] == SVG.encode()
        assert files["tiny-dark.svg"].count(DARK_INK.encode()) == 2
        assert picture_files("tiny", Picture("image/png", b"x", "alt")) == {"tiny.png": b"x"}


class TestReproducibility:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({}, ["gain: <strong>2.50 dB [2, 3], n = 5</strong>", "low end ≥ -1 dB: ✓ met"]),
            (
                {"low": None, "high": None, "n": None, "judged_on": "value", "met": False},
                ["must be ≥ -1 dB: ✗ not met"],
            ),
            ({"quantity": "a < b", "relation": "<"}, ["a &lt; b", "&lt; -1 dB"]),
        ],
    )
    def test_a_measurement(self, changes: dict[str, Any], expected: list[str]) -> None:
        from nips26_site.reproducibility import measurement as shown

        made = shown(measurement(**changes))
        for text in expected:
            assert text in made

    def test_the_table_has_a_row_a_claim_and_a_column_a_source(self) -> None:
        from nips26_site.reproducibility import table
        from nips26_site.stored import Evidence

        stored = bundle("not reproduced", reason="Too <small>.")
        one = Evidence("here", {"one": stored["claims"][0]}, ("one",))
        made = table({"Stored run": one, "This machine": Evidence("there", {}, ())})
        assert made.count('<th scope="row">') == 1
        assert "It gains &lt; a lot." in made
        assert "✗</span> not reproduced" in made
        assert "Too &lt;small&gt;." in made
        assert '<td data-heading="This machine">–</td>' in made


class TestRepository:
    def test_addresses(self) -> None:
        from nips26_site.repository import parse_repository

        place = parse_repository("https://github.com/some-one/the.book.git", "v1")
        assert place.blob("a/b.py") == "https://github.com/some-one/the.book/blob/v1/a/b.py"
        assert place.binder("a/b.ipynb").startswith("https://mybinder.org/v2/gh/some-one/the.book/v1?")
        assert place.colab("a/b.ipynb").endswith("/github/some-one/the.book/blob/colab/a/b.ipynb")
        assert parse_repository("https://github.com/a/b", "").revision == "main"

    @pytest.mark.parametrize(
        "address", ["a/b", "http://github.com/a/b", "https://github.com/a", "https://github.com/a/b/c"]
    )
    def test_an_address_that_is_none_is_refused(self, address: str) -> None:
        from nips26_site.repository import parse_repository

        with pytest.raises(ValueError, match="NIPS26_REPOSITORY"):
            parse_repository(address)

    def test_only_the_download_without_an_address(self) -> None:
        from nips26_site.repository import buttons

        assert [button["url"] for button in buttons(None, "a/b.ipynb", "_sources/b.ipynb")] == ["_sources/b.ipynb"]


class TestAssets:
    def test_the_icon_script_goes_and_the_rest_of_the_head_stays(self) -> None:
        from nips26_site.assets import without_icon_script

        head = '<script src="a.js"></script><script defer src="../scripts/fontawesome.js?digest=1"></script><link>'
        assert without_icon_script(head) == '<script src="a.js"></script><link>'

    def test_of_mathjax_comes_what_pages_load(self, tmp_path: Path) -> None:
        from nips26_site.assets import MATHJAX_COMPONENTS, copy_mathjax

        copy_mathjax(tmp_path)
        assert all((tmp_path / f"{name}.js").is_file() for name in ("startup", "core", *MATHJAX_COMPONENTS))
        assert list((tmp_path / "output" / "chtml" / "fonts").rglob("*.woff"))
        assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 3_000_000
