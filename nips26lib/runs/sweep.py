"""A sweep: many runs of one chapter on Dask, resumable at any moment.

Workers run; this process alone writes what they send back, each run whole and in one step. So a sweep that is cut
off, however, has lost only what was running, and started again it does only that and what was still to come.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from platform import platform
from typing import TYPE_CHECKING, Any

from nips26lib.runs import Refusal
from nips26lib.runs.atomic import write_file
from nips26lib.runs.cluster import default_workers, embedded, existing
from nips26lib.runs.execute import LOG_NAME, NO_LIMITS, placed
from nips26lib.runs.identity import identify, library_version, source_digest
from nips26lib.runs.parameters import Plan
from nips26lib.runs.record import FILE_NAME, RunRecord, parse_record, read_record, revision, versions
from nips26lib.runs.watch import Limits
from nips26lib.runs.worker import Answer, Description, Request, describe, perform, stop

if TYPE_CHECKING:
    from distributed import Client, Future, as_completed

LOCK_NAME = ".sweep.lock"
_SCRATCH = ".workers"


@dataclass
class Progress:
    """How far a sweep is. `kept` are the runs that were whole before it began."""

    total: int
    kept: int = 0
    succeeded: int = 0
    failed: int = 0
    running: int = 0
    seconds: float = 0.0  # since it began

    @property
    def done(self) -> int:
        return self.kept + self.succeeded + self.failed

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the runs that this sweep has finished, or None before the first."""
        finished = self.succeeded + self.failed
        return self.seconds / finished * (self.total - self.done) if finished else None


OnChange = Callable[[Progress, RunRecord | None], None]


@dataclass(frozen=True)
class Finished:
    """What a sweep leaves: the folders of the runs that there are, in the order of the plans, and why some failed.

    `kept` of them were whole before. `halted` says why the sweep ended before its end, with `missing` runs to come.
    """

    directories: tuple[Path, ...]
    kept: int
    failures: dict[Path, str] = field(default_factory=dict)
    halted: str | None = None
    missing: int = 0


def sweep(
    plans: Sequence[Plan],
    out: Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    retries: int = 1,
    limits: Limits = NO_LIMITS,
    on_change: OnChange | None = None,
) -> Finished:
    """Run the plans, all of one chapter, and leave each in `out / plan.directory`; those that are whole stay.

    On an embedded cluster of `workers` processes, or on the one whose `scheduler` address is given. A run whose
    kernel or worker died is tried again at most `retries` times; a chapter that raises is not. Refusal before
    anything runs for a directory that cannot be written or that another sweep writes to, for a scheduler that is not
    there, and for workers that have another library or chapter.
    """
    if not plans:
        raise Refusal("a sweep needs a run at least")
    if retries < 0:
        raise Refusal(f"retries is {retries}; it must be 0 or more")
    if workers is not None and workers < 1:
        raise Refusal(f"workers is {workers}; it must be 1 or more")
    if workers is not None and scheduler is not None:
        raise Refusal("the workers of a scheduler are its own; give --workers or --scheduler, not both")
    chapter, out = plans[0].chapter, out.absolute()
    with _locked(out / chapter.slug) as folder:
        identities = [identify(plan) for plan in plans]
        targets = tuple(out / plan.directory for plan in plans)
        todo = [index for index, target in enumerate(targets) if not is_whole(target, identities[index])]
        progress = Progress(total=len(plans), kept=len(plans) - len(todo))
        tell = on_change or (lambda *_: None)
        tell(progress, None)
        failures: dict[Path, str] = {}
        halted: str | None = None
        if todo:
            name = secrets.token_hex(8)  # of this sweep, among others on the same cluster
            requests = {index: _request(plans[index], identities[index], limits, name) for index in todo}
            with _cluster(plans, len(todo), workers, scheduler, folder / _SCRATCH) as (client, window):
                _refuse_strangers(client, plans[0])
                feed = _Feed(client, requests, window, retries, {index for index in todo if plans[index].needs_gpu})
                with _stopped_on_failure(client, name):
                    for index, answer, attempts in feed.answers(lambda count: _running(progress, count, tell)):
                        try:
                            record = _write(plans[index], identities[index], targets[index], answer, attempts)
                        except Refusal as error:
                            halted = str(error)
                            client.run(stop, name, on_error="ignore")
                            break
                        if record.status == "failed":
                            failures[targets[index]] = record.reason or ""
                        progress.succeeded += record.status == "succeeded"
                        progress.failed += record.status == "failed"
                        progress.seconds, progress.running = feed.seconds, feed.outstanding
                        tell(progress, record)
    there = tuple(target for target in targets if (target / FILE_NAME).exists())
    return Finished(there, progress.kept, failures, halted, progress.total - progress.done)


