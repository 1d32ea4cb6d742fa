"""What all tests run under: checked annotations, one thread, no screen, and a note of what was left out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["MPLBACKEND"] = "Agg"
# One thread: sums are taken in one order, and tests that run in parallel do not fight over the cores.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
# What a reader may have set for their own runs must not reach the tests. NIPS26_DATA, the mirror of the data, stays.
for _name in ("NIPS26_PRESET", "NIPS26_STATIC", "NIPS26_BOOK", "NIPS26_DEVICE"):
    os.environ.pop(_name, None)
# `make test` names the file; no kernel or command that a test starts is to see it.
LEFT_OUT = os.environ.pop("NIPS26_LEFT_OUT", None)

if "nips26lib" in sys.modules:
    raise pytest.UsageError("nips26lib was imported before its annotations could be checked; import it in tests only")

from jaxtyping import install_import_hook  # noqa: E402

install_import_hook("nips26lib", "beartype.beartype")


@pytest.fixture(autouse=True)
def torch_as_found() -> Iterator[None]:
    """Undo what a chapter's start sets for its whole process, so that no test depends on the one before."""
    yield
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write why tests were skipped to the file that `make test` reads out at its end."""
    if not LEFT_OUT:
        return
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")] = reasons.get(reason.removeprefix("Skipped: "), 0) + 1
    with Path(LEFT_OUT).open("a", encoding="utf-8") as left_out:
        left_out.writelines(f"  {count} test{'s' * (count > 1)}: {reason}\n" for reason, count in reasons.items())
