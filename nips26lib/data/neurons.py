"""Shapes of neurons as trees, and who connects to whom."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from nips26lib.data.archives import DataCorrupt, read_zip_member, zip_members
from nips26lib.data.fetch import fetch

LARVA, FIB25, WORM = (f"connectoformer/{name}.zip" for name in
                      ("larva_gerhard2017", "fib25_typed_skeletons", "celegans_c302_neuroml"))  # fmt: skip
CONNECTOMES = "connectoformer/celegans_connectomes.zip"
_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


@dataclass(frozen=True)
class Neuron:
    """A tree: node i lies at `xyz[i]` (n, 3) with `radius[i]` (NaN where not given), and hangs on node `parent[i]`,
    −1 for
    the root. Units are the source's. `inputs` and `outputs` are the nodes that carry synapses, once for each synapse.
    """

    name: str
    kind: str
    animal: str
    xyz: np.ndarray
    radius: np.ndarray
    parent: np.ndarray
    inputs: np.ndarray
    outputs: np.ndarray


@dataclass(frozen=True)
class Connectome:
    """Directed connections: from neuron `pre`, to neuron `post`, with `weight` synapses (or contacts) of a `kind`."""

    name: str
    pre: tuple[str, ...]
    post: tuple[str, ...]
    weight: np.ndarray
    kind: tuple[str, ...]


def larva_neurons() -> list[Neuron]:
    """36 neurons of the Drosophila larva with synapses: the same 18 in a first (L1v) and a third instar (L3v), in nm.

    The kind is the name without side and segment. Gerhard et al., eLife 6:e29089 (MIT).
    """
    path = fetch(LARVA)
    found = []
    for member in sorted(zip_members(path, r".*\.json")):
        try:
            content = json.loads(read_zip_member(path, member))["neuron"]
            found.append(_larva(content, member.partition("_")[0]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise DataCorrupt(f"{LARVA}, {member}, is no neuron: {error!r}") from error
    return found


def _larva(content: dict[str, Any], animal: str) -> Neuron:
    nodes = np.array([row[:4] for row in content["nodes"]], dtype=np.float64)
    index = {int(name): i for i, name in enumerate(nodes[:, 0])}
    parent = np.full(len(nodes), -1)
    for child, above in content["topology"]:
        parent[index[int(child)]] = index[int(above)]
    inputs, outputs = (np.array([index[int(row[4])] for row in content[key] or ()], dtype=np.int64)
                       for key in ("syns_in", "syns_out"))  # fmt: skip
    name = str(content["name"])
    kind = re.sub(r"[\s_]+a\d+[lr].*$", "", name)
    return _tree(Neuron(name, kind, animal, nodes[:, 1:], np.full(len(nodes), np.nan), parent, inputs, outputs))


def fly_neurons() -> list[Neuron]:
    """462 named neurons of the medulla of an adult Drosophila, without synapses, in voxels of about 10 nm.

    The kind is the cell type. FlyEM, Takemura et al., PNAS 2015, doi 10.1073/pnas.1509820112 (ODC-By 1.0).
    """
    path = fetch(FIB25)
    types = json.loads(read_zip_member(path, "neuronsinfo.json"))
    found = []
    for member in sorted(zip_members(path, r".*\.swc")):
        body = member.removesuffix(".swc")
        info = types.get(body, {})
        rows = _swc(read_zip_member(path, member).decode("utf-8"), f"{FIB25}, {member}")
        index = {int(name): i for i, name in enumerate(rows[:, 0])}
        parent = np.array([index.get(int(above), -1) for above in rows[:, 6]])
        none = np.zeros(0, dtype=np.int64)
        kind = str(info.get("Type") or info.get("Class") or "")
        found.append(_tree(Neuron(body, kind, "FIB-25", rows[:, 2:5], rows[:, 5], parent, none, none)))
    return found


def worm_neurons() -> list[Neuron]:
    """The 302 neurons of C. elegans and one muscle, without synapses, in µm; the Virtual Worm model, public domain, as
    NeuroML in c302 (MIT). The kind is the name without the last digits and the side.
    """
    path = fetch(WORM)
    return [_neuroml(read_zip_member(path, member), member) for member in sorted(zip_members(path, r".*\.nml"))]


def _neuroml(raw: bytes, member: str) -> Neuron:
    where = f"{WORM}, {member}"
    if b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
        raise DataCorrupt(f"{where} declares entities, which are not read")
    space = "{http://www.neuroml.org/schema/neuroml2}"
    try:
        root = ElementTree.fromstring(raw)
        segments = root.findall(f".//{space}segment")
        ends = [segment.find(f"{space}distal") for segment in segments]
        numbers = np.array([[float(end.attrib[key]) for key in ("x", "y", "z", "diameter")]
                            for end in ends if end is not None])  # fmt: skip
        index = {segment.attrib["id"]: i for i, segment in enumerate(segments)}
        above = [segment.find(f"{space}parent") for segment in segments]
        parent = np.array([-1 if link is None else index[link.attrib["segment"]] for link in above])
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise DataCorrupt(f"{where} is no morphology: {error!r}") from error
    if len(numbers) != len(segments) or not len(segments):
        raise DataCorrupt(f"{where} has segments without an end")
    name, none = member.partition(".")[0], np.zeros(0, dtype=np.int64)
    kind = re.sub(r"(\d+|[LR])$", "", name) or name
    return _tree(Neuron(name, kind, "Virtual Worm", numbers[:, :3], numbers[:, 3] / 2, parent, none, none))


def neurons_stand_in(
    seed: int = 0, kinds: int = 9, each: int = 4, nodes: int = 200, synapses: int = 60
) -> list[Neuron]:
    """Trees that grow by adding a node near a random earlier one; each kind has its own direction, persistence and
    taste
    for branching, and synapses at random nodes. Two animals, as in the larva.
    """
    if kinds < 1 or each < 1 or nodes < 2:
        raise ValueError(f"kinds is {kinds}, each {each}, nodes {nodes}; they must be at least 1, 1 and 2")
    draw = np.random.default_rng(seed)
    found = []
    for kind in range(kinds):
        bias, branching = draw.standard_normal(3), draw.uniform(0.02, 0.15)
        for number in range(each):
            xyz, parent = np.zeros((nodes, 3)), np.full(nodes, -1)
            for node in range(1, nodes):
                parent[node] = draw.integers(node) if draw.random() < branching else node - 1
                xyz[node] = xyz[parent[node]] + 0.5 * bias + draw.standard_normal(3)
            inputs, outputs = draw.integers(0, nodes, synapses), draw.integers(nodes // 2, nodes, synapses // 2)
            radius = draw.uniform(0.1, 1.0, nodes)
            animal = ("L1v", "L3v")[number % 2]
            found.append(Neuron(f"kind {kind} {number}", f"kind {kind}", animal, xyz, radius, parent, inputs, outputs))
    return found


def worm_connectome(name: str = "cook") -> Connectome:
    """C. elegans: "cook", the adult hermaphrodite of Cook et al., Nature 2019; or "witvliet1" … "witvliet8", the eight
    animals of Witvliet et al., Nature 2021, the last two adult. From c302 (MIT).
    """
    path = fetch(CONNECTOMES)
    if name == "cook":
        member = "herm_full_edgelist.csv"
        rows = list(csv.reader(io.StringIO(read_zip_member(path, member).decode("utf-8-sig"))))
        order = (0, 1, 2, 3)
    elif re.fullmatch(r"witvliet[1-8]", name):
        member = f"witvliet_2020_{name[-1]}.xlsx"
        rows = _sheet(read_zip_member(path, member), f"{CONNECTOMES}, {member}")
        order = (0, 1, 3, 2)
    else:
        raise ValueError(f"name is {name!r}; it must be 'cook' or 'witvliet1' to 'witvliet8'")
    try:
        cells = [[row[column].strip() for column in order] for row in rows[1:] if row and row[0].strip()]
        weight = np.array([float(row[2]) for row in cells])
    except (ValueError, IndexError) as error:
        raise DataCorrupt(f"{CONNECTOMES}, {member}, is no list of connections: {error}") from error
    return Connectome(name, tuple(row[0] for row in cells), tuple(row[1] for row in cells), weight,
                      tuple(row[3] for row in cells))  # fmt: skip


def worm_connectome_stand_in(seed: int = 0, neurons: int = 60, connections: int = 600) -> Connectome:
    """Random pairs with geometric weights; the first neurons connect more than the last."""
    draw = np.random.default_rng(seed)
    chance = 1 / np.arange(1, neurons + 1) ** 0.5
    pairs = draw.choice(neurons, (connections, 2), p=chance / chance.sum())
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    kind = tuple(draw.choice(["chemical", "electrical"], len(pairs), p=[0.8, 0.2]).tolist())
    names = [f"N{n:03}" for n in range(neurons)]
    return Connectome("stand-in", tuple(names[a] for a, _ in pairs), tuple(names[b] for _, b in pairs),
                      draw.geometric(0.25, len(pairs)).astype(float), kind)  # fmt: skip


def _tree(neuron: Neuron) -> Neuron:
    """The neuron, if every node leads to a root. Raises DataCorrupt for coordinates that are not finite, and for
    cycles.
    """
    if not np.isfinite(neuron.xyz).all():
        raise DataCorrupt(f"neuron {neuron.name!r} has coordinates that are not finite")
    above = neuron.parent.copy()
    for _ in range(len(above).bit_length()):
        above = np.where(above >= 0, above[above], -1)  # twice as far up in every step
    if (above >= 0).any():
        raise DataCorrupt(f"neuron {neuron.name!r} is no tree: following parents leads in a circle")
    return neuron


def _swc(text: str, where: str) -> np.ndarray:
    try:
        rows = np.array([[float(word) for word in line.split()] for line in text.splitlines()
                         if line.strip() and not line.startswith("#")])  # fmt: skip
        if rows.ndim != 2 or rows.shape[1] != 7:
            raise ValueError("each line must have seven numbers")
    except ValueError as error:
        raise DataCorrupt(f"{where} is no SWC file: {error}") from error
    return rows


def _sheet(raw: bytes, where: str) -> list[list[str]]:
    """The cells of the first sheet of an Office Open XML workbook, as texts."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as book:
            for info in book.infolist():
                if info.file_size > 50_000_000:
                    raise DataCorrupt(f"{where}: {info.filename} is {info.file_size} bytes, too large for a sheet")
            shared: list[str] = []
            if "xl/sharedStrings.xml" in book.namelist():
                root = ElementTree.fromstring(_plain(book.read("xl/sharedStrings.xml"), where))
                shared = ["".join(part.text or "" for part in item.iter(f"{_MAIN}t")) for item in root]
            root = ElementTree.fromstring(_plain(book.read("xl/worksheets/sheet1.xml"), where))
        return [[_cell(cell, shared) for cell in row] for row in root.iter(f"{_MAIN}row")]
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, IndexError, ValueError) as error:
        if isinstance(error, DataCorrupt):
            raise
        raise DataCorrupt(f"{where} is no workbook: {error!r}") from error


def _cell(cell: ElementTree.Element, shared: list[str]) -> str:
    value = cell.find(f"{_MAIN}v")
    if cell.attrib.get("t") == "s" and value is not None:
        return shared[int(value.text or "")]
    if cell.attrib.get("t") == "inlineStr":
        return "".join(part.text or "" for part in cell.iter(f"{_MAIN}t"))
    return (value.text or "") if value is not None else ""


def _plain(raw: bytes, where: str) -> bytes:
    if b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
        raise DataCorrupt(f"{where} declares entities, which are not read")
    return raw
