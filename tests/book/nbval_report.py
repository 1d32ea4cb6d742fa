"""A pytest plugin for nbval: each chapter's wall time and peak memory beside its budget, and one failure a chapter.

`make test` loads it with `-p tests.book.nbval_report`. Longest chapters start first; once a cell has raised, the
rest of its notebook is skipped, since what follows could only fail for the same reason.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from nbval.plugin import IPyNbCell

from nips26lib.runs.catalogue import ChapterRecord, load_catalogue

# Names of what travels from a worker to the summary in a report's user_properties.
NOTEBOOK = "notebook"
PEAK = "peak_bytes"
SAMPLING_SECONDS = 0.1


class PeakMemory:
    """The largest resident memory seen of a process and its children, sampled until `stop`."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._process = psutil.Process(pid)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while True:
            total = 0
            try:
                for process in (self._process, *self._process.children(recursive=True)):
                    total += process.memory_info().rss
            except psutil.Error:  # a process ended between the listing and the look
                if not self._process.is_running():
                    return
            self.bytes = max(self.bytes, total)
            if self._stopped.wait(SAMPLING_SECONDS):
                return

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def records() -> dict[str, ChapterRecord]:
    return {str(record.notebook): record for record in load_catalogue().chapters}


def preset() -> str:
    return os.environ.get("NIPS26_PRESET") or "laptop"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest first, so that no core is left with a long chapter at the end; a chapter's cells stay in order."""
    known = records()
    for item in items:
        item.user_properties.append((NOTEBOOK, str(item.path.resolve())))

    def seconds(item: pytest.Item) -> float:
        record = known.get(str(item.path.resolve()))
        return record.budget[preset()].seconds if record else 0.0

    items.sort(key=lambda item: -seconds(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    yield  # starts the kernel at a notebook's first cell
    if isinstance(item, IPyNbCell):
        notebook: Any = item.parent
        if getattr(notebook, "raised_in", None) is not None:
            pytest.skip(f"cell {notebook.raised_in} of this notebook raised")
        if not hasattr(notebook, "peak_memory"):
            notebook.peak_memory = PeakMemory(notebook.kernel.km.provisioner.pid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Before the report is made: what it is to carry, and whether the notebook can go on after this cell."""
    if isinstance(item, IPyNbCell) and call.when == "call":
        notebook: Any = item.parent
        item.user_properties.append((PEAK, notebook.peak_memory.bytes))
        if call.excinfo is not None and "Cell outputs differ" not in str(call.excinfo.value):
            notebook.raised_in = item.cell_num


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if isinstance(item, IPyNbCell) and (nextitem is None or nextitem.parent is not item.parent):
        notebook: Any = item.parent
        if hasattr(notebook, "peak_memory"):
            notebook.peak_memory.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table. It is a report: machines differ, so nothing fails for being over its budget."""
    seconds: dict[str, float] = {}
    peak: dict[str, int] = {}
    failed: set[str] = set()
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            carried = dict(getattr(report, "user_properties", []))
            path = carried.get(NOTEBOOK)
            if path is None:
                continue
            seconds[path] = seconds.get(path, 0.0) + report.duration
            peak[path] = max(peak.get(path, 0), carried.get(PEAK, 0))
            if outcome in ("failed", "error"):
                failed.add(path)
    if not seconds:
        return
    known = records()
    terminalreporter.section(f"chapters at {preset()}: used / budget")
    for path in sorted(seconds, key=seconds.__getitem__, reverse=True):
        terminalreporter.write_line(row(Path(path).stem, known.get(path), seconds[path], peak[path], path in failed))


def row(name: str, record: ChapterRecord | None, seconds: float, peak_bytes: int, failed: bool) -> str:
    """One line of the table.

    >>> row("tiny", None, 12.34, 1_500_000_000, failed=True)
    'tiny                    12.3 s           1.50 GB   FAILED'
    """
    gigabytes = peak_bytes / 1e9
    of_time = of_memory = ""
    notes = ["FAILED"] if failed else []
    if record is not None:
        budget = record.budget[preset()]
        of_time, of_memory = f"/ {budget.seconds:4.0f} s", f"/ {budget.gigabytes:g} GB"
        notes += ["over its time"] if seconds > budget.seconds else []
        notes += ["over its memory"] if gigabytes > budget.gigabytes else []
    return f"{name:<22}{seconds:6.1f} s {of_time:8}{gigabytes:7.2f} GB {of_memory:7} {', '.join(notes)}".rstrip()
