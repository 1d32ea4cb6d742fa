"""The README tells the truth: its table is that of chapters.yml, its code runs, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nips26lib.runs.catalogue import load_catalogue

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_chapters_is_that_of_the_catalogue() -> None:
    rows = [
        f"| [{record.title}](book/{record.part}/{record.slug}.ipynb) (`{record.slug}`) | {record.question} |"
        for record in load_catalogue(ROOT / "book").chapters
    ]
    wanted = "\n".join(["| Chapter | Question |", "| --- | --- |", *rows])
    found = re.search(r"<!-- from book/chapters\.yml.*?-->\n(.*?)\n<!-- end -->", README, re.DOTALL)
    assert found is not None and found[1] == wanted, f"the table must read:\n{wanted}"


def test_its_snippet_runs() -> None:
    (snippet,) = (code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "import" in code)
    names: dict[str, object] = {}
    exec(compile(snippet, "README.md", "exec"), names)
    assert names["repaired"]


def test_it_shows_only_commands_and_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:\$ |`)make ([a-z]+)", README)) <= targets


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_its_links_lead_somewhere(document: str) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / document).read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (ROOT / target.split("#")[0]).exists()]
    assert not missing


def test_contributing_has_ten_steps() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE) == [str(number) for number in range(1, 11)]
