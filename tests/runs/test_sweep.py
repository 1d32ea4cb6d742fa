"""Sweeps on the embedded cluster, and every way in which one may be cut off."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import nbformat
import psutil
import pytest

from nips26lib.runs import Refusal
from nips26lib.runs.execute import execute
from nips26lib.runs.grid import make_plans
from nips26lib.runs.parameters import Plan
from nips26lib.runs.record import RunRecord, find_records, read_record
from nips26lib.runs.sweep import Finished, Progress, sweep
from nips26lib.runs.watch import Limits
from tests.tinybook import CELLS, TinyBook

COMMAND = [sys.executable, "-m", "nips26lib.cli", "sweep", "tiny", "--preset", "smoke", "--workers", "1", "--quiet"]


def plans_of(book: TinyBook, *cells: str, seeds: Sequence[int] = (0, 1)) -> list[Plan]:
    if cells:
        book.write("tiny", cells)
    return make_plans(book.catalogue.chapter("tiny"), "smoke", [("seed", list(seeds))])


def records(out: Path) -> dict[int, RunRecord]:
    """Every whole record below `out`, by seed."""
    found = map(read_record, find_records(out))
    return {record.seed: record for record in found}


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def nothing_half_written(out: Path) -> None:
    """Every folder of a run holds its three files, and nothing else lies about but the lock."""
    for folder in (out / "tiny").iterdir():
        assert folder.name == ".sweep.lock" or sorted(os.listdir(folder)) == ["log.txt", "run.json", "tiny.ipynb"]


@contextlib.contextmanager
def running(out: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A sweep in a process group of its own, with all that it starts."""
    process = subprocess.Popen(
        [*COMMAND, "--out", str(out), *arguments],
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # a test run that was itself started in the background hands down an ignored interrupt
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.05)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_sweep_leaves_one_whole_run_each_and_a_second_one_redoes_none(book: TinyBook, tmp_path: Path) -> None:
    plans = plans_of(book, seeds=(3, 1, 2))
    seen: list[tuple[int, int, int]] = []

    def on_change(progress: Progress, record: RunRecord | None) -> None:
        seen.append((progress.total, progress.done, progress.running))
        assert (progress.seconds_left is None) == (progress.done == progress.kept)

    finished = sweep(plans, tmp_path, workers=2, on_change=on_change)
    assert finished == Finished(tuple(tmp_path / plan.directory for plan in plans), kept=0)
    assert [record.seed for record in map(read_record, finished.directories)] == [3, 1, 2]
    nothing_half_written(tmp_path)
    for record in records(tmp_path).values():
        assert (record.status, record.attempts, record.threads) == ("succeeded", 1, 1) and record.claims is not None
    assert seen[0] == (3, 0, 0) and seen[-1] == (3, 3, 0) and max(running for *_, running in seen) == 2
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)

    before = {folder: bytes_of(folder) for folder in finished.directories}
    again = sweep(plans, tmp_path, workers=2)
    assert again == Finished(finished.directories, kept=3)
    assert {folder: bytes_of(folder) for folder in finished.directories} == before


def test_only_what_is_not_whole_is_done_again(book: TinyBook, tmp_path: Path) -> None:
    plans = plans_of(book, seeds=range(5))
    folders = sweep(plans, tmp_path, workers=2).directories
    before = [read_record(folder) for folder in folders]
    shutil.rmtree(folders[0])
    (folders[1] / "run.json").write_bytes((folders[1] / "run.json").read_bytes()[:200])
    failed = json.loads((folders[2] / "run.json").read_text()) | {"status": "failed", "reason": "it was cut off"}
    (folders[2] / "run.json").write_text(json.dumps(failed))
    other = json.loads((folders[3] / "run.json").read_text()) | {"identity": "0" * 64}
    (folders[3] / "run.json").write_text(json.dumps(other))
    assert sweep(plans, tmp_path, workers=2).kept == 1
    after = [read_record(folder) for folder in folders]
    assert after[4] == before[4] and all(record.status == "succeeded" for record in after)
    assert [record.identity for record in after] == [record.identity for record in before]
    # A chapter that says something else makes other runs.
    changed = plans_of(book, *CELLS, "1 + 1", seeds=range(5))
    assert sweep(changed[:2], tmp_path, workers=2).kept == 0
    nothing_half_written(tmp_path)


def test_a_chapter_that_raises_is_not_tried_again_and_loses_no_other(book: TinyBook, tmp_path: Path) -> None:
    plans = plans_of(book, "print('before')", "assert seed != 1, 'no luck'", CELLS[1], seeds=(0, 1, 2))
    finished = sweep(plans, tmp_path, workers=2, retries=5)
    folder = tmp_path / plans[1].directory
    assert finished.failures == {folder: "cell 4 of 5 raised AssertionError: no luck"} and finished.halted is None
    found = records(tmp_path)
    assert [found[seed].status for seed in range(3)] == ["succeeded", "failed", "succeeded"]
    assert (found[1].attempts, found[1].reason) == (1, finished.failures[folder])
    nothing_half_written(tmp_path)
    assert "no luck" in (folder / "log.txt").read_text() and "before" in (folder / "tiny.ipynb").read_text()


