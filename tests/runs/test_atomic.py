from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nips26lib.runs import atomic


def folder(path: Path, content: str) -> Path:
    path.mkdir(parents=True)
    (path / "a.txt").write_text(content)
    (path / "b.txt").write_text(content)
    return path


def contents(path: Path) -> set[str]:
    return {file.read_text() for file in path.iterdir()}


@pytest.fixture(params=["exchange", "step aside"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to replace a directory, the second as on a filesystem that cannot exchange."""
    if request.param == "step aside":
        monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    return str(request.param)


def test_a_directory_is_put_in_place_and_replaced(tmp_path: Path, way: str) -> None:
    target = tmp_path / "run"
    atomic.replace_directory(folder(tmp_path / ".new", "one"), target)
    assert contents(target) == {"one"}
    atomic.replace_directory(folder(tmp_path / ".new", "two"), target)
    assert contents(target) == {"two"}
    assert os.listdir(tmp_path) == ["run"]


def test_a_file_in_the_way_is_left_alone(tmp_path: Path, way: str) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(OSError):
        atomic.replace_directory(folder(tmp_path / ".new", "one"), tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.parametrize("crash_at", range(5))
def test_a_crash_at_any_step_loses_nothing(
    tmp_path: Path, way: str, crash_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = folder(tmp_path / "run", "old")
    new = folder(tmp_path / ".new", "new")
    calls = 0

    class Crash(BaseException):
        pass

    def crashing(function):  # type: ignore[no-untyped-def]
        def wrapper(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls > crash_at:  # from then on nothing is done any more, as when the machine stops
                raise Crash
            return function(*arguments, **options)

        return wrapper

    with monkeypatch.context() as patch:
        for module, name in ((atomic.os, "rename"), (atomic.shutil, "rmtree"), (atomic, "_exchange")):
            patch.setattr(module, name, crashing(getattr(module, name)))
        with contextlib.suppress(Crash):
            atomic.replace_directory(new, target)
    atomic.restore_directory(target)
    assert contents(target) in ({"old"}, {"new"})
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == ["run"]


def test_a_failed_step_puts_the_old_directory_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, new = folder(tmp_path / "run", "old"), folder(tmp_path / ".new", "new")
    monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    rename = os.rename

    def full(source: Path, destination: Path) -> None:
        if source == new:
            raise OSError(errno.ENOTEMPTY if target.exists() else errno.ENOSPC, "no space")
        rename(source, destination)

    monkeypatch.setattr(atomic.os, "rename", full)
    with pytest.raises(OSError, match="no space"):
        atomic.replace_directory(new, target)
    assert contents(target) == {"old"}


def test_a_file_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic.write_file(path, b"one")
    path.chmod(0o640)
    atomic.write_file(path, b"two")
    assert path.read_bytes() == b"two" and path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_file_stays_as_it_was_when_writing_fails(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, step, full)
    with pytest.raises(OSError, match="No space left"):
        atomic.write_file(path, b"two")
    assert path.read_bytes() == b"one" and os.listdir(tmp_path) == ["file"]


def test_what_a_killed_process_left_is_removed_and_what_others_work_on_is_not(tmp_path: Path) -> None:
    target = tmp_path / "run"
    script = (
        "import os, signal, sys; from pathlib import Path; from nips26lib.runs import atomic\n"
        "for make in (Path.mkdir, Path.touch): make(atomic.sibling(Path(sys.argv[1])))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(target)]).returncode == -signal.SIGKILL
    left = sorted(os.listdir(tmp_path))
    assert len(left) == 2
    ours, theirs = atomic.sibling(target), tmp_path / left[0].replace(atomic._HOST, f"not-{atomic._HOST}")
    for path in (ours, theirs, atomic.sibling(tmp_path / "other"), tmp_path / ".run.notes.tmp"):
        path.mkdir()
    kept = sorted(set(os.listdir(tmp_path)) - set(left))
    atomic.remove_leftovers(target)
    assert sorted(os.listdir(tmp_path)) == kept
