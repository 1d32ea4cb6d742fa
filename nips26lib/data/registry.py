"""The list of the book's data files, read from `registry.yml`: addresses, sizes, hashes, licences, citations."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

_GROUP_KEYS = {"folder", "repository", "commit", "licence", "citation", "files"}
_GROUP_OPTIONS = {"path", "convert", "by_hand", "note"}
_FILE_KEYS = {"name", "bytes", "sha256"}
_FILE_OPTIONS = {"path", "convert", "by_hand", "content", "original"}


@dataclass(frozen=True)
class Original:
    """A public file that a data file is made from; its size and hash where they are known."""

    url: str
    sha256: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class DataFile:
    """One data file: `name` is its place in a mirror, with folders.

    It comes as it is from `url`, or is made from `originals` by the function of `nips26lib.data.convert` that `convert`
    names, or must be supplied by the reader, for the reason in `by_hand`. `content_sha256` is the hash of what a
    converted npz or zip holds, for one that was compressed elsewhere.
    """

    name: str
    bytes: int
    sha256: str
    licence: str
    citation: str
    source: str
    url: str | None = None
    originals: tuple[Original, ...] = ()
    convert: str | None = None
    by_hand: str | None = None
    content_sha256: str | None = None
    note: str = ""


@lru_cache(maxsize=1)
def load_registry() -> Mapping[str, DataFile]:
    """All data files by name.

    >>> load_registry()["nugpt/tinyshakespeare.txt"].bytes
    1115394
    """
    text = resources.files("nips26lib.data").joinpath("registry.yml").read_text(encoding="utf-8")
    return parse_registry(text)


def data_file(name: str) -> DataFile:
    """The data file called `name`; ValueError with names like it where there is none.

    >>> data_file("mcd/worm_centroids.h5").licence
    'CC0-1.0'
    """
    files = load_registry()
    if name not in files:
        close = difflib.get_close_matches(name, files, n=3) or [
            file for file in files if PurePosixPath(file).name == name
        ]
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ValueError(f"name is {name!r}, which is no data file of the registry{hint}")
    return files[name]


def parse_registry(text: str) -> Mapping[str, DataFile]:
    """Data files from the text of a registry; ValueError for a key, value or name that it must not have."""
    import yaml

    files: dict[str, DataFile] = {}
    loader = getattr(
        yaml, "CSafeLoader", yaml.SafeLoader
    )  # the one in C, where it was built, takes a tenth of the time
    for group in yaml.load(text, loader):
        _check_keys(group, _GROUP_KEYS, _GROUP_OPTIONS, f"group {group.get('folder')!r}")
        for entry in group["files"]:
            file = _read_file(group, entry)
            if file.name in files:
                raise ValueError(f"{file.name!r} stands in the registry twice")
            files[file.name] = file
    return MappingProxyType(files)


def _read_file(group: Mapping[str, Any], entry: Mapping[str, Any]) -> DataFile:
    name = f"{group['folder']}/{entry.get('name')}"
    _check_keys(entry, _FILE_KEYS, _FILE_OPTIONS, f"file {name!r}")
    parts = PurePosixPath(name).parts
    if ".." in parts or name.startswith("/") or "/".join(parts) != name or "\\" in name:
        raise ValueError(f"{name!r} must be a plain relative path with forward slashes")
    if not re.fullmatch("[0-9a-f]{40}", str(group["commit"])):
        raise ValueError(f"{name!r}: commit is {group['commit']!r}; it must be 40 hexadecimal digits")
    base = f"https://raw.githubusercontent.com/{group['repository']}/{group['commit']}/"
    path = entry.get("path") or group.get("path")
    url = base + quote(path.replace("{file}", parts[-1])) if path else None
    convert, by_hand = (entry.get(key) or group.get(key) for key in ("convert", "by_hand"))
    originals = tuple(_read_original(base, original, name) for original in entry.get("original", ()))
    if convert or by_hand:
        originals, url = originals or ((Original(url),) if url else ()), None
    elif originals:
        raise ValueError(f"{name!r} has originals; it must have convert or by_hand too")
    if (convert and by_hand) or not (url or by_hand or (convert and originals)):
        raise ValueError(f"{name!r} must have one of: a path, convert with a path or originals, by_hand")
    return DataFile(
        name=name,
        bytes=_size(entry["bytes"], name),
        sha256=_hash(entry["sha256"], name),
        licence=_words(group["licence"], "licence", name),
        citation=_words(group["citation"], "citation", name),
        source=f"https://github.com/{group['repository']} at {group['commit']}",
        url=url,
        originals=originals,
        convert=convert,
        by_hand=by_hand,
        content_sha256=_hash(entry["content"], name) if "content" in entry else None,
        note=group.get("note", ""),
    )


def _read_original(base: str, original: Mapping[str, Any], name: str) -> Original:
    _check_keys(original, set(), {"path", "url", "bytes", "sha256"}, f"an original of {name!r}")
    if ("path" in original) == ("url" in original):
        raise ValueError(f"an original of {name!r} must have either path or url")
    url = original.get("url") or base + quote(original["path"])
    return Original(
        url,
        _hash(original["sha256"], name) if "sha256" in original else None,
        _size(original["bytes"], name) if "bytes" in original else None,
    )


def _check_keys(record: Mapping[str, Any], needed: set[str], allowed: set[str], what: str) -> None:
    missing, unknown = needed - set(record), set(record) - needed - allowed
    if missing or unknown:
        raise ValueError(f"{what} of the registry lacks {sorted(missing)} and has unknown keys {sorted(unknown)}")


def _hash(value: object, name: str) -> str:
    if not (isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value)):
        raise ValueError(f"{name!r}: a hash is {value!r}; it must be 64 hexadecimal digits in lower case")
    return value


def _size(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name!r}: bytes is {value!r}; it must be a positive whole number")
    return value


def _words(value: object, key: str, name: str) -> str:
    if not (isinstance(value, str) and value.strip()):
        raise ValueError(f"{name!r}: {key} is {value!r}; it must say something")
    return value.strip()
