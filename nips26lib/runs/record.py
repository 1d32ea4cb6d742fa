"""The record of a run, `run.json`: what was asked, on what it ran, what came out."""

from __future__ import annotations

import json
import math
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import nips26lib
from nips26lib.runs import Refusal

FILE_NAME = "run.json"
STATUSES = ("succeeded", "failed")


@dataclass(frozen=True)
class RunRecord:
    """One run. `reason` says why it failed, else None; `claims` is the claims table of its notebook, if it has one.

    `identity` is the hash of all that the result follows from (`nips26lib.runs.identity`); `attempts` counts how
    often the run was tried; `data` says of each data set that it asked for whether the real one was had.

    `started` is UTC, ISO 8601; `revision` is {"commit": sha, "dirty": bool} of the book, or None outside git;
    `peak_memory_bytes` is the resident memory of the kernel and its children together, sampled.
    """

    chapter: str
    preset: str
    seed: int
    overrides: Mapping[str, Any]
    parameters: Mapping[str, Any]
    identity: str
    status: str
    reason: str | None
    attempts: int
    started: str
    wall_seconds: float
    peak_memory_bytes: int
    versions: Mapping[str, str | None]
    device: str
    threads: int
    revision: Mapping[str, Any] | None
    platform: str
    data: Sequence[Mapping[str, Any]]
    claims: Mapping[str, Any] | None

    def to_json(self) -> str:
        """The text of run.json; the same record, the same bytes."""
        return json.dumps(asdict(self), indent=1, sort_keys=True, allow_nan=False) + "\n"


def read_record(path: Path) -> RunRecord:
    """Read run.json at `path`, or in the folder `path`. Refusal, naming the file, unless it is a whole record."""
    path = path / FILE_NAME if path.is_dir() else path
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Refusal(f"{path} cannot be read: {error.strerror}") from error
    return parse_record(content, path)


def parse_record(text: bytes, path: Path) -> RunRecord:
    """The record that `text` holds; `path` is where it stands. Refusal, naming it, unless it is a whole record."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise Refusal(f"{path} is no whole record of a run: {error}") from error
    if not isinstance(content, dict):
        raise Refusal(f"{path} is no whole record of a run: it holds no mapping")
    names = {field.name for field in fields(RunRecord)}
    if missing := sorted(names - set(content)):
        raise Refusal(f"{path} is no whole record of a run: {missing[0]!r} is missing")
    if unknown := sorted(set(content) - names):
        raise Refusal(f"{path} is no record that this version reads: unknown key {unknown[0]!r}")
    for name, is_right, what in _CHECKS:
        if not is_right(content[name]):
            raise Refusal(f"{path} is no whole record of a run: {name!r} is {content[name]!r}; it must be {what}")
    return RunRecord(**content)


def find_records(folder: Path) -> Iterator[Path]:
    """Every run.json in the folder or below it, by path, save in hidden folders: what is there is not whole."""
    if (folder / FILE_NAME).is_file():
        yield folder / FILE_NAME
        return
    for below in sorted(folder.iterdir()):
        if below.is_dir() and not below.name.startswith("."):
            yield from find_records(below)


def versions() -> dict[str, str | None]:
    """The versions that a number depends on."""
    return {
        "python": platform.python_version(),
        "torch": _version("torch"),
        "numpy": _version("numpy"),
        "nips26lib": nips26lib.__version__,
    }


def revision(folder: Path) -> dict[str, Any] | None:
    """The git commit that `folder` stands at, and whether tracked files differ from it; None where git has none."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit.strip(), "dirty": bool(status)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict)


def _is_duration(value: object) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


_CHECKS = (
    ("chapter", _is_text, "a text"),
    ("preset", _is_text, "a text"),
    ("seed", _is_count, "a whole number from 0"),
    ("overrides", _is_mapping, "a mapping"),
    ("parameters", _is_mapping, "a mapping"),
    ("identity", _is_text, "a text"),
    ("status", lambda value: value in STATUSES, f"one of {', '.join(STATUSES)}"),
    ("reason", lambda value: value is None or _is_text(value), "a text or null"),
    ("attempts", lambda value: _is_count(value) and value > 0, "a whole number from 1"),
    ("started", _is_text, "a text"),
    ("wall_seconds", _is_duration, "a number from 0"),
    ("peak_memory_bytes", _is_count, "a whole number from 0"),
    ("versions", _is_mapping, "a mapping"),
    ("device", _is_text, "a text"),
    ("threads", _is_count, "a whole number from 0"),
    ("revision", lambda value: value is None or _is_mapping(value), "a mapping or null"),
    ("platform", _is_text, "a text"),
    ("data", lambda value: isinstance(value, list) and all(map(_is_mapping, value)), "a list of mappings"),
    ("claims", lambda value: value is None or _is_mapping(value), "a mapping or null"),
)
