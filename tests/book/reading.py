"""A stored chapter as its rules see it: cells by section, outputs, and the HTML and Markdown in them."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import nbformat

from nips26lib.chapter.evidence import evidence_in
from nips26lib.runs.catalogue import ChapterRecord

Cell = Mapping[str, Any]


@dataclass(frozen=True)
class Chapter:
    """A stored notebook and what it is held against. `exists` says whether a path relative to the notebook is there.

    `evidence` is what the book holds of a sweep of the chapter.
    """

    notebook: dict[str, Any]
    record: ChapterRecord
    size: int
    bibliography: frozenset[str]
    module_claims: tuple[str, ...]
    exists: Callable[[str], bool]
    evidence: Mapping[str, Any] | None = None

    @property
    def cells(self) -> list[Cell]:
        return self.notebook["cells"]

    def code(self) -> list[Cell]:
        return [cell for cell in self.cells if cell["cell_type"] == "code"]

    def section(self, title: str) -> list[Cell]:
        """The cells of one level-2 section, from the cell that holds its heading to the next heading's."""
        found, inside = [], False
        for cell in self.cells:
            headings = [text for level, text in headings_of(cell) if level == 2]
            if headings:
                inside = title in headings
            if inside:
                found.append(cell)
        return found

    def prose(self, title: str) -> str:
        return "\n\n".join(cell["source"] for cell in self.section(title) if cell["cell_type"] == "markdown")


def read_chapter(record: ChapterRecord) -> Chapter:
    """The chapter as it is stored, with the book's bibliography and its module's claims."""
    folder = record.notebook.parent
    references = (folder.parent / "references.bib").read_text(encoding="utf-8")
    return Chapter(
        notebook=nbformat.read(record.notebook, as_version=4),
        record=record,
        size=record.notebook.stat().st_size,
        bibliography=frozenset(re.findall(r"^\s*@\w+\s*\{\s*([^,\s]+)\s*,", references, re.MULTILINE)),
        module_claims=tuple(claim.id for claim in importlib.import_module(record.module).CLAIMS),
        exists=lambda path: (folder / path).exists(),
        evidence=evidence_in(folder.parent, record.slug),
    )


def headings_of(cell: Cell) -> list[tuple[int, str]]:
    """(level, text) of each heading of a markdown cell, fenced code left out."""
    if cell["cell_type"] != "markdown":
        return []
    text = re.sub(r"^(```+|~~~+|:::+).*?^\1", "", cell["source"], flags=re.MULTILINE | re.DOTALL)
    return [(len(marks), title.strip()) for marks, title in re.findall(r"^(#{1,6}) +(.+?) *$", text, re.MULTILINE)]


def tagged(cells: list[Cell], tag: str) -> list[Cell]:
    return [cell for cell in cells if tag in cell["metadata"].get("tags", [])]


def outputs_of(cells: list[Cell]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(where, output) of every stored output; `where` names the cell for a message."""
    for cell in cells:
        for output in cell.get("outputs", []):
            yield name_of(cell), output


def texts_of(output: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(kind, text) of everything textual in an output: a stream's name or a MIME type, and what it says."""
    if output["output_type"] == "stream":
        return [(output["name"], output["text"])]
    data = output.get("data", {})
    return [(mime, value if isinstance(value, str) else json.dumps(value)) for mime, value in data.items()]


def name_of(cell: Cell) -> str:
    lines = [line for line in cell["source"].splitlines() if line.strip()]
    return f"cell {lines[0].strip()[:50]!r}" if lines else "an empty cell"


@dataclass(frozen=True)
class Element:
    """An HTML element's start: its tag, its attributes and its classes."""

    tag: str
    attributes: Mapping[str, str]

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(Element(tag, {name: value or "" for name, value in attrs}))


def elements(html: str) -> list[Element]:
    parser = _Elements()
    parser.feed(html)
    return parser.found


def html_of(cells: list[Cell]) -> Iterator[tuple[str, str]]:
    """(where, html) of what a page shows as HTML or Markdown, be it a markdown cell or an output."""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            yield name_of(cell), without_code(cell["source"])
    for where, output in outputs_of(cells):
        data = output.get("data", {})
        if "text/html" in data:
            yield where, data["text/html"]
        if "text/markdown" in data:
            yield where, without_code(data["text/markdown"])


def without_code(markdown: str) -> str:
    """Markdown less its code and its mathematics, in which `a[0](b.c)` is no link; MyST directives stay."""
    plain = re.sub(r"^(```+|~~~+)(?!`|~|\{).*?^\1", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\$\$.*?\$\$|(?<!\})`[^`\n]+`(?!`)|\$[^$\n]+\$", "", plain, flags=re.DOTALL)


def classed(cells: list[Cell], name: str) -> list[tuple[str, Element]]:
    return [(where, element) for where, html in html_of(cells) for element in elements(html) if name in element.classes]
