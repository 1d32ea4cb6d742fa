"""The catalogue of chapters: `book/chapters.yml`, read into frozen records."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nips26lib.runs import Refusal

PRESET_NAMES = ("smoke", "laptop", "gpu")
FILE_NAME = "chapters.yml"

_SLUG = re.compile(r"[a-z][a-z0-9_]*")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class Part:
    """A part of the book: a folder of chapters."""

    slug: str
    title: str


@dataclass(frozen=True)
class Paper:
    """The paper behind a chapter. `cite` holds keys of references.bib, the paper's own first."""

    title: str | None
    authors: tuple[str, ...]
    arxiv: str | None
    cite: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class DataSource:
    """A data set that a chapter reads."""

    name: str
    source: str
    licence: str


@dataclass(frozen=True)
class Budget:
    """What a run at one preset may take."""

    seconds: float
    gigabytes: float


@dataclass(frozen=True)
class ChapterRecord:
    """One chapter's record; `notebook` is the absolute path of its .ipynb."""

    slug: str
    part: str
    title: str
    question: str
    module: str
    picture: str
    paper: Paper
    data: tuple[DataSource, ...]
    claims: tuple[str, ...]
    budget: Mapping[str, Budget]
    notebook: Path


@dataclass(frozen=True)
class Catalogue:
    """All chapters, in reading order. `root` is the folder that holds chapters.yml and the parts."""

    root: Path
    parts: tuple[Part, ...]
    chapters: tuple[ChapterRecord, ...]

    def chapter(self, name: str) -> ChapterRecord:
        """The chapter of that slug; Refusal listing the known ones if there is none."""
        for record in self.chapters:
            if record.slug == name:
                return record
        known = ", ".join(record.slug for record in self.chapters) or "none yet"
        raise Refusal(f"there is no chapter {name!r}; known chapters: {known}")

    def of_part(self, part: str) -> tuple[ChapterRecord, ...]:
        """The chapters of one part, in reading order."""
        return tuple(record for record in self.chapters if record.part == part)


def find_book(start: Path | None = None) -> Path:
    """The folder that holds chapters.yml: where NIPS26_BOOK says, else upward from `start` (default: the current
    folder), else beside the package. Each may name the folder itself or the one above `book/`.
    """
    named = os.environ.get("NIPS26_BOOK")
    if named:
        found = _book_at(Path(named).expanduser())
        if found is None:
            raise Refusal(f"NIPS26_BOOK is {named!r}, which holds neither {FILE_NAME} nor book/{FILE_NAME}")
        return found
    here = (start or Path.cwd()).resolve()
    beside_package = Path(__file__).resolve().parents[2]
    for folder in (here, *here.parents, beside_package):
        found = _book_at(folder)
        if found is not None:
            return found
    raise Refusal(f"no book/{FILE_NAME} in {here} or above it; run this inside a clone of the book, or set NIPS26_BOOK")


def _book_at(folder: Path) -> Path | None:
    for candidate in (folder / "book", folder):
        if (candidate / FILE_NAME).is_file():
            return candidate.resolve()
    return None


def load_catalogue(root: Path | None = None) -> Catalogue:
    """Read chapters.yml of the book at `root` (default: `find_book()`).

    Refusal, naming file, chapter and key, for anything missing, unknown, doubled or of the wrong type.
    """
    root = find_book() if root is None else Path(root).resolve()
    path = root / FILE_NAME
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Refusal(f"{path} cannot be read: {' '.join(str(error).split())}") from error

    top = _Fields(content, str(path), {"parts", "chapters"})
    parts = tuple(_part(item, f"{path}, part {number}") for number, item in enumerate(top.items("parts"), 1))
    _no_doubles([part.slug for part in parts], f"{path}, key 'parts'")
    known_parts = {part.slug for part in parts}
    chapters = tuple(
        _chapter(item, f"{path}, chapter {_name_of(item, number)}", root, known_parts)
        for number, item in enumerate(top.items("chapters"), 1)
    )
    _no_doubles([record.slug for record in chapters], f"{path}, key 'chapters'")
    return Catalogue(root, parts, chapters)


