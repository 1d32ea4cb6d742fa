"""Reading npy, npz and zip files from elsewhere: nothing unpickled, nothing unpacked to disk, sizes bounded."""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import stat
import zipfile
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

LARGEST_MEMBER = 256 * 2**20
LARGEST_ARCHIVE = 2**30  # all members together, unpacked


class DataCorrupt(ValueError):
    """A data file is not what it must be: another checksum, damaged, or holding what no data file may hold."""


def read_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """The array in an npy file; DataCorrupt when it is none, is cut off, or holds pickled objects."""
    size = Path(path).stat().st_size
    if size > LARGEST_MEMBER:
        raise DataCorrupt(f"{os.fspath(path)} has {size} bytes; at most {LARGEST_MEMBER} are read")
    return _array(Path(path).read_bytes(), os.fspath(path))


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays in an npz file by name; DataCorrupt when it is none, is damaged, or holds pickled objects."""
    arrays: dict[str, np.ndarray] = {}
    with _open(path) as archive:
        for info in _members(archive, path):
            if not info.filename.endswith(".npy"):
                raise DataCorrupt(f"{os.fspath(path)} holds {info.filename!r}; an npz file holds arrays only")
            key = info.filename.removesuffix(".npy")
            arrays[key] = _array(_read(archive, info, path), f"{os.fspath(path)}, array {key!r},")
    return arrays


def zip_members(path: str | os.PathLike[str], select: str = ".*") -> list[str]:
    """The names of a zip's files that match the regular expression `select` whole, in the archive's order.

    DataCorrupt when it is no zip, or when one of those has an absolute path or `..` in it, is a link, is encrypted,
    stands there twice, or is absurdly large.
    """
    with _open(path) as archive:
        return [info.filename for info in _members(archive, path, select)]


def read_zip_member(path: str | os.PathLike[str], member: str) -> bytes:
    """What one file of a zip holds; DataCorrupt as `zip_members`, or when there is no such file or it is damaged."""
    with _open(path) as archive:
        infos = _members(archive, path, re.escape(member))
        if not infos:
            raise DataCorrupt(f"{os.fspath(path)} has no member {member!r}")
        return _read(archive, infos[0], path)


def read_zip_members(path: str | os.PathLike[str], select: str = ".*") -> dict[str, bytes]:
    """What each of a zip's files holds that matches the regular expression `select` whole; DataCorrupt as above."""
    with _open(path) as archive:
        return {info.filename: _read(archive, info, path) for info in _members(archive, path, select)}


def content_sha256(path: str | os.PathLike[str]) -> str:
    """A hash of what an npz or zip file holds, however it was compressed and ordered.

    SHA-256 over the members sorted by name. Of an npz: the line "name dtype shape" (as Python prints dtype.str and the
    tuple), then the array's bytes in C order. Of any other zip: the line "name size", then the bytes.
    """
    digest = hashlib.sha256()
    if Path(path).suffix == ".npz":
        for name, array in sorted(read_npz(path).items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.tobytes())
    else:
        for name, content in sorted(read_zip_members(path).items()):
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def write_zip(path: str | os.PathLike[str], members: dict[str, bytes]) -> None:
    """Write a zip whose bytes depend on nothing but `members` (and the compressor)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name), members[name], zipfile.ZIP_DEFLATED)


def _open(path: str | os.PathLike[str]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise DataCorrupt(f"{os.fspath(path)} is no whole zip archive ({error})") from error


def _members(archive: zipfile.ZipFile, path: str | os.PathLike[str], select: str = ".*") -> list[zipfile.ZipInfo]:
    pattern = re.compile(select, re.DOTALL)
    infos = [info for info in archive.infolist() if not info.is_dir() and pattern.fullmatch(info.filename)]
    seen: set[str] = set()
    for info in infos:
        wrong = _wrong(info, seen)
        if wrong:
            raise DataCorrupt(f"{os.fspath(path)} holds {info.filename!r}, {wrong}")
        seen.add(info.filename)
    total = sum(info.file_size for info in infos)
    if total > LARGEST_ARCHIVE:
        raise DataCorrupt(f"{os.fspath(path)} unpacks to {total} bytes; at most {LARGEST_ARCHIVE} are read")
    return infos


def _wrong(info: zipfile.ZipInfo, seen: set[str]) -> str:
    name = info.orig_filename.replace("\\", "/")
    if name.startswith("/") or re.match("[A-Za-z]:", name) or ".." in PurePosixPath(name).parts or "\0" in name:
        return "which is no plain relative path"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "which is a link"
    if info.flag_bits & 1:
        return "which is encrypted"
    if info.file_size > LARGEST_MEMBER:
        return f"which unpacks to {info.file_size} bytes; at most {LARGEST_MEMBER} are read"
    return "which stands there twice" if info.filename in seen else ""


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str | os.PathLike[str]) -> bytes:
    import lzma
    import zlib

    try:
        # zipfile reads no more than the size that the archive states, and checks the member's own checksum
        return archive.read(info)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, zlib.error, lzma.LZMAError) as error:
        raise DataCorrupt(f"{os.fspath(path)} holds {info.filename!r}, which is damaged ({error})") from error


def _array(raw: bytes, where: str) -> np.ndarray:
    stream = io.BytesIO(raw)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"format version {version}")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
    except (ValueError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise DataCorrupt(f"{where} is no array in npy format ({error})") from error
    if dtype.hasobject:
        raise DataCorrupt(f"{where} holds pickled Python objects ({dtype}); a data file may hold plain numbers only")
    # Before numpy makes room for it: does the array that the header promises lie here, whole?
    held, promised = len(raw) - stream.tell(), math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or held != promised:
        raise DataCorrupt(f"{where} has {held} bytes of numbers; its header promises {promised}")
    if promised == 0:
        return np.zeros(shape, dtype)
    order: Literal["F", "C"] = "F" if fortran else "C"
    return np.ndarray(shape, dtype, raw, stream.tell(), order=order).copy()
