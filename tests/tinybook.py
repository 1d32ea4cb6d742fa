"""A book of tiny real chapters, made in a temporary folder, for the tests of runs and of the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import nbformat
import pytest
import yaml

from nips26lib.runs.catalogue import Catalogue, load_catalogue

MODULE = """
from dataclasses import dataclass
from nips26lib.chapter.presets import Preset

@dataclass(frozen=True)
class Settings(Preset):
    seeds: int = 3
    rate: float = 0.5
    widths: tuple[int, ...] = (4, 8)

PRESETS = {"smoke": Settings(), "laptop": Settings(seeds=10, threads=2), "gpu": Settings(needs_gpu=True)}
"""

PARAMETERS = 'preset, seed, overrides = "laptop", 0, {}'
DRAW = "import random\nrandom.seed(seed)\nprint([random.random() for _ in range(overrides.get('seeds', 3))])"
CLAIMS = """
from IPython.display import display
condition = {"quantity": "gain", "value": 2.5, "low": 2.0, "high": 3.0, "unit": "dB", "n": 5,
             "relation": ">=", "threshold": 1.0, "judged_on": "low", "met": True}
claim = {"id": "C1", "statement": "It gains.", "tested_at": ["laptop"], "verdict": "reproduced", "reason": None,
         "measurements": [condition]}
table = {"chapter": "tiny", "preset": preset, "seed": seed, "device": "cpu", "claims": [claim]}
display({"text/plain": "claims", "application/vnd.nips26.claims+json": table}, raw=True)
"""
CELLS = (DRAW, CLAIMS)

BUDGET = {"seconds": 60, "gigabytes": 2}
PAPER = {"title": None, "authors": None, "arxiv": None, "cite": ["someone2026"], "note": "a stand-in"}


def record(slug: str = "tiny", **changes: object) -> dict[str, object]:
    """A chapter's entry in chapters.yml."""
    return {
        "slug": slug,
        "part": "part",
        "title": f"The chapter {slug}",
        "question": "Does it run?",
        "module": "tiny_module",
        "picture": "none",
        "paper": dict(PAPER),
        "data": [],
        "claims": ["C1"],
        "budget": {preset: dict(BUDGET) for preset in ("smoke", "laptop", "gpu")},
    } | changes


class TinyBook:
    """`write` adds a chapter of the given code cells; `catalogue` reads the book back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.records: list[dict[str, object]] = []
        (root / "part").mkdir(parents=True)
        self.write("tiny")

    def write(self, slug: str, cells: Sequence[str] = CELLS, parameters: str | None = PARAMETERS) -> Path:
        """The path of the new notebook; `parameters=None` leaves the parameters cell out."""
        notebook = nbformat.v4.new_notebook()
        sources = [*([] if parameters is None else [parameters]), *cells]
        notebook.cells = [nbformat.v4.new_markdown_cell(f"# {slug}"), *map(nbformat.v4.new_code_cell, sources)]
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number}"
        if parameters is not None:
            notebook.cells[1].metadata["tags"] = ["parameters"]
        path = self.root / "part" / f"{slug}.ipynb"
        nbformat.write(notebook, path)
        if slug not in [entry["slug"] for entry in self.records]:
            self.records.append(record(slug))
        content = {"parts": [{"slug": "part", "title": "A part"}], "chapters": self.records}
        (self.root / "chapters.yml").write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    @property
    def catalogue(self) -> Catalogue:
        return load_catalogue(self.root)


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyBook]:
    """A book with the chapter `tiny`; the current folder is a fresh one, where runs/ will go."""
    modules, here = tmp_path / "modules", tmp_path / "here"
    modules.mkdir()
    here.mkdir()
    (modules / "tiny_module.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(modules))  # for kernels
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.setenv("NIPS26_BOOK", str(tmp_path / "book"))
    for name in ("NIPS26_PRESET", "NIPS26_DEVICE", "NIPS26_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(here)
    yield TinyBook(tmp_path / "book")
    sys.modules.pop("tiny_module", None)


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the test fail if anything starts a kernel."""
    from nips26lib.runs.kernel import ThisInterpreter

    started: list[object] = []

    async def refuse(self: ThisInterpreter, **_: object) -> None:
        started.append(self)
        raise AssertionError("a kernel was started")

    monkeypatch.setattr(ThisInterpreter, "start_kernel", refuse)
    return lambda: pytest.fail("a kernel was started") if started else None