KILL = """
import os, signal
from pathlib import Path
marker = Path(os.environ["MARKS"]) / f"{seed}"
tries = int(marker.read_text()) + 1 if marker.exists() else 1
marker.write_text(str(tries))
if seed == 1 and tries <= int(os.environ["DEATHS"]):
    os.kill(VICTIM, signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("victim", "word"), [("os.getpid()", "SIGKILL"), ("os.getppid()", "the worker that ran it died")]
)
@pytest.mark.parametrize("deaths", [1, 9])
def test_a_dead_kernel_or_worker_is_tried_again_a_bounded_number_of_times(
    book: TinyBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str, word: str, deaths: int
) -> None:
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    monkeypatch.setenv("MARKS", str(marks))
    monkeypatch.setenv("DEATHS", str(deaths))
    plans = plans_of(book, KILL.replace("VICTIM", victim), CELLS[1], seeds=(0, 1, 2))
    finished = sweep(plans, out, workers=1, retries=2)
    found = records(out)
    tries = min(deaths + 1, 3)
    reached = int((marks / "1").read_text())
    if victim == "os.getpid()":
        assert reached == tries == found[1].attempts
    else:  # an attempt may meet a worker that is just being replaced
        assert 1 < reached <= found[1].attempts <= 3
    assert [(found[seed].status, found[seed].attempts) for seed in (0, 2)] == [("succeeded", 1)] * 2
    nothing_half_written(out)
    if deaths == 1:
        assert found[1].status == "succeeded" and finished.failures == {}
    else:
        assert found[1].status == "failed" and word in (found[1].reason or "")
        assert finished.failures == {out / plans[1].directory: found[1].reason}
        assert (out / plans[1].directory / "log.txt").read_text() is not None


def test_a_run_of_a_sweep_gives_what_the_same_run_alone_gives(book: TinyBook, tmp_path: Path) -> None:
    (plan,) = plans_of(book, "print('hash', hash('a text'), {'b', 'a', 'c'})", *CELLS, seeds=(5,))
    sweep([plan], tmp_path / "sweep", workers=1)
    execute(plan, tmp_path / "alone")
    swept, alone = (nbformat.read(tmp_path / name / plan.directory / "tiny.ipynb", 4) for name in ("sweep", "alone"))
    outputs = [[cell.get("outputs") for cell in notebook.cells] for notebook in (swept, alone)]
    assert outputs[0] == outputs[1] and "hash" in str(outputs[0])
    assert records(tmp_path / "sweep")[5].identity == records(tmp_path / "alone")[5].identity


def test_limits_reach_the_workers(book: TinyBook, tmp_path: Path) -> None:
    plans = plans_of(book, "import time\nif seed == 1:\n    time.sleep(600)", CELLS[1])
    finished = sweep(plans, tmp_path, workers=2, retries=3, limits=Limits(timeout=6.0))
    assert finished.failures == {tmp_path / plans[1].directory: "the run passed its timeout of 6 s in cell 3 of 4"}
    assert records(tmp_path)[1].attempts == 1 and records(tmp_path)[0].status == "succeeded"


SLOW = """
import os, time
from pathlib import Path
if seed >= 2 and "SLOW" in os.environ:
    print("slow", flush=True)
    Path(os.environ["SLOW"]).write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.fixture
