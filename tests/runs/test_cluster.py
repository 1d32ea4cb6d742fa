"""Sweeps on a scheduler and workers that are processes of their own, joined over the loopback interface."""

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

import pytest

import nips26lib
from nips26lib.runs import Refusal
from nips26lib.runs.grid import make_plans
from nips26lib.runs.record import read_record
from nips26lib.runs.sweep import sweep
from tests.runs.test_sweep import nothing_half_written, plans_of, records
from tests.tinybook import CELLS, TinyBook

Start = Callable[..., subprocess.Popen[bytes]]


class Cluster:
    """A scheduler, and the workers that are started for it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(self.file)
        )
        end = time.monotonic() + 60
        while not self.file.exists() or not self.file.read_text().strip():
            assert time.monotonic() < end and self.processes[0].poll() is None, "the scheduler does not come up"
            time.sleep(0.05)
        self.address = str(json.loads(self.file.read_text())["address"])

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *arguments]
        with open(self.folder / "cluster.log", "ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | variables, start_new_session=True, cwd=self.folder
            )
        self.processes.append(process)
        return process

    def worker(self, *more: str, **variables: str) -> subprocess.Popen[bytes]:
        return self.start(
            "worker",
            self.address,
            "--nthreads",
            "1",
            "--no-dashboard",
            "--local-directory",
            str(self.folder),
            *more,
            **variables,
        )

    def wait_for(self, workers: int) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)

    def stop(self) -> None:
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


@pytest.fixture
def cluster(book: TinyBook, tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(folder)
    yield made
    made.stop()


def test_a_sweep_on_workers_that_have_no_folder_in_common_with_it(
    book: TinyBook, cluster: Cluster, tmp_path: Path
) -> None:
    first, second = cluster.worker(), cluster.worker()
    cluster.wait_for(2)
    plans = plans_of(book, "import os\nprint('pid', os.getppid())", CELLS[1], seeds=range(4))
    plans = make_plans(plans[0].chapter, "smoke", [("seed", range(4))], elsewhere=True)
    finished = sweep(plans, tmp_path / "out", scheduler=cluster.address)
    assert finished.failures == {} and finished.kept == 0
    found = records(tmp_path / "out")
    assert [found[seed].status for seed in range(4)] == ["succeeded"] * 4
    assert {record.device for record in found.values()} == {"cpu"}, "the worker's, as the sweep's plan has none"
    nothing_half_written(tmp_path / "out")
    # A worker that dies is replaced by the other, and what was whole stays.
    os.killpg(second.pid, signal.SIGKILL)
    more = make_plans(plans[0].chapter, "smoke", [("seed", range(6))], elsewhere=True)
    assert sweep(more, tmp_path / "out", scheduler=cluster.address).kept == 4
    assert sorted(records(tmp_path / "out")) == list(range(6)) and first.poll() is None


def test_a_worker_with_another_library_is_refused(book: TinyBook, cluster: Cluster, tmp_path: Path) -> None:
    package = tmp_path / "older"
    shutil.copytree(
        Path(nips26lib.__file__).parent, package / "nips26lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    init = package / "nips26lib" / "__init__.py"
    init.write_text(init.read_text().replace(nips26lib.__version__, "0.0.7"))
    older = os.pathsep.join([str(package), os.environ["PYTHONPATH"]])
    cluster.worker(PYTHONPATH=older)
    cluster.wait_for(1)
    plans = plans_of(book)
    with pytest.raises(Refusal, match=r"worker tcp://.* has nips26lib 0\.0\.7\+\w+, and this sweep has .*; install"):
        sweep(plans, tmp_path / "out", scheduler=cluster.address)
    assert list((tmp_path / "out").rglob("run.json")) == []


def test_a_worker_with_another_chapter_or_none_is_refused(book: TinyBook, cluster: Cluster, tmp_path: Path) -> None:
    plans = plans_of(book)
    shutil.copytree(book.root, tmp_path / "copy" / "book")
    worker = cluster.worker(NIPS26_BOOK=str(tmp_path / "copy" / "book"))
    cluster.wait_for(1)
    assert sweep(plans[:1], tmp_path / "out", scheduler=cluster.address).failures == {}, "the same text elsewhere"
    notebook = tmp_path / "copy" / "book" / "part" / "tiny.ipynb"
    notebook.write_text(notebook.read_text().replace("random.seed(seed)", "random.seed(seed + 1)"))
    with pytest.raises(Refusal, match="has another text of chapter 'tiny'"):
        sweep(plans, tmp_path / "out", scheduler=cluster.address)
    (tmp_path / "copy" / "book" / "chapters.yml").unlink()
    with pytest.raises(Refusal, match=r"cannot run chapter 'tiny': NIPS26_BOOK is"):
        sweep(plans, tmp_path / "out", scheduler=cluster.address)
    assert worker.poll() is None and sorted(records(tmp_path / "out")) == [0]


def test_gpu_presets_go_to_workers_with_a_gpu(book: TinyBook, cluster: Cluster, tmp_path: Path) -> None:
    cluster.worker("--name", "plain", NIPS26_DEVICE="cpu")
    cluster.worker("--name", "with-gpu", "--resources", "GPU=1", NIPS26_DEVICE="cpu")
    cluster.wait_for(2)
    plans = make_plans(book.catalogue.chapter("tiny"), "gpu", [("seed", range(3))], elsewhere=True)
    finished = sweep(plans, tmp_path / "out", scheduler=cluster.address, retries=0)
    # Here no worker has a GPU; that the one which says so was asked, and no other, is what its refusals tell.
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        names = {
            info.get("address", address): info["id"]
            for address, info in client.scheduler_info(n_workers=-1)["workers"].items()
        }
    (asked,) = {reason.split()[1] for reason in finished.failures.values()}
    assert names[asked] == "with-gpu" and len(finished.failures) == 3
    assert all("needs a GPU (CUDA)" in reason for reason in finished.failures.values())
    for folder in finished.failures:
        record = read_record(folder)
        assert (record.status, record.attempts) == ("failed", 1)
        assert (folder / "log.txt").read_text().strip() == record.reason


def test_several_local_workers_cannot_share_a_gpu(book: TinyBook, tmp_path: Path) -> None:
    plans = make_plans(book.catalogue.chapter("tiny"), "gpu", [("seed", [0, 1])], elsewhere=True)
    with pytest.raises(Refusal, match="2 workers of this machine would share one GPU"):
        sweep(plans, tmp_path, workers=2)


def test_a_scheduler_without_workers_is_refused(
    cluster: Cluster, book: TinyBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nips26lib.runs import cluster as module

    monkeypatch.setattr(module, "WAIT", 1.0)
    with pytest.raises(Refusal, match=r"had no worker within 1 s; start one with `dask worker tcp://"):
        sweep(plans_of(book), tmp_path / "out", scheduler=cluster.address)
    monkeypatch.setattr(module, "WAIT", 2.0)
    with pytest.raises(Refusal, match=r"no Dask scheduler at 'tcp://127\.0\.0\.1:9'"):
        sweep(plans_of(book), tmp_path / "out", scheduler="tcp://127.0.0.1:9")


@pytest.mark.parametrize(("arguments", "present", "absent"), [
    (["--jobs", "3", "--cores", "4", "--memory", "16GB", "--time", "02:00:00", "--queue", "short"],
     ["#SBATCH -n 1", "#SBATCH --cpus-per-task=4", "#SBATCH --mem=15G", "#SBATCH -t 02:00:00", "#SBATCH -p short",
      "--nthreads 1"], ["GPU=1", "--gres"]),
    (["--gpus", "1"], ["#SBATCH --gres=gpu:1", "--resources GPU=1", "--nthreads 1"], []),
])  # fmt: skip
def test_the_job_script_for_slurm(arguments: Sequence[str], present: Sequence[str], absent: Sequence[str]) -> None:
    command = [sys.executable, str(Path(__file__).parents[2] / "scripts" / "slurm_workers.py"), *arguments, "--print"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    script = answer.stdout
    assert script.startswith("#!") and "distributed.cli.dask_worker" in script and "tcp://" in script
    assert [line for line in present if line not in script] == [] and [line for line in absent if line in script] == []
