"""Rounding to integers whose blocks sum to exactly zero: the last bit of the constraint."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from .constraint import blocks_of, project
from .formats import check_finite


def _round_rows(x: Tensor, mask: Tensor) -> Tensor:
    """Nearest point of the lattice A_{B-1} along the last axis: integers with sum 0. Virtual cells of `x` hold 0."""
    n = x.round()
    order = torch.where(mask, x - n, torch.inf).argsort(dim=-1, stable=True)
    size = mask.sum(-1, keepdim=True).clamp(min=1)
    excess = n.to(torch.int64).sum(-1, keepdim=True)
    every = excess.div(size, rounding_mode="floor")
    # What is left over, from 0 to size - 1, is taken one each from the entries that were rounded up the most.
    first = torch.arange(x.shape[-1], device=x.device) < excess - every * size
    less = every + torch.zeros_like(order).scatter(-1, order, first.to(torch.int64))
    return torch.where(mask, n.to(torch.int64) - less, 0)


def _repair_columns(x: Tensor, n: Tensor, mask: Tensor) -> Tensor:
    """Move single units within rows, at the least cost, until the columns of every tile sum to 0 too."""
    error, column, virtual = x - n, n.sum(-2), ~mask.any(-1)
    todo = torch.empty(0) if x.is_meta else column.any(-1).nonzero().squeeze(1)
    while len(todo):
        over, under = column[todo].argmax(-1), column[todo].argmin(-1)
        # (r + 1)^2 - r^2 where a unit goes, (r - 1)^2 - r^2 where it comes: least where r_over - r_under is.
        cost = error[todo, :, over] - error[todo, :, under]
        row = cost.masked_fill(virtual[todo], torch.inf).argmin(-1)
        for place, step in ((over, 1), (under, -1)):
            error[todo, row, place] += step
            n[todo, row, place] -= step
            column[todo, place] -= step
        todo = todo[column[todo].any(-1)]
    return n


def round_zero_sum(x: Float[Tensor, "*shape"], layout: str = "tile", block: int = 8) -> Int64[Tensor, "*shape"]:
    """The integers near `x` (a weight in units of its grid) whose block sums are exactly 0.

    rows: the nearest such integers, a point of the root lattice A_{B-1} (Conway and Sloane, ch. 20). tile: rows first,
    then columns repaired by the cheapest single moves, near the optimum. A tile far off the constraint is projected
    first; "none" rounds half to even. Raises ValueError for NaN or infinity.

    >>> round_zero_sum(torch.tensor([0.45, 0.4, 0.35, -1.2]), "rows", 4).tolist()
    [1, 0, 0, -1]
    """
    check_finite("x", x)
    if layout == "none":
        return x.round().to(torch.int64)
    blocks = blocks_of(x.shape, layout, block, x.device)
    cells, mask = blocks.gather(x), blocks.mask
    if layout == "rows":
        return blocks.scatter(_round_rows(cells, mask))
    if not x.is_meta and max(float(cells.sum(axis).abs().max()) for axis in blocks.axes) > 1:
        cells = blocks.gather(project(x, layout, block))
    return blocks.scatter(_repair_columns(cells, _round_rows(cells, mask), mask))
