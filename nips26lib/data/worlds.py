"""Recorded walks through small grid worlds that are seen only in part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nips26lib.data.archives import DataCorrupt, read_npz
from nips26lib.data.fetch import fetch
from nips26lib.data.tables import require

TASKS = ("corners", "four_rooms", "four_rooms_stoch", "lava", "lava_stoch", "unlock", "unlock_stoch")
KINDS = ("demo", "mixed")
_PER_STEP = {"action": 1, "reward": 1, "terminated": 1, "previous_obs_valid": 1, "previous_image": 3, "previous_dir": 1,
             "previous_carry": 1, "true_previous_grid": 3, "true_previous_pos": 2, "true_previous_dir": 1,
             "true_previous_carry": 1, "next_obs_valid": 1, "next_image": 3, "next_dir": 1, "next_carry": 1,
             "true_next_grid": 3, "true_next_pos": 2, "true_next_dir": 1, "true_next_carry": 1}  # fmt: skip


@dataclass(frozen=True)
class Walks:
    """Episodes one after another: episode e is steps offsets[e] … offsets[e+1] − 1 of every array in `steps`.

    `steps` maps a name to an array with one row a step: `action`, `reward`, `terminated`, what was seen before and
    after
    (`previous_image`, `next_image`: 3 x 3 codes with the agent at [1, 2]; direction 0 right, 1 down, 2 left, 3 up;
    carry −1 for nothing), and the hidden truth (`true_…`), which only privileged baselines and scoring may use.
    """

    task: str
    offsets: np.ndarray
    steps: dict[str, np.ndarray]

    @property
    def episodes(self) -> int:
        """How many episodes there are."""
        return len(self.offsets) - 1


def walks(task: str, kind: str = "demo") -> Walks:
    """One of `TASKS`, "demo" (expert) or "mixed" (some of it random); from the Pinductor repository (MIT), arXiv
    2605.13740.
    """
    _known(task, kind)
    file = f"pinductor/{task}_{kind}.npz"
    arrays = read_npz(fetch(file))
    require(arrays, file, offsets=1, **_PER_STEP)
    found = Walks(task, arrays["offsets"].astype(np.int64), {name: arrays[name] for name in _PER_STEP})
    _check(found, file)
    return found


def walks_stand_in(task: str = "lava", kind: str = "demo", seed: int = 0, episodes: int = 12, size: int = 10) -> Walks:
    """An agent that turns and goes at random in an empty walled room of `size` x `size`, with a goal in the last
    corner.
    """
    _known(task, kind)
    if episodes < 1 or size < 4:
        raise ValueError(f"episodes is {episodes} and size is {size}; they must be at least 1 and 4")
    draw = np.random.default_rng(seed)
    grid = np.full((size, size), 2, dtype=np.int8)
    grid[1:-1, 1:-1] = 1
    grid[-2, -2] = 10
    moves = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
    rows: list[dict[str, object]] = []
    offsets = [0]
    for _ in range(episodes):
        place, facing = np.array([1, 1]), int(draw.integers(4))
        for step in range(60):
            before = (place.copy(), facing)
            action = int(draw.choice(3, p=(0.2, 0.2, 0.6)))
            if action < 2:
                facing = (facing + (1 if action else -1)) % 4
            elif grid[tuple(place + moves[facing])] != 2:
                place = place + moves[facing]
            done = bool(grid[tuple(place)] == 10)
            rows.append(_step(grid, moves, before, (place, facing), action, done, step > 0))
            if done:
                break
        offsets.append(len(rows))
    kinds = {"reward": np.float32, "terminated": bool, "previous_obs_valid": bool, "next_obs_valid": bool}
    steps = {name: np.array([row[name] for row in rows], dtype=kinds.get(name, np.int8)) for name in _PER_STEP}
    return Walks(f"{task} (stand-in)", np.array(offsets), steps)


def _step(
    grid: np.ndarray, moves: np.ndarray, before: tuple[np.ndarray, int], after: tuple[np.ndarray, int], action: int,
    done: bool, seen: bool,
) -> dict[str, object]:  # fmt: skip
    row: dict[str, object] = {"action": action, "reward": float(done), "terminated": done, "previous_obs_valid": seen,
                              "next_obs_valid": True}  # fmt: skip
    for word, (place, facing) in (("previous", before), ("next", after)):
        row[f"true_{word}_grid"], row[f"true_{word}_pos"] = grid, place.copy()
        row[f"{word}_image"] = _view(grid, moves, place, facing)
        row[f"{word}_dir"] = row[f"true_{word}_dir"] = facing
        row[f"{word}_carry"] = row[f"true_{word}_carry"] = -1
    return row


def _view(grid: np.ndarray, moves: np.ndarray, place: np.ndarray, facing: int) -> np.ndarray:
    """The 3 x 3 cells ahead, the agent's own at [1, 2]; a wall beyond the room."""
    ahead, right = moves[facing], moves[(facing + 1) % 4]
    seen = np.full((3, 3), 2, dtype=np.int8)
    for side in (-1, 0, 1):
        for depth in (0, 1, 2):
            x, y = place + side * right + depth * ahead
            if 0 <= x < len(grid) and 0 <= y < len(grid):
                seen[side + 1, 2 - depth] = grid[x, y]
    return seen


def _known(task: str, kind: str) -> None:
    if task not in TASKS or kind not in KINDS:
        raise ValueError(
            f"task is {task!r} and kind is {kind!r}; they must be one of {', '.join(TASKS)} and of {', '.join(KINDS)}"
        )


def _check(found: Walks, file: str) -> None:
    count = len(found.steps["action"])
    if any(len(array) != count for array in found.steps.values()):
        raise DataCorrupt(f"{file}: the arrays have not all {count} steps")
    if found.offsets[0] != 0 or found.offsets[-1] != count or (np.diff(found.offsets) < 1).any():
        raise DataCorrupt(f"{file}: offsets must rise from 0 to the number of steps, {count}")
