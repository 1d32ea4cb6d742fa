"""The constraint: every block of a weight sums to zero, along rows only or along rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

LAYOUTS = ("none", "rows", "tile")


@dataclass(frozen=True, eq=False)
class _Axis:
    """One axis cut into `pieces` runs, each padded to `width` slots: `source` maps a slot to its place, `slot` back."""

    length: int
    pieces: int
    width: int
    source: Int64[Tensor, " slots"]
    real: Bool[Tensor, "pieces width"]
    slot: Int64[Tensor, " length"]

    @property
    def regular(self) -> bool:
        return self.length == self.pieces * self.width


def _cut(length: int, block: int, device: torch.device) -> _Axis:
    # As equal as possible, and never shorter than 2: an entry that must sum to zero alone could only be zero.
    pieces = max(1, min(-(-length // block), length // 2))
    sizes = np.full(pieces, length // pieces)
    sizes[: length % pieces] += 1
    width = int(sizes.max())
    real = np.arange(width) < sizes[:, None]
    source = np.where(real, (np.cumsum(sizes) - sizes)[:, None] + np.arange(width), 0)
    slot = np.flatnonzero(real)
    source_, real_, slot_ = (torch.from_numpy(a).to(device) for a in (source.reshape(-1), real, slot))
    return _Axis(length, pieces, width, source_, real_, slot_)


@dataclass(frozen=True, eq=False)
class Blocks:
    """How a weight is cut into N blocks: (N, B) for rows, (N, R, C) for tiles. Made by `blocks_of`.

    Blocks of a dimension that the block size does not divide are of unequal size; the missing cells are *virtual*:
    `mask` is False there, they are not stored and count as 0.
    """

    layout: str
    shape: tuple[int, ...]
    height: _Axis
    width: _Axis

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of a block along which the sums are zero."""
        return (-1,) if self.layout == "rows" else (-1, -2)

    @cached_property
    def mask(self) -> Bool[Tensor, "N ..."]:
        """True where a cell of a block is a weight, False where it is virtual."""
        with torch.inference_mode(False):  # kept, and a tensor made in inference mode could not take part in training
            return self._flatten(self.height.real[:, None, :, None] & self.width.real[None, :, None, :])

    @property
    def regular(self) -> bool:
        """Whether all blocks are full, so that no cell is virtual."""
        return self.height.regular and self.width.regular

    @cached_property
    def index(self) -> Int64[Tensor, "N ..."]:
        """The place of every cell in the flattened weight (0 at virtual cells)."""
        with torch.inference_mode(False):
            return self.gather(torch.arange(prod(self.shape), device=self.height.source.device))

    def gather(self, weight: Shaped[Tensor, "*any"]) -> Shaped[Tensor, "N ..."]:
        """The blocks of a weight of `shape` (or flattened), with 0 in virtual cells; a view of it where one exists."""
        high, wide = self.height, self.width
        cells = weight.reshape(high.length, wide.length)
        if not high.regular:
            cells = cells.index_select(0, high.source)
        if not wide.regular:
            cells = cells.index_select(1, wide.source)
        cells = self._flatten(cells.reshape(high.pieces, high.width, wide.pieces, wide.width).transpose(1, 2))
        return cells if self.regular else torch.where(self.mask, cells, torch.zeros_like(cells))

    def scatter(self, cells: Shaped[Tensor, "N ..."]) -> Shaped[Tensor, "*shape"]:
        """The weight, of `shape`, whose blocks are `cells`: undoes `gather`."""
        high, wide = self.height, self.width
        flat = cells.reshape(high.pieces, wide.pieces, high.width, wide.width).transpose(1, 2)
        flat = flat.reshape(high.pieces * high.width, wide.pieces * wide.width)
        if not high.regular:
            flat = flat.index_select(0, high.slot)
        if not wide.regular:
            flat = flat.index_select(1, wide.slot)
        return flat.reshape(self.shape)

    def _flatten(self, cells: Tensor) -> Tensor:
        cells = cells.reshape(-1, self.height.width, self.width.width)
        return cells.squeeze(1) if self.layout == "rows" else cells


