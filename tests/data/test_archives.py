"""Archives and arrays: what is read is what numpy and zipfile wrote, and what could do harm is refused."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import stat
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from nips26lib.data import archives
from nips26lib.data.archives import (
    DataCorrupt,
    content_sha256,
    read_npy,
    read_npz,
    read_zip_member,
    read_zip_members,
    write_zip,
    zip_members,
)

ARRAYS = {
    "double": np.linspace(0, 1, 12).reshape(3, 4),
    "big_endian": np.arange(6, dtype=">i4").reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
    "flags": np.array([True, False]),
    "number": np.array(3.5, dtype=np.float32),
    "nothing": np.zeros((0, 5), dtype=np.int16),
    "dates": np.array(["2011-01-04", "2016-12-31"], dtype="datetime64[D]"),
    "words": np.array(["lava", "key"]),
    "empty_words": np.zeros(2, dtype="<U0"),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_comes_back_as_it_was_saved(tmp_path: Path, save) -> None:
    save(tmp_path / "a.npz", **ARRAYS)
    found = read_npz(tmp_path / "a.npz")
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype and found[name].flags.writeable


def test_an_npy_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    for array in ARRAYS.values():
        np.save(tmp_path / "a.npy", array)
        np.testing.assert_array_equal(read_npy(tmp_path / "a.npy"), array)


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_pickled_objects_are_refused_and_not_run(tmp_path: Path) -> None:
    trap = np.array([Touch(tmp_path / "executed")], dtype=object)
    np.savez(tmp_path / "a.npz", good=np.ones(2), trap=trap)
    np.save(tmp_path / "a.npy", trap)
    with pytest.raises(DataCorrupt, match=r"a\.npz, array 'trap', holds pickled Python objects"):
        read_npz(tmp_path / "a.npz")
    with pytest.raises(DataCorrupt, match=r"a\.npy holds pickled Python objects"):
        read_npy(tmp_path / "a.npy")
    record = np.zeros(1, dtype=[("x", "f8"), ("y", "O")])
    np.save(tmp_path / "b.npy", record)
    with pytest.raises(DataCorrupt, match="pickled"):
        read_npy(tmp_path / "b.npy")
    assert not (tmp_path / "executed").exists()
    np.load(tmp_path / "a.npy", allow_pickle=True)  # the trap is real
    assert (tmp_path / "executed").exists()


def npy(shape: object, dtype: str = "<f8", body: bytes = b"") -> bytes:
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "no array"),
        (b"<html>not found</html>", "no array"),
        (pickle.dumps([1, 2]), "no array"),
        (npy((2,), body=bytes(15)), "15 bytes of numbers; its header promises 16"),
        (npy((2,), body=bytes(17)), "17 bytes"),
        (npy((10**15,)), "promises 8000000000000000"),
        (npy((-1, -2), body=bytes(16)), "16 bytes"),
        (npy("__import__('os')"), "no array"),
        (npy((2,), dtype="nonsense"), "no array"),
        (npy((2,), body=bytes(16)).replace(b"NUMPY\x01", b"NUMPY\x07"), "no array"),
        (npy((2,), body=bytes(16))[:40], "no array"),
    ],
)
def test_an_npy_that_is_none(tmp_path: Path, raw: bytes, why: str) -> None:
    (tmp_path / "a.npy").write_bytes(raw)
    with pytest.raises(DataCorrupt, match=why):
        read_npy(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", raw)
    with pytest.raises(DataCorrupt, match=f"array 'x',.*{why}"):
        read_npz(tmp_path / "a.npz")


def test_hand_made_headers_are_what_numpy_reads(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(npy((2,), body=struct.pack("<dd", 1.5, -2)))
    assert np.load(tmp_path / "a.npy").tolist() == read_npy(tmp_path / "a.npy").tolist() == [1.5, -2]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and then nothing", b"<html>", npy((0,))])
def test_an_npz_that_is_no_zip(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    for function in (read_npz, zip_members, content_sha256):
        with pytest.raises(DataCorrupt, match=r"a\.npz is no whole zip archive"):
            function(tmp_path / "a.npz")


def test_an_npz_with_something_else_in_it(tmp_path: Path) -> None:
    write_zip(tmp_path / "a.npz", {"readme.txt": b"hello"})
    with pytest.raises(DataCorrupt, match=r"readme\.txt.*arrays only"):
        read_npz(tmp_path / "a.npz")


def test_a_damaged_member(tmp_path: Path) -> None:
    write_zip(tmp_path / "a.zip", {"x": b"hello " * 100})
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    raw[40] ^= 255
    (tmp_path / "a.zip").write_bytes(raw)
    with pytest.raises(DataCorrupt, match=r"'x', which is damaged"):
        read_zip_member(tmp_path / "a.zip", "x")


def link(target: str) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo("link")
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, target.encode()


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "C:/x", "\\\\host\\x", "a\\..\\x"])
def test_members_outside_the_archive(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("good", b"1")
        archive.writestr(name, b"2")
    with pytest.raises(DataCorrupt, match="no plain relative path"):
        zip_members(tmp_path / "a.zip")
    with pytest.raises(DataCorrupt, match="no plain relative path"):
        content_sha256(tmp_path / "a.zip")
    assert zip_members(tmp_path / "a.zip", "g.*") == ["good"]  # what nobody asks for does no harm
    assert read_zip_member(tmp_path / "a.zip", "good") == b"1"


def test_links_and_doubles(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(*link("/etc/passwd"))
    with pytest.raises(DataCorrupt, match="'link', which is a link"):
        read_zip_member(tmp_path / "link.zip", "link")
    with zipfile.ZipFile(tmp_path / "double.zip", "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("x", b"1")
        archive.writestr("x", b"2")
    with pytest.raises(DataCorrupt, match="twice"):
        read_zip_member(tmp_path / "double.zip", "x")


def test_an_encrypted_member(tmp_path: Path) -> None:
    write_zip(tmp_path / "a.zip", {"x": b"secret"})
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1  # the flag in the central directory
    (tmp_path / "a.zip").write_bytes(raw)
    with pytest.raises(DataCorrupt, match="encrypted"):
        read_zip_member(tmp_path / "a.zip", "x")


def test_absurd_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_zip(tmp_path / "a.zip", {"x": bytes(10**6), "y": bytes(10**6)})  # two kilobytes that unpack to two megabytes
    np.save(tmp_path / "a.npy", np.zeros(10**5))
    monkeypatch.setattr(archives, "LARGEST_ARCHIVE", 1_900_000)
    with pytest.raises(DataCorrupt, match="unpacks to 2000000 bytes; at most 1900000"):
        zip_members(tmp_path / "a.zip")
    monkeypatch.setattr(archives, "LARGEST_MEMBER", 10**5)
    with pytest.raises(DataCorrupt, match="'x', which unpacks to 1000000 bytes; at most 100000"):
        read_zip_member(tmp_path / "a.zip", "x")
    with pytest.raises(DataCorrupt, match="has 800128 bytes"):
        read_npy(tmp_path / "a.npy")


def test_a_member_that_is_larger_than_it_says(tmp_path: Path) -> None:
    write_zip(tmp_path / "a.zip", {"x": bytes(10**6)})
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    directory = raw.index(b"PK\x01\x02")
    raw[directory + 24 : directory + 28] = struct.pack("<I", 10)  # the size, unpacked
    (tmp_path / "a.zip").write_bytes(raw)
    with pytest.raises(DataCorrupt, match="damaged"):
        read_zip_member(tmp_path / "a.zip", "x")


def test_members_are_chosen_by_pattern_and_folders_are_no_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("top/", "top/b.txt", "top/a.txt", "top/a.bin"):
            archive.writestr(name, name)
    assert zip_members(tmp_path / "a.zip") == ["top/b.txt", "top/a.txt", "top/a.bin"]
    assert zip_members(tmp_path / "a.zip", r"top/.\.txt") == ["top/b.txt", "top/a.txt"]
    assert read_zip_member(tmp_path / "a.zip", "top/a.bin") == b"top/a.bin"
    assert read_zip_members(tmp_path / "a.zip", ".*a.bin") == {"top/a.bin": b"top/a.bin"}
    for missing in ("a.txt", "top/", "top/a.t.t"):
        with pytest.raises(DataCorrupt, match="has no member"):
            read_zip_member(tmp_path / "a.zip", missing)


def test_the_content_hash_is_the_documented_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", b=np.array([[1, 2]], dtype="<i2"), a=np.array(0.5))
    expected = b"a <f8 ()\n" + struct.pack("<d", 0.5) + b"b <i2 (1, 2)\n" + struct.pack("<hh", 1, 2)
    assert content_sha256(tmp_path / "a.npz") == hashlib.sha256(expected).hexdigest()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("b", b"xyz")
        archive.writestr("a", b"")
    assert content_sha256(tmp_path / "a.zip") == hashlib.sha256(b"a 0\nb 3\nxyz").hexdigest()


def test_the_content_hash_sees_content_only(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=ARRAYS["fortran"], y=ARRAYS["flags"])
    np.savez_compressed(tmp_path / "b.npz", y=ARRAYS["flags"], x=ARRAYS["fortran"].copy(order="C"))
    assert content_sha256(tmp_path / "a.npz") == content_sha256(tmp_path / "b.npz")
    for change in ({"x": ARRAYS["fortran"] + 1}, {"x": ARRAYS["fortran"].astype("f4")}, {"z": ARRAYS["flags"]}):
        np.savez(tmp_path / "c.npz", **{"x": ARRAYS["fortran"], "y": ARRAYS["flags"], **change})
        assert content_sha256(tmp_path / "c.npz") != content_sha256(tmp_path / "a.npz")


def test_a_written_zip_depends_on_its_members_only(tmp_path: Path) -> None:
    write_zip(tmp_path / "a.zip", {"x": b"1", "y": b"2"})
    write_zip(tmp_path / "b.zip", {"y": b"2", "x": b"1"})
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO((tmp_path / "a.zip").read_bytes())) as archive:
        assert archive.testzip() is None and {info.CRC for info in archive.infolist()} == {
            zlib.crc32(b"1"),
            zlib.crc32(b"2"),
        }
