from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from nips26lib.chapter import presets
from nips26lib.chapter.claims import Claim, Claims, Condition
from nips26lib.chapter.obtaining import MIME, Obtained, obtain, obtained_real, read_data
from nips26lib.chapter.presets import Preset, start, thread_cap
from nips26lib.data.fetch import DataUnavailable
from nips26lib.runs.execute import execute
from nips26lib.runs.parameters import make_plan
from nips26lib.runs.record import read_record
from tests.tinybook import TinyBook, book

__all__ = ["book"]

PRESETS = {"smoke": Preset(), "laptop": Preset()}


@pytest.fixture(autouse=True)
def run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_current", None)
    monkeypatch.setenv("NIPS26_DEVICE", "cpu")
    start("tiny", PRESETS, "laptop", 0, {})


def absent() -> str:
    raise DataUnavailable("cora.npz cannot\n be had")


def test_the_real_data_is_taken_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert obtain("Cora", lambda: "real", lambda: pytest.fail("the stand-in was made")) == "real"
    assert obtained_real() == {"Cora": True}
    assert capsys.readouterr().out.strip() == "Data: Cora, the real data."


def test_a_stand_in_says_that_it_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert obtain("Cora", absent, lambda: "stand-in") == "stand-in"
    assert obtained_real() == {"Cora": False}
    said = capsys.readouterr().out
    assert "a built-in stand-in of the same shape, since Cora could not be had here" in said
    assert "not testable in this run" in said and "cora.npz cannot be had" in said


def test_only_what_cannot_be_had_leads_to_a_stand_in() -> None:
    def corrupt() -> str:
        raise ValueError("a wrong checksum")

    with pytest.raises(ValueError, match="wrong checksum"):
        obtain("Cora", corrupt, lambda: "stand-in")
    assert obtained_real() == {}


def test_a_note_is_inert_html_and_reads_back() -> None:
    bundle = Obtained("<b>Cora", False, 1, "no & never")._repr_mimebundle_()
    assert "&lt;b&gt;Cora" in bundle["text/html"] and "no &amp; never" in bundle["text/html"]
    assert bundle[MIME] == {"name": "<b>Cora", "real": False, "why": "no & never"}
    output = {"output_type": "display_data", "data": bundle}
    other = {"output_type": "display_data", "data": Obtained("X", True, 1)._repr_mimebundle_()}
    notebook = {"cells": [{"outputs": [other, output]}, {"outputs": [output]}, {"source": ""}]}
    assert read_data(notebook) == [{"name": "X", "real": True, "why": ""}, bundle[MIME]]


def claims_on(*needs: str, tested_at: tuple[str, ...] = ("laptop",)) -> Claims:
    claims = Claims([Claim("C", "It works.", (Condition("x", ">", 0.0),), tested_at, needs_data=needs)])
    claims.measure("C", "x", 1.0)
    return claims


def verdict(claims: Claims) -> dict[str, Any]:
    return dict(claims.verdicts()["claims"][0])


@pytest.mark.parametrize(("real", "needs", "expected"), [
    ({"A": True, "B": True}, ("A", "B"), "reproduced"), ({"A": True, "B": False}, ("A", "B"), "not testable here"),
    ({"A": True, "B": False}, ("A",), "reproduced"), ({"B": False}, (), "reproduced"),
])  # fmt: skip
def test_a_claim_that_needs_the_real_data_is_not_tested_on_a_stand_in(
    real: dict[str, bool], needs: tuple[str, ...], expected: str
) -> None:
    for name, is_real in real.items():
        obtain(name, (lambda: "real") if is_real else absent, lambda: "stand-in")
    found = verdict(claims_on(*needs))
    assert found["verdict"] == expected
    if expected != "reproduced":
        assert "the real data (B)" in found["reason"] and "stand-in took its place" in found["reason"]


def test_data_that_was_never_asked_for_is_an_error_where_the_claim_is_tested() -> None:
    obtain("A", lambda: 1, lambda: 2)
    with pytest.raises(ValueError, match=r"claim 'C' needs the data 'B', which this run did not ask for; .* 'A'"):
        claims_on("B").verdicts()
    assert verdict(claims_on("B", tested_at=("gpu",)))["verdict"] == "not testable at this preset"
    start("tiny", PRESETS, "laptop", 0, {})
    assert obtained_real() == {}, "a run begins with nothing"


def test_the_record_of_a_run_says_which_it_was(book: TinyBook, tmp_path: Path) -> None:
    book.write("tiny", [
        "from nips26lib.chapter import obtain\nfrom nips26lib.data.fetch import DataUnavailable\n"
        "def absent():\n    raise DataUnavailable('it is not there')",
        "x = obtain('A', lambda: 1, lambda: 2)", "y = obtain('B', absent, lambda: 2)\nprint(x, y)",
    ])  # fmt: skip
    plan = make_plan(book.catalogue.chapter("tiny"))
    record = execute(plan, tmp_path)
    assert record.reason is None
    assert read_record(tmp_path / plan.directory).data == [
        {"name": "A", "real": True, "why": ""}, {"name": "B", "real": False, "why": "it is not there"},
    ]  # fmt: skip
    notebook = nbformat.read(tmp_path / plan.directory / "tiny.ipynb", as_version=4)
    assert "a built-in stand-in" in json.dumps(notebook)


def test_the_cap_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    three = {"laptop": Preset(threads=3)}
    for cap, threads in (("", 3), ("2", 2), ("7", 3)):
        monkeypatch.setenv("NIPS26_THREADS", cap)
        start("tiny", three, "laptop", 0, {})
        assert torch.get_num_threads() == threads
    for wrong in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv("NIPS26_THREADS", wrong)
        with pytest.raises(ValueError, match=f"NIPS26_THREADS was '{wrong}'"):
            thread_cap()
