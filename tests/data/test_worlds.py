from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nips26lib.data import worlds
from nips26lib.data.archives import DataCorrupt
from nips26lib.data.worlds import KINDS, TASKS, Walks, walks, walks_stand_in
from tests.data.real import mirror

GRIDS = {"lava": (10, 10), "unlock": (11, 6), "corners": (10, 10)}


def assert_keeps_the_contract(found: Walks) -> None:
    steps, count = found.steps, len(found.steps["action"])
    assert found.offsets[0] == 0 and found.offsets[-1] == count and (np.diff(found.offsets) > 0).all()
    assert {len(array) for array in steps.values()} == {count}
    assert steps["previous_image"].shape == steps["next_image"].shape == (count, 3, 3)
    assert set(np.unique(steps["next_dir"])) <= set(range(-1, 4)) and steps["reward"].dtype == np.float32
    inside = np.ones(count, bool)
    inside[found.offsets[1:] - 1] = False
    assert not steps["terminated"][inside].any(), "an episode ends where it ends"
    # Within an episode, what is true after a step is true before the next.
    after, before = np.flatnonzero(inside), np.flatnonzero(inside) + 1
    assert (steps["true_next_pos"][after] == steps["true_previous_pos"][before]).all()
    assert (steps["true_next_dir"][after] == steps["true_previous_dir"][before]).all()
    row = steps["true_next_pos"].astype(int)
    assert (row >= 0).all() and (row < steps["true_next_grid"].shape[1:]).all()


@mirror
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", TASKS)
def test_the_real_walks_keep_the_contract(task: str, kind: str) -> None:
    found = walks(task, kind)
    assert_keeps_the_contract(found)
    assert found.episodes in (10, 12, 20)
    if task in GRIDS:
        assert found.steps["true_next_grid"].shape[1:] == GRIDS[task]


def test_the_stand_in() -> None:
    found = walks_stand_in(episodes=5)
    assert_keeps_the_contract(found)
    assert found.episodes == 5
    goal = found.steps["terminated"]
    x, y = found.steps["true_next_pos"][goal].T
    assert (found.steps["true_next_grid"][goal, x, y] == 10).all()
    # The cell ahead as it is seen is the cell ahead.
    moves = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
    for step in range(0, len(goal), 7):
        ahead = found.steps["true_next_pos"][step] + moves[found.steps["true_next_dir"][step]]
        assert found.steps["next_image"][step][1, 1] == found.steps["true_next_grid"][step][tuple(ahead)]
    assert np.array_equal(walks_stand_in(seed=1).steps["action"], walks_stand_in(seed=1).steps["action"])
    assert not np.array_equal(walks_stand_in(seed=1).offsets, walks_stand_in(seed=2).offsets)


def test_what_is_wrong_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for call in (walks, walks_stand_in):
        with pytest.raises(ValueError, match="task is 'maze' and kind is 'demo'"):
            call("maze")
    with pytest.raises(ValueError, match="episodes is 0"):
        walks_stand_in(episodes=0)
    path = tmp_path / "x.npz"
    good = walks_stand_in(episodes=2)
    monkeypatch.setattr(worlds, "fetch", lambda name: path)
    for change, why in (
        ({"offsets": np.array([0, 3])}, "offsets must rise"),
        ({"action": np.zeros(2)}, "not all 2 steps"),
    ):
        np.savez(path, **({"offsets": good.offsets, **good.steps} | change))  # type: ignore[arg-type]
        with pytest.raises(DataCorrupt, match=why):
            walks("lava")
