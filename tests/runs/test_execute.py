from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import nbformat
import psutil
import pytest

from nips26lib.runs import Refusal, atomic
from nips26lib.runs import execute as execute_module
from nips26lib.runs.execute import execute
from nips26lib.runs.parameters import Plan, make_plan
from nips26lib.runs.record import RunRecord, read_record
from tests.tinybook import CLAIMS, TinyBook

ENVIRONMENT = """
import os, sys, json
print(json.dumps({"executable": sys.executable, "pid": os.getpid(), "cwd": os.getcwd(),
                  "env": {k: v for k, v in os.environ.items() if k.startswith("NIPS26") or k == "PYTHONHASHSEED"}}))
"""


def plan_of(book: TinyBook, *cells: str, **request: object) -> Plan:
    """A plan for the chapter `tiny` made of these cells."""
    if cells:
        book.write("tiny", cells)
    return make_plan(book.catalogue.chapter("tiny"), **request)  # type: ignore[arg-type]


def outputs(folder: Path) -> list[list[dict[str, object]]]:
    """What each code cell of the run's notebook left."""
    notebook = nbformat.read(folder / "tiny.ipynb", as_version=4)
    return [list(map(dict, cell.outputs)) for cell in notebook.cells if cell.cell_type == "code"]


def printed(folder: Path) -> str:
    return "".join(str(output.get("text", "")) for cell in outputs(folder) for output in cell)


def kernels() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # one that has just ended, or was not yet waited for
            if "ipykernel_launcher" in child.cmdline():
                found.append(child)
    return found


def test_a_run_leaves_notebook_log_and_record(book: TinyBook, tmp_path: Path) -> None:
    source = book.catalogue.chapter("tiny").notebook.read_bytes()
    plan = plan_of(book, seed=3, assignments=[("seeds", 2)])
    ticks: list[tuple[int, int]] = []
    record = execute(plan, tmp_path / "runs", lambda done, total: ticks.append((done, total)))

    folder = tmp_path / "runs" / plan.directory
    assert sorted(os.listdir(folder)) == ["log.txt", "run.json", "tiny.ipynb"]
    assert os.listdir(folder.parent) == [folder.name]
    assert read_record(folder) == record
    assert (record.chapter, record.preset, record.seed, record.overrides) == ("tiny", "smoke", 3, {"seeds": 2})
    assert (record.status, record.reason, record.threads, record.revision) == ("succeeded", None, 1, None)
    assert datetime.fromisoformat(record.started).utcoffset() is not None
    assert record.claims is not None and record.claims["claims"][0]["verdict"] == "reproduced"
    # An interpreter with IPython in it takes more than 20 MB, and this one loads nothing large.
    assert 20e6 < record.peak_memory_bytes < 2e9 and record.wall_seconds > 0
    assert len(json.loads(printed(folder))) == 2, "the override reached the notebook"
    assert [done for done, _ in ticks] == [1, 2, 3, 4] and {total for _, total in ticks} == {4}
    assert (folder / "log.txt").read_text().count("[0.") == 1
    assert str(tmp_path / "runs") not in (folder / "tiny.ipynb").read_text()
    assert book.catalogue.chapter("tiny").notebook.read_bytes() == source
    assert not kernels()


def test_two_runs_of_one_request_agree_to_the_bit(book: TinyBook, tmp_path: Path) -> None:
    cells = [
        "import tiny_module\nfrom nips26lib.chapter.presets import start\n"
        'run = start("tiny", tiny_module.PRESETS, preset, seed, overrides)',
        "import torch\nx = torch.randn(200, 200)\nprint((x @ x).sum().item().hex(), {'b', 'a', 'c'})\nx[0, :3]",
    ]
    for name, seed in (("one", 5), ("two", 5), ("other", 6)):
        assert execute(plan_of(book, *cells, seed=seed), tmp_path / name).status == "succeeded"
    one, two = (outputs(tmp_path / name / "tiny" / "smoke-seed5") for name in ("one", "two"))
    assert one == two and len(one[-1]) == 2
    assert outputs(tmp_path / "other" / "tiny" / "smoke-seed6")[-1] != one[-1]


