from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nips26lib.runs import Refusal
from nips26lib.runs.catalogue import Budget, Paper, Part, find_book, load_catalogue
from tests.tinybook import PAPER, record

PARTS = [{"slug": "part", "title": "A part"}]


def write(root: Path, chapters: object, parts: object = PARTS) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "chapters.yml").write_text(yaml.safe_dump({"parts": parts, "chapters": chapters}))
    return root


def test_records_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    source = {"name": "digits", "source": "https://example.org", "licence": "CC BY 4.0"}
    paper = {"title": "On ink", "authors": ["A. One", "B. Two"], "arxiv": "2605.00001", "cite": ["one2026"], "note": ""}
    root = write(tmp_path / "book", [record("second", data=[source], paper=paper), record("first")])
    catalogue = load_catalogue(root)
    assert catalogue.parts == (Part("part", "A part"),)
    assert [chapter.slug for chapter in catalogue.chapters] == ["second", "first"]
    assert catalogue.of_part("part") == catalogue.chapters and catalogue.of_part("other") == ()
    chapter = catalogue.chapter("second")
    assert chapter.notebook == root / "part" / "second.ipynb"
    assert chapter.paper == Paper("On ink", ("A. One", "B. Two"), "2605.00001", ("one2026",), "")
    assert chapter.budget["laptop"] == Budget(60.0, 2.0)
    assert (chapter.data[0].name, chapter.data[0].licence) == ("digits", "CC BY 4.0")
    assert catalogue.chapter("first").paper.authors == ()


def test_an_unknown_chapter_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    catalogue = load_catalogue(write(tmp_path, [record("one"), record("two")]))
    with pytest.raises(Refusal, match=r"no chapter 'three'; known chapters: one, two"):
        catalogue.chapter("three")


@pytest.mark.parametrize(("changes", "words"), [
    ({"title": ""}, ["'title'", "not empty"]),
    ({"title": 7}, ["'title'", "7"]),
    ({"slug": "Not A Slug"}, ["'slug'", "Not A Slug"]),
    ({"part": "nowhere"}, ["'part'", "nowhere", "part"]),
    ({"module": "a; import os"}, ["'module'"]),
    ({"claims": "C1"}, ["'claims'", "list"]),
    ({"claims": ["C1", "C1"]}, ["'claims'", "'C1'", "twice"]),
    ({"surprise": 1}, ["'surprise'", "known keys"]),
    ({"paper": {**PAPER, "arxiv": 2605.1}}, ["'paper'", "'arxiv'", "2605.1"]),
    ({"paper": {"title": None}}, ["'paper'", "'cite'", "missing"]),
    ({"data": [{"name": "x"}]}, ["'data'", "item 1", "'source'", "missing"]),
    ({"budget": {"smoke": {"seconds": 1, "gigabytes": 1}}}, ["'budget'", "'laptop'", "missing"]),
    ({"budget": {p: {"seconds": s, "gigabytes": 1} for p, s in (("smoke", 0), ("laptop", 1), ("gpu", 1))}},
     ["'smoke'", "'seconds'", "positive"]),
])  # fmt: skip
def test_a_refusal_names_file_chapter_and_key(tmp_path: Path, changes: dict[str, object], words: list[str]) -> None:
    root = write(tmp_path, [record("tiny") | changes])
    with pytest.raises(Refusal) as refusal:
        load_catalogue(root)
    text = str(refusal.value)
    assert str(root / "chapters.yml") in text and repr(changes.get("slug", "tiny")) in text
    assert all(word in text for word in words), text


def test_a_missing_key_and_a_double_chapter_are_refused(tmp_path: Path) -> None:
    entry = record("tiny")
    del entry["question"]
    with pytest.raises(Refusal, match=r"chapter 'tiny': key 'question' is missing"):
        load_catalogue(write(tmp_path, [entry]))
    with pytest.raises(Refusal, match=r"'chapters': 'tiny' stands there twice"):
        load_catalogue(write(tmp_path, [record("tiny"), record("tiny")]))


@pytest.mark.parametrize("content", ["parts: [", "", "- 1", "parts: []\nchapters: {}", "parts: []"])
def test_a_file_of_another_shape_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "chapters.yml").write_text(content)
    with pytest.raises(Refusal, match=r"chapters\.yml"):
        load_catalogue(tmp_path)


def test_tags_of_yaml_that_build_objects_are_refused(tmp_path: Path) -> None:
    (tmp_path / "chapters.yml").write_text("parts: !!python/object/apply:os.getcwd []\nchapters: []")
    with pytest.raises(Refusal, match="cannot be read"):
        load_catalogue(tmp_path)


def test_the_book_is_found_by_environment_then_upward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "clone"
    root = write(clone / "book", [])
    deep = clone / "some" / "folder"
    deep.mkdir(parents=True)
    monkeypatch.delenv("NIPS26_BOOK", raising=False)
    assert find_book(deep) == find_book(clone) == find_book(root) == root
    other = write(tmp_path / "other" / "book", [])
    for named in (other, other.parent):
        monkeypatch.setenv("NIPS26_BOOK", str(named))
        assert find_book(deep) == other
    monkeypatch.setenv("NIPS26_BOOK", str(deep))
    with pytest.raises(Refusal, match="NIPS26_BOOK"):
        find_book(deep)
