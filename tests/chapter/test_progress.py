from __future__ import annotations

import sys

import pytest

from nips26lib.chapter import presets
from nips26lib.chapter.presets import Preset, start
from nips26lib.chapter.progress import progress


@pytest.fixture(autouse=True)
def no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_current", None)


class Terminal:
    """A stand-in for standard error that counts as a terminal or not, and keeps what is written."""

    encoding = "utf-8"

    def __init__(self, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self.text = ""

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_sees_the_bar_and_a_file_does_not(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    terminal = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert list(progress(iter("abc"), "spelling", total=3)) == ["a", "b", "c"]
    assert ("spelling" in terminal.text) is is_terminal


def test_a_static_run_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("NIPS26_STATIC", "1")
    assert list(progress([1, 2], "before the start")) == [1, 2]
    start("tiny", {"smoke": Preset()}, "smoke", 0, {})
    monkeypatch.delenv("NIPS26_STATIC")
    assert list(progress([1, 2], "in a run that began static")) == [1, 2]
    assert terminal.text == ""
