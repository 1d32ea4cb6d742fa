"""`{reproducibility}`: every claim, what was measured for it, and where."""

from __future__ import annotations

import html
from collections import Counter
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from nips26_site.cards import book_catalogue, docname, existing, verdict_line
from nips26_site.stored import Evidence, local_evidence, read_notebook, stored_evidence, sweep_evidence
from nips26lib.chapter.claims_table import SYMBOLS, measured, requirement
from nips26lib.runs.catalogue import ChapterRecord


def measurement(item: dict[str, Any]) -> str:
    """One measured quantity and the condition it was held against, as HTML."""
    text = f"{html.escape(item['quantity'])}: <strong>{html.escape(measured(item))}</strong>"
    symbol, word = ("✓", "met") if item["met"] else ("✗", "not met")
    return f"<li>{text}<br><small>must be {html.escape(requirement(item))}: {symbol} {word}</small></li>"


def verdict(claim: dict[str, Any]) -> str:
    """The verdict of a claim with its reason, as HTML."""
    word = claim["verdict"]
    text = (
        f'<p class="nips26-verdict verdict-{word.replace(" ", "-")}">'
        f'<span aria-hidden="true">{SYMBOLS[word]}</span> {html.escape(word)}</p>'
    )
    return text + (f"<p><small>{html.escape(claim['reason'])}</small></p>" if claim.get("reason") else "")


def cell(claim: dict[str, Any] | None, heading: str) -> str:
    """What one source says of a claim, as a table cell."""
    if claim is None:
        return f'<td data-heading="{html.escape(heading)}">–</td>'
    items = "".join(measurement(item) for item in claim["measurements"])
    listed = f"<ul>{items}</ul>" if items else ""
    return f'<td data-heading="{html.escape(heading)}">{verdict(claim)}{listed}</td>'


def table(columns: dict[str, Evidence]) -> str:
    """The claims of a chapter, a row each, as HTML; `columns` by heading, the stored run first."""
    stored = next(iter(columns.values()))
    heads = "".join(
        f'<th scope="col">{html.escape(heading)}<br><small>{html.escape(evidence.source)}</small></th>'
        for heading, evidence in columns.items()
    )
    rows = []
    for claim in stored.order:
        cells = "".join(cell(evidence.claims.get(claim), heading) for heading, evidence in columns.items())
        rows.append(f'<tr><th scope="row">{html.escape(stored.claims[claim]["statement"])}</th>{cells}</tr>')
    return (
        f'<div class="nips26-table"><table class="nips26-evidence"><thead><tr><th scope="col">Claim</th>{heads}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def columns_of(record: ChapterRecord, root: Path) -> dict[str, Evidence]:
    """Where a chapter's claims have been measured, by heading; empty if its notebook stores none."""
    found = {
        "Stored run": stored_evidence(read_notebook(record.notebook)),
        "Sweep": sweep_evidence(root / "book", record),
        "This machine": local_evidence(root / "runs", record),
    }
    if found["Stored run"] is None:
        return {}
    return {heading: evidence for heading, evidence in found.items() if evidence is not None}


class Reproducibility(SphinxDirective):
    """A section a chapter with the table of its claims, after a summary of all."""

    def run(self) -> list[nodes.Node]:
        app = self.env.app
        self.env.note_reread()  # it shows notebooks and runs, which Sphinx does not follow
        catalogue = book_catalogue(app)
        total: Counter[str] = Counter()
        sections: list[nodes.Node] = []
        for part in catalogue.parts:
            for record in existing(catalogue, part.slug):
                columns = columns_of(record, Path(app.srcdir))
                if columns:
                    total += columns["Stored run"].counts()
                    sections.append(self._section(record, columns))
        if not sections:
            return [nodes.paragraph(text="No chapter has stored its claims yet.")]
        chapters = "1 chapter" if len(sections) == 1 else f"{len(sections)} chapters"
        summary = f"{sum(total.values())} claims in {chapters}, as the stored runs judge them:"
        return [nodes.paragraph(text=summary), nodes.raw("", verdict_line(total), format="html"), *sections]

    def _section(self, record: ChapterRecord, columns: dict[str, Evidence]) -> nodes.section:
        link = self.env.app.builder.get_relative_uri(self.env.docname, docname(self.env.app, record))
        section = nodes.section(ids=[f"claims-{record.slug.replace('_', '-')}"])
        section += nodes.title(text=record.title)
        chapter = nodes.paragraph("", "", nodes.reference("", "Read the chapter", refuri=link, internal=True))
        section += [chapter, nodes.raw("", table(columns), format="html")]
        return section


def setup(app: Sphinx) -> None:
    app.add_directive("reproducibility", Reproducibility)