@lru_cache(maxsize=256)
def _blocks(shape: tuple[int, ...], layout: str, block: int, device: torch.device) -> Blocks:
    size = prod(shape)
    sides = (1, size) if layout == "rows" else (shape[0], size // shape[0])
    # A tensor first made in inference mode could not take part in training later.
    with torch.inference_mode(False):
        return Blocks(layout, shape, _cut(sides[0], block, device), _cut(sides[1], block, device))


def blocks_of(shape: Sequence[int], layout: str, block: int, device: torch.device | str = "cpu") -> Blocks:
    """How a weight of `shape` is cut into zero-sum blocks of `block` (rows) or `block` x `block` (tile) entries.

    A weight of more than two dimensions counts as the matrix (first, product of the rest). A dimension that `block`
    does not divide is cut into ceil(length / block) runs as equal as possible, 10 = 5 + 5 at block 8: with runs of 8
    and 2 the short tiles would be nearly (at length 9 wholly) fixed by their sums. Raises ValueError for an unknown
    layout, a block below 2, or a side of one entry, which the constraint would force to zero.

    >>> blocks_of((16, 10), "tile", 8).mask.shape
    torch.Size([4, 8, 5])
    """
    shape = tuple(int(side) for side in shape)
    if layout not in LAYOUTS[1:]:
        raise ValueError(f"layout was {layout!r}; it must be one of {LAYOUTS[1:]} to have blocks")
    if block < 2:
        raise ValueError(f"block was {block}; it must be at least 2, a single zero-sum entry could only be zero")
    size = prod(shape)
    if layout == "rows" and size < 2:
        raise ValueError(f"shape was {shape}; it must have at least 2 entries for layout='rows'")
    if layout == "tile" and (not shape or shape[0] < 2 or size // max(shape[0], 1) < 2):
        raise ValueError(
            f"shape was {shape}; layout='tile' needs at least 2 rows and 2 columns, use layout='rows' for this weight"
        )
    return _blocks(shape, layout, int(block), torch.device(device))


def _centre(cells: Tensor, mask: Tensor, axis: int) -> Tensor:
    mean = cells.sum(axis, keepdim=True) / mask.sum(axis, keepdim=True).clamp(min=1)
    return torch.where(mask, cells - mean, torch.zeros_like(cells))


def project(w: Float[Tensor, "*shape"], layout: str = "tile", block: int = 8) -> Float[Tensor, "*shape"]:
    """The nearest weight whose blocks sum to zero: subtract each block's mean (rows), or T -> H T H (tile).

    `w` is a weight of any shape (out, ...); H = I - 11'/b takes the mean off a row or column of a b x b tile. The map
    is linear, symmetric and idempotent, so autograd carries a gradient g back as project(g). Layout "none" returns
    `w`. Zero-sum paper, block-wise constraint; both layouts are our reconstruction.

    >>> project(torch.tensor([[4.0, 0.0], [0.0, 0.0]]), "tile", 2)
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if layout == "none":
        return w
    blocks = blocks_of(w.shape, layout, block, w.device)
    cells = blocks.gather(w)
    for axis in blocks.axes:
        cells = cells - cells.mean(axis, keepdim=True) if blocks.regular else _centre(cells, blocks.mask, axis)
    return blocks.scatter(cells)


def init_gain(
    shape: Sequence[int], layout: str = "tile", block: int = 8, device: torch.device | str = "cpu"
) -> Float[Tensor, "*shape"]:
    """What to multiply an initial weight by, entry by entry, so that `project` leaves its variance as it was.

    Independent entries lose the factor 1 - 1/B of their variance in a block of B (rows), (1 - 1/r)(1 - 1/c) in an
    r x c tile; the gain is the inverse root. Ones for layout "none".

    >>> init_gain((8, 8), "tile", 8)[0, 0].item()  # 1 / (1 - 1/8)
    1.1428571939468384
    """
    if layout == "none":
        return torch.ones(tuple(shape), device=device)
    blocks = blocks_of(shape, layout, block, device)
    mask = blocks.mask
    kept = torch.ones(mask.shape, device=mask.device)
    for axis in blocks.axes:
        kept = kept * (1 - 1 / mask.sum(axis, keepdim=True).clamp(min=2))
    return blocks.scatter(kept.rsqrt())


def residuals(
    n: Int64[Tensor, "*shape"], layout: str = "tile", block: int = 8
) -> Int64[Tensor, " N"] | tuple[Int64[Tensor, "N R"], Int64[Tensor, "N C"]]:
    """The sums of every block, all 0 in a weight that is intact: (N,) for rows, (rows, columns) for tile.

    `n` is the weight in integer units. One wrong entry, off by e, shows as e in its row and in its column.

    >>> n = torch.tensor([[1, -1], [-1, 1]]); n[0, 1] += 4
    >>> [r.tolist() for r in residuals(n, "tile", 2)]
    [[[4, 0]], [[0, 4]]]
    """
    blocks = blocks_of(n.shape, layout, block, n.device)
    sums = tuple(blocks.gather(n).sum(axis) for axis in blocks.axes)
    return sums[0] if layout == "rows" else (sums[0], sums[1])
