"""Start a Dask scheduler here and its workers as SLURM jobs; `nips26 sweep --scheduler ADDRESS` runs on them.

    python scripts/slurm_workers.py --jobs 20 --cores 4 --memory 16GB --time 04:00:00

prints the scheduler's address and stays until Ctrl-C, which ends the jobs. Each job is one worker that runs one
chapter at a time; `--gpus 1` gives it a GPU and the resource that GPU presets ask for. `--print` shows the job script
and starts nothing. Other batch systems differ in one word: dask-jobqueue has PBSCluster, LSFCluster and more.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Sequence
from typing import Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the job script, or start the cluster and wait."""
    options = _parser().parse_args(arguments)
    from dask_jobqueue import SLURMCluster

    with SLURMCluster(**_settings(options)) as cluster:
        if options.print:
            print(cluster.job_script())
            return 0
        cluster.scale(jobs=options.jobs)
        print(f"nips26 sweep CHAPTER --scheduler {cluster.scheduler_address}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    worker = ["--nthreads", "1", "--no-dashboard"]
    directives = []
    if options.gpus:
        worker += ["--resources", "GPU=1"]
        directives.append(f"--gres=gpu:{options.gpus}")
    return {
        "cores": 1,  # runs at once in a job; how many CPUs the job has is job_cpu
        "job_cpu": options.cores,
        "memory": options.memory,
        "walltime": options.time,
        "queue": options.queue,
        "account": options.account,
        "processes": 1,
        "worker_extra_args": worker,
        "job_extra_directives": directives,
        "job_script_prologue": [f"export OMP_NUM_THREADS={options.cores}"],
        "python": sys.executable,
        "interface": options.interface,
        "scheduler_options": {"dashboard_address": None},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Workers for `nips26 sweep` as SLURM jobs.")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="workers (default: 1)")
    parser.add_argument("--cores", type=int, default=2, metavar="N", help="CPU cores of a job (default: 2)")
    parser.add_argument("--memory", default="8GB", metavar="SIZE", help="memory of a job (default: 8GB)")
    parser.add_argument("--gpus", type=int, default=0, metavar="N", help="GPUs of a job (default: none)")
    parser.add_argument("--time", default="01:00:00", metavar="HH:MM:SS", help="time of a job (default: one hour)")
    parser.add_argument("--queue", metavar="NAME", help="partition")
    parser.add_argument("--account", metavar="NAME", help="who pays")
    parser.add_argument("--interface", metavar="NAME", help="network interface between the nodes, for example ib0")
    parser.add_argument("--print", action="store_true", help="show the job script and start nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
