"""A kernel of this very interpreter for one notebook."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

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
        self.unwanted = False  # killed, or to be killed as soon as it starts

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

    def kill(self) -> None:
        """Kill the kernel and all that it started, from any thread; whoever waits for it learns that it died."""
        self.unwanted = True
        _kill_group(self.pid)

    def stop(self) -> None:
        """Kill the kernel and all that it started, and close every socket."""
        pid = self.pid  # a kernel that was shut down has none
        if self.has_kernel:
            run_sync(self.shutdown_kernel)(now=True)
        _kill_group(pid)
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


def _kill_group(pid: int | None) -> None:
    # The kernel leads a process group of its own: workers that outlived it go too.
    if pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def environment(book: Path, scratch: Path, **more: str) -> dict[str, str]:
    """The environment of a kernel: this process's, without NIPS26_PRESET, with no live front end, and the same
    whatever folder the kernel starts in and whatever the user's IPython is set up to do.
    """
    kept = {name: value for name, value in os.environ.items() if name != "NIPS26_PRESET"}
    for name in ("PYTHONPATH", "NIPS26_DATA"):
        if kept.get(name):
            kept[name] = os.pathsep.join(os.path.abspath(entry) for entry in kept[name].split(os.pathsep) if entry)
    # The order of a set of texts must not differ from run to run, nor between a run and a worker's (Dask sets its own).
    kept["PYTHONHASHSEED"] = "0"
    return kept | {"NIPS26_STATIC": "1", "NIPS26_BOOK": str(book), "IPYTHONDIR": str(scratch / "ipython")} | more


def one_pool(threads: int) -> dict[str, str]:
    """Environment variables that hold every pool of threads in a kernel to so many, from its first import on."""
    return {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


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
