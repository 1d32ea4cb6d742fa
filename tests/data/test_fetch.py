"""Fetching with real servers, real processes and real kills: whole and right, or a clear error and nothing left."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from nips26lib.data import download, fetch
from nips26lib.data.archives import content_sha256
from nips26lib.data.fetch import DataCorrupt, DataUnavailable, fetch_file, locate, presence
from nips26lib.data.registry import DataFile, Original, data_file, load_registry
from tests.data.serving import Server, closed_address, server, serving

__all__ = ["server"]  # the fixture

CONTENT = bytes(range(256)) * 40
HTTP = ("http", "https")


def record(url: str | None, content: bytes = CONTENT, **more) -> DataFile:
    return DataFile(
        name="some/where/file.bin",
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="MIT",
        citation="nobody",
        source="https://github.com/nobody/nothing",
        url=url,
        **more,
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NIPS26_DATA", raising=False)
    monkeypatch.setenv("NIPS26_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(download, "_silent", {})
    return tmp_path / "cache"


def kept(folder: Path) -> list[str]:
    """The files in the cache, unfinished ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def mirror(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return folder


# --- the way a good file takes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["whole", "chunked", "gzip"])
def test_a_file_is_downloaded_once_and_then_found_in_the_cache(server: Server, cache: Path, how: str, capfd) -> None:
    sent = gzip.compress(CONTENT) if how == "gzip" else CONTENT
    file = record(server.serve("a b.bin", sent, how).replace(" ", "%20"))
    server.things["/a%20b.bin"] = server.things.pop("/a b.bin")
    first, second = (fetch_file(file, schemes=HTTP) for _ in range(2))
    assert first == second == cache / file.name
    assert first.read_bytes() == CONTENT and first.stat().st_mode & 0o777 == 0o644
    assert len(server.asked) == 1 and kept(cache) == [file.name]
    assert capfd.readouterr() == ("", "")  # pooch and requests keep quiet


def test_redirections_are_followed(server: Server) -> None:
    server.serve("there", CONTENT)
    file = record(server.serve("here", how="moved", to="/there"))
    assert fetch_file(file, schemes=HTTP).read_bytes() == CONTENT


def test_mirrors_come_first_and_in_order(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = record(server.serve("file", CONTENT))
    second, third = (mirror(tmp_path / number, file.name, CONTENT) for number in ("second", "third"))
    monkeypatch.setenv("NIPS26_DATA", os.pathsep.join(map(str, ["", tmp_path / "none", second, third])))
    assert fetch_file(file, schemes=HTTP) == second / file.name
    (second / file.name).unlink()
    assert fetch_file(file, schemes=HTTP) == third / file.name
    assert server.asked == []


def test_a_damaged_file_in_the_cache_is_fetched_anew(server: Server, cache: Path) -> None:
    file = record(server.serve("file", CONTENT))
    mirror(cache, file.name, CONTENT[:-1])
    assert fetch_file(file, schemes=HTTP).read_bytes() == CONTENT


def test_a_file_that_changes_after_it_was_checked_is_checked_again(tmp_path: Path, monkeypatch) -> None:
    file = record(None, by_hand="a test")
    monkeypatch.setenv("NIPS26_DATA", str(mirror(tmp_path / "mirror", file.name, CONTENT)))
    path = fetch_file(file)
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(0, 0))
    with pytest.raises(DataCorrupt):
        fetch_file(file)


# --- servers that fail ----------------------------------------------------------------------------------------------


def assert_fails(
    file: DataFile, error: type[Exception], cache: Path, why: str, timeout: float = 30.0, schemes=HTTP
) -> None:
    """The fetch fails, says all that a reader needs, and leaves nothing behind."""
    with pytest.raises(error, match=why) as caught:
        fetch_file(file, timeout=timeout, schemes=schemes)
    address = file.url or file.originals[0].url
    for part in (file.name, address, file.sha256, f"{file.bytes} bytes", "NIPS26_DATA", "by hand"):
        assert part in str(caught.value)
    assert kept(cache) == []
    again = pickle.loads(pickle.dumps(caught.value))  # it may have to travel to another process
    assert str(again) == str(caught.value)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("missing", "404"),
        ("broken", "503"),
        ("truncated", "5120 bytes read, 5120 more expected"),
        ("dripping", "too slow"),
        ("stalling", "timed out"),
    ],
)
def test_a_server_that_fails(server: Server, cache: Path, how: str, why: str) -> None:
    slow = how in ("dripping", "stalling")
    assert_fails(record(server.serve("file", CONTENT, how)), DataUnavailable, cache, why, timeout=0.3 if slow else 30.0)


