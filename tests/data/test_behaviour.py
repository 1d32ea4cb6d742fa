from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nips26lib.data import behaviour as b
from nips26lib.data.archives import DataCorrupt
from tests.data.real import mirror


def check_labyrinth(found: b.Labyrinth) -> None:
    assert found.next_node.shape == (127, 4) and found.state.shape == found.action.shape
    here, after = found.state[:, :-1], found.state[:, 1:]
    assert (found.next_node[here, found.action[:, :-1]] == after).all(), "the walk follows the maze"
    # A complete binary tree: every node but the root is the child of one, and leaves have no children.
    children = [child for node in range(127) for child in found.next_node[node, :2] if child != node]
    assert sorted(children) == list(range(1, 127)) and (found.next_node[0, 2:] == 0).all()
    assert (found.state == b.WATER).any(1).mean() > 0.5


@mirror
def test_the_real_mice_in_the_labyrinth() -> None:
    found = b.labyrinth()
    check_labyrinth(found)
    assert found.state.shape == (238, 500) and ((found.state == b.WATER).sum(1) >= 7).all()


def test_the_stand_in_of_the_labyrinth() -> None:
    found = b.labyrinth_stand_in()
    check_labyrinth(found)
    assert found.state.shape == (238, 500)
    assert np.array_equal(b.labyrinth_stand_in(1, 5).state, b.labyrinth_stand_in(1, 5).state)
    assert not np.array_equal(b.labyrinth_stand_in(1, 5).state, b.labyrinth_stand_in(2, 5).state)
    with pytest.raises(ValueError, match="windows is 0"):
        b.labyrinth_stand_in(windows=0)


def check_worms(found: b.Tracks) -> None:
    assert found.values.shape == (12, 33_600, 2) and (found.unit, found.rate) == ("mm", 16.0)
    missing = np.isnan(found.values).all(-1)
    assert (np.isnan(found.values).any(-1) == missing).all() and missing.mean() < 0.2
    moved = np.linalg.norm(found.values[:, 160:] - found.values[:, :-160], axis=-1)  # in ten seconds
    assert 0.3 < np.nanmedian(moved) < 3, "a worm crawls a fraction of a millimetre a second"


def check_mouse(found: b.Tracks) -> None:
    assert found.values.shape == (14, 451, 2) and len(set(found.names)) == 14
    assert found.likelihood is not None and found.likelihood.shape == (14, 451)
    assert found.likelihood.min() > 0 and found.likelihood.max() <= 1 and np.median(found.likelihood) > 0.95


@mirror
def test_the_real_tracks() -> None:
    check_worms(b.worm_centroids())
    for mouse in (1, 2):
        found = b.mouse_keypoints(mouse)
        check_mouse(found)
        assert found.names[:3] == ("Nose", "Left_ear", "Right_ear")
        nose, ears = found.values[0], found.values[1:3].mean(0)
        assert np.median(np.linalg.norm(nose - ears, axis=-1)) < 60, "the nose is near the ears"


def test_the_stand_ins_of_the_tracks() -> None:
    check_worms(b.worm_centroids_stand_in())
    check_mouse(b.mouse_keypoints_stand_in())


def test_what_is_wrong_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="mouse is 3"):
        b.mouse_keypoints(3)
    path = tmp_path / "x"
    monkeypatch.setattr(b, "fetch", lambda name: path)
    path.write_bytes(b"not HDF5 at all")
    with pytest.raises(DataCorrupt, match=r"worm_centroids\.h5 is no HDF5 file"):
        b.worm_centroids()
    with open(path, "wb") as stream:
        np.savez(stream, state=np.full((1, 2), 200), action=np.zeros((1, 2)), next_node=np.zeros((127, 4)))
    with pytest.raises(DataCorrupt, match="no walks in a maze of 127 nodes"):
        b.labyrinth()
