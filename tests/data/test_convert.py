"""Conversions from public originals, with originals built here in the published formats from the mirror's files."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import lzma
import os
import pickle
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nips26lib.data import convert
from nips26lib.data.archives import content_sha256, read_npz
from nips26lib.data.convert import CONVERTERS
from nips26lib.data.convert_pickle import read_plain_pickle
from nips26lib.data.convert_r import RVector, read_rda
from nips26lib.data.fetch import fetch, locate
from nips26lib.data.registry import data_file

needs_mirror = pytest.mark.skipif(not os.environ.get("NIPS26_DATA"), reason="NIPS26_DATA names no mirror of the data")


def real(name: str) -> Path:
    path = locate(name)
    assert path is not None
    return path


def makes(name: str, originals: list[Path], made: Path) -> bool:
    """Whether the registered converter turns these originals into the registered file."""
    file = data_file(name)
    CONVERTERS[str(file.convert)](originals, made)
    if file.content_sha256:
        return content_sha256(made) == file.content_sha256
    return hashlib.sha256(made.read_bytes()).hexdigest() == file.sha256


# --- arrays and lists -----------------------------------------------------------------------------------------------


@needs_mirror
def test_the_compact_labyrinth_is_made_from_the_mirrors_two_files(tmp_path: Path, monkeypatch) -> None:
    for name in ("mcd/labyrinth_emissions500.npy", "mcd/labyrinth_trans_probs.npy"):
        (tmp_path / "mirror" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(real(name), tmp_path / "mirror" / name)
    monkeypatch.setenv("NIPS26_DATA", str(tmp_path / "mirror"))
    monkeypatch.setenv("NIPS26_CACHE", str(tmp_path / "cache"))
    made = fetch("mcd/labyrinth_compact.npz")  # nothing of it comes over the network
    assert made == tmp_path / "cache/mcd/labyrinth_compact.npz"
    assert content_sha256(made) == data_file("mcd/labyrinth_compact.npz").content_sha256


def test_a_labyrinth_with_chance_in_it_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "windows.npy", np.zeros((1, 2, 2), dtype=np.int64))
    for wrong in (np.full((1, 1, 2), 0.5), np.zeros((1, 1, 2)), np.full((1, 1, 2), np.nan), np.array([[[2.0, -1.0]]])):
        np.save(tmp_path / "next.npy", wrong)
        with pytest.raises(ValueError, match="0 or 1"):
            convert.labyrinth_compact([tmp_path / "windows.npy", tmp_path / "next.npy"], tmp_path / "made.npz")


def test_gunzip_is_bounded(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(10**6)))
    monkeypatch.setattr(convert, "LARGEST_MEMBER", 10**5)
    with pytest.raises(ValueError, match="more than 100000 bytes"):
        convert.gunzip([tmp_path / "a.gz"], tmp_path / "a")
    assert not (tmp_path / "a").exists()


@needs_mirror
def test_the_answers_for_safenlp_are_the_first_eight_of_each_kind(tmp_path: Path) -> None:
    rows = [line.split(",") for line in real("flow-reach/safenlp/truth_2025.csv").read_text().splitlines()]
    sat, unsat = ([row for row in rows if row[1] == answer] for answer in ("sat", "unsat"))
    assert len(sat) == len(unsat) == 8
    suite, lines = "vnncomp2025_benchmarks/benchmarks/safenlp_2024", []

    def line(kind: str, specification: str, answer: str, seconds: str) -> None:
        network = f"{suite}/onnx/{kind}/perturbations_0.onnx"
        lines.append(f"safenlp_2024,{network},{suite}/vnnlib/{kind}/{specification},20.5,{answer},{seconds}")

    for one, other in zip(sat, unsat, strict=True):
        line("ruarobot", "hyperrectangle_1.vnnlib", "sat", "1.0")
        line("medical", *other)
        line("medical", "hyperrectangle_2.vnnlib", "run_instance_timeout", "80.0")
        line("medical", *one)
    for answer in ("sat", "unsat"):
        line("medical", "hyperrectangle_3.vnnlib", answer, "2.0")
    (tmp_path / "results.csv").write_text("\n".join(lines) + "\n")
    assert makes("flow-reach/safenlp/truth_2025.csv", [tmp_path / "results.csv"], tmp_path / "made.csv")


# --- zips out of the archive of a whole repository ------------------------------------------------------------------


@needs_mirror
@pytest.mark.parametrize(
    ("name", "place", "elsewhere"),
    [
        ("larva_gerhard2017", lambda n: n if n == "LICENSE.txt" else f"Morphology_Data_Files/{n}", "readme.txt"),
        ("celegans_connectomes", lambda n: f"c302/data/{n}", "c302/data/witvliet_2020_8_adult.xlsx"),
        ("celegans_c302_neuroml", lambda n: f"c302/NeuroML2/{n}", "c302/NeuroML2/other/X.cell.nml"),
        ("fib25_typed_skeletons", lambda n: n if n.endswith(".json") else f"skeletons/{n}", "skeletons/1.swc"),
    ],
)
def test_a_zip_is_selected_from_a_repository(tmp_path: Path, name: str, place, elsewhere: str) -> None:
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(real(f"connectoformer/{name}.zip")) as source, zipfile.ZipFile(archive, "w") as whole:
        whole.writestr("name-0123abc/", b"")
        for member in reversed(source.namelist()):
            whole.writestr(f"name-0123abc/{place(member)}", source.read(member))
        for other in (elsewhere, "README.md", f"vendored/{place(source.namelist()[0])}"):
            whole.writestr(f"name-0123abc/{other}", b"not wanted")
    assert makes(f"connectoformer/{name}.zip", [archive], tmp_path / "made.zip")


# --- pickles --------------------------------------------------------------------------------------------------------


def demonstrations(lengths: list[int]) -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    return [
        {
            "observations": random.normal(size=(length, 39)),
            "actions": random.normal(size=(length, 28)),
            "rewards": random.normal(size=length),
            "init_state_dict": {"qpos": random.normal(size=30), "qvel": np.zeros(30), "door_body_pos": np.ones(3)},
        }
        for length in lengths
    ]


def test_demonstrations_are_laid_end_to_end(tmp_path: Path) -> None:
    demos = demonstrations([3, 1])
    (tmp_path / "demos.pickle").write_bytes(pickle.dumps(demos, protocol=2))
    convert.adroit_door([tmp_path / "demos.pickle"], tmp_path / "made.npz")
    made = read_npz(tmp_path / "made.npz")
    assert {name: (array.shape, array.dtype.str) for name, array in made.items()} == {
        "observations": ((4, 39), "<f4"),
        "actions": ((4, 28), "<f4"),
        "rewards": ((4,), "<f4"),
        "episode": ((4,), "<i2"),
        "init_qpos": ((2, 30), "<f8"),
        "init_qvel": ((2, 30), "<f8"),
        "init_door_body_pos": ((2, 3), "<f8"),
    }
    assert made["episode"].tolist() == [0, 0, 0, 1]
    np.testing.assert_array_equal(made["observations"][3], demos[1]["observations"][0].astype(np.float32))
    np.testing.assert_array_equal(made["init_qpos"][1], demos[1]["init_state_dict"]["qpos"])


@needs_mirror
@pytest.mark.parametrize("protocol", [2, 4])
def test_the_doors_registered_file_comes_of_such_a_pickle(tmp_path: Path, protocol: int) -> None:
    data = read_npz(real("optiflow/adroit_door_human_25.npz"))
    demos = [
        {
            **{name: data[name][data["episode"] == e].astype(float) for name in ("observations", "actions", "rewards")},
            "init_state_dict": {name: data[f"init_{name}"][e] for name in ("qpos", "qvel", "door_body_pos")},
        }
        for e in range(25)
    ]
    (tmp_path / "demos.pickle").write_bytes(pickle.dumps(demos, protocol=protocol))
    assert makes("optiflow/adroit_door_human_25.npz", [tmp_path / "demos.pickle"], tmp_path / "made.npz")


@pytest.mark.parametrize("protocol", range(5))
def test_plain_pickles_are_read_as_pickle_itself_reads_them(protocol: int) -> None:
    plain = {"a": [1, 2.5, None, True], ("b", 3): "text", "bytes": b"\x00\xff", "big": 10**30}
    arrays = {
        "c": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)),
        "big_endian": np.arange(3, dtype=">u4"),
        "flags": np.array([True, False]),
        "number": np.float32(1.5),
        "none": np.zeros((0, 2)),
    }
    found = read_plain_pickle(pickle.dumps({"plain": plain, "arrays": [arrays]}, protocol=protocol))
    assert found["plain"] == plain
    for name, array in arrays.items():
        np.testing.assert_array_equal(found["arrays"][0][name], array)
        assert found["arrays"][0][name].dtype == array.dtype


def test_a_pickle_of_python_2() -> None:
    def text(value: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(value)) + value

    numbers = np.array([1.5, -2.0])
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    dtype = b"cnumpy\ndtype\n" + text(b"f8") + b"K\x00K\x01\x87R(K\x03" + text(b"<")
    dtype += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    state = b"(K\x01K\x02\x85" + dtype + b"\x89" + text(numbers.tobytes()) + b"tb"
    raw = b"\x80\x02}" + text(b"rewards") + array + state + b"s."
    assert pickle.loads(raw, encoding="latin1")["rewards"].tolist() == [1.5, -2.0]  # made by hand, but right
    assert read_plain_pickle(raw)["rewards"].tolist() == [1.5, -2.0]


class Calls:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def test_nothing_in_a_pickle_is_run(tmp_path: Path) -> None:
    witness = tmp_path / "executed"
    attacks = {
        "system": Calls(os.system, f"touch {witness}"),
        "eval": Calls(eval, f"open({str(witness)!r}, 'w')"),
        "open": Calls(open, str(witness), "w"),
        "getattr": Calls(getattr, "text", "upper"),
        "fromfile": Calls(np.fromfile, str(witness)),
        "object": pickle.PickleBuffer,
    }
    for name, attack in attacks.items():
        with pytest.raises(pickle.UnpicklingError, match="asks for"):
            read_plain_pickle(pickle.dumps([attack], protocol=2))
        assert not witness.exists(), name
    with pytest.raises(TypeError):
        read_plain_pickle(pickle.dumps(Calls(bytes, 10**6), protocol=2))  # such a call could ask for any memory
    for raw in (b"cnumpy\nload\n.", b"cnumpy.core.multiarray\nfromfile\n.", b"ibuiltins\nprint\n(R.", b"\x82\x01."):
        with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, IndexError)):
            read_plain_pickle(b"\x80\x02" + raw)
    pickle.loads(pickle.dumps([attacks["system"]]))  # the trap is real: an ordinary unpickler springs it
    assert witness.exists()


@pytest.mark.parametrize(
    "array",
    [
        np.array([Path("x"), 1], dtype=object),
        np.zeros(1, dtype=[("x", "f8")]),
        np.array(["text"]),
        np.array(["2011-01-04"], dtype="datetime64[D]"),
    ],
    ids=["objects", "records", "strings", "dates"],
)
def test_arrays_of_anything_but_numbers_are_refused(array: np.ndarray) -> None:
    with pytest.raises((ValueError, pickle.UnpicklingError)):
        read_plain_pickle(pickle.dumps(array, protocol=2))


def test_a_record_that_is_no_array_is_refused() -> None:
    for raw in (b"cnumpy\ndtype\n.", b"cnumpy.core.multiarray\n_reconstruct\n(tR.", b"cnumpy\nndarray\n."):
        with pytest.raises(ValueError, match="pickle holds"):
            read_plain_pickle(b"\x80\x02" + raw)
    swapped = pickle.dumps(np.arange(3.0), protocol=4)
    with pytest.raises(ValueError):
        read_plain_pickle(swapped.replace(b"f8", b"f4"))  # twice as many numbers as the shape says
    with pytest.raises(ValueError):
        read_plain_pickle(swapped.replace(b"f8", b"O8"))


# --- R --------------------------------------------------------------------------------------------------------------

# R's binary serialisation, written out here as "R Internals" describes it.


def r_int(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def r_text(text: str | None) -> bytes:
    if text is None:
        return r_int(9, -1)
    return r_int(9 | 1 << 15, len(text.encode())) + text.encode()


def r_tag(name: str) -> bytes:
    return r_int(1) + r_text(name)


def r_pairs(tagged: dict[bytes, bytes]) -> bytes:
    return b"".join(r_int(2 | 1 << 10) + tag + value for tag, value in tagged.items()) + r_int(254)


def r_vector(kind: int, body: bytes, length: int, attributes: dict[bytes, bytes] | None = None) -> bytes:
    flags = kind | (1 << 9 if attributes else 0)
    return r_int(flags, length) + body + (r_pairs(attributes) if attributes else b"")


def r_strings(*texts: str | None) -> bytes:
    return r_vector(16, b"".join(map(r_text, texts)), len(texts))


def r_file(objects: dict[str, bytes], version: int = 2) -> bytes:
    head = b"RDX%d\nX\n" % version + r_int(version, 0x030603, 0x020300)
    if version == 3:
        head += r_int(5) + b"UTF-8"
    return head + r_pairs({r_tag(name): value for name, value in objects.items()})


NAMES, DIM, DIMNAMES = r_tag("names"), r_tag("dim"), r_tag("dimnames")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("version", [2, 3])
def test_r_vectors_are_read(pack, version: int) -> None:
    reals = struct.pack(">6d", 0, 1, 2, 3, 4, float("nan"))
    matrix = r_vector(14, reals, 6, {DIM: r_vector(13, r_int(2, 3), 2)})
    # the second time a name occurs, R refers to the first: it was the fourth symbol, after x, dim and y
    again = r_vector(10, r_int(1, -(2**31)), 2, {r_int(255 | 2 << 8): r_vector(13, r_int(2), 1)})
    content = r_file({"x": matrix, "y": again, "z": r_strings("a", None, "é"), "nothing": r_int(254)}, version)
    found = read_rda(pack(content))
    np.testing.assert_array_equal(found["x"].array(), [[0, 2, 4], [1, 3, np.nan]])
    np.testing.assert_array_equal(found["y"].array(), [1, np.nan])
    assert found["z"].data == ["a", None, "é"] and found["nothing"] is None


def test_r_keeps_some_vectors_in_a_short_form() -> None:
    def short(name: str, state: bytes) -> bytes:
        return r_int(238) + r_pairs({r_tag("class"): r_tag(name)}) + state + r_int(254)

    run = short("compact_intseq", r_vector(14, struct.pack(">3d", 4, 10, -1), 3))
    wrapped = r_int(2) + r_vector(13, r_int(7, 8), 2) + r_vector(13, r_int(0, 0), 2)
    found = read_rda(r_file({"run": run, "wrapped": short("wrap_integer", wrapped)}, 3))
    assert found["run"].array().tolist() == [10, 9, 8, 7] and found["wrapped"].array().tolist() == [7, 8]


def test_what_r_could_run_and_what_is_damaged_is_refused() -> None:
    good = r_file({"x": r_strings("a", "b")})
    for kind in (3, 4, 5, 6, 8, 20, 21, 22, 25):  # functions, environments, promises, calls, code, pointers, objects
        with pytest.raises(ValueError, match=f"type {kind};"):
            read_rda(r_file({"x": r_int(kind) + bytes(40)}))
    for raw in (b"", b"RDA2\nA\n", good[7:], b"<html>"):
        with pytest.raises(ValueError, match="must be R's binary serialisation"):
            read_rda(raw)
    for end in range(8, len(good)):
        with pytest.raises(ValueError, match="cut off"):
            read_rda(good[:end])
    with pytest.raises(ValueError, match="2\\^31"):
        read_rda(r_file({"x": r_int(14, -1, 1, 0)}))
    with pytest.raises(ValueError, match="not named"):
        read_rda(r_file({"x": r_int(255 | 7 << 8)}))
    with pytest.raises(ValueError, match="name is 'b'"):
        RVector([1], {"names": RVector(["a"])})["b"]


def weather(rows: list[list[str]], stations: list[str]) -> bytes:
    """The data set as R keeps it: a list, whose array dailyAv has two quantities more than are asked for."""
    temperature = np.array([row[1:] for row in rows], dtype=float)
    averages = np.stack([temperature, temperature + 50, -temperature], axis=-1)
    quantities = r_strings("Temperature.C", "Precipitation.mm", "log10precip")
    names = r_vector(19, r_strings(*(f"day{row[0]}" for row in rows)) + r_strings(*stations) + quantities, 3)
    dim = r_vector(13, r_int(*averages.shape), 3)
    body = averages.astype(">f8").tobytes(order="F")
    array = r_vector(14, body, averages.size, {DIM: dim, DIMNAMES: names})
    whole = r_vector(19, array + r_strings(*stations), 2, {NAMES: r_strings("dailyAv", "place")})
    return bz2.compress(r_file({"CanadianWeather": whole}))


def test_temperatures_come_out_by_day_and_station(tmp_path: Path) -> None:
    (tmp_path / "w.rda").write_bytes(weather([["1", "-3.6", "0.0"], ["2", "10.25", "7"]], ["St. Johns", "Halifax"]))
    convert.canadian_weather([tmp_path / "w.rda"], tmp_path / "w.csv")
    assert (tmp_path / "w.csv").read_bytes() == b"day,St. Johns,Halifax\r\n1,-3.6,0.0\r\n2,10.2,7.0\r\n"


@needs_mirror
def test_the_registered_temperatures_come_of_such_a_file(tmp_path: Path) -> None:
    with real("neural-bases/canadian_weather_temperature.csv").open(newline="") as file:
        (_, *stations), *rows = csv.reader(file)
    assert (len(rows), len(stations)) == (365, 35)
    (tmp_path / "w.rda").write_bytes(weather(rows, stations))
    assert makes("neural-bases/canadian_weather_temperature.csv", [tmp_path / "w.rda"], tmp_path / "w.csv")
