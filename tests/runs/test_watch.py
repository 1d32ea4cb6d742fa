from __future__ import annotations

from pathlib import Path

import pytest

from nips26lib.runs import Refusal
from nips26lib.runs.execute import execute
from nips26lib.runs.parameters import make_plan
from nips26lib.runs.record import read_record
from nips26lib.runs.watch import Limits, parse_size
from tests.runs.test_execute import kernels, printed
from tests.tinybook import TinyBook


@pytest.mark.parametrize(("text", "size"), [
    ("1", 1), ("20b", 20), ("1kB", 1000), ("1KiB", 1024), ("1.5 GB", 1_500_000_000), ("2g", 2 * 10**9),
    ("512MiB", 512 * 2**20), (" 1 TiB ", 2**40),
])  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GB", "1 XB", "GB", "1e9", "1GB2"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="must be a number with a unit"):
        parse_size(text)


@pytest.mark.parametrize("limits", [{"memory": 0}, {"memory": -5}, {"timeout": 0.0}, {"timeout": float("nan")},
                                    {"timeout": float("inf")}])  # fmt: skip
def test_limits_that_allow_nothing_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(Refusal, match="must be above 0"):
        Limits(**limits)  # type: ignore[arg-type]


def test_a_kernel_that_takes_too_much_memory_is_ended(book: TinyBook, tmp_path: Path) -> None:
    # The memory is a child's, which counts too.
    child = "import sys, time; x = bytearray(400_000_000); time.sleep(600)"
    book.write(
        "tiny", ["print('before')", f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"]
    )
    plan = make_plan(book.catalogue.chapter("tiny"))
    record = execute(plan, tmp_path, limits=Limits(memory=parse_size("300MB")))
    assert record.status == "failed" and record.claims is None and record.reason is not None
    assert record.reason.startswith("the kernel took 0.") and "limit is 0.3 GB, in cell 4 of 4" in record.reason
    assert record.peak_memory_bytes > 300e6
    assert read_record(tmp_path / plan.directory) == record and printed(tmp_path / plan.directory) == "before\n"
    assert not kernels()


def test_a_run_that_takes_too_long_is_ended(book: TinyBook, tmp_path: Path) -> None:
    book.write("tiny", ["print('before')", "import time\ntime.sleep(600)"])
    plan = make_plan(book.catalogue.chapter("tiny"))
    record = execute(plan, tmp_path, limits=Limits(timeout=4.0))
    assert (record.status, record.reason) == ("failed", "the run passed its timeout of 4 s in cell 4 of 4")
    assert 4 <= record.wall_seconds < 60 and printed(tmp_path / plan.directory) == "before\n"
    assert not kernels()


def test_a_run_within_its_limits_is_let_be(book: TinyBook, tmp_path: Path) -> None:
    record = execute(make_plan(book.catalogue.chapter("tiny")), tmp_path, limits=Limits(memory=10**12, timeout=3600.0))
    assert (record.status, record.reason) == ("succeeded", None)
