"""What happens on a worker: one run, in a folder of its own, whose files go back to the sweep that asked for it.

The sweep alone writes the results, so workers need no folder in common with it, only the same book and library.
"""

from __future__ import annotations

import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nips26lib.runs import Refusal
from nips26lib.runs.catalogue import load_catalogue
from nips26lib.runs.execute import run_in
from nips26lib.runs.identity import identify, library_version, source_digest
from nips26lib.runs.kernel import ThisInterpreter
from nips26lib.runs.parameters import Plan, make_plan
from nips26lib.runs.watch import Limits


@dataclass(frozen=True)
class Request:
    """A run as it travels: names and plain values, which the worker holds against its own book."""

    chapter: str
    preset: str
    seed: int
    overrides: Mapping[str, Any]
    extra: Mapping[str, Any]
    identity: str
    limits: Limits
    sweep: str


@dataclass(frozen=True)
class Answer:
    """The files of a run, by name, and whether another try is worth it. Without files, `reason` says why."""

    files: Mapping[str, bytes]
    machine_failed: bool
    reason: str | None = None


@dataclass(frozen=True)
class Description:
    """What a worker would run: the version of the library and the hash of the chapter's source, or why it cannot."""

    host: str
    library: str
    source: str
    problem: str | None = None


_lock = threading.Lock()
_running: dict[str, set[ThisInterpreter]] = {}
_stopped: set[str] = set()


def dask_setup(worker: object) -> None:
    """Called by Dask in the workers of an embedded cluster: a terminal's Ctrl-C is the sweep's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def describe(chapter: str) -> Description:
    """What this process has of a chapter; it never raises, since it is asked from afar."""
    try:
        record = load_catalogue().chapter(chapter)
        return Description(socket.gethostname(), library_version(record.module), source_digest(record.notebook))
    except Refusal as error:
        return Description(socket.gethostname(), "", "", str(error))


def perform(request: Request) -> Answer:
    """Run what is asked, here."""
    try:
        plan = _plan(request)
        with tempfile.TemporaryDirectory(prefix="nips26-run-", dir=_scratch()) as folder:
            account = partial(_counted, request.sweep)
            executed = run_in(plan, Path(folder), limits=request.limits, account=account)
            files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    except Refusal as error:
        return Answer({}, machine_failed=True, reason=f"{_where()} refused it: {error}")
    except OSError as error:
        return Answer({}, machine_failed=True, reason=f"{_where()} could not write: {error}")
    return Answer(files, executed.machine_failed)


def stop(sweep: str) -> int:
    """Kill the kernels of a sweep on this worker, and start none for it again; how many there were."""
    with _lock:
        _stopped.add(sweep)
        managers = list(_running.get(sweep, ()))
    for manager in managers:
        manager.kill()
    return len(managers)


def _plan(request: Request) -> Plan:
    chapter = load_catalogue().chapter(request.chapter)
    given = [("overrides", dict(request.overrides)), *request.extra.items()]
    plan = make_plan(chapter, request.preset, request.seed, given)
    if identify(plan) != request.identity:
        raise Refusal(
            f"its chapter {request.chapter!r} or its library, {library_version(chapter.module)}, is not the sweep's"
        )
    return plan


@contextmanager
def _counted(sweep: str, manager: ThisInterpreter) -> Iterator[None]:
    """Keep account of a kernel, for `stop`."""
    with _lock:
        if sweep in _stopped:
            raise Refusal("the sweep was stopped")
        _running.setdefault(sweep, set()).add(manager)
    try:
        yield
    finally:
        with _lock:
            _running[sweep].discard(manager)


def _scratch() -> str | None:
    """The folder that Dask gave this worker, which Dask cleans up after a worker that was killed."""
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:  # not on a worker
        return None


def _where() -> str:
    from distributed import get_worker

    try:
        return f"worker {get_worker().address}"
    except ValueError:
        return "this machine"
