"""One run: papermill on a copy of the chapter, in a directory of its own, with its record beside it."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from platform import platform
from typing import Any, TextIO

import nbformat
import papermill
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from nips26lib.chapter.claims import read_claims
from nips26lib.runs import Refusal
from nips26lib.runs.atomic import replace_directory, restore_directory, sibling
from nips26lib.runs.kernel import KERNEL_NAME, MemoryMeter, ThisInterpreter, kernel
from nips26lib.runs.parameters import Plan
from nips26lib.runs.record import FILE_NAME, RunRecord, revision, versions

LOG_NAME = "log.txt"
OnCell = Callable[[int, int], None]

# Papermill does not see the names in a tuple assignment and warns of "unknown" parameters; ours are checked before.
logging.getLogger("papermill").addHandler(logging.NullHandler())

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def execute(plan: Plan, out: Path, on_cell: OnCell | None = None) -> RunRecord:
    """Run the plan; leave notebook, record and log, whole, in `out / plan.directory`, in the place of an older run.

    A cell that raises or a kernel that dies gives a record with status "failed" and its reason. `on_cell(done, total)`
    is called after each code cell. Refusal if the directory cannot be written; then, and when interrupted, an older
    run stays as it was and nothing is left beside it.
    """
    target = out.absolute() / plan.directory
    with _clean_on_failure(target) as work:
        record = _run(plan, work, on_cell)
        (work / FILE_NAME).write_text(record.to_json(), encoding="utf-8")
        replace_directory(work, target)
    return record


@contextlib.contextmanager
def _clean_on_failure(target: Path) -> Iterator[Path]:
    """A fresh folder beside `target`, on its filesystem; gone afterwards, and so is every folder made on the way
    if the run was not put in place.
    """
    made = [folder for folder in target.parents if not folder.exists()]
    work = sibling(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        restore_directory(target)
        work.mkdir()
        yield work
    except OSError as error:
        raise Refusal(f"the run cannot be written to {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):  # not empty: the run is in there
                folder.rmdir()


class _Progress:
    """Counts the code cells that have run; nbclient calls these as hooks."""

    def __init__(self, total: int, on_cell: OnCell | None) -> None:
        self.done, self.total, self.on_cell = 0, total, on_cell

    def executed(self, **_: Any) -> None:
        self.done += 1
        if self.on_cell is not None:
            self.on_cell(self.done, self.total)

    @property
    def running(self) -> str:
        return f"cell {self.done + 1} of {self.total}"


def _run(plan: Plan, work: Path, on_cell: OnCell | None) -> RunRecord:
    notebook = work / f"{plan.chapter.slug}.ipynb"
    shutil.copyfile(plan.chapter.notebook, notebook)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    clock = time.perf_counter()
    with (
        open(work / LOG_NAME, "a", encoding="utf-8") as log,
        kernel(plan.chapter.notebook.parents[1], log) as manager,
        MemoryMeter(manager) as meter,
    ):
        reason = _papermill(plan, notebook, log, manager, on_cell)
    seconds = time.perf_counter() - clock
    _tidy(notebook, plan)
    return RunRecord(
        chapter=plan.chapter.slug,
        preset=plan.preset,
        seed=plan.seed,
        overrides=dict(plan.overrides),
        parameters=dict(plan.extra),
        status="succeeded" if reason is None else "failed",
        reason=reason,
        started=started,
        wall_seconds=round(seconds, 3),
        peak_memory_bytes=meter.peak,
        versions=versions(),
        device=plan.device,
        threads=plan.threads,
        revision=revision(plan.chapter.notebook.parent),
        platform=platform(),
        claims=read_claims(json.loads(notebook.read_text(encoding="utf-8"))) if reason is None else None,
    )


def _papermill(
    plan: Plan, notebook: Path, log: TextIO, manager: ThisInterpreter, on_cell: OnCell | None
) -> str | None:
    """Execute the notebook in place; None, or why it failed."""
    cells = nbformat.read(notebook, as_version=4).cells
    # Papermill adds one cell, which holds the parameters.
    progress = _Progress(1 + sum(cell.cell_type == "code" and bool(cell.source.strip()) for cell in cells), on_cell)
    path = str(notebook).replace("{", "{{").replace("}", "}}")  # papermill formats its paths
    try:
        papermill.execute_notebook(
            path,
            path,
            parameters=plan.parameters,
            kernel_name=KERNEL_NAME,
            language="python",
            progress_bar=False,
            stdout_file=log,
            stderr_file=log,
            # The rest goes to nbclient. The kernel's folder is given here, since papermill's `cwd` moves this process.
            km=manager,
            resources={"metadata": {"path": str(notebook.parent)}},
            on_cell_executed=progress.executed,
        )
    except OSError:
        raise
    except papermill.PapermillExecutionError as error:
        log.write(_ANSI.sub("", "\n".join([*error.traceback, ""])))
        return f"cell {progress.done} of {progress.total} raised {error.ename}: {first_line(error.evalue)}"
    except DeadKernelError:
        return f"{manager.death} in {progress.running}"
    except CellTimeoutError as error:
        return f"{progress.running} took too long: {first_line(str(error))}"
    except Exception as error:
        # Whatever else stops a run is its reason, so that it loses no other run.
        log.write(traceback.format_exc())
        return f"{type(error).__name__} in {progress.running}: {first_line(str(error))}"
    return None


def first_line(text: str) -> str:
    """The first line of a message, without colours, at most 300 characters."""
    line = _ANSI.sub("", text).strip().partition("\n")[0]
    return line if len(line) <= 300 else line[:299] + "…"


def _tidy(notebook: Path, plan: Plan) -> None:
    """Take from the executed notebook the paths of the folder that it ran in, which will be no more."""
    content = nbformat.read(notebook, as_version=4)
    if "papermill" in content.metadata:
        source = plan.chapter.notebook
        content.metadata.papermill["input_path"] = f"{source.parents[1].name}/{source.parent.name}/{source.name}"
        content.metadata.papermill["output_path"] = notebook.name
        nbformat.write(content, notebook)
