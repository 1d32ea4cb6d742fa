"""Writing so that a reader, or a crash at any moment, finds either the old or the new, whole."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import socket
import sys
from pathlib import Path

_HOST = socket.gethostname() or "unknown"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # linux/fs.h; macOS calls it RENAME_SWAP, with the same value


def sibling(path: Path) -> Path:
    """A fresh hidden name in the folder of `path`, for what is not whole yet; readers pass over hidden names.

    It tells the machine and the process that made it, so that `remove_leftovers` knows what nobody works on.
    """
    return path.with_name(f".{path.name}.{_HOST}.{os.getpid()}.{secrets.token_hex(4)}.tmp")


def remove_leftovers(path: Path) -> None:
    """Remove what processes of this machine that were killed left beside `path`."""
    made = re.compile(rf"\.{re.escape(path.name)}\.{re.escape(_HOST)}\.(\d+)\.[0-9a-f]{{8}}\.tmp")
    for name in os.listdir(path.parent):
        found = made.fullmatch(name)
        if found and not _is_running(int(found[1])):
            left = path.with_name(name)
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def write_file(path: Path, content: bytes) -> None:
    """Replace the file at `path`, keeping its permissions; OSError leaves it as it was, and nothing beside it."""
    new = sibling(path)
    try:
        with open(new, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(new, path.stat().st_mode & 0o777)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def replace_directory(new: Path, target: Path) -> None:
    """Put the finished directory `new` in the place of `target` (on the same filesystem) and drop the old one.

    The two are exchanged in one step where the system can; elsewhere the old one steps aside for a moment, from
    where `restore_directory` brings it back if that moment is the last.
    """
    _sync_tree(new)
    restore_directory(target)
    try:
        os.rename(new, target)  # succeeds where nothing is there, or an empty directory
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not _exchange(new, target):
            _step_aside(new, target)
    _sync_directory(target.parent)
    shutil.rmtree(new, ignore_errors=True)  # after an exchange, the old one


def restore_directory(target: Path) -> None:
    """Undo a replacement that was cut off: bring back the old directory, or drop what is left of it."""
    aside = _aside(target)
    if aside.is_dir():
        if target.exists():
            shutil.rmtree(aside)
        else:
            os.rename(aside, target)


def _step_aside(new: Path, target: Path) -> None:
    aside = _aside(target)
    os.rename(target, aside)
    try:
        os.rename(new, target)
    except BaseException:
        os.rename(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _exchange(first: Path, second: Path) -> bool:
    """Swap two directories in one step; False where the system or the filesystem cannot."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None, use_errno=True)
        a, b = os.fsencode(first), os.fsencode(second)
        if sys.platform == "linux":
            return bool(library.renameat2(_AT_FDCWD, a, _AT_FDCWD, b, _RENAME_EXCHANGE) == 0)
        if sys.platform == "darwin":
            return bool(library.renamex_np(a, b, _RENAME_EXCHANGE) == 0)
    return False


def _sync_tree(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
        _sync_directory(Path(root))


def _sync_directory(folder: Path) -> None:
    # Some filesystems cannot sync a directory; the rename is atomic all the same.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
