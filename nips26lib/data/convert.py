"""How data files are made from public originals: each converter takes the originals' paths and the path to write.

A converter is trusted with nothing: what it made is compared with the registered hash before anybody sees it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from nips26lib.data.archives import LARGEST_MEMBER, read_npy, read_zip_members, write_zip
from nips26lib.data.convert_pickle import read_plain_pickle
from nips26lib.data.convert_r import RVector, read_rda

Converter = Callable[[list[Path], Path], None]


def gunzip(originals: list[Path], made: Path) -> None:
    """The one original, uncompressed."""
    (original,) = originals
    with gzip.open(original) as stream:
        content = stream.read(LARGEST_MEMBER + 1)
    if len(content) > LARGEST_MEMBER:
        raise ValueError(f"{original} unpacks to more than {LARGEST_MEMBER} bytes")
    made.write_bytes(content)


def adroit_door(originals: list[Path], made: Path) -> None:
    """The pickled list of episodes, one behind the other in single precision; `episode` tells which step is whose.

    Each episode is a dictionary of observations (T, 39), actions (T, 28), rewards (T,) and init_state_dict, which
    holds qpos (30,), qvel (30,) and door_body_pos (3,).
    """
    (original,) = originals
    episodes = read_plain_pickle(original.read_bytes())
    arrays = {
        name: np.concatenate([episode[name] for episode in episodes]).astype(np.float32)
        for name in ("observations", "actions", "rewards")
    }
    lengths = [len(episode["rewards"]) for episode in episodes]
    arrays["episode"] = np.repeat(np.arange(len(episodes), dtype=np.int16), lengths)
    for name in ("qpos", "qvel", "door_body_pos"):
        starts = np.stack([episode["init_state_dict"][name] for episode in episodes])
        arrays[f"init_{name}"] = starts.astype(np.float64)
    _write_npz(made, arrays)


def labyrinth_compact(originals: list[Path], made: Path) -> None:
    """The windows of (node, action) as two arrays of small numbers, and of each node and action the next node."""
    emissions, transitions = (read_npy(original) for original in originals)
    if not ((transitions == 0) | (transitions == 1)).all() or (transitions.sum(-1) != 1).any():
        raise ValueError("the transition probabilities must be 0 or 1, with one 1 for each node and action")
    arrays = {"state": emissions[..., 0], "action": emissions[..., 1], "next_node": transitions.argmax(-1)}
    _write_npz(made, {name: array.astype(np.uint8) for name, array in arrays.items()})


def canadian_weather(originals: list[Path], made: Path) -> None:
    """The temperatures in the array dailyAv (day, station, quantity) of the R data set, a row for each day."""
    (original,) = originals
    averages = read_rda(original.read_bytes())["CanadianWeather"]["dailyAv"]
    _, stations, quantities = (_strings(names) for names in averages.attributes["dimnames"].data)
    temperature = averages.array()[:, :, quantities.index("Temperature.C")]
    rows = [["day", *stations]]
    rows += [[str(day), *(str(round(float(value), 1)) for value in row)] for day, row in enumerate(temperature, 1)]
    made.write_bytes("".join(",".join(row) + "\r\n" for row in rows).encode("utf-8"))


def safenlp_truth(originals: list[Path], made: Path) -> None:
    """Of the medical instances, the first eight with each answer: name of the property, answer, seconds of the run."""
    (original,) = originals
    chosen: dict[str, list[str]] = {"sat": [], "unsat": []}
    for line in original.read_text(encoding="utf-8").splitlines():
        _, _, specification, _, answer, seconds = line.split(",")
        if "/medical/" in specification and answer in chosen and len(chosen[answer]) < 8:
            chosen[answer].append(f"{specification.rpartition('/')[2]},{answer},{seconds}\n")
    made.write_bytes("".join(chosen["sat"] + chosen["unsat"]).encode("utf-8"))


def _members_zip(pattern: str, originals: list[Path], made: Path) -> None:
    """Those files of a repository's archive that match (below its one top folder), without their folders."""
    (archive,) = originals
    _write_flat(made, read_zip_members(archive, f"[^/]+/(?:{pattern})"))


def _fib25_zip(originals: list[Path], made: Path) -> None:
    """The list of named neurons and the skeleton of each of them."""
    (archive,) = originals
    ((listing, content),) = read_zip_members(archive, "[^/]+/neuronsinfo\\.json").items()
    skeletons = "|".join(re.escape(neuron) for neuron in json.loads(content))
    _write_flat(made, {listing: content, **read_zip_members(archive, f"[^/]+/skeletons/(?:{skeletons})\\.swc")})


def _write_flat(path: Path, members: Mapping[str, bytes]) -> None:
    write_zip(path, {name.rpartition("/")[2]: content for name, content in members.items()})


def _write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _strings(names: object) -> list[str]:
    return [str(name) for name in names.data] if isinstance(names, RVector) else []


CONVERTERS: Mapping[str, Converter] = {
    "adroit_door": adroit_door,
    "canadian_weather": canadian_weather,
    "celegans_connectomes_zip": partial(
        _members_zip, r"c302/data/(?:herm_full_edgelist\.csv|witvliet_2020_[1-8]\.xlsx)"
    ),
    "celegans_neuroml_zip": partial(_members_zip, r"c302/NeuroML2/[^/]+\.cell\.nml"),
    "fib25_zip": _fib25_zip,
    "gunzip": gunzip,
    "labyrinth_compact": labyrinth_compact,
    "larva_zip": partial(_members_zip, r"Morphology_Data_Files/[^/]+\.(?:json|txt)|LICENSE\.txt"),
    "safenlp_truth": safenlp_truth,
}
