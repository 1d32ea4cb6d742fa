"""A kernel of this very interpreter for one notebook, and a meter of the memory that it takes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import psutil
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync

KERNEL_NAME = "python3"
_LONGEST_SOCKET_PATH = 90  # a Unix socket's path ends at 104 bytes on macOS, 108 on Linux, suffix included


class ThisInterpreter(AsyncKernelManager):
    """Starts ipykernel under `sys.executable`, whatever kernels are installed under that name."""

    log_file: TextIO
    environment: dict[str, str]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._clients: list[AsyncKernelClient] = []

    def client(self, **kwargs: Any) -> AsyncKernelClient:  # type: ignore[override]
        """A client, remembered so that `stop` can close its sockets."""
        client = super().client(**kwargs)
        self._clients.append(client)
        return client

    @property
    def kernel_spec(self) -> KernelSpec:
        """The one kernel that there is."""
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, name=KERNEL_NAME, display_name="Python 3", language="python")

    async def _async_pre_start_kernel(self, **kw: Any) -> Any:
        kw |= {"env": self.environment, "stdout": self.log_file, "stderr": self.log_file}
        return await super()._async_pre_start_kernel(**kw)

    def stop(self) -> None:
        """Kill the kernel and all that it started, and close every socket."""
        pid = self.pid
        if self.has_kernel:
            run_sync(self.shutdown_kernel)(now=True)
        if pid is not None:
            # The kernel leads a process group of its own: workers that outlived it go too.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        for client in self._clients:
            client.stop_channels()
        run_sync(self.cleanup_resources)()

    @property
    def pid(self) -> int | None:
        """The kernel's process, or None before it started."""
        return getattr(self.provisioner, "pid", None)

    @property
    def death(self) -> str:
        """How the kernel's process ended, in words."""
        process = getattr(self.provisioner, "process", None)
        code = None if process is None else process.poll()
        if code is None:
            return "the kernel stopped answering"
        if code < 0:
            return f"the kernel was killed by {signal.Signals(-code).name}"
        return f"the kernel exited with status {code}"


def environment(book: Path, scratch: Path, **more: str) -> dict[str, str]:
    """The environment of a kernel: this process's, without NIPS26_PRESET, with no live front end, and the same
    whatever folder the kernel starts in and whatever the user's IPython is set up to do.
    """
    kept = {name: value for name, value in os.environ.items() if name != "NIPS26_PRESET"}
    for name in ("PYTHONPATH", "NIPS26_DATA"):
        if kept.get(name):
            kept[name] = os.pathsep.join(os.path.abspath(entry) for entry in kept[name].split(os.pathsep) if entry)
    kept.setdefault("PYTHONHASHSEED", "0")  # the order of a set of texts must not differ from run to run
    return kept | {"NIPS26_STATIC": "1", "NIPS26_BOOK": str(book), "IPYTHONDIR": str(scratch / "ipython")} | more


@contextlib.contextmanager
def kernel(book: Path, log: TextIO, **more: str) -> Iterator[ThisInterpreter]:
    """A kernel manager for one notebook; whatever happens, its kernel and all that it started are gone afterwards.

    `log` takes what the process itself prints; `more` are further environment variables.
    """
    scratch = Path(tempfile.mkdtemp(prefix="nips26-"))
    connection = scratch / "kernel.json"
    # Sockets of the file system cannot be taken by another kernel that starts at the same moment; ports can.
    transport = "ipc" if len(str(connection)) < _LONGEST_SOCKET_PATH else "tcp"
    manager = ThisInterpreter(kernel_name=KERNEL_NAME, connection_file=str(connection), transport=transport)
    manager.log_file, manager.environment = log, environment(book, scratch, **more)
    try:
        yield manager
    finally:
        manager.stop()
        shutil.rmtree(scratch, ignore_errors=True)


class MemoryMeter:
    """Context manager: samples the resident memory of a kernel with its children, and keeps the `peak` in bytes."""

    def __init__(self, manager: ThisInterpreter, interval: float = 0.05) -> None:
        self.peak = 0
        self._manager, self._interval = manager, interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="nips26-memory", daemon=True)

    def __enter__(self) -> MemoryMeter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(self._interval):
            pid = self._manager.pid
            if pid is not None:
                self.peak = max(self.peak, _resident(pid), _high_water(pid))


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
