"""The registry: what each record must say, and that the files of a mirror are those that it lists."""

from __future__ import annotations

import os
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from nips26lib.data.convert import CONVERTERS
from nips26lib.data.fetch import fetch, locate, presence
from nips26lib.data.registry import DataFile, Original, data_file, load_registry, parse_registry

NOT_DATA = {"SOURCE.txt", "sha256.json"}  # what a mirror says about itself

needs_mirror = pytest.mark.skipif(not os.environ.get("NIPS26_DATA"), reason="NIPS26_DATA names no mirror of the data")


def mirrors() -> list[Path]:
    return [Path(entry) for entry in os.environ["NIPS26_DATA"].split(os.pathsep) if entry]


def test_every_record_says_all_that_is_needed() -> None:
    for name, file in load_registry().items():
        addresses = [file.url] if file.url else [original.url for original in file.originals]
        assert addresses, name
        for address in addresses:
            assert address.startswith(("https://raw.githubusercontent.com/", "https://codeload.github.com/")), name
            assert re.search("/[0-9a-f]{40}(/|$)", address) and not re.search(r"[ {}]", address), name
        assert file.name == name and file.licence and file.citation, name
        assert file.source.startswith("https://github.com/"), name
        # just one of: as it is, made by the library, supplied by the reader
        assert [file.url is None, file.convert is None, file.by_hand is None].count(False) == 1, name
        packed = file.convert not in (None, "gunzip") or file.by_hand
        assert (file.content_sha256 is not None) == bool(packed and name.endswith((".npz", ".zip"))), name


def test_every_converter_is_used() -> None:
    assert {file.convert for file in load_registry().values()} - {None} == set(CONVERTERS)


@needs_mirror
def test_every_file_of_the_registry_is_in_the_mirror_and_right() -> None:
    for name, file in load_registry().items():
        path = locate(name)
        assert path is not None and path.stat().st_size == file.bytes, name
        assert fetch(name) == path
    assert {entry.where for entry in presence()} == {"mirror"}


@needs_mirror
def test_every_file_of_the_mirror_is_in_the_registry() -> None:
    found = {
        path.relative_to(mirror).as_posix()
        for mirror in mirrors()
        for path in mirror.rglob("*")
        if path.is_file() and path.name not in NOT_DATA
    }
    assert found - set(load_registry()) == set()


def test_a_wrong_name_brings_the_right_ones() -> None:
    with pytest.raises(ValueError, match=r"name is 'prat/coral.npz'.*did you mean .*'prat/cora.npz'"):
        data_file("prat/coral.npz")
    with pytest.raises(ValueError, match=r"did you mean 'mcd/worm_centroids\.h5'"):
        data_file("worm_centroids.h5")
    with pytest.raises(ValueError, match=r"no data file of the registry$"):
        data_file("§§§")


def test_the_registry_cannot_be_changed_by_its_users() -> None:
    files = load_registry()
    with pytest.raises(TypeError):
        files["new"] = next(iter(files.values()))  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        files["prat/cora.npz"].bytes = 0  # type: ignore[misc]


COMMIT, HASH = "0123456789" * 4, "ab" * 32
GROUP = f"""
- folder: some/where
  repository: owner/name
  commit: "{COMMIT}"
  licence: MIT
  citation: Somebody, 2026
  path: data/{{file}}.gz
  files:
    - name: sub/a b.bin
      bytes: 3
      sha256: {HASH}
"""
BASE = f"https://raw.githubusercontent.com/owner/name/{COMMIT}"


def test_a_record_is_read_as_it_is_written() -> None:
    files = parse_registry(GROUP)
    plain = DataFile(
        name="some/where/sub/a b.bin",
        bytes=3,
        sha256=HASH,
        licence="MIT",
        citation="Somebody, 2026",
        source=f"https://github.com/owner/name at {COMMIT}",
        url=f"{BASE}/data/a%20b.bin.gz",
    )
    assert list(files.values()) == [plain]
    own = parse_registry(GROUP + "      path: x/y.bin\n")[plain.name]
    assert own == replace(plain, url=f"{BASE}/x/y.bin")
    made = parse_registry(GROUP + "      convert: gunzip\n")[plain.name]
    assert made == replace(plain, url=None, convert="gunzip", originals=(Original(f"{BASE}/data/a%20b.bin.gz"),))
    lists = f"      by_hand: no way\n      original: [{{path: p, bytes: 2, sha256: {HASH}}}, {{url: 'https://b'}}]\n"
    by_hand = parse_registry(GROUP + lists)[plain.name]
    originals = (Original(f"{BASE}/p", HASH, 2), Original("https://b"))
    assert by_hand == replace(plain, url=None, by_hand="no way", originals=originals)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  licence: MIT\n", "", r"lacks \['licence'\]"),
        ("licence: MIT", "licence: ' '", "licence is ' '"),
        ("licence: MIT", "license: MIT", r"unknown keys \['license'\]"),
        ("bytes: 3", "bytes: 3\n      size: 3", r"unknown keys \['size'\]"),
        ("bytes: 3", "bytes: 0", "bytes is 0"),
        ("bytes: 3", "bytes: '3'", "bytes is '3'"),
        (HASH, HASH.upper(), "a hash is"),
        (HASH, HASH[:-1], "a hash is"),
        (COMMIT, "main", "commit is 'main'"),
        ("sub/a b.bin", "../a.bin", "plain relative path"),
        ("sub/a b.bin", "a//b.bin", "plain relative path"),
        ("folder: some/where", "folder: /some", "plain relative path"),
        ("  path: data/{file}.gz\n", "", "must have one of"),
        ("bytes: 3", "bytes: 3\n      convert: gunzip\n      by_hand: no way", "must have one of"),
        ("bytes: 3", "bytes: 3\n      original: [{path: x}]", "must have convert or by_hand too"),
        ("bytes: 3", "bytes: 3\n      convert: gunzip\n      original: [{path: x, url: y}]", "either path or url"),
        ("bytes: 3", "bytes: 3\n      convert: gunzip\n      original: [{path: x, md5: y}]", "unknown keys"),
    ],
)
def test_a_record_with_a_fault_is_refused(old: str, new: str, message: str) -> None:
    assert old in GROUP
    with pytest.raises(ValueError, match=message):
        parse_registry(GROUP.replace(old, new))


def test_a_name_stands_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        parse_registry(GROUP + GROUP)
