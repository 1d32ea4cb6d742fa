"""The evidence beyond one run: `book/results/<chapter>.json`, which `nips26 claims --results` writes from a sweep."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_evidence(chapter: str) -> dict[str, Any] | None:
    """What the book holds of a sweep of the chapter: {runs, preset, hardware, date, claims}; None where there is none.

    The book is where ``NIPS26_BOOK`` says, else the folder above the part in which the notebook runs.
    """
    named = os.environ.get("NIPS26_BOOK")
    book = Path(named) if named else Path.cwd().parent
    return evidence_in(book / "book", chapter) or evidence_in(book, chapter)


def evidence_in(book: Path, chapter: str) -> dict[str, Any] | None:
    """The same, from the folder of a book."""
    path = book / "results" / f"{chapter}.json"
    if not path.is_file():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def size_of(evidence: Mapping[str, Any]) -> str:
    """How many runs, and where.

    >>> size_of({"runs": 4, "preset": "laptop", "hardware": "one core", "date": "2026-12-01"})
    '4 laptop runs on one core, 2026-12-01'
    """
    runs = f"{evidence['runs']} {evidence['preset']} run{'s' * (evidence['runs'] != 1)}"
    return f"{runs} on {evidence['hardware']}, {evidence['date']}"
