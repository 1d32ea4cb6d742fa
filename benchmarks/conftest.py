"""Prints, kernel by kernel, how much faster the library is than each peer; records it when asked (`--record`)."""

from __future__ import annotations

import json
import os
import platform
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # one thread for all, so that a ratio compares programs and not cores

OURS = "nips26lib"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write the results to benchmarks/results/")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    kernels = _kernels(config)
    if not kernels:
        return
    terminalreporter.section("ratio to each peer (best time of the peer / best time of nips26lib)")
    for kernel in kernels:
        terminalreporter.write_line(kernel["kernel"])
        for row in kernel["contenders"]:
            ratio = "" if row["name"] == OURS or row["ratio"] is None else f"{row['ratio']:10.2f} x"
            note = "".join(f"  {name} {value}" for name, value in row["notes"].items())
            terminalreporter.write_line(f"  {row['name']:<24} {row['best_seconds'] * 1e3:10.3f} ms {ratio:>12}{note}")
    if config.getoption("--record"):
        for file in _record(kernels):
            terminalreporter.write_line(f"recorded in {file}")


def _kernels(config: pytest.Config) -> list[dict[str, Any]]:
    session = getattr(config, "_benchmarksession", None)
    groups: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for result in getattr(session, "benchmarks", []):
        if result.stats.rounds:
            module = Path(result.fullname.partition("::")[0]).stem.removeprefix("bench_")
            groups[module, result.group or result.name].append(result)
    kernels = []
    for (module, kernel), results in groups.items():
        best = {result.param: result.stats.min for result in results}
        ours = best.get(OURS)
        rows = [
            {
                "name": result.param,
                "best_seconds": result.stats.min,
                "rounds": result.stats.rounds,
                "ratio": result.stats.min / ours if ours else None,
                "notes": dict(result.extra_info),
            }
            for result in results
        ]
        kernels.append({"module": module, "kernel": kernel, "contenders": rows})
    return kernels


def _record(kernels: list[dict[str, Any]]) -> list[Path]:
    import numpy
    import scipy
    import torch

    machine = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "threads": torch.get_num_threads(),
    }
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    files = []
    for module in dict.fromkeys(kernel["module"] for kernel in kernels):
        mine = [{k: v for k, v in kernel.items() if k != "module"} for kernel in kernels if kernel["module"] == module]
        file = folder / f"{module}.json"
        whole = file.with_suffix(".json.part")
        whole.write_text(json.dumps({"on": machine, "kernels": mine}, indent=2) + "\n", encoding="utf-8")
        whole.replace(file)
        files.append(file)
    return files
