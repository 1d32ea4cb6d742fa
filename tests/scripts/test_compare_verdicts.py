from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from nips26lib.runs.record import RunRecord
from scripts.compare_verdicts import differences, main
from tests.tinybook import TinyBook, book

__all__ = ["book"]

MEASURED = {"quantity": "gain", "value": 2.5, "low": 2.0, "high": 3.0}


def table(preset: str = "laptop", **verdicts: str) -> dict[str, Any]:
    claims = [{"id": name, "verdict": verdict, "measurements": [MEASURED]} for name, verdict in verdicts.items()]
    return {"chapter": "tiny", "preset": preset, "seed": 0, "device": "cpu", "claims": claims}


RECORD = RunRecord(
    chapter="tiny",
    preset="laptop",
    seed=0,
    overrides={},
    parameters={},
    identity="0",
    status="succeeded",
    reason=None,
    started="2026-01-02T03:04:05+00:00",
    wall_seconds=1.0,
    peak_memory_bytes=1,
    attempts=1,
    data=[],
    versions={},
    device="cpu",
    threads=1,
    revision=None,
    platform="Linux",
    claims=None,
)


def record(claims: dict[str, Any] | None, **changes: Any) -> RunRecord:
    return dataclasses.replace(RECORD, claims=claims, **changes)


def test_the_same_verdicts_are_no_difference() -> None:
    assert differences(record(table(C1="reproduced")), table(C1="reproduced")) == []


@pytest.mark.parametrize(
    ("run", "stored", "message"),
    [
        (record(table(C1="not reproduced")), table(C1="reproduced"), "C1: stored reproduced (gain = 2.5), now not rep"),
        (record(table()), table(C1="reproduced"), "C1: stored reproduced (gain = 2.5), now absent"),
        (record(table(C1="reproduced")), table(), "C1: stored absent, now reproduced (gain = 2.5)"),
        (record(table(), status="failed", reason="a cell raised"), table(), "the run failed: a cell raised"),
        (record(table("smoke"), preset="smoke"), table(), "the run is at smoke, the stored outputs at laptop"),
        (record(None), table(), "the run has no claims table"),
        (record(table()), None, "the stored chapter has no claims table"),
    ],
)
def test_each_difference_is_named(run: RunRecord, stored: dict[str, Any] | None, message: str) -> None:
    (line,) = differences(run, stored)
    assert line.startswith(message)


def write(book: TinyBook, folder: Path, verdict: str) -> None:
    """Store the chapter with C1 reproduced, and leave a run of it in which C1 has the given verdict."""
    path = book.catalogue.chapter("tiny").notebook
    notebook = nbformat.read(path, as_version=4)
    data = {"application/vnd.nips26.claims+json": table(C1="reproduced")}
    notebook.cells[-1].outputs = [nbformat.v4.new_output("display_data", data=data)]
    nbformat.write(notebook, path)
    (folder / "tiny" / "laptop-seed0").mkdir(parents=True)
    (folder / "tiny" / "laptop-seed0" / "run.json").write_text(record(table(C1=verdict)).to_json())


@pytest.mark.parametrize(("verdict", "status"), [("reproduced", 0), ("not reproduced", 1)])
def test_the_exit_status_tells(book: TinyBook, tmp_path: Path, capsys, verdict: str, status: int) -> None:
    write(book, tmp_path / "runs", verdict)
    assert main([str(tmp_path / "runs")]) == status
    assert f"tiny at laptop: {'DIFFERS' if status else 'as stored'}" in capsys.readouterr().out


def test_nothing_to_compare_is_refused(book: TinyBook, tmp_path: Path, capsys) -> None:
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty")]) == 2
    assert main([str(tmp_path / "missing")]) == 2
    assert "there is no run in" in (error := capsys.readouterr().err) and "is no folder" in error


def test_half_a_record_is_refused(book: TinyBook, tmp_path: Path, capsys) -> None:
    write(book, tmp_path / "runs", "reproduced")
    path = tmp_path / "runs" / "tiny" / "laptop-seed0" / "run.json"
    content = json.loads(path.read_text())
    del content["claims"]
    path.write_text(json.dumps(content))
    assert main([str(tmp_path / "runs")]) == 2
    assert "'claims' is missing" in capsys.readouterr().err
