"""Recorded behaviour: mice in a labyrinth, worms on a plate, mice in an arena."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from nips26lib.data.archives import DataCorrupt, read_npz
from nips26lib.data.fetch import fetch
from nips26lib.data.tables import require

NODES, WATER = 127, 116


@dataclass(frozen=True)
class Labyrinth:
    """Windows of decisions in a binary maze of 127 nodes with water at node 116.

    `state` and `action` are (windows, steps) integers; `next_node[s, a]` (127, 4) is where action a leads from node s:
    0 and 1 to the children, 2 or 3 to the parent; a self loop is an action that is not there, save (0, 3), which
    leaves to the home cage.
    """

    state: np.ndarray
    action: np.ndarray
    next_node: np.ndarray


def labyrinth() -> Labyrinth:
    """238 windows of 500 decisions of 10 water-restricted mice, kept only where water and entrance are both visited
    7 times
    or more; Rosenberg et al., eLife 10:e66175 (2021), as prepared for SWIRL by Ke (both MIT).
    """
    file = "mcd/labyrinth_compact.npz"
    arrays = read_npz(fetch(file))
    require(arrays, file, state=2, action=2, next_node=2)
    found = Labyrinth(*(arrays[name].astype(np.int64) for name in ("state", "action", "next_node")))
    if found.next_node.shape != (NODES, 4) or found.state.max() >= NODES or found.action.max() >= 4:
        raise DataCorrupt(f"{file} holds no walks in a maze of {NODES} nodes with 4 actions")
    return found


def labyrinth_stand_in(seed: int = 0, windows: int = 238, steps: int = 500) -> Labyrinth:
    """Walkers in the same maze that go on rather than back, and turn towards the water with a small preference."""
    if windows < 1 or steps < 1:
        raise ValueError(f"windows is {windows} and steps is {steps}; each must be at least 1")
    draw = np.random.default_rng(seed)
    maze = _maze()
    way = {0}
    node = WATER
    while node:
        way.add(node)
        node = (node - 1) // 2
    state, action = np.zeros((windows, steps), np.int64), np.zeros((windows, steps), np.int64)
    here = np.zeros(windows, np.int64)
    for step in range(steps):
        weights = np.where(maze[here] == here[:, None], 0.0, 1.0)
        weights[:, 2:] *= 0.6
        weights *= np.where(np.isin(maze[here], list(way)), 3.0, 1.0)
        weights[here == 0, 3] = 0.2
        chances = np.cumsum(weights / weights.sum(1, keepdims=True), 1)
        chosen = (draw.random(windows)[:, None] > chances).sum(1).clip(max=3)
        state[:, step], action[:, step] = here, chosen
        here = maze[here, chosen]
    return Labyrinth(state, action, maze)


def _maze() -> np.ndarray:
    """A complete binary tree of 127 nodes: children 2s + 1 and 2s + 2; the parent by action 2 from a left child,
    else 3.
    """
    maze = np.repeat(np.arange(NODES)[:, None], 4, 1)
    for node in range(NODES):
        for action in (0, 1):
            if 2 * node + 1 + action < NODES:
                maze[node, action] = 2 * node + 1 + action
        if node:
            maze[node, 2 if node % 2 else 3] = (node - 1) // 2
    return maze


@dataclass(frozen=True)
class Tracks:
    """Positions over time: `values` (animals or points, frames, 2) in `unit`, NaN where missing, at `rate` frames a
    second.

    `likelihood` (points, frames) is the tracker's own, if it gives one; `rate` is None where it is not known.
    """

    names: tuple[str, ...]
    values: np.ndarray
    unit: str
    rate: float | None
    likelihood: np.ndarray | None = None


def worm_centroids() -> Tracks:
    """12 freely crawling C. elegans, 35 minutes each at 16 Hz, missing frames NaN; Stephens et al. 2008, Broekmans
    et al.
    2016, as published by Costa et al. (CC0, doi 10.5281/zenodo.18900820).

    The source does not say the unit; paths of some 20 and speeds of some 0.1 a second make it millimetres ("cm" in the
    array's name is the centre of mass).
    """
    file = "mcd/worm_centroids.h5"
    with _hdf5(file) as content:
        values = np.asarray(content["X_cm"], dtype=np.float64)
    if values.ndim != 3 or values.shape[-1] != 2:
        raise DataCorrupt(f"{file}: X_cm has the shape {values.shape}; it must be (worms, frames, 2)")
    values[(values == 0).all(-1)] = np.nan
    return Tracks(tuple(f"worm {n + 1}" for n in range(len(values))), values, "mm", 16.0)


def worm_centroids_stand_in(seed: int = 0, worms: int = 12, frames: int = 33_600) -> Tracks:
    """Persistent random walks: a slowly varying speed, a heading that diffuses, rare reversals, a few missing
    frames.
    """
    draw = np.random.default_rng(seed)
    rate = 16.0
    heading = np.cumsum(draw.normal(0, 0.06, (worms, frames)) + np.pi * (draw.random((worms, frames)) < 0.002), 1)
    speed = 0.13 * np.exp(0.3 * draw.standard_normal((worms, 1)))
    values = np.cumsum(np.stack([np.cos(heading), np.sin(heading)], -1) * speed[..., None] / rate, 1)
    values[draw.random((worms, frames)) < 0.005] = np.nan
    return Tracks(tuple(f"worm {n + 1}" for n in range(worms)), values, "mm", rate)


def mouse_keypoints(mouse: int = 1) -> Tracks:
    """451 frames of 14 key points of a mouse (1 or 2) in a square arena, in pixels, tracked with DeepLabCut; from
    DeepOF
    (MIT), Miranda et al.
    """
    if mouse not in (1, 2):
        raise ValueError(f"mouse is {mouse}; it must be 1 or 2")
    file = f"mcd/deepof_mouse{mouse}_square_arena.h5"
    with _hdf5(file) as content:
        table = content["df_with_missing/table"]
        block = np.asarray(table["values_block_0"], dtype=np.float64)
        # The names of the columns are stored as a pickle, whose text is read here and never executed.
        text = bytes(table.attrs["values_block_0_kind"]).decode("ascii", "replace")
    words = [word for word in re.findall(r"V(\w+)\n", text)][1:]  # the first is the tracker's name
    names = [word for word in words if word not in ("x", "y", "likelihood")]
    if block.shape[1] != 3 * len(names):
        raise DataCorrupt(f"{file} has {block.shape[1]} columns for {len(names)} key points")
    points = block.reshape(len(block), len(names), 3).transpose(1, 0, 2)
    return Tracks(tuple(names), points[..., :2].copy(), "pixels", None, points[..., 2].copy())


def mouse_keypoints_stand_in(seed: int = 0, frames: int = 451, points: int = 14) -> Tracks:
    """A rigid body of `points` along a line that walks and turns at random, with noise, seen almost surely."""
    draw = np.random.default_rng(seed)
    heading = np.cumsum(draw.normal(0, 0.08, frames))
    direction = np.stack([np.cos(heading), np.sin(heading)], -1)
    centre = 300 + np.cumsum(2 * direction, 0)
    along = np.linspace(60, -80, points)[:, None, None]
    values = centre + along * direction + draw.normal(0, 1.0, (points, frames, 2))
    likelihood = 1 - 0.01 * draw.random((points, frames))
    return Tracks(tuple(f"point {n + 1}" for n in range(points)), values, "pixels", None, likelihood)


def _hdf5(file: str) -> Any:
    try:
        import h5py  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(f"{file} is an HDF5 file; reading it takes h5py: pip install 'nips26lib[book]'") from error
    path = fetch(file)
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise DataCorrupt(f"{file} is no HDF5 file: {error}") from error