def test_the_kernel_is_this_interpreter_with_no_live_front_end(
    book: TinyBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "jupyter" / "kernels" / "python3"
    trap.mkdir(parents=True)
    spec = {"argv": ["/bin/false"], "display_name": "trap", "language": "python"}
    (trap / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(trap.parents[1]))
    monkeypatch.setenv("NIPS26_DATA", "mirror")
    plan = plan_of(book, ENVIRONMENT)
    monkeypatch.setenv("NIPS26_PRESET", "laptop")
    execute(plan, tmp_path / "runs")
    seen = json.loads(printed(tmp_path / "runs" / plan.directory))
    assert seen["executable"] == sys.executable
    assert seen["env"] == {
        "NIPS26_STATIC": "1",
        "NIPS26_BOOK": str(book.root),
        "NIPS26_DATA": str(Path("mirror").absolute()),
        "PYTHONHASHSEED": "0",
    }
    assert Path(seen["cwd"]).parent == tmp_path / "runs" / "tiny", "in a folder of its own"
    assert not psutil.pid_exists(seen["pid"])


def test_a_cell_that_raises_gives_a_failed_record(book: TinyBook, tmp_path: Path) -> None:
    plan = plan_of(book, "print('before')", "1 / 0", "print('after')", CLAIMS)
    record = execute(plan, tmp_path)
    folder = tmp_path / plan.directory
    assert record == read_record(folder)
    assert (record.status, record.claims) == ("failed", None)
    # Two cells of parameters come first: the notebook's and the injected one.
    assert record.reason == "cell 4 of 6 raised ZeroDivisionError: division by zero"
    assert printed(folder) == "before\n"
    log = (folder / "log.txt").read_text()
    assert "before" in log and "ZeroDivisionError" in log and "\x1b" not in log
    assert not kernels()


def test_a_kernel_killed_in_mid_cell_gives_a_failed_record(book: TinyBook, tmp_path: Path) -> None:
    child = "import subprocess\nprint(subprocess.Popen(['sleep', '600']).pid)"
    plan = plan_of(book, child, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "print('after')")
    record = execute(plan, tmp_path)
    assert (record.status, record.reason) == ("failed", "the kernel was killed by SIGKILL in cell 4 of 5")
    folder = tmp_path / plan.directory
    assert read_record(folder) == record
    orphan = int(printed(folder))
    assert not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == psutil.STATUS_ZOMBIE


def test_a_failed_run_is_replaced_by_the_next(book: TinyBook, tmp_path: Path) -> None:
    plan = plan_of(book, "raise SystemExit('stop')")
    assert execute(plan, tmp_path).status == "failed"
    assert execute(plan_of(book, "print('whole')"), tmp_path).status == "succeeded"
    assert read_record(tmp_path / plan.directory).status == "succeeded"
    assert os.listdir(tmp_path / "tiny") == ["smoke-seed0"]


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Papermill that runs nothing: these tests are about files."""
    monkeypatch.setattr(execute_module, "_papermill", lambda *_: None)


def test_a_file_in_the_way_is_refused_before_any_kernel(
    book: TinyBook, tmp_path: Path, no_kernel: Callable[[], None]
) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(Refusal, match=r"cannot be written to .*out.*: (Not a directory|File exists)"):
        execute(plan_of(book), tmp_path / "out")
    no_kernel()
    assert (tmp_path / "out").read_text() == "mine"


def test_a_directory_that_may_not_be_written_is_refused_before_any_kernel(
    book: TinyBook, tmp_path: Path, no_kernel: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=0o555)
    if os.access(out, os.W_OK):  # the superuser may write everywhere

        def denied(self: Path, *_: object, **__: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))

        monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(Refusal, match=r"cannot be written to .*: Permission denied"):
        execute(plan_of(book), out)
    no_kernel()
    assert os.listdir(out) == []


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("step", [(atomic.os, "fsync"), (atomic.os, "rename"), (execute_module.shutil, "copyfile")])
def test_a_full_disk_leaves_the_older_run_and_nothing_else(
    book: TinyBook, tmp_path: Path, step: tuple[object, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(book)
    execute(plan, tmp_path / "runs")
    before = read_record(tmp_path / "runs" / plan.directory)
    with monkeypatch.context() as patch:
        patch.setattr(*step, no_space)
        for out in ("runs", "fresh"):
            with pytest.raises(Refusal, match="No space left on device"):
                execute(plan, tmp_path / out)
    assert read_record(tmp_path / "runs" / plan.directory) == before
    assert os.listdir(tmp_path / "runs" / "tiny") == [plan.directory.name]
    assert not (tmp_path / "fresh").exists()


def test_a_disk_that_fills_while_the_kernel_runs(book: TinyBook, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)]
    if os.geteuid() != 0 or not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small filesystem takes the right to mount one")
    try:
        with pytest.raises(Refusal, match="No space left on device"):
            execute(plan_of(book, "print('x' * 300_000)"), disk / "runs")
        assert os.listdir(disk) == [] and not kernels()
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.usefixtures("stand_in")
def test_a_reader_sees_one_run_or_the_other_while_they_are_replaced(book: TinyBook, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    if not atomic._exchange(tmp_path / "one", tmp_path / "two"):
        pytest.skip("this filesystem cannot exchange two directories in one step")
    plan = plan_of(book)
    first = execute(plan, tmp_path)
    seen: list[RunRecord] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.append(read_record(tmp_path / plan.directory))

    reader = threading.Thread(target=read)
    reader.start()
    written = [first, *(execute(plan, tmp_path) for _ in range(20))]
    stop.set()
    reader.join()
    assert seen and all(record in written for record in seen)
