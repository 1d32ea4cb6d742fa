"""The watch over a kernel: how much memory it takes, and when it has had enough of memory or of time."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from nips26lib.runs import Refusal
from nips26lib.runs.kernel import ThisInterpreter

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """What one run may take: `memory` in bytes, kernel and children together; `timeout` in seconds. None: no limit."""

    memory: int | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.memory is not None and self.memory <= 0:
            raise Refusal(f"the memory limit is {self.memory} bytes; it must be above 0")
        if self.timeout is not None and not 0 < self.timeout < float("inf"):
            raise Refusal(f"the timeout is {self.timeout} s; it must be above 0 and finite")


def parse_size(text: str) -> int:
    """Bytes, from a number with a unit.

    >>> parse_size("1.5GB"), parse_size("512 MiB"), parse_size("2000")
    (1500000000, 536870912, 2000)
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise Refusal(f"the size {text!r} must be a number with a unit, such as 1.5GB or 512MiB")
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])


class Watch:
    """Context manager: samples the resident memory of a kernel with its children, and kills it at a limit.

    `peak` is the most memory seen, in bytes; `verdict` says in words which limit was passed, or is None.
    """

    def __init__(self, manager: ThisInterpreter, limits: Limits = Limits(), interval: float = 0.05) -> None:
        self.peak = 0
        self.verdict: str | None = None
        self._manager, self._limits, self._interval = manager, limits, interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="nips26-watch", daemon=True)
        self._deadline = float("inf")

    def __enter__(self) -> Watch:
        if self._limits.timeout is not None:
            self._deadline = time.monotonic() + self._limits.timeout
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._stop.wait(self._interval):
            pid = self._manager.pid
            if pid is not None:
                self._look(pid)
                if self.verdict is not None or self._manager.unwanted:
                    self._manager.kill()

    def _look(self, pid: int) -> None:
        resident = _resident(pid)
        self.peak = max(self.peak, resident, _high_water(pid))
        memory, timeout = self._limits.memory, self._limits.timeout
        if self.verdict is None and memory is not None and resident > memory:
            self.verdict = f"the kernel took {_gigabytes(resident)} of memory, and the limit is {_gigabytes(memory)},"
        if self.verdict is None and timeout is not None and time.monotonic() > self._deadline:
            self.verdict = f"the run passed its timeout of {timeout:g} s"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB"


def _resident(pid: int) -> int:
    total = 0
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
    return total


def _high_water(pid: int) -> int:
    """The kernel's own peak as Linux keeps it, which no short spike escapes; 0 elsewhere."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
