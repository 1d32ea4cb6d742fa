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
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from platform import platform
from typing import Any, NamedTuple, TextIO

import nbformat
import papermill
from nbclient.exceptions import DeadKernelError

from nips26lib.chapter.claims import read_claims
from nips26lib.chapter.obtaining import read_data
from nips26lib.chapter.presets import thread_cap
from nips26lib.runs import Refusal
from nips26lib.runs.atomic import remove_leftovers, replace_directory, restore_directory, sibling
from nips26lib.runs.identity import identify
from nips26lib.runs.kernel import KERNEL_NAME, ThisInterpreter, kernel, one_pool
from nips26lib.runs.parameters import Plan
from nips26lib.runs.record import FILE_NAME, RunRecord, revision, versions
from nips26lib.runs.watch import Limits, Watch

LOG_NAME = "log.txt"
NO_LIMITS = Limits()
OnCell = Callable[[int, int], None]

# Papermill does not see the names in a tuple assignment and warns of "unknown" parameters; ours are checked before.
logging.getLogger("papermill").addHandler(logging.NullHandler())

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def execute(plan: Plan, out: Path, on_cell: OnCell | None = None, limits: Limits = NO_LIMITS) -> RunRecord:
    """Run the plan; leave notebook, record and log, whole, in `out / plan.directory`, in the place of an older run.

    A cell that raises, a kernel that dies or one that passes a limit gives a record with status "failed" and its
    reason. `on_cell(done, total)` is called after each code cell. Refusal if the directory cannot be written; then,
    and when interrupted, an older run stays as it was and nothing is left beside it.
    """
    with placed(out.absolute() / plan.directory) as work:
        return run_in(plan, work, on_cell, limits).record


@contextlib.contextmanager
def placed(target: Path) -> Iterator[Path]:
    """A fresh folder beside `target`, on its filesystem, that takes the place of `target` in one step at the end.

    Whatever goes wrong before, an older `target` stays as it was, and the folder is gone, with every folder made on
    the way. Refusal where it cannot be written.
    """
    made = [folder for folder in target.parents if not folder.exists()]
    work = sibling(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        restore_directory(target)
        remove_leftovers(target)
        work.mkdir()
        yield work
        replace_directory(work, target)
    except OSError as error:
        raise Refusal(f"the run cannot be written to {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):  # not empty: the run is in there
                folder.rmdir()


@dataclass(frozen=True)
class Executed:
    """A record, and whether its failure may be the machine's rather than the chapter's: another try is worth it."""

    record: RunRecord
    machine_failed: bool


def run_in(
    plan: Plan,
    work: Path,
    on_cell: OnCell | None = None,
    limits: Limits = NO_LIMITS,
    account: Callable[[ThisInterpreter], AbstractContextManager[object]] = contextlib.nullcontext,
) -> Executed:
    """Run the plan in the folder `work` and leave notebook, record and log there. OSError where that cannot be.

    `account(manager)` is entered while the kernel may live.
    """
    notebook = work / f"{plan.chapter.slug}.ipynb"
    shutil.copyfile(plan.chapter.notebook, notebook)
    # Taken before the run, so that a chapter that is changed meanwhile does not lend its identity to the old result.
    identity = identify(plan)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    clock = time.perf_counter()
    threads = min(plan.threads, thread_cap())
    with (
        open(work / LOG_NAME, "a", encoding="utf-8") as log,
        kernel(plan.chapter.notebook.parents[1], log, **one_pool(threads)) as manager,
        account(manager),
        Watch(manager, limits) as watch,
    ):
        failure = _papermill(plan, notebook, log, manager, watch, on_cell)
    seconds = time.perf_counter() - clock
    _tidy(notebook, plan)
    content = json.loads(notebook.read_text(encoding="utf-8"))
    record = RunRecord(
        chapter=plan.chapter.slug,
        preset=plan.preset,
        seed=plan.seed,
        overrides=dict(plan.overrides),
        parameters=dict(plan.extra),
        identity=identity,
        status="failed" if failure else "succeeded",
        reason=failure.reason if failure else None,
        attempts=1,
        started=started,
        wall_seconds=round(seconds, 3),
        peak_memory_bytes=watch.peak,
        versions=versions(),
        device=plan.device,
        threads=threads,
        revision=revision(plan.chapter.notebook.parent),
        platform=platform(),
        data=read_data(content),
        claims=None if failure else read_claims(content),
    )
    (work / FILE_NAME).write_text(record.to_json(), encoding="utf-8")
    return Executed(record, failure is not None and failure.machine)


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


class _Failure(NamedTuple):
    reason: str
    machine: bool = False


def _papermill(
    plan: Plan, notebook: Path, log: TextIO, manager: ThisInterpreter, watch: Watch, on_cell: OnCell | None
) -> _Failure | None:
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
        return _Failure(f"cell {progress.done} of {progress.total} raised {error.ename}: {first_line(error.evalue)}")
    except DeadKernelError:
        if watch.verdict is not None:
            return _Failure(f"{watch.verdict} in {progress.running}")
        return _Failure(f"{manager.death} in {progress.running}", machine=True)
    except Exception as error:
        # Whatever else stops a run is its reason, so that it loses no other run. A kernel that a limit kills before
        # it answers comes here too.
        log.write(traceback.format_exc())
        if watch.verdict is not None:
            return _Failure(f"{watch.verdict} in {progress.running}")
        return _Failure(f"{type(error).__name__} in {progress.running}: {first_line(str(error))}", machine=True)
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
