from __future__ import annotations

import json
from pathlib import Path

import pytest

from nips26lib.chapter.evidence import read_evidence, size_of

FOUND = {"runs": 4, "preset": "laptop", "hardware": "one core", "date": "2026-12-01", "claims": []}


@pytest.fixture
def book(tmp_path: Path) -> Path:
    results = tmp_path / "book" / "results"
    results.mkdir(parents=True)
    (results / "tiny.json").write_text(json.dumps(FOUND), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("named", [".", "book"])
def test_the_evidence_is_found_where_the_environment_names_the_book(
    book: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIPS26_BOOK", str(book / named))
    assert read_evidence("tiny") == FOUND
    assert read_evidence("other") is None


def test_the_evidence_is_found_from_the_part_in_which_a_notebook_runs(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NIPS26_BOOK", raising=False)
    part = book / "book" / "guarantees"
    part.mkdir()
    monkeypatch.chdir(part)
    assert read_evidence("tiny") == FOUND
    monkeypatch.chdir(book)
    assert read_evidence("tiny") is None


def test_one_run_is_no_plural() -> None:
    assert size_of(FOUND | {"runs": 1}) == "1 laptop run on one core, 2026-12-01"