class _Fields:
    """A mapping of the file, read key by key; each refusal says where it stands."""

    def __init__(self, content: object, where: str, keys: set[str]) -> None:
        if not isinstance(content, dict):
            raise Refusal(f"{where}: must be a mapping with the keys {', '.join(sorted(keys))}, got {content!r}")
        unknown = sorted(str(key) for key in content if key not in keys)
        if unknown:
            raise Refusal(f"{where}: unknown key {unknown[0]!r}; known keys: {', '.join(sorted(keys))}")
        self.content, self.where = content, where

    def get(self, key: str) -> Any:
        if key not in self.content:
            raise Refusal(f"{self.where}: key {key!r} is missing")
        return self.content[key]

    def text(self, key: str, pattern: re.Pattern[str] | None = None) -> str:
        value = self.get(key)
        if not isinstance(value, str) or not value.strip():
            raise Refusal(f"{self.where}: key {key!r} must be a text that is not empty, got {value!r}")
        if pattern is not None and not pattern.fullmatch(value):
            raise Refusal(f"{self.where}: key {key!r} is {value!r}, which does not have the form {pattern.pattern}")
        return value.strip()

    def text_or_none(self, key: str) -> str | None:
        return None if self.content.get(key) is None else self.text(key)

    def positive(self, key: str) -> float:
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise Refusal(f"{self.where}: key {key!r} must be a positive number, got {value!r}")
        return float(value)

    def items(self, key: str) -> list[Any]:
        value = self.get(key)
        if not isinstance(value, list):
            raise Refusal(f"{self.where}: key {key!r} must be a list, got {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.items(key)
        for value in values:
            if not isinstance(value, str) or not value.strip():
                raise Refusal(f"{self.where}: key {key!r} must be a list of texts, got {value!r} in it")
        _no_doubles(values, f"{self.where}, key {key!r}")
        return tuple(values)

    def fields(self, key: str, keys: set[str]) -> _Fields:
        return _Fields(self.get(key), f"{self.where}, key {key!r}", keys)


def _part(item: object, where: str) -> Part:
    fields = _Fields(item, where, {"slug", "title"})
    return Part(fields.text("slug", _SLUG), fields.text("title"))


def _chapter(item: object, where: str, root: Path, known_parts: set[str]) -> ChapterRecord:
    keys = {"slug", "part", "title", "question", "module", "picture", "paper", "data", "claims", "budget"}
    fields = _Fields(item, where, keys)
    slug, part = fields.text("slug", _SLUG), fields.text("part")
    if part not in known_parts:
        raise Refusal(f"{where}: key 'part' is {part!r}; known parts: {', '.join(sorted(known_parts)) or 'none'}")
    budget = fields.fields("budget", set(PRESET_NAMES))
    return ChapterRecord(
        slug=slug,
        part=part,
        title=fields.text("title"),
        question=fields.text("question"),
        module=fields.text("module", _MODULE),
        picture=fields.text("picture"),
        paper=_paper(fields),
        data=tuple(
            _data(source, f"{where}, key 'data', item {number}")
            for number, source in enumerate(fields.items("data"), 1)
        ),
        claims=fields.texts("claims"),
        budget={preset: _budget(budget, preset) for preset in PRESET_NAMES},
        notebook=root / part / f"{slug}.ipynb",
    )


def _paper(chapter: _Fields) -> Paper:
    fields = chapter.fields("paper", {"title", "authors", "arxiv", "cite", "note"})
    authors = fields.content.get("authors")
    if authors is None:
        names: tuple[str, ...] = ()
    elif isinstance(authors, str):
        names = (fields.text("authors"),)
    else:
        names = fields.texts("authors")
    note = fields.text("note") if fields.content.get("note") else ""
    return Paper(fields.text_or_none("title"), names, fields.text_or_none("arxiv"), fields.texts("cite"), note)


def _data(item: object, where: str) -> DataSource:
    fields = _Fields(item, where, {"name", "source", "licence"})
    return DataSource(fields.text("name"), fields.text("source"), fields.text("licence"))


def _budget(budgets: _Fields, preset: str) -> Budget:
    fields = budgets.fields(preset, {"seconds", "gigabytes"})
    return Budget(fields.positive("seconds"), fields.positive("gigabytes"))


def _name_of(item: object, number: int) -> str:
    slug = item.get("slug") if isinstance(item, dict) else None
    return repr(slug) if isinstance(slug, str) else str(number)


def _no_doubles(values: list[str], where: str) -> None:
    doubled = sorted({value for value in values if values.count(value) > 1})
    if doubled:
        raise Refusal(f"{where}: {doubled[0]!r} stands there twice")
