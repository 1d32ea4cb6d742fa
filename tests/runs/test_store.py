from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from nips26lib.runs import Refusal, atomic
from nips26lib.runs import store as store_module
from nips26lib.runs.store import StoreFailed, store, with_outputs
from tests.tinybook import CELLS, TinyBook


def read(path: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def sources(notebook: nbformat.NotebookNode) -> list[tuple[object, ...]]:
    return [(cell.id, cell.cell_type, cell.source, dict(cell.metadata)) for cell in notebook.cells]


def test_stored_outputs_stand_in_the_notebook_as_it_was(book: TinyBook, monkeypatch: pytest.MonkeyPatch) -> None:
    path = book.write("tiny", [*CELLS, "", "import os\nprint(preset, os.environ.get('NIPS26_PRESET'))\n'last'"])
    notebook = read(path)
    notebook.cells[2].metadata["tags"] = ["mine"]
    notebook.metadata = {"kernelspec": {"name": "my-env", "display_name": "Mine", "language": "python"},
                         "language_info": {"name": "python", "version": "3.9.9"}, "authors": [{"name": "A"}],
                         "widgets": {}, "papermill": {"version": "1"}}  # fmt: skip
    nbformat.write(notebook, path)
    path.chmod(0o640)
    monkeypatch.setenv("NIPS26_PRESET", "smoke")

    chapter = book.catalogue.chapter("tiny")
    size = store(chapter)
    stored = read(path)
    assert sources(stored) == sources(notebook)
    assert stored.metadata.kernelspec == {"name": "python3", "display_name": "Python 3", "language": "python"}
    assert "version" not in stored.metadata.language_info and stored.metadata.language_info.name == "python"
    assert set(stored.metadata) == {"kernelspec", "language_info", "authors"}
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2, 3, None, 4]
    assert code[-1].outputs[0] == {"output_type": "stream", "name": "stdout", "text": "laptop None\n"}
    assert code[-1].outputs[1].execution_count == 4
    assert code[2].outputs[0].data["application/vnd.nips26.claims+json"]["preset"] == "laptop"
    content = path.read_bytes()
    assert size == len(content) and path.stat().st_mode & 0o777 == 0o640

    store(chapter)
    assert path.read_bytes() == content, "the same outputs, the same bytes"
    assert os.listdir(path.parent) == ["tiny.ipynb"]


def test_another_preset_comes_through_the_environment(book: TinyBook) -> None:
    path = book.write("tiny", ["import os\nprint(os.environ['NIPS26_PRESET'])"])
    store(book.catalogue.chapter("tiny"), "smoke")
    assert read(path).cells[-1].outputs[0].text == "smoke\n"


@pytest.mark.parametrize(("source", "words"), [
    ("1 / 0", "cell 2 of 2 raised ZeroDivisionError: division by zero"),
    ("import warnings\nwarnings.warn('beware')", r"In \[2\].*wrote to stderr.*"),
    ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "the kernel was killed by SIGKILL in cell 2 of 2"),
    ("print('x' * 4_000_000)", "4,0[0-9,]+ bytes; it may have 3,000,000"),
])  # fmt: skip
def test_a_chapter_that_is_not_clean_is_not_stored(book: TinyBook, source: str, words: str) -> None:
    path = book.write("tiny", [source])
    before = path.read_bytes()
    with pytest.raises(StoreFailed, match=words) as failure:
        store(book.catalogue.chapter("tiny"))
    assert "\n" not in str(failure.value)
    assert ("Traceback" in failure.value.details) == (source == "1 / 0")
    assert path.read_bytes() == before and os.listdir(path.parent) == ["tiny.ipynb"]


def notebook_with(*outputs: nbformat.NotebookNode) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=list(outputs))])


def stream(text: str, name: str = "stdout") -> nbformat.NotebookNode:
    return nbformat.v4.new_output("stream", name=name, text=text)


def shown(data: dict[str, object]) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", data=data)


@pytest.mark.parametrize(("output", "words"), [
    (stream("oh", "stderr"), "wrote to stderr: oh"),
    (stream("10%\r20%\r"), "residue of a progress bar"),
    (stream("<object at 0x7f00aa11bb22>"), "address in memory"),
    (shown({"text/plain": "<Line2D at 0x7f00aa11bb22>"}), "address in memory"),
    (shown({"application/vnd.jupyter.widget-view+json": {}, "text/plain": "x"}), "live widget"),
    (nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[]), "raised ValueError: no"),
])  # fmt: skip
def test_outputs_that_have_no_place_on_a_page_are_refused(output: nbformat.NotebookNode, words: str) -> None:
    notebook = notebook_with(stream("fine\n"), output)
    with pytest.raises(StoreFailed, match=words):
        with_outputs(notebook, notebook)


def test_a_stream_is_one_output_however_it_arrived() -> None:
    result = nbformat.v4.new_output("execute_result", data={"text/plain": "1"}, execution_count=9)
    rich = shown({"text/plain": "<x at 0x7f00aa11bb22>", "text/html": "x"})
    pieces = notebook_with(stream("a"), stream("b\n"), rich, stream("c"), result)
    stored = with_outputs(pieces, pieces).cells[0].outputs
    assert [output.output_type for output in stored] == ["stream", "display_data", "stream", "execute_result"]
    assert (stored[0].text, stored[2].text, stored[3].execution_count) == ("ab\n", "c", 1)


def test_what_cannot_be_stored_is_refused_before_any_kernel(book: TinyBook, no_kernel: Callable[[], None]) -> None:
    book.write("seeded", parameters='preset, seed, overrides = "laptop", 1, {}')
    with pytest.raises(Refusal, match="seed 0 and no overrides"):
        store(book.catalogue.chapter("seeded"))
    with pytest.raises(Refusal, match="'huge'"):
        store(book.catalogue.chapter("tiny"), "huge")
    no_kernel()


def test_a_full_disk_and_an_edit_meanwhile_leave_the_notebook(book: TinyBook, monkeypatch: pytest.MonkeyPatch) -> None:
    chapter = book.catalogue.chapter("tiny")
    before = chapter.notebook.read_bytes()
    monkeypatch.setattr(store_module, "_executed", lambda source, *_: source)  # this is about files

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "replace", no_space)
        with pytest.raises(Refusal, match="cannot be written: No space left on device"):
            store(chapter)
    assert chapter.notebook.read_bytes() == before and os.listdir(chapter.notebook.parent) == ["tiny.ipynb"]

    def edited(source: nbformat.NotebookNode, *_: object) -> nbformat.NotebookNode:
        chapter.notebook.write_bytes(before + b"\n")
        return source

    monkeypatch.setattr(store_module, "_executed", edited)
    with pytest.raises(StoreFailed, match="was changed while it ran"):
        store(chapter)
    assert chapter.notebook.read_bytes() == before + b"\n"
