from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nips26lib.data import neurons as n
from nips26lib.data.archives import DataCorrupt
from tests.data.real import mirror


def check(found: n.Neuron) -> None:
    count = len(found.xyz)
    assert found.xyz.shape == (count, 3) and found.radius.shape == found.parent.shape == (count,)
    assert (found.parent >= -1).all() and (found.parent < count).all() and (found.parent == -1).sum() >= 1
    for nodes in (found.inputs, found.outputs):
        assert nodes.size == 0 or (nodes.min() >= 0 and nodes.max() < count)


@mirror
def test_the_real_larva_has_the_same_18_neurons_twice() -> None:
    found = n.larva_neurons()
    for neuron in found:
        check(neuron)
        assert (neuron.parent == -1).sum() == 1 and len(neuron.inputs) > 0
    assert Counter(neuron.animal for neuron in found) == {"L1v": 18, "L3v": 18}
    kinds = {animal: Counter(x.kind for x in found if x.animal == animal) for animal in ("L1v", "L3v")}
    assert kinds["L1v"] == kinds["L3v"] and len(kinds["L1v"]) == 9 and set(kinds["L1v"].values()) == {2}


@mirror
def test_the_real_flies_and_worms() -> None:
    flies = n.fly_neurons()
    for neuron in flies:
        check(neuron)
    assert len(flies) == 462 and {"Mi1", "Tm3", "T4a"} & {neuron.kind for neuron in flies}
    worms = n.worm_neurons()
    for neuron in worms:
        check(neuron)
    assert len(worms) == 303 and {"AVAL", "DB1", "MDL08"} <= {neuron.name for neuron in worms}
    length = max(np.ptp(neuron.xyz[:, 1]) for neuron in worms)
    assert 500 < length < 1200, "the longest runs through most of a worm of a millimetre"


@mirror
def test_the_real_connectomes() -> None:
    cook = n.worm_connectome("cook")
    assert len(cook.weight) == len(cook.pre) == len(cook.post) > 5000 and (cook.weight > 0).all()
    assert {"chemical", "electrical"} == set(cook.kind) and "AVAL" in cook.pre
    sizes = []
    for number in range(1, 9):
        found = n.worm_connectome(f"witvliet{number}")
        assert (found.weight > 0).all() and {"chemical", "electrical"} == set(found.kind) and "AVAL" in found.post
        sizes.append(found.weight[np.array(found.kind) == "chemical"].sum())
    assert sizes[-1] > 3 * sizes[0], "an adult has several times the synapses of a newborn"


def test_the_stand_ins() -> None:
    found = n.neurons_stand_in()
    for neuron in found:
        check(neuron)
        n._tree(neuron)
    assert len(found) == 36 and len({neuron.kind for neuron in found}) == 9
    assert np.array_equal(n.neurons_stand_in(1)[0].xyz, n.neurons_stand_in(1)[0].xyz)
    assert not np.array_equal(n.neurons_stand_in(1)[0].xyz, n.neurons_stand_in(2)[0].xyz)
    wires = n.worm_connectome_stand_in()
    assert len(wires.pre) == len(wires.weight) and all(a != b for a, b in zip(wires.pre, wires.post, strict=True))
    with pytest.raises(ValueError, match="nodes 1"):
        n.neurons_stand_in(nodes=1)


@pytest.mark.parametrize(("member", "content", "why"), [
    ("X.cell.nml", b"<!DOCTYPE x [<!ENTITY a 'b'>]><x/>", "declares entities"),
    ("X.cell.nml", b"<x", "is no morphology"),
    ("X.cell.nml", b"<x/>", "segments without an end"),
])  # fmt: skip
def test_a_morphology_that_is_wrong_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, member: str, content: bytes, why: str
) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(member, content)
    monkeypatch.setattr(n, "fetch", lambda name: tmp_path / "x.zip")
    with pytest.raises(DataCorrupt, match=why):
        n.worm_neurons()


def test_other_faults_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("neuronsinfo.json", "{}")
        archive.writestr("1.swc", "1 0 0 0 0 1 2\n2 0 0 0 0 1 1\n")
        archive.writestr("L1v_1.json", '{"neuron": {"nodes": []}}')
        archive.writestr("herm_full_edgelist.csv", "a,b\nc,d\n")
        archive.writestr("witvliet_2020_1.xlsx", b"no workbook")
    monkeypatch.setattr(n, "fetch", lambda name: tmp_path / "x.zip")
    with pytest.raises(DataCorrupt, match="'1' is no tree: following parents leads in a circle"):
        n.fly_neurons()
    with pytest.raises(DataCorrupt, match=r"L1v_1\.json, is no neuron"):
        n.larva_neurons()
    with pytest.raises(DataCorrupt, match="is no list of connections"):
        n.worm_connectome("cook")
    with pytest.raises(DataCorrupt, match="is no workbook"):
        n.worm_connectome("witvliet1")
    with pytest.raises(ValueError, match="name is 'witvliet9'"):
        n.worm_connectome("witvliet9")
    with pytest.raises(DataCorrupt, match="each line must have seven numbers"):
        n._swc("1 2 3", "x")
