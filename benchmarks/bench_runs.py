"""What executing chapters costs beyond the chapters themselves, and what a second worker gives.

pytest benchmarks/bench_runs.py            prints times and ratios
pytest benchmarks/bench_runs.py --record   and writes them to benchmarks/results/runs.json
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from nips26lib.runs.execute import execute, placed
from nips26lib.runs.grid import make_plans
from nips26lib.runs.parameters import Plan, make_plan
from nips26lib.runs.record import FILE_NAME, RunRecord, read_record
from nips26lib.runs.sweep import sweep
from tests.tinybook import CELLS, TinyBook

OURS = "nips26lib"
RECORDS, RUNS = 1_000, 40


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyBook]:
    from tests.tinybook import MODULE

    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "tiny_module.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.setenv("NIPS26_BOOK", str(tmp_path / "book"))
    monkeypatch.delenv("NIPS26_PRESET", raising=False)
    yield TinyBook(tmp_path / "book")
    sys.modules.pop("tiny_module", None)


def plans_of(book: TinyBook, runs: int) -> list[Plan]:
    return make_plans(book.catalogue.chapter("tiny"), "smoke", [("seed", range(runs))])


@pytest.mark.benchmark(group="a run of a chapter of two seconds, beside nbclient alone")
@pytest.mark.parametrize("who", [OURS, "nbclient"])
def test_overhead_of_a_run(benchmark, who, book, tmp_path):
    path = book.write("tiny", ["import time\ntime.sleep(2)", *CELLS])
    plan = make_plan(book.catalogue.chapter("tiny"))

    def bare() -> None:
        NotebookClient(nbformat.read(path, as_version=4)).execute()

    call = (lambda: execute(plan, tmp_path / "runs")) if who == OURS else bare
    benchmark.pedantic(call, rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group=f"a sweep of {RUNS} runs of about three seconds, two workers beside one")
@pytest.mark.parametrize("who", [OURS, "one worker"])
def test_speed_up_by_a_second_worker(benchmark, who, book, tmp_path):
    book.write(
        "tiny", ["import time\nend = time.process_time() + 2\nwhile time.process_time() < end:\n    pass", *CELLS]
    )
    plans = plans_of(book, RUNS)
    workers = 2 if who == OURS else 1
    finished = benchmark.pedantic(lambda: sweep(plans, tmp_path / "runs", workers=workers), rounds=1)
    assert not finished.failures and finished.kept == 0


def records(book: TinyBook, out: Path) -> RunRecord:
    """A real record, a thousand times, each of another seed."""
    plan = make_plan(book.catalogue.chapter("tiny"))
    record = execute(plan, out)
    for seed in range(1, RECORDS):
        with placed(out / "tiny" / f"smoke-seed{seed}") as work:
            (work / FILE_NAME).write_text(replace(record, seed=seed).to_json())
    return record


@pytest.mark.benchmark(group=f"nips26 claims over {RECORDS:,} records")
@pytest.mark.parametrize("who", [OURS])
def test_claims_over_many_records(benchmark, who, book, tmp_path):
    records(book, tmp_path / "runs")
    command = [sys.executable, "-m", "nips26lib.cli", "claims", str(tmp_path / "runs")]
    answer = benchmark.pedantic(lambda: subprocess.run(command, capture_output=True, text=True), rounds=3)
    assert answer.returncode == 0 and f"{RECORDS}/{RECORDS}" in answer.stdout


@pytest.mark.benchmark(group=f"memory of the sweep's process over {RECORDS:,} runs")
@pytest.mark.parametrize("who", [OURS])
def test_memory_over_many_runs(benchmark, who, book, tmp_path, monkeypatch):
    """The cluster is real and so is all that the sweep does; only a run's kernel is left out."""
    record = records(book, tmp_path / "answer")
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[1]}:{tmp_path / 'modules'}")
    files = {path.name: path.read_bytes() for path in (tmp_path / "answer" / "tiny" / "smoke-seed0").iterdir()}
    files["tiny.ipynb"] += b" " * 1_000_000
    (tmp_path / "modules" / "answers.py").write_text(
        "import json\nfrom nips26lib.runs.worker import Answer\n"
        f"FILES = {files!r}\nCONTENT = json.loads(FILES['run.json'])\n"
        "def perform(request):\n"
        "    content = CONTENT | {'seed': request.seed, 'identity': request.identity}\n"
        "    return Answer(FILES | {'run.json': json.dumps(content).encode()}, False)\n"
    )
    import answers  # type: ignore[import-not-found]

    from nips26lib.runs import sweep as module

    monkeypatch.setattr(module, "perform", answers.perform)
    plans = plans_of(book, RECORDS)
    resident: list[int] = []
    process = psutil.Process()

    def on_change(progress, record):
        if record is not None:
            resident.append(process.memory_info().rss)

    benchmark.pedantic(lambda: sweep(plans, tmp_path / "runs", workers=2, on_change=on_change), rounds=1)
    assert read_record(tmp_path / "runs" / plans[-1].directory) == replace(
        record, seed=RECORDS - 1, identity=read_record(tmp_path / "runs" / plans[-1].directory).identity
    )
    benchmark.extra_info["megabytes after 100 runs"] = round(resident[99] / 1e6, 1)
    benchmark.extra_info[f"megabytes after {RECORDS} runs"] = round(resident[-1] / 1e6, 1)
    assert json.dumps(benchmark.extra_info)
