from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from nips26lib.cli import main
from nips26lib.runs.record import read_record
from tests.tinybook import CLAIMS, DRAW, TinyBook, book, no_kernel

__all__ = ["book", "no_kernel"]

COMMAND = [sys.executable, "-m", "nips26lib.cli"]
FAST = ["--quiet"]


def test_help_is_instant_since_it_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'papermill', 'nbformat', 'yaml', 'IPython'}"
    script = f"""
import sys
from nips26lib.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert end.code == 0
assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert all(command in answer.stdout for command in ("list", "run", "sweep", "claims", "doctor", "store"))


@pytest.mark.parametrize("arguments", [
    [], ["fly"], ["run"], ["run", "tiny", "--all"], ["run", "nowhere"], ["store", "nowhere"], ["run", "tiny", "bare"],
    ["run", "tiny", "--seed", "x"], ["run", "tiny", "--preset", "huge"], ["run", "tiny", "-p", "sedes=2"],
    ["run", "tiny", "-p", "seeds=many"], ["run", "tiny", "-p", "seeds"], ["run", "tiny", "-p", "preset=7"],
    ["claims", "nowhere"], ["claims", "."], ["claims", "tiny", "."], ["claims", "tiny", "--csv", "x.csv"],
    ["claims", ".", "--results", "x.json"], ["run", "tiny", "--memory", "much"], ["run", "tiny", "--timeout", "0"],
    ["sweep"], ["sweep", "nowhere"], ["sweep", "tiny", "-p", "seed=5:0"], ["sweep", "tiny", "-p", "sedes=1,2"],
    ["sweep", "tiny", "-p", "seed=1", "-p", "seed=2"], ["sweep", "tiny", "--workers", "2", "--scheduler", "x"],
    ["sweep", "tiny", "--workers", "0"], ["sweep", "tiny", "--retries", "-1"], ["sweep", "tiny", "--memory", "0GB"],
])  # fmt: skip
def test_what_is_wrong_is_one_sentence_and_status_2(
    book: TinyBook, arguments: list[str], no_kernel: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    book.write("bare", parameters=None)
    try:
        status = main(arguments)
    except SystemExit as end:
        status = int(end.code or 0)
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert said.err.count("\n") == 1 and said.err.startswith("nips26"), said.err
    assert os.listdir() == []
    no_kernel()


def test_no_book_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NIPS26_BOOK", str(tmp_path))
    assert main(["list"]) == 2
    assert "NIPS26_BOOK" in capsys.readouterr().err


def test_list(book: TinyBook, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert "The chapter tiny" in capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["slug"], entry["budget"]["smoke"]["seconds"]) == ("tiny", 60)
    assert Path(entry["notebook"]).is_file()


def test_a_run_says_where_it_is_and_what_it_found(book: TinyBook, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", "-p", "seeds=2", "--seed", "4"]) == 0
    said = capsys.readouterr()
    (folder,) = Path("runs/tiny").iterdir()
    assert str(folder) in said.out
    assert (
        "C1" in said.out and "reproduced" in said.out and "2.5 [2, 3] dB" in said.out and "low >= 1 dB: met" in said.out
    )
    assert said.err == "", "no progress bar where nobody watches"
    assert read_record(folder).overrides == {"seeds": 2}

    assert main(["claims", "runs"]) == 0
    said = capsys.readouterr().out
    assert "C1" in said and "reproduced 1/1" in said
    (folder / "run.json").write_text((folder / "run.json").read_text()[:100])
    assert main(["claims", "runs"]) == 1
    assert "is no whole record" in capsys.readouterr().err


def test_one_failure_among_chapters_is_status_1_and_stops_no_other(
    book: TinyBook, capsys: pytest.CaptureFixture[str]
) -> None:
    book.write("broken", ["raise RuntimeError('on purpose')"])
    book.write("another", [DRAW])
    assert main(["run", "broken", "another", "broken", "--json", *FAST]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert (first["chapter"], first["status"]) == ("broken", "failed") and "on purpose" in first["reason"]
    assert (second["chapter"], second["status"]) == ("another", "succeeded")
    for entry in (first, second):
        assert (Path(entry["directory"]) / "run.json").is_file()
    assert main(["claims", "runs"]) == 0
    said = capsys.readouterr().out
    assert "on purpose" in said


def test_a_sweep_ends_with_a_table_of_claims_over_its_runs(book: TinyBook, capsys: pytest.CaptureFixture[str]) -> None:
    book.write("tiny", ["assert seed != 2, 'on purpose'", CLAIMS])
    command = ["sweep", "tiny", "-p", "seed=0:2", "--workers", "1", "--preset", "smoke"]
    assert main(command) == 1
    said = capsys.readouterr()
    assert "C1" in said.out and "reproduced 2/2" in said.out
    assert "3 runs in runs/tiny: 2 done now, 0 whole before, 1 failed, 0 not run" in said.out
    assert "failed: cell 3 of 4 raised AssertionError: on purpose; notebook, log and record:" in said.out
    # Where stderr is a file, a line a finished run.
    assert [line.partition(":")[0] for line in said.err.splitlines()] == [f"tiny smoke seed {n}" for n in range(3)]
    assert "(1/3, " in said.err and "left)" in said.err

    assert main([*command, "--json"]) == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert said.err == ""
    assert {name: found[name] for name in ("runs", "kept", "failed", "missing", "halted")} == {
        "runs": 3, "kept": 2, "failed": 1, "missing": 0, "halted": None,
    }  # fmt: skip
    assert [Path(folder).name for folder in found["directories"]] == [f"smoke-seed{n}" for n in range(3)]
    assert "on purpose" in found["failures"][0]["reason"]


def test_claims_of_runs_as_files(book: TinyBook, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny", *FAST]) == main(["run", "tiny", "--seed", "1", *FAST]) == 0
    capsys.readouterr()
    files = [
        "--csv",
        "deep/claims.csv",
        "--html",
        "claims.html",
        "--results",
        "results.json",
        "--hardware",
        "a slide rule",
    ]
    assert main(["claims", "runs", "--json", *files]) == 0
    assert json.loads(capsys.readouterr().out)
    lines = Path("deep/claims.csv").read_text().splitlines()
    assert len(lines) == 3 and lines[0].startswith("chapter,") and lines[1].startswith("tiny,smoke,0,")
    page = Path("claims.html").read_text()
    assert page.startswith("<!doctype html>") and "It gains." in page
    results = json.loads(Path("results.json").read_text())
    assert (results["runs"], results["hardware"]) == (2, "a slide rule") and results["claims"][0]["id"] == "C1"
    Path("blocked").write_text("mine")
    assert main(["claims", "runs", "--csv", "blocked/claims.csv"]) == 2
    assert "cannot be written" in capsys.readouterr().err and Path("blocked").read_text() == "mine"


def test_stored_claims_come_from_the_book(book: TinyBook, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims"]) == 0
    assert "no stored claims" in capsys.readouterr().out
    assert main(["store", "tiny", *FAST]) == 0
    assert "tiny: stored" in capsys.readouterr().out
    assert main(["claims", "tiny"]) == 0
    assert "reproduced" in capsys.readouterr().out
    before = book.write("tiny", [CLAIMS, "1 / 0"]).read_bytes()
    assert main(["store", "tiny", *FAST]) == 1
    assert "tiny was not stored: cell 3 of 3 raised ZeroDivisionError" in capsys.readouterr().err
    assert book.catalogue.chapter("tiny").notebook.read_bytes() == before


def test_doctor(book: TinyBook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    mirror = Path("mirror").absolute()
    mirror.mkdir()
    monkeypatch.setenv("NIPS26_DATA", str(mirror))
    monkeypatch.setenv("NIPS26_CACHE", str(mirror.with_name("cache")))
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["python"] == ".".join(map(str, sys.version_info[:3])) and found["problems"] == []
    assert (found["book"], found["chapters"], found["mirrors"]) == (str(book.root), 1, [str(mirror)])
    assert {file["where"] for file in found["data"]} == {"missing"}
    assert all("http" in file["get"] or "by hand" in file["get"] for file in found["data"])
    assert {"torch", "device", "threads", "chromium"} <= set(found)
    damaged = mirror / "nugpt" / "tinyshakespeare.txt"
    damaged.parent.mkdir()
    damaged.write_text("To be")
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "tinyshakespeare.txt is damaged" in said and "nugpt: 0 of 1 files here" in said
    assert "prat: 0 of 11 files here" in said and "9 missing: downloaded when it is first asked for" in said
    assert "2 missing: by hand" in said
    shutil.rmtree(mirror)
    monkeypatch.setenv("NIPS26_DEVICE", "abacus")
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "abacus" in said and "mirror, which is no folder" in said


@pytest.mark.parametrize("command", [["run", "tiny"], ["store", "tiny"]])
def test_ctrl_c_stops_the_kernel_and_keeps_nothing(book: TinyBook, command: list[str], tmp_path: Path) -> None:
    signpost = tmp_path / "pid"
    path = book.write(
        "tiny", [f"import os, time\nopen({str(signpost)!r}, 'x').write(str(os.getpid()))\ntime.sleep(600)"]
    )
    before = path.read_bytes()
    process = subprocess.Popen(
        [*COMMAND, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a test run that was itself started in the background hands down an ignored interrupt
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        while process.poll() is None and not (signpost.exists() and signpost.read_text()):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert out == "" and err.count("\n") == 1 and err.startswith("nips26: interrupted"), err
    assert not psutil.pid_exists(int(signpost.read_text()))
    assert os.listdir() == [] and os.listdir(path.parent) == ["tiny.ipynb"] and path.read_bytes() == before
