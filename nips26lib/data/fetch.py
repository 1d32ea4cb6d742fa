"""Getting a data file: from a mirror, from the cache, or from the address in the registry, and never half of it.

`NIPS26_DATA` names mirrors (folders, separated as in PATH) laid out as the registry names files; `NIPS26_CACHE` names
the cache, where it is not to be the system's usual place.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from nips26lib.data.archives import DataCorrupt, content_sha256
from nips26lib.data.download import download
from nips26lib.data.registry import DataFile, Original, data_file, load_registry

__all__ = ["DataCorrupt", "DataUnavailable", "Presence", "cache_folder", "fetch", "fetch_file", "locate", "presence"]

HTTPS = ("https",)
_ABANDONED = 24 * 3600.0  # seconds after which an unfinished download belongs to nobody


class DataUnavailable(RuntimeError):
    """A data file can be had neither from a mirror nor from the cache nor from its address."""


@dataclass(frozen=True)
class Presence:
    """Where a data file lies on this machine, judged by existence and size alone; "damaged" is a wrong size."""

    file: DataFile
    where: Literal["mirror", "cache", "damaged", "missing"]
    path: Path | None


def fetch(name: str, *, timeout: float = 30.0) -> Path:
    """The path of the data file called `name`, downloaded if need be; its checksum has been compared.

    `timeout` is in seconds: for the connection, for each wait on the server, and as the grace before a slow download
    is given up. ValueError for an unknown name, DataUnavailable when the file cannot be had, DataCorrupt when what a
    mirror or the address holds is not the registered file.
    """
    return fetch_file(data_file(name), timeout=timeout)


def locate(name: str) -> Path | None:
    """The path of the data file called `name` where a mirror or the cache has it, else None; nothing is downloaded."""
    return _locate(data_file(name))


def presence() -> list[Presence]:
    """Of every data file of the registry, where it lies on this machine; quick, since nothing is read."""
    return [_presence(file) for file in load_registry().values()]


def cache_folder() -> Path:
    """The folder that downloads are kept in."""
    if os.environ.get("NIPS26_CACHE"):
        return Path(os.environ["NIPS26_CACHE"]).expanduser()
    import pooch  # type: ignore[import-untyped]

    return Path(pooch.os_cache("nips26lib"))


def fetch_file(file: DataFile, *, timeout: float = 30.0, schemes: tuple[str, ...] = HTTPS) -> Path:
    """As `fetch`, for any record of a file. `schemes` are the kinds of address it may come from or be led on to."""
    if not (math.isfinite(timeout) and timeout > 0):
        raise ValueError(f"timeout is {timeout}; it must be a positive number of seconds")
    found = _locate(file)
    if found:
        return found
    if file.by_hand:
        raise DataUnavailable(_unavailable(file, f"the library cannot make it: {file.by_hand}"))
    target = cache_folder() / file.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _unfinished_folder()
    except OSError as error:
        raise DataUnavailable(_unavailable(file, f"the cache cannot be written ({error}); set NIPS26_CACHE")) from error
    try:
        whole = _obtain(file, unfinished, timeout, schemes)
        whole.chmod(0o644)  # a cache may be shared, and temporary files are private
        os.replace(whole, target)
    except OSError as error:
        raise DataUnavailable(_unavailable(file, str(error))) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _obtain(file: DataFile, folder: Path, timeout: float, schemes: tuple[str, ...]) -> Path:
    """The file, whole and checked, in a folder that nobody else looks into."""
    if file.url:
        return _download(file, Original(file.url, file.sha256, file.bytes), folder / "file", timeout, schemes)
    from nips26lib.data.convert import CONVERTERS

    convert: Callable[[list[Path], Path], None] = CONVERTERS[str(file.convert)]
    originals = [
        _original(file, original, folder / f"original{number}", timeout, schemes)
        for number, original in enumerate(file.originals)
    ]
    made = folder / f"made{Path(file.name).suffix}"
    try:
        convert(originals, made)
    except Exception as error:
        wrong = f"its original {_addresses(file)} cannot be converted ({type(error).__name__}: {error})"
        raise DataCorrupt(f"{file.name}: {wrong}. {_supply(file)}") from error
    if not _is(file, made):
        wrong = f"converting {_addresses(file)} gave something else than the registered file"
        raise DataCorrupt(f"{file.name}: {wrong}. {_supply(file)}")
    return made


def _original(file: DataFile, original: Original, path: Path, timeout: float, schemes: tuple[str, ...]) -> Path:
    for other in load_registry().values():  # it may lie here already, as a data file in its own right
        if other.url == original.url:
            return fetch_file(other, timeout=timeout, schemes=schemes)
    return _download(file, original, path, timeout, schemes)


def _download(file: DataFile, original: Original, path: Path, timeout: float, schemes: tuple[str, ...]) -> Path:
    why = download(original, path, timeout, schemes)
    if why:
        raise DataUnavailable(_unavailable(file, why))
    size, sha256 = path.stat().st_size, _sha256(path)
    if original.sha256 not in (None, sha256) or original.bytes not in (None, size):
        too_many = original.bytes is not None and size > original.bytes  # the rest of them was not waited for
        got = "more" if too_many else f"{size} bytes with sha256 {sha256}"
        raise DataCorrupt(
            f"{file.name}: {original.url} must be {original.bytes} bytes with sha256 {original.sha256}, "
            f"but it delivered {got}. {_supply(file)}"
        )
    return path


def _unfinished_folder() -> Path:
    """A fresh folder in the cache for one download; what killed processes left there long ago is removed."""
    parent = cache_folder() / ".unfinished"
    parent.mkdir(exist_ok=True)
    for left in parent.iterdir():
        try:
            if left.stat().st_mtime < time.time() - _ABANDONED:
                shutil.rmtree(left, ignore_errors=True)
        except FileNotFoundError:  # its owner has just finished
            pass
    return Path(tempfile.mkdtemp(dir=parent))


def _mirrors() -> list[Path]:
    return [Path(entry).expanduser() for entry in os.environ.get("NIPS26_DATA", "").split(os.pathsep) if entry]


def _locate(file: DataFile) -> Path | None:
    for mirror in _mirrors():
        path = mirror / file.name
        if not path.exists():
            continue
        try:
            if _is(file, path):
                return path
            size, sha256 = path.stat().st_size, _sha256(path)
        except OSError as error:
            raise DataUnavailable(_unavailable(file, f"{path} cannot be read ({error})")) from error
        raise DataCorrupt(
            f"{path} in NIPS26_DATA has {size} bytes with sha256 {sha256}; {file.name} must have {file.bytes} bytes "
            f"with sha256 {file.sha256}. Replace it or take it away."
        )
    # What the cache holds is ours: a damaged file there is as good as none, and is fetched anew.
    path = cache_folder() / file.name
    try:
        return path if path.is_file() and _is(file, path) else None
    except OSError:
        return None


def _is(file: DataFile, path: Path) -> bool:
    status = path.stat()
    return _is_unchanged(file, path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)  # a chapter reads the same file many times; size and time tell whether it is still the same
def _is_unchanged(file: DataFile, path: Path, size: int, modified: int) -> bool:
    if _sha256(path) == file.sha256:
        return True
    try:
        return file.content_sha256 is not None and content_sha256(path) == file.content_sha256
    except DataCorrupt:
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _presence(file: DataFile) -> Presence:
    mirrors = _mirrors()
    for folder in (*mirrors, cache_folder()):
        path = folder / file.name
        if path.is_file():
            # a file that was converted elsewhere may be compressed otherwise
            if path.stat().st_size != file.bytes and file.content_sha256 is None:
                return Presence(file, "damaged", path)
            return Presence(file, "mirror" if folder in mirrors else "cache", path)
    return Presence(file, "missing", None)


def _unavailable(file: DataFile, why: str) -> str:
    mirrors = ", ".join(map(str, _mirrors())) or "not set"
    return (
        f"{file.name} cannot be had. It is neither in NIPS26_DATA ({mirrors}) nor in the cache ({cache_folder()}), "
        f"and from {_addresses(file)}: {why}. {_supply(file)}"
    )


def _supply(file: DataFile) -> str:
    return (
        f"To supply it by hand, put the file ({file.bytes} bytes, sha256 {file.sha256}) at FOLDER/{file.name} "
        "and set NIPS26_DATA to FOLDER."
    )


def _addresses(file: DataFile) -> str:
    first, *others = [file.url] if file.url else [original.url for original in file.originals] or [file.source]
    return f"{first} and {len(others)} more" if others else str(first)