@contextlib.contextmanager
def _cluster(
    plans: Sequence[Plan], runs: int, workers: int | None, scheduler: str | None, scratch: Path
) -> Iterator[tuple[Client, int]]:
    """A client, and how many runs to hand out at once: all of them where a scheduler may start workers as needed."""
    if scheduler is not None:
        with existing(scheduler) as client:
            yield client, runs
        return
    needs_gpu = any(plan.needs_gpu for plan in plans)
    threads = max(plan.threads for plan in plans)
    window = min(workers or default_workers(threads, needs_gpu), runs)
    try:
        with embedded(window, threads, needs_gpu, plans[0].chapter.notebook.parents[1], scratch) as client:
            yield client, window
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def is_whole(folder: Path, identity: str) -> bool:
    """Whether the folder holds a run that succeeded and has this identity."""
    try:
        record = read_record(folder)
    except Refusal:
        return False
    return record.status == "succeeded" and record.identity == identity


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Hold `folder` for this sweep alone. The lock goes with the process, however it ends."""
    from filelock import FileLock, Timeout

    holder = folder / f"{LOCK_NAME}.holder"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK_NAME, timeout=0)
        lock.acquire()
    except Timeout as error:
        by = holder.read_text(encoding="utf-8").strip() if holder.exists() else "another process"
        raise Refusal(f"another sweep writes to {folder} ({by}); wait for it, or give another --out") from error
    except OSError as error:
        raise Refusal(f"the sweep cannot write to {folder}: {error.strerror or error}") from error
    try:
        write_file(holder, f"process {os.getpid()}\n".encode())
        shutil.rmtree(folder / _SCRATCH, ignore_errors=True)
        yield folder
    except OSError as error:
        raise Refusal(f"the sweep cannot write to {folder}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def _request(plan: Plan, identity: str, limits: Limits, sweep: str) -> Request:
    overrides, extra = dict(plan.overrides), dict(plan.extra)
    return Request(plan.chapter.slug, plan.preset, plan.seed, overrides, extra, identity, limits, sweep)


def _running(progress: Progress, count: int, tell: OnChange) -> None:
    progress.running = count
    tell(progress, None)


def _refuse_strangers(client: Client, plan: Plan) -> None:
    """Refusal naming the first worker that has not this library and this chapter."""
    chapter = plan.chapter
    library, source = library_version(chapter.module), source_digest(chapter.notebook)
    found: dict[str, Any] = client.run(describe, chapter.slug, on_error="return")
    for address, other in found.items():
        if not isinstance(other, Description):
            raise Refusal(f"worker {address} cannot run chapters: {other!r}; it must have nips26lib {library}")
        where = f"worker {address} on {other.host}"
        if other.problem is not None:
            raise Refusal(f"{where} cannot run chapter {chapter.slug!r}: {other.problem}")
        if other.library != library:
            raise Refusal(
                f"{where} has nips26lib {other.library}, and this sweep has {library}; install the same version there"
            )
        if other.source != source:
            raise Refusal(f"{where} has another text of chapter {chapter.slug!r}; check out the same revision there")


class _Feed:
    """Hands requests to the cluster, no more than `window` at once, and tries again those whose machine failed."""

    def __init__(
        self, client: Client, requests: dict[int, Request], window: int, retries: int, on_gpu: set[int]
    ) -> None:
        self._client, self._requests, self._window, self._retries, self._gpu = client, requests, window, retries, on_gpu
        self._attempts = dict.fromkeys(requests, 0)
        self._started = time.monotonic()
        self._futures: dict[Future, int] = {}

    @property
    def outstanding(self) -> int:
        """How many runs are with the cluster and can be running there."""
        threads = sum(self._client.nthreads().values()) if self._futures else 0
        return min(len(self._futures), threads)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def answers(self, on_submit: Callable[[int], None]) -> Iterator[tuple[int, Answer, int]]:
        """Index, answer and number of attempts of each request, as they come."""
        from distributed import as_completed

        waiting = deque(self._requests)
        arriving = as_completed(loop=self._client.loop)
        self._fill(waiting, arriving)
        on_submit(self.outstanding)
        while self._futures:
            future = next(arriving)
            index = self._futures.pop(future)
            answer = _answer(future)
            future.release()
            again = answer.machine_failed and self._attempts[index] <= self._retries
            if again:
                waiting.append(index)
            # The next one runs while this one's files are written.
            self._fill(waiting, arriving)
            if not again:
                yield index, answer, self._attempts[index]

    def _fill(self, waiting: deque[int], arriving: as_completed) -> None:
        while waiting and len(self._futures) < self._window:
            index = waiting.popleft()
            self._attempts[index] += 1
            future = self._client.submit(
                perform,
                self._requests[index],
                pure=False,
                retries=0,
                resources={"GPU": 1} if index in self._gpu else None,
            )
            self._futures[future] = index
            arriving.add(future)


def _answer(future: Future) -> Answer:
    from distributed import KilledWorker

    try:
        answer: Answer = future.result()
    except KilledWorker as error:
        return Answer({}, machine_failed=True, reason=f"the worker that ran it died ({error.last_worker.address})")
    except Exception as error:  # whatever a worker may raise is this run's reason and loses no other run
        return Answer({}, machine_failed=True, reason=f"{type(error).__name__}: {' '.join(str(error).split())}")
    return answer


@contextlib.contextmanager
def _stopped_on_failure(client: Client, name: str) -> Iterator[None]:
    """When the sweep ends early, kill the kernels that it started, wherever they run."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            client.run(stop, name, on_error="ignore")
        raise


