from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import nips26lib
from nips26lib.runs import Refusal, identity
from nips26lib.runs.identity import identify, library_version, source_digest
from nips26lib.runs.parameters import make_plan
from tests.tinybook import CELLS, TinyBook


def test_the_same_request_has_the_same_identity_and_any_other_another(book: TinyBook) -> None:
    chapter = book.catalogue.chapter("tiny")
    first = identify(make_plan(chapter, "smoke", 0))
    assert identify(make_plan(chapter, "smoke", 0)) == first and len(first) == 64
    others = [make_plan(chapter, "laptop", 0), make_plan(chapter, "smoke", 1),
              make_plan(chapter, "smoke", 0, [("rate", 0.25)])]  # fmt: skip
    assert len({first, *map(identify, others)}) == 4


def test_it_follows_the_cells_and_not_the_outputs(book: TinyBook) -> None:
    notebook = book.catalogue.chapter("tiny").notebook
    before = source_digest(notebook)
    content = json.loads(notebook.read_text())
    content["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    content["cells"][1]["execution_count"] = 7
    content["cells"][1]["source"] = "".join(content["cells"][1]["source"]).splitlines(keepends=True)
    notebook.write_text(json.dumps(content))
    assert source_digest(notebook) == before
    book.write("tiny", [*CELLS, "1 + 1"])
    assert source_digest(notebook) != before


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two papers and what they share, in the place of nips26lib."""
    package = tmp_path / "lib" / "package26"
    for name in ("__init__.py", "cli.py", "blocks/__init__.py", "runs/sweep.py", "papers/__init__.py",
                 "papers/one/__init__.py", "papers/one/method.py", "papers/two.py"):  # fmt: skip
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    monkeypatch.setattr(identity.nips26lib, "__file__", str(package / "__init__.py"))
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "package26"]:
        del sys.modules[name]


@pytest.mark.parametrize(("changed", "one", "two"), [
    ("blocks/__init__.py", True, True), ("blocks/new.py", True, True), ("__init__.py", True, True),
    ("papers/one/method.py", True, False), ("papers/two.py", False, True), ("runs/sweep.py", False, False),
    ("cli.py", False, False), ("blocks/__pycache__/x.pyc", False, False),
])  # fmt: skip
def test_a_change_is_one_for_the_papers_that_it_can_reach(library: Path, changed: str, one: bool, two: bool) -> None:
    modules = ("package26.papers.one", "package26.papers.two")
    before = list(map(library_version, modules))
    assert all(version.startswith(f"{nips26lib.__version__}+") for version in before) and before[0] != before[1]
    path = library / changed
    path.parent.mkdir(exist_ok=True)
    path.write_text("# changed\n")
    after = list(map(library_version, modules))
    assert [old != new for old, new in zip(before, after, strict=True)] == [one, two]


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"no module 'nips26lib\.papers\.nowhere'"):
        library_version("nips26lib.papers.nowhere")
    with pytest.raises(Refusal, match="cannot be read"):
        source_digest(tmp_path / "none.ipynb")
    (tmp_path / "broken.ipynb").write_text('{"cells": [{}]}')
    with pytest.raises(Refusal, match="is not a notebook"):
        source_digest(tmp_path / "broken.ipynb")