def test_a_closed_port_is_not_tried_again_at_once(cache: Path) -> None:
    file = record(f"{closed_address()}/file")
    assert_fails(file, DataUnavailable, cache, "no connection .*refused")
    assert_fails(file, DataUnavailable, cache, "did not answer a moment ago")


@pytest.mark.parametrize("sent", [CONTENT[::-1], CONTENT[:-1], b"<html>Please log in</html>"])
def test_wrong_content(server: Server, cache: Path, sent: bytes) -> None:
    wrong = f"delivered {len(sent)} bytes with sha256 {hashlib.sha256(sent).hexdigest()}"
    assert_fails(record(server.serve("file", sent)), DataCorrupt, cache, wrong)


def test_more_bytes_than_registered_are_not_waited_for(server: Server, cache: Path) -> None:
    # the server would never end: half of this is sent, and then it stalls
    assert_fails(record(server.serve("file", CONTENT * 100, "stalling")), DataCorrupt, cache, "delivered more")


def test_an_original_of_unknown_size_is_bounded_too(server: Server, cache: Path, monkeypatch) -> None:
    monkeypatch.setattr(download, "LARGEST_UNKNOWN", 1000)
    file = record(None, originals=(Original(server.serve("file.gz", CONTENT)),), convert="gunzip")
    assert_fails(file, DataUnavailable, cache, "sends more than 1000 bytes")


@pytest.mark.parametrize(("to", "why"), [("file:///etc/hostname", "only http or https"), ("/here", "redirects")])
def test_a_redirection_that_leads_nowhere_good(server: Server, cache: Path, to: str, why: str) -> None:
    assert_fails(record(server.serve("here", how="moved", to=to)), DataUnavailable, cache, why)


def test_plain_http_is_refused_unless_asked_for(server: Server, cache: Path) -> None:
    assert_fails(record(server.serve("file", CONTENT)), DataUnavailable, cache, "only https", schemes=fetch.HTTPS)
    assert server.asked == []


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl to make a certificate with")
def test_https_is_not_led_on_to_http(server: Server, cache: Path, tmp_path: Path, monkeypatch) -> None:
    certificate, key = str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    with serving((certificate, key)) as secure:
        file = record(secure.serve("file", CONTENT))
        assert_fails(file, DataUnavailable, cache, "certificate", schemes=fetch.HTTPS)  # signed by nobody known
        monkeypatch.setattr(download, "_silent", {})
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", certificate)
        moved = record(secure.serve("moved", how="moved", to=server.serve("file", CONTENT)))
        assert_fails(moved, DataUnavailable, cache, "only https", schemes=fetch.HTTPS)
        assert server.asked == []
        assert fetch_file(file).read_bytes() == CONTENT


# --- processes that collide or die ----------------------------------------------------------------------------------


