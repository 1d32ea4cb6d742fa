"""`{chapter-cards}`: the map of the book, a card a chapter."""

from __future__ import annotations

import html
from collections import Counter
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.osutil import relative_uri

from nips26_site.figures import DARK_INK, SVG, inked
from nips26_site.stored import Picture, read_notebook, stored_evidence, stored_picture
from nips26lib.chapter.claims_table import SYMBOLS
from nips26lib.runs.catalogue import Catalogue, ChapterRecord, load_catalogue

FOLDER = "_static/pictures"

logger = logging.getLogger(__name__)


def book_catalogue(app: Sphinx) -> Catalogue:
    """The catalogue of the book that is being built."""
    return load_catalogue(Path(app.srcdir) / "book")


def docname(app: Sphinx, record: ChapterRecord) -> str:
    """The name under which Sphinx knows a chapter."""
    return record.notebook.relative_to(Path(app.srcdir).resolve()).with_suffix("").as_posix()


def existing(catalogue: Catalogue, part: str) -> list[ChapterRecord]:
    """The chapters of a part that have a notebook; those to come are not shown."""
    return [record for record in catalogue.of_part(part) if record.notebook.is_file()]


def verdict_line(counts: Counter[str]) -> str:
    """How many claims were reproduced, and so on, as HTML."""
    items = [
        f'<li class="verdict-{verdict.replace(" ", "-")}">'
        f'<span aria-hidden="true">{symbol}</span> {counts[verdict]} {verdict}</li>'
        for verdict, symbol in SYMBOLS.items()
        if counts[verdict]
    ]
    return f'<ul class="nips26-verdicts" aria-label="Claims">{"".join(items)}</ul>' if items else ""


def paper_line(record: ChapterRecord) -> str:
    """What the card says of the paper, as HTML."""
    paper = record.paper
    if paper.title is None:
        return html.escape(paper.note or "The paper's title is not public.")
    authors = f" {html.escape(', '.join(paper.authors))}." if paper.authors else ""
    number = f" arXiv {html.escape(paper.arxiv)}." if paper.arxiv else ""
    return f"<cite>{html.escape(paper.title)}</cite>.{authors}{number}"


def card(record: ChapterRecord, link: str, images: str, verdicts: str) -> str:
    """One card, as HTML."""
    return (
        f'<li class="nips26-card"><div class="nips26-card-picture">{images}</div>'
        f'<div class="nips26-card-text"><h3><a href="{html.escape(link)}">{html.escape(record.title)}</a></h3>'
        f"<p>{html.escape(record.question)}</p>"
        f'<p class="nips26-paper">{paper_line(record)}</p>{verdicts}</div></li>'
    )


def picture_files(slug: str, picture: Picture) -> dict[str, bytes]:
    """The files of a card's picture by name: one a theme where it is drawn, one for both where it is not."""
    if picture.media != SVG:
        return {f"{slug}.{picture.media.removeprefix('image/')}": picture.content}
    svg = picture.content.decode("utf-8")
    return {f"{slug}-light.svg": svg.encode(), f"{slug}-dark.svg": inked(svg, DARK_INK).encode()}


class ChapterCards(SphinxDirective):
    """A card for every chapter there is, by part."""

    def run(self) -> list[nodes.Node]:
        app = self.env.app
        self.env.note_reread()  # it shows what notebooks hold, which Sphinx does not follow
        catalogue = book_catalogue(app)
        text = []
        for part in catalogue.parts:
            cards = [self._card(record) for record in existing(catalogue, part.slug)]
            if cards:
                text.append(f"<h2>{html.escape(part.title)}</h2>")
                text.append(f'<ul class="nips26-cards">{"".join(cards)}</ul>')
        return [nodes.raw("", "\n".join(text), format="html")] if text else []

    def _card(self, record: ChapterRecord) -> str:
        builder, here = self.env.app.builder, self.env.docname
        target = docname(self.env.app, record)
        if target not in self.env.found_docs:
            logger.warning("the chapter %r is not in _toc.yml", target, location=here)
        notebook = read_notebook(record.notebook)
        picture, evidence = stored_picture(notebook, record.picture), stored_evidence(notebook)
        if picture is None:
            logger.warning("%s has no stored figure named %r", target, record.picture, location=here)
        verdicts = verdict_line(evidence.counts()) if evidence else ""
        return card(record, builder.get_relative_uri(here, target), self._images(record.slug, picture), verdicts)

    def _images(self, slug: str, picture: Picture | None) -> str:
        if picture is None:
            return ""
        app = self.env.app
        page, alt, tags = app.builder.get_target_uri(self.env.docname), html.escape(picture.alt), []
        for name, content in picture_files(slug, picture).items():
            file = Path(app.outdir) / FOLDER / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            theme = next((f"only-{theme} " for theme in ("light", "dark") if f"-{theme}." in name), "nips26-raster ")
            source = relative_uri(page, f"{FOLDER}/{name}")
            tags.append(f'<img class="{theme}no-scaled-link" src="{source}" alt="{alt}" loading="lazy">')
        return "".join(tags)


def setup(app: Sphinx) -> None:
    app.add_directive("chapter-cards", ChapterCards)