def cut_off(book: TinyBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Starts a sweep of four, sends it a signal in the third, and checks what is left; then goes on without harm."""
    out, slow = tmp_path / "out", tmp_path / "slow"
    monkeypatch.setenv("SLOW", str(slow))
    plans = plans_of(book, SLOW, CELLS[1], seeds=range(4))

    def check(how: int) -> None:
        with running(out, "-p", "seed=0:3") as process:
            wait_for(lambda: slow.exists() and slow.read_text(), "the third run")
            kernel = int(slow.read_text())
            before = {seed: bytes_of(out / plans[seed].directory) for seed in (0, 1)}
            if how == signal.SIGKILL:
                process.kill()
            elif how == signal.SIGTERM:
                process.terminate()
            else:
                os.killpg(process.pid, how)  # as a terminal does
            process.wait(30)
            said = process.communicate()[1]
            wait_for(lambda: gone(kernel), "the kernel to go", 10)
        if how != signal.SIGKILL:
            assert process.returncode == 130 and said.count("\n") == 1 and "interrupted" in said, said
            nothing_half_written(out)
        assert sorted(records(out)) == [0, 1]
        monkeypatch.delenv("SLOW")
        finished = sweep(plans, out, workers=1)
        assert finished.kept == 2 and sorted(records(out)) == [0, 1, 2, 3]
        assert {seed: bytes_of(out / plans[seed].directory) for seed in (0, 1)} == before
        nothing_half_written(out)

    yield check


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_is_cut_off_keeps_what_is_done_and_goes_on_from_there(
    cut_off: Callable[[int], None], how: int
) -> None:
    cut_off(how)


def test_two_sweeps_at_once_into_one_directory(book: TinyBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "slow"
    monkeypatch.setenv("SLOW", str(slow))
    plans = plans_of(book, SLOW, CELLS[1], seeds=(2,))
    with running(tmp_path / "out", "-p", "seed=2") as process:
        wait_for(slow.exists, "the first sweep's run")
        with pytest.raises(Refusal, match=rf"another sweep writes to .*tiny \(process {process.pid}\)"):
            sweep(plans, tmp_path / "out", workers=1)
    monkeypatch.delenv("SLOW")
    # The lock went with the process that was killed.
    assert sweep(plans, tmp_path / "out", workers=1).failures == {}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a filesystem of its own with the given options."""
    mounted: list[Path] = []

    def mount(*options: str) -> Path:
        disk = tmp_path / "disk"
        disk.mkdir(exist_ok=True)
        call = ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(disk)]
        if os.geteuid() != 0 or not shutil.which("mount") or subprocess.run(call, capture_output=True).returncode != 0:
            pytest.skip("a small filesystem takes the right to mount one")
        mounted.append(disk)
        return disk

    yield mount
    for disk in mounted:
        subprocess.run(["umount", disk], check=True)


def test_a_disk_that_fills_ends_the_sweep_and_loses_no_finished_run(
    book: TinyBook, tmp_path: Path, small_disk: Callable[..., Path]
) -> None:
    # Dask's own files take some of it before the first run.
    disk = small_disk("size=3m")
    plans = plans_of(book, "if seed >= 2:\n    print('x' * 2_900_000)", CELLS[1], seeds=range(5))
    finished = sweep(plans, disk, workers=1, retries=0)
    assert finished.halted is not None or finished.failures
    text = (finished.halted or "") + "".join(finished.failures.values())
    assert "No space left on device" in text
    assert {0, 1} <= set(records(disk)) and all(records(disk)[seed].status == "succeeded" for seed in (0, 1))
    nothing_half_written(disk)


def test_a_directory_that_cannot_be_written_is_refused(
    book: TinyBook, small_disk: Callable[..., Path], no_kernel: Callable[[], None]
) -> None:
    disk = small_disk("size=1m", "ro")
    with pytest.raises(Refusal, match=r"the sweep cannot write to .*: Read-only file system"):
        sweep(plans_of(book), disk / "out", workers=1)
    no_kernel()


@pytest.mark.parametrize(("changes", "why"), [
    ({"retries": -1}, "retries is -1"), ({"workers": 0}, "workers is 0"),
    ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, "not both"),
    ({"scheduler": "nowhere"}, "no Dask scheduler at 'nowhere'"),
])  # fmt: skip
def test_what_cannot_be_is_refused(book: TinyBook, tmp_path: Path, changes: dict[str, object], why: str) -> None:
    with pytest.raises(Refusal, match=why):
        sweep(plans_of(book), tmp_path / "out", **changes)  # type: ignore[arg-type]
    assert list((tmp_path / "out").rglob("run.json")) == []


def test_workers_share_the_cores(book: TinyBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nips26lib.runs import cluster

    monkeypatch.setattr(cluster, "_cores", lambda: 4)
    assert [cluster.default_workers(threads, False) for threads in (1, 2, 3, 4, 8)] == [4, 2, 1, 1, 1]
    assert cluster.default_workers(1, True) == 1
    # `laptop` asks for two threads; four workers on four cores leave each run one.
    book.write("tiny", [
        "import os, tiny_module, torch\nfrom nips26lib.chapter.presets import start\n"
        "run = start('tiny', tiny_module.PRESETS, preset, seed, overrides)\n"
        "print('threads', torch.get_num_threads(), os.environ['OMP_NUM_THREADS'])"])  # fmt: skip
    plans = make_plans(book.catalogue.chapter("tiny"), "laptop", [("seed", [0, 1, 2, 3])])
    sweep(plans[:1], tmp_path / "alone", workers=1)
    assert records(tmp_path / "alone")[0].threads == 2
    assert "threads 2 2" in (tmp_path / "alone" / plans[0].directory / "tiny.ipynb").read_text()
    monkeypatch.setattr(cluster, "_cores", lambda: 1)
    sweep(plans[:1], tmp_path / "crowded", workers=1)
    assert records(tmp_path / "crowded")[0].threads == 1
    assert "threads 1 1" in (tmp_path / "crowded" / plans[0].directory / "tiny.ipynb").read_text()
