from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest

from nips26lib.runs import Refusal
from nips26lib.runs.record import RunRecord, find_records, read_record, revision, versions

RECORD = RunRecord(
    chapter="tiny", preset="smoke", seed=3, overrides={"seeds": 2}, parameters={}, identity="0" * 64,
    status="succeeded", reason=None, attempts=1,
    started="2026-01-02T03:04:05+00:00", wall_seconds=1.5, peak_memory_bytes=10**8, versions=versions(), device="cpu",
    threads=1, revision=None, platform="Linux", data=[{"name": "cora", "real": True, "why": ""}],
    claims={"claims": []},
)  # fmt: skip


def test_a_record_reads_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(RECORD.to_json())
    assert read_record(path) == read_record(tmp_path) == RECORD
    assert set(RECORD.versions) == {"python", "torch", "numpy", "nips26lib"} and all(RECORD.versions.values())


def test_every_beginning_of_a_record_is_refused(tmp_path: Path) -> None:
    text = RECORD.to_json().rstrip("\n")
    path = tmp_path / "run.json"
    for length in range(len(text)):
        path.write_text(text[:length])
        with pytest.raises(Refusal, match=r"run\.json is no whole record"):
            read_record(path)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(RunRecord)])
def test_a_missing_key_and_a_wrong_type_are_refused(tmp_path: Path, name: str) -> None:
    content = json.loads(RECORD.to_json())
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content | {name: [object.__name__]}))
    with pytest.raises(Refusal, match=f"'{name}' is"):
        read_record(path)
    del content[name]
    path.write_text(json.dumps(content))
    with pytest.raises(Refusal, match=f"'{name}' is missing"):
        read_record(path)


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be read"):
        read_record(tmp_path)
    path = tmp_path / "run.json"
    for content, words in (("[]", "holds no mapping"), ('{"a": 1, ' + RECORD.to_json()[1:], "unknown key 'a'")):
        path.write_text(content)
        with pytest.raises(Refusal, match=words):
            read_record(path)


def test_records_are_found_below_a_folder_save_in_hidden_ones(tmp_path: Path) -> None:
    for name in ("b/two", "a/one", "a/.one.old", ".x/y"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").write_text(RECORD.to_json())
    assert [str(path.parent.relative_to(tmp_path)) for path in find_records(tmp_path)] == ["a/one", "b/two"]
    assert list(find_records(tmp_path / "a" / "one")) == [tmp_path / "a" / "one" / "run.json"]


def test_the_revision_is_git_s(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert revision(tmp_path) is None
    git("init", "-q")
    assert revision(tmp_path) is None  # no commit yet
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD").strip()
    assert revision(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "untracked").write_text("")
    assert revision(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "file").write_text("two")
    assert revision(tmp_path) == {"commit": commit, "dirty": True}
