from __future__ import annotations

import inspect
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import nips26lib
from nips26lib.chapter import sources
from nips26lib.chapter.claims import Claims, Condition
from nips26lib.chapter.presets import Preset, resolve
from nips26lib.chapter.sources import show, without_docstrings

ROOT = Path(nips26lib.__file__).resolve().parent.parent


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: outputs.append(data))
    return outputs


def read(markdown: str) -> tuple[str, int, int, str]:
    """Path, first and last line, and code of a listing."""
    found = re.fullmatch(
        r'<a class="nips26-source" data-path="(.+?)" data-line="(\d+)" href="\.\./\.\./\1">\1, lines \2–(\d+)</a>'
        r"\n\n```python\n(.*)\n```",
        markdown,
        re.DOTALL,
    )
    assert found is not None
    return found[1], int(found[2]), int(found[3]), found[4]


@pytest.mark.parametrize(
    ("thing", "path"),
    [
        (resolve, "nips26lib/chapter/presets.py"),
        (Preset, "nips26lib/chapter/presets.py"),
        (Condition, "nips26lib/chapter/claims.py"),
        (Condition.met_by, "nips26lib/chapter/claims.py"),
        (Condition("x", ">", 0.0).met_by, "nips26lib/chapter/claims.py"),
    ],
)
def test_the_listing_is_what_the_file_has_at_those_lines(thing: Any, path: str, shown: list[dict[str, Any]]) -> None:
    show(thing)
    [output] = shown
    assert set(output) == {"text/markdown", "text/plain"}
    where, first, last, code = read(output["text/markdown"])
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()[first - 1 : last]
    assert where == path
    assert code == textwrap.dedent("\n".join(lines))
    assert f"{'class' if inspect.isclass(thing) else 'def'} {thing.__name__}" in code
    assert output["text/plain"] == f"# {path}, lines {first}–{last}\n{code}"
    json.dumps(output)


def test_a_dataclass_is_shown_with_its_decorator(shown: list[dict[str, Any]]) -> None:
    show(Preset)
    assert read(shown[0]["text/markdown"])[3].startswith("@dataclass(frozen=True)\nclass Preset:")


def test_docstrings_can_be_left_out(shown: list[dict[str, Any]]) -> None:
    show(resolve, docstring=False)
    _, first, last, code = read(shown[0]["text/markdown"])
    assert '"""' not in code
    assert code.splitlines()[1] == "    if preset not in presets:"
    assert last - first + 1 > len(code.splitlines())  # the link still names the lines of the file


def test_several_objects_make_one_output(shown: list[dict[str, Any]]) -> None:
    show(resolve, Preset)
    [output] = shown
    assert output["text/markdown"].count('class="nips26-source"') == 2
    assert output["text/plain"].count("# nips26lib/chapter/presets.py") == 2


@pytest.mark.parametrize("thing", [3, "resolve", len, json.dumps, nips26lib, Path, lambda: 1])
def test_what_is_not_of_the_library_is_refused(thing: object, shown: list[dict[str, Any]]) -> None:
    with pytest.raises(TypeError, match="it must be a function, a method or a class of nips26lib"):
        show(thing)
    assert not shown


def test_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="show was given nothing; it must be given functions"):
        show()


def test_without_docstrings_takes_only_docstrings() -> None:
    source = '''\
class A:
    """Doc
    of two lines."""

    name = """kept"""

    def f(self):
        """Doc."""
        return "kept too"

    def g(self):
        """All there is."""
'''
    assert (
        without_docstrings(source)
        == '''\
class A:
    name = """kept"""

    def f(self):
        return "kept too"

    def g(self):
        """All there is."""'''
    )


def test_a_fence_is_longer_than_any_in_the_source(monkeypatch: pytest.MonkeyPatch, shown: list[dict[str, Any]]) -> None:
    fenced = 'def f():\n    return "```"\n    # ````'
    monkeypatch.setattr(sources, "_located", lambda thing: ("nips26lib/x.py", 1, fenced))
    show(Claims)
    assert shown[0]["text/markdown"].endswith(f"`````python\n{fenced}\n`````")