def _write(plan: Plan, identity: str, target: Path, answer: Answer, attempts: int) -> RunRecord:
    """Put a run in its place, with how often it was tried."""
    with placed(target) as work:
        if FILE_NAME in answer.files:
            for name, content in answer.files.items():
                (work / Path(name).name).write_bytes(content)
            record = replace(parse_record(answer.files[FILE_NAME], target / FILE_NAME), attempts=attempts)
        else:
            record = _lost(plan, identity, answer.reason or "no reason was given", attempts)
            shutil.copyfile(plan.chapter.notebook, work / f"{plan.chapter.slug}.ipynb")
            (work / LOG_NAME).write_text(f"{record.reason}\n", encoding="utf-8")
        (work / FILE_NAME).write_text(record.to_json(), encoding="utf-8")
    return record


def _lost(plan: Plan, identity: str, reason: str, attempts: int) -> RunRecord:
    """The record of a run of which nothing came back."""
    return RunRecord(
        chapter=plan.chapter.slug,
        preset=plan.preset,
        seed=plan.seed,
        overrides=dict(plan.overrides),
        parameters=dict(plan.extra),
        identity=identity,
        status="failed",
        reason=reason,
        attempts=attempts,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        wall_seconds=0.0,
        peak_memory_bytes=0,
        versions=versions(),
        device=plan.device or "unknown",
        threads=plan.threads,
        revision=revision(plan.chapter.notebook.parent),
        platform=platform(),
        data=[],
        claims=None,
    )
