"""The stored outputs of a chapter: executed once, cleaned, and put into the book only when whole."""

from __future__ import annotations

import copy
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from nips26lib.runs import Refusal
from nips26lib.runs.atomic import write_file
from nips26lib.runs.catalogue import ChapterRecord
from nips26lib.runs.execute import OnCell, first_line
from nips26lib.runs.kernel import kernel, one_pool
from nips26lib.runs.parameters import make_plan, read_parameters

LARGEST = 3_000_000  # bytes of a stored notebook

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")
_KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
# No version: the same outputs from Python 3.11 and 3.12 are the same file.
_LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}


class StoreFailed(RuntimeError):
    """The chapter ran, and its outputs are not fit to be stored; the stored ones are as they were.

    `details` holds the traceback of the cell that raised, if one did.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


def store(chapter: ChapterRecord, preset: str = "laptop", on_cell: OnCell | None = None) -> int:
    """Execute the chapter as it stands, at `preset` and seed 0, and store its outputs in the book; their size in bytes.

    Sources, cell ids and cell metadata stay as they are; the same outputs give the same bytes. Raises Refusal before
    a kernel starts, StoreFailed when a cell raises, warns, writes to stderr or leaves what a page cannot show.
    """
    defaults = read_parameters(chapter.notebook)
    plan = make_plan(chapter, preset)
    if (defaults["seed"], defaults["overrides"]) != (0, {}):
        raise Refusal(
            f"{chapter.notebook}: stored outputs are those of seed 0 and no overrides, "
            f"and the cell tagged 'parameters' has {defaults['seed']!r} and {defaults['overrides']!r}"
        )
    before = chapter.notebook.read_bytes()
    source = nbformat.reads(before.decode("utf-8"), as_version=4)
    # The cell itself stays unchanged, so another preset than its own comes through the environment.
    more = one_pool(plan.threads)
    if plan.preset != defaults["preset"]:
        more["NIPS26_PRESET"] = plan.preset
    stored = with_outputs(source, _executed(source, chapter, more, on_cell))
    content = (nbformat.writes(stored) + "\n").encode("utf-8")
    if len(content) > LARGEST:
        raise StoreFailed(f"the notebook would have {len(content):,} bytes; it may have {LARGEST:,}")
    if chapter.notebook.read_bytes() != before:
        raise StoreFailed(f"{chapter.notebook} was changed while it ran; run it again")
    try:
        write_file(chapter.notebook, content)
    except OSError as error:
        raise Refusal(f"{chapter.notebook} cannot be written: {error.strerror or error}") from error
    return len(content)


def with_outputs(source: nbformat.NotebookNode, executed: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """`source` with the outputs of `executed`, counted 1..n and normalised; StoreFailed where they are not clean."""
    stored = copy.deepcopy(source)
    for key in ("papermill", "widgets"):
        stored.metadata.pop(key, None)
    stored.metadata.kernelspec, stored.metadata.language_info = dict(_KERNELSPEC), copy.deepcopy(_LANGUAGE)
    count = 0
    for number, (cell, done) in enumerate(zip(stored.cells, executed.cells, strict=True), 1):
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        if not _runs(cell):
            continue
        count += 1
        cell.execution_count = count
        for output in done.outputs:
            _check(output, f"cell {number} (In [{count}])")
            _append(cell.outputs, output, count)
    nbformat.validate(stored)
    return stored


def _executed(
    source: nbformat.NotebookNode, chapter: ChapterRecord, more: dict[str, str], on_cell: OnCell | None
) -> nbformat.NotebookNode:
    notebook = copy.deepcopy(source)
    total = sum(map(_runs, notebook.cells))
    with (
        tempfile.TemporaryDirectory(prefix="nips26-store-") as folder,
        open(Path(folder) / "log.txt", "w+", encoding="utf-8") as log,
        kernel(chapter.notebook.parents[1], log, **more) as manager,
    ):
        client = NotebookClient(
            notebook, km=manager, timeout=None, record_timing=False, resources={"metadata": {"path": folder}}
        )
        done = 0
        try:
            # Cell by cell, since NotebookClient.execute() takes Ctrl-C for itself.
            with client.setup_kernel():
                for index, cell in enumerate(notebook.cells):
                    if not _runs(cell):
                        continue
                    client.execute_cell(cell, index)
                    done += 1
                    if on_cell is not None:
                        on_cell(done, total)
        except CellExecutionError as error:
            reason = f"cell {done + 1} of {total} raised {error.ename}: {first_line(error.evalue)}"
            raise StoreFailed(reason, error.traceback) from error
        except RuntimeError as error:  # nbclient's word for a kernel that is no more
            raise StoreFailed(f"{manager.death} in cell {done + 1} of {total}") from error
    return notebook


def _runs(cell: Any) -> bool:
    return cell.cell_type == "code" and bool(cell.source.strip())


def _check(output: Any, where: str) -> None:
    """StoreFailed, in one sentence, if the output has no place on a page."""
    kind = output.output_type
    if kind == "error":
        raise StoreFailed(f"{where} raised {output.ename}: {first_line(output.evalue)}")
    if kind == "stream" and output.name == "stderr":
        raise StoreFailed(f"{where} wrote to stderr: {first_line(output.text)}")
    data = {"text/plain": output.text} if kind == "stream" else output.data
    if _WIDGET_VIEW in data:
        raise StoreFailed(f"{where} shows a live widget, which a page without a kernel cannot; make it static")
    text = data.get("text/plain", "")
    if "\r" in text or "\b" in text:
        raise StoreFailed(f"{where} leaves the residue of a progress bar: {first_line(text)!r}")
    # What comes with a richer form is not what a reader sees.
    if set(data) == {"text/plain"} and _ADDRESS.search(text):
        reason = f"shows an object's address in memory, which changes from run to run: {first_line(text)}"
        raise StoreFailed(f"{where} {reason}")


def _append(outputs: list[Any], output: Any, count: int) -> None:
    """Join the pieces in which a stream happened to arrive, and count results as their cell is counted."""
    output = copy.deepcopy(output)
    last = outputs[-1] if outputs else None
    if output.output_type == "stream" and last is not None and last.output_type == "stream":
        last.text += output.text
        return
    if output.output_type == "execute_result":
        output.execution_count = count
    outputs.append(output)