def start(file: DataFile) -> subprocess.Popen[bytes]:
    """Another Python process that fetches the file."""
    program = (
        "import json, sys\n"
        "from nips26lib.data.fetch import fetch_file\n"
        "from nips26lib.data.registry import DataFile\n"
        "print(fetch_file(DataFile(**json.loads(sys.argv[1])), schemes=('http',)))"
    )
    command = [sys.executable, "-c", program, json.dumps(asdict(file))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_two_processes_at_once_both_get_the_whole_file(server: Server, cache: Path) -> None:
    file = record(server.serve("file", CONTENT, "together"))
    both = [start(file) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err.decode()
        assert Path(out.decode().strip()).read_bytes() == CONTENT
    assert len(server.asked) == 2 and kept(cache) == [file.name]


def test_a_process_killed_in_mid_download_leaves_nothing_that_counts(server: Server, cache: Path, monkeypatch) -> None:
    file = record(server.serve("file", CONTENT, "stalling"))
    process = start(file)
    assert server.begun.wait(120)
    process.kill()
    process.communicate()
    assert not (cache / file.name).exists() and locate_record(file) is None
    server.serve("file", CONTENT)
    assert fetch_file(file, schemes=HTTP).read_bytes() == CONTENT
    left = [path for path in kept(cache) if path != file.name]
    assert all(path.startswith(".unfinished/") for path in left)
    # What it left is young and might be somebody's; a day later it is nobody's.
    monkeypatch.setattr(fetch, "_ABANDONED", -60.0)
    (cache / file.name).unlink()
    fetch_file(file, schemes=HTTP)
    assert kept(cache) == [file.name]


def locate_record(file: DataFile) -> Path | None:
    return fetch._locate(file)


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root may write everywhere; here it is nobody in particular for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_cache_that_cannot_be_written(server: Server, monkeypatch) -> None:
    file = record(server.serve("file", CONTENT))
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    try:
        monkeypatch.setenv("NIPS26_CACHE", str(folder))
        folder.chmod(0o555)
        with as_ordinary_user():
            assert_fails(file, DataUnavailable, folder, "cannot be written .*Permission denied.*NIPS26_CACHE")
        folder.chmod(0o755)
        fetch_file(file, schemes=HTTP)
        folder.chmod(0o555)
        with as_ordinary_user():  # what it holds can still be used
            assert fetch_file(file, schemes=HTTP) == folder / file.name
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_cache_in_the_place_of_a_file(server: Server, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("NIPS26_CACHE", str(tmp_path / "taken"))
    with pytest.raises(DataUnavailable, match="cannot be written"):
        fetch_file(record(server.serve("file", CONTENT)), schemes=HTTP)


# --- mirrors and names ----------------------------------------------------------------------------------------------


def test_a_corrupt_file_in_a_mirror_is_an_error_even_if_another_mirror_is_right(
    server: Server, tmp_path: Path, monkeypatch
) -> None:
    file = record(server.serve("file", CONTENT))
    wrong = mirror(tmp_path / "wrong", file.name, b"junk")
    right = mirror(tmp_path / "right", file.name, CONTENT)
    monkeypatch.setenv("NIPS26_DATA", f"{wrong}{os.pathsep}{right}")
    with pytest.raises(DataCorrupt) as caught:
        fetch_file(file, schemes=HTTP)
    for part in (wrong / file.name, "4 bytes", hashlib.sha256(b"junk").hexdigest(), file.sha256):
        assert str(part) in str(caught.value)


def test_a_folder_in_the_place_of_a_file_is_no_file(tmp_path: Path, monkeypatch) -> None:
    file = record(None, by_hand="a test")
    (tmp_path / "mirror" / file.name).mkdir(parents=True)
    monkeypatch.setenv("NIPS26_DATA", str(tmp_path / "mirror"))
    with pytest.raises(DataUnavailable, match="directory"):
        fetch_file(file)


def test_registered_names(tmp_path: Path, monkeypatch) -> None:
    name = "pinductor/lava_demo.npz"
    assert locate(name) is None
    with pytest.raises(DataUnavailable, match="the library cannot make it: the originals are pickles"):
        fetch.fetch(name)
    monkeypatch.setenv("NIPS26_DATA", str(mirror(tmp_path / "mirror", name, b"junk")))
    for function in (fetch.fetch, locate):
        with pytest.raises(DataCorrupt, match="lava_demo"):
            function(name)
    with pytest.raises(ValueError, match=r"did you mean .*pinductor/lava_demo.npz"):
        fetch.fetch("pinductor/lava_demos.npz")
    with pytest.raises(ValueError, match=r"timeout is 0\.0"):
        fetch.fetch(name, timeout=0.0)


def test_presence_tells_where_files_lie(tmp_path: Path, cache: Path, monkeypatch) -> None:
    def sized(name: str) -> bytes:
        return bytes(data_file(name).bytes)

    in_mirror, in_cache, short = "mcd/worm_centroids.h5", "nugpt/tinyshakespeare.txt", "lora/gsm8k_test.jsonl"
    mirror(tmp_path / "mirror", in_mirror, sized(in_mirror))
    mirror(tmp_path / "mirror", short, b"short")
    mirror(cache, in_cache, sized(in_cache))
    monkeypatch.setenv("NIPS26_DATA", str(tmp_path / "mirror"))
    found = {entry.file.name: entry for entry in presence()}
    assert list(found) == list(load_registry())
    assert [found[name].where for name in (in_mirror, in_cache, short)] == ["mirror", "cache", "damaged"]
    assert found[in_cache].path == cache / in_cache
    assert sum(entry.where == "missing" for entry in found.values()) == len(found) - 3


# --- files that are made from originals -----------------------------------------------------------------------------


def test_a_converted_file_is_made_checked_and_kept(server: Server, cache: Path) -> None:
    url = server.serve("file.gz", gzip.compress(CONTENT))
    file = record(None, originals=(Original(url),), convert="gunzip")
    assert fetch_file(file, schemes=HTTP).read_bytes() == CONTENT
    assert fetch_file(file, schemes=HTTP) == cache / file.name
    assert len(server.asked) == 1 and kept(cache) == [file.name]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (gzip.compress(CONTENT[::-1]), "gave something else"),
        (gzip.compress(CONTENT)[:-20], "cannot be converted .EOFError"),
        (b"<html>", "cannot be converted .BadGzipFile"),
    ],
)
def test_an_original_that_is_not_what_it_must_be(server: Server, cache: Path, sent: bytes, why: str) -> None:
    assert_fails(
        record(None, originals=(Original(server.serve("a.gz", sent)),), convert="gunzip"), DataCorrupt, cache, why
    )


def test_the_checksum_of_an_original_is_compared_before_it_is_read(server: Server, cache: Path) -> None:
    sent = gzip.compress(CONTENT)
    original = Original(server.serve("a.gz", sent), sha256="0" * 64, bytes=len(sent))
    assert_fails(record(None, originals=(original,), convert="gunzip"), DataCorrupt, cache, f"sha256 {'0' * 64}, but")


def test_an_archive_with_members_outside_of_it(server: Server, cache: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../LICENSE.txt", "outside")
    original = Original(server.serve("evil.zip", (tmp_path / "evil.zip").read_bytes()))
    assert_fails(record(None, originals=(original,), convert="larva_zip"), DataCorrupt, cache, "no plain relative path")
    assert not (cache.parent / "LICENSE.txt").exists()


def test_compression_may_differ_where_the_content_is_the_same(tmp_path: Path, monkeypatch) -> None:
    saved = {}
    for name, save, array in (
        ("registered", np.savez_compressed, np.arange(1000)),
        ("same", np.savez, np.arange(1000)),
        ("other", np.savez, np.arange(1, 1001)),
    ):
        save(tmp_path / f"{name}.npz", x=array)
        saved[name] = (tmp_path / f"{name}.npz").read_bytes()
    assert saved["same"] != saved["registered"]
    file = record(None, saved["registered"], by_hand="a test")
    file = replace(file, name="some/file.npz", content_sha256=content_sha256(tmp_path / "registered.npz"))
    for name in saved:
        monkeypatch.setenv("NIPS26_DATA", str(mirror(tmp_path / name, file.name, saved[name])))
        if name == "other":
            with pytest.raises(DataCorrupt):
                fetch_file(file)
        else:
            assert fetch_file(file).read_bytes() == saved[name]
