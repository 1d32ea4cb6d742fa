"""The Dask cluster that a sweep runs on: an embedded one of this machine's processes, or one that is there already."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nips26lib.runs import Refusal

if TYPE_CHECKING:
    from distributed import Client

WAIT = 30.0  # seconds for a scheduler to answer, and for its first worker

# Workers that die are what a sweep reports in its own words; Dask's would come between.
_LOGGERS = ("distributed", "distributed.nanny", "distributed.scheduler", "distributed.worker", "distributed.core")


def default_workers(threads: int, needs_gpu: bool) -> int:
    """As many runs at once as the machine's cores hold with `threads` each; one where a GPU is needed."""
    return 1 if needs_gpu else max(1, _cores() // threads)


@contextlib.contextmanager
def embedded(workers: int, threads: int, needs_gpu: bool, book: Path, scratch: Path) -> Iterator[Client]:
    """A cluster of `workers` processes, one run each, gone afterwards with all that they started.

    `threads` is what a run asks for; where the workers together would take more than the machine has, each run is
    held to its share. Workers keep their files below `scratch`.
    """
    if needs_gpu and workers > 1:
        raise Refusal(
            f"{workers} workers of this machine would share one GPU; start a cluster with a worker for each "
            "GPU (dask-cuda) and give its address with --scheduler"
        )
    import dask
    from distributed import Client, LocalCluster

    share = max(1, _cores() // workers)
    variables = {"NIPS26_BOOK": str(book), "DASK_LOGGING__DISTRIBUTED": "critical"}
    if share < threads:
        variables["NIPS26_THREADS"] = str(share)
    config = {
        # The first death of a worker comes back to the sweep, which counts the attempts.
        "distributed.scheduler.allowed-failures": 0,
        "distributed.scheduler.worker-saturation": 1.0,
        # Files move once, at a run's end.
        "distributed.comm.compression": None,
        "distributed.admin.log-length": 0,
        "distributed.worker.profile.enabled": False,
        "distributed.worker.preload": ["nips26lib.runs.worker"],
    }
    with _quiet(), dask.config.set(config), _environment(variables):
        try:
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,  # Dask would measure itself, not the kernels
                resources={"GPU": 1} if needs_gpu else None,
                dashboard_address="127.0.0.1:0",  # any port: other sweeps of this machine have theirs
                local_directory=str(scratch),
                silence_logs=logging.CRITICAL,
            )
        except (OSError, RuntimeError) as error:
            raise Refusal(f"no worker could be started in {scratch}: {error}") from error
        with cluster, Client(cluster) as client:
            yield client


@contextlib.contextmanager
def existing(address: str) -> Iterator[Client]:
    """A client of the scheduler at `address`, with a worker at least. Refusal where there is none within `WAIT`."""
    from distributed import Client

    with _quiet():
        try:
            client = Client(address, timeout=WAIT, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise Refusal(f"there is no Dask scheduler at {address!r}: {reason}") from error
        with client:
            try:
                client.wait_for_workers(1, timeout=WAIT)
            except TimeoutError as error:
                raise Refusal(
                    f"the scheduler at {address} had no worker within {WAIT:g} s; "
                    f"start one with `dask worker {address} --nthreads 1`"
                ) from error
            yield client


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Environment variables that processes started meanwhile inherit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
