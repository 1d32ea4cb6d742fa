"""The decoder: find and undo faults from the sums of each block, with no stored check bit.

A tile is decoded one move at a time; all damaged tiles of a tensor move together. The first rule that applies moves:

fill    a cell known to be faulty (an *erasure*), alone in its row or column, takes the value that the sum asks for
guess   erasures that share all their rows and columns: one takes its least-squares value, and the others follow
line    one row (column) has a wrong sum: all faults lie in it, and the column (row) sums say how large each is
pair    no row (column) has a wrong sum: two faults cancel in one; the likeliest is chosen
single  the likeliest cell at the crossing of a wrong row and a wrong column is off by one of the two sums

Nothing here knows the clean weights. The unit and the largest clean value are kept safely beside the tensor; the
typical size of a weight is estimated from the faulty tensor itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from math import log, prod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from .constraint import Blocks, blocks_of
from .formats import decode, encode, format_of, to_bits

#: What equal row and column sums are worth as evidence for one fault at their crossing, in nats.
AGREEMENT = 10.0
#: Damaged tiles decoded together: a bound on memory.
BATCH = 1 << 16
#: Farther than any sum of a tile.
_FAR = 1 << 40


class Rule(IntEnum):
    """What moves a tile next."""

    DONE = 0
    FILL = 1
    GUESS = 2
    LINE_ROW = 3
    LINE_COLUMN = 4
    PAIR_ROW = 5
    PAIR_COLUMN = 6
    SINGLE = 7
    STUCK = 8


NOTES = {
    Rule.DONE: "every sum is zero",
    Rule.FILL: "fill: an erasure alone in its row or column takes the value that the sum asks for",
    Rule.GUESS: "guess: the sums leave the erasures open; one takes its least-squares value",
    Rule.LINE_ROW: "line: one row is wrong, so the column sums are its errors",
    Rule.LINE_COLUMN: "line: one column is wrong, so the row sums are its errors",
    Rule.PAIR_ROW: "pair: no row is wrong, so two errors cancel in one; the likeliest row is taken",
    Rule.PAIR_COLUMN: "pair: no column is wrong, so two errors cancel in one; the likeliest column is taken",
    Rule.SINGLE: "single: the likeliest cell where a wrong row and a wrong column cross",
    Rule.STUCK: "stuck: no explanation keeps every value in range",
}


@dataclass(frozen=True)
class RecoveryReport:
    """Counts of blocks: all, found faulty, explained (sums zero again, which need not be right), and the rest."""

    blocks: int
    flagged: int
    corrected: int
    uncorrectable: int


@dataclass(frozen=True)
class Likelihood:
    """What makes a value n likely where n' was read: few flipped bits, and a size that weights tend to have."""

    fmt: str
    unit: float
    limit: int
    sigma: float
    flip_cost: float

    def cost(self, n: Int64[Tensor, "*shape"], received: Tensor, erased: Tensor) -> Float[Tensor, "*shape"]:
        """-log probability, up to a constant; an erased cell may take any value, and none beyond the limit."""
        flips = popcount(to_bits(n, self.unit, self.fmt) ^ received).masked_fill(erased, 0)
        cost = self.flip_cost * flips + (n / self.sigma).square() / 2
        return cost.masked_fill(n.abs() > self.limit, torch.inf)


def popcount(x: Int64[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
    """The number of ones among the low 32 bits.

    >>> popcount(torch.tensor([0, 1, 255, 2**32 - 1])).tolist()
    [0, 1, 8, 32]
    """
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) & 0xFFFFFFFF) >> 24


@dataclass
class _Tiles:
    """Tiles being decoded: values, erasures not yet filled, all erasures, codes as received, real cells."""

    n: Tensor
    holes: Tensor
    erased: Tensor
    received: Tensor
    mask: Tensor

    def __getitem__(self, chosen: Tensor | slice) -> _Tiles:
        return _Tiles(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def turned(self) -> _Tiles:
        return _Tiles(*(getattr(self, field.name).mT for field in fields(self)))


def _fill(t: _Tiles, like: Likelihood) -> tuple[Tensor, Tensor]:
    row, column = t.n.sum(-1, keepdim=True), t.n.sum(-2, keepdim=True)
    by_row = t.holes & (t.holes.sum(-1, keepdim=True) == 1)
    by_column = t.holes & (t.holes.sum(-2, keepdim=True) == 1)
    # Where both could tell but differ, a second fault shares the row, and then another column shows about that
    # difference, or it shares the column, and then another row does.
    surplus = row - column
    in_row = _nearest(surplus, column, t.holes)
    in_column = _nearest(surplus.mT, -row.mT, t.holes.mT).mT
    spoilt = ((in_row < in_column) | (row.abs() > like.limit)) & (column.abs() <= like.limit)
    value = -torch.where(by_row & ~(by_column & spoilt), row, column)
    filled = by_row | by_column
    return torch.where(filled, value.clamp(-like.limit, like.limit), t.n), t.holes & ~filled


def _nearest(surplus: Tensor, column: Tensor, holes: Tensor) -> Tensor:
    """How near the sum of another column, one without holes, comes to each cell's row sum less its column sum."""
    distance = (column[:, :, None, :] - surplus[..., None]).abs()
    own = torch.eye(column.shape[-1], dtype=torch.bool, device=column.device)
    return distance.masked_fill(own | holes.any(-2)[:, None, None, :], _FAR).amin(-1)


def _guess(t: _Tiles, like: Likelihood) -> tuple[Tensor, Tensor]:
    in_row, in_column = (t.holes.sum(axis, keepdim=True) for axis in (-1, -2))
    row, column, total = t.n.sum(-1, keepdim=True), t.n.sum(-2, keepdim=True), t.n.sum((-1, -2), keepdim=True)
    value = total / t.holes.sum((-1, -2), keepdim=True) - row / in_row - column / in_column
    first = _one_hot((in_row * in_column).masked_fill(~t.holes, 1 << 30).flatten(1).argmin(-1), t.n)
    value = torch.where(first, value, 0).round().clamp(-like.limit, like.limit).to(torch.int64)
    return torch.where(first, value, t.n), t.holes & ~first


def _line(t: _Tiles) -> Tensor:
    wrong = t.n.sum(-1, keepdim=True) != 0
    return torch.where(wrong & t.mask, t.n - t.n.sum(-2, keepdim=True), t.n)


def _pair(t: _Tiles, like: Likelihood) -> tuple[Tensor, Tensor]:
    """Take e off one cell of a row and add it to another, where e is the sum of the worst column."""
    column = t.n.sum(-2)
    worst = column.abs().argmax(-1)
    error = column.gather(1, worst[:, None])[..., None]
    now = like.cost(t.n, t.received, t.erased)
    less = like.cost(t.n - error, t.received, t.erased) - now
    more = like.cost(t.n + error, t.received, t.erased) - now
    at = worst[:, None, None].expand(-1, t.n.shape[1], 1)
    score = AGREEMENT * (column[:, None, :] == -error) - less.gather(2, at) - more
    score = score.masked_fill(~t.mask | (column == 0)[:, None, :], -torch.inf).scatter(2, at, -torch.inf)
    best, where = score.flatten(1).max(-1)
    to = _one_hot(where, t.n)
    source = to.any(-1, keepdim=True) & (torch.arange(t.n.shape[2], device=t.n.device) == worst[:, None, None])
    return t.n + error * to - error * source, best > -torch.inf


def _single(t: _Tiles, like: Likelihood) -> tuple[Tensor, Tensor]:
    row, column = (t.n.sum(axis, keepdim=True) for axis in (-1, -2))
    now = like.cost(t.n, t.received, t.erased)
    crossing = t.mask & (row != 0) & (column != 0)
    scores = [
        (now - like.cost(t.n - error, t.received, t.erased) + AGREEMENT * (row == column)).masked_fill(
            ~crossing, -torch.inf
        )
        for error in (row, column)
    ]
    by_row = scores[0] >= scores[1]
    best, where = torch.maximum(*scores).flatten(1).max(-1)
    return t.n - torch.where(by_row, row, column) * _one_hot(where, t.n), best > -torch.inf


def _one_hot(where: Tensor, like: Tensor) -> Tensor:
    return (torch.arange(prod(like.shape[1:]), device=like.device) == where[:, None]).reshape(like.shape)


def _line_fits(t: _Tiles, like: Likelihood) -> Bool[Tensor, " K"]:
    return (_line(t).abs() <= like.limit).flatten(1).all(-1)


def _rule(t: _Tiles, like: Likelihood) -> Int64[Tensor, " K"]:
    """Which rule moves each tile next; later lines overrule earlier ones."""
    rows, columns = ((t.n.sum(axis) != 0).sum(-1) for axis in (-1, -2))
    rule = torch.full_like(rows, Rule.SINGLE)
    rule[columns == 0] = Rule.PAIR_COLUMN
    rule[rows == 0] = Rule.PAIR_ROW
    rule[(columns == 1) & _line_fits(t.turned(), like)] = Rule.LINE_COLUMN
    rule[(rows == 1) & _line_fits(t, like)] = Rule.LINE_ROW
    rule[(rows == 0) & (columns == 0)] = Rule.DONE
    rule[t.holes.flatten(1).any(-1)] = Rule.GUESS
    rule[(t.holes.sum(-1) == 1).any(-1) | (t.holes.sum(-2) == 1).any(-1)] = Rule.FILL
    return rule


def _step(t: _Tiles, like: Likelihood) -> Int64[Tensor, " K"]:
    """Make one move in every tile, in place; returns the rule that each used."""
    rule = _rule(t, like)
    for kind in range(Rule.FILL, Rule.STUCK):
        chosen = (rule == kind).nonzero().squeeze(1)
        if not len(chosen):
            continue
        turn = kind in (Rule.LINE_COLUMN, Rule.PAIR_COLUMN)
        tiles = t[chosen].turned() if turn else t[chosen]
        if kind in (Rule.FILL, Rule.GUESS):
            n, t.holes[chosen] = (_fill if kind == Rule.FILL else _guess)(tiles, like)
        elif kind in (Rule.LINE_ROW, Rule.LINE_COLUMN):
            n = _line(tiles)
        else:
            n, found = (_single if kind == Rule.SINGLE else _pair)(tiles, like)
            n = torch.where(found[:, None, None], n, tiles.n)
            rule[chosen[~found]] = Rule.STUCK
        t.n[chosen] = n.mT if turn else n
    return rule


def _decode_tiles(t: _Tiles, like: Likelihood) -> tuple[Tensor, Tensor]:
    """The tiles decoded, and which of them are certain: all sums zero, in range, without a guess.

    A tile in which more than half as many cells are erased as there are independent sums is left alone: beyond that
    the moves do more harm than good.
    """
    height, width = t.mask.any(-1).sum(-1), t.mask.any(-2).sum(-1)
    todo = (2 * t.erased.flatten(1).sum(-1) < height + width).nonzero().squeeze(1)
    n, certain = t.n.clone(), torch.zeros(len(t.n), dtype=torch.bool, device=t.n.device)
    tiles, guessed = t[todo], torch.zeros_like(todo, dtype=torch.bool)
    for _ in range(8 * max(t.n.shape[1:])):
        if not len(todo):
            break
        rule = _step(tiles, like)
        guessed |= rule == Rule.GUESS
        done, on = rule == Rule.DONE, (rule != Rule.DONE) & (rule != Rule.STUCK)
        n[todo[done]], certain[todo[done]] = tiles.n[done], ~guessed[done]
        todo, tiles, guessed = todo[on], tiles[on], guessed[on]
    return n, certain


def _decode_rows(t: _Tiles, like: Likelihood) -> tuple[Tensor, Tensor]:
    """The blocks decoded, and which of them are certain to be right or at least explained by one fault."""
    total, erasures = t.n.sum(-1, keepdim=True), t.erased.sum(-1, keepdim=True)
    # Erasures share what is missing equally: one is restored exactly, more get their least-norm values.
    share = (-total).div(erasures.clamp(min=1), rounding_mode="floor")
    extra = (t.erased.cumsum(-1) <= -total - share * erasures).to(torch.int64)
    filled = torch.where(t.erased, share + extra, t.n)
    # Without erasures one cell is to blame: the one for which the value that mends the sum is likeliest.
    gain = like.cost(t.n, t.received, t.erased) - like.cost(t.n - total, t.received, t.erased)
    best, where = gain.masked_fill(~t.mask, -torch.inf).max(-1)
    explained = best[:, None] > -torch.inf
    mended = torch.where(explained, t.n - total * _one_hot(where, t.n), 0)
    n = torch.where(erasures > 0, filled, mended)
    certain = torch.where(erasures > 0, (erasures == 1) & (total.abs() <= like.limit), explained)
    return n.clamp(-like.limit, like.limit), certain.squeeze(-1)


def _flagged(n: Tensor, erased: Tensor, blocks: Blocks) -> Bool[Tensor, " N"]:
    wrong = erased.flatten(1).any(-1)
    for axis in blocks.axes:
        wrong = wrong | (n.sum(axis) != 0).reshape(len(n), -1).any(-1)
    return wrong


def _typical_size(n: Tensor, erased: Tensor) -> float:
    """A standard deviation that faults hardly move: the median of |n|, scaled as for a normal distribution."""
    sound = n[~erased].abs().to(torch.float32)
    return max(1.0, 1.4826 * sound.median().item()) if len(sound) else 1.0


def _likelihood(fmt: str, unit: float, limit: int, sigma: float, ber: float) -> Likelihood:
    form = format_of(fmt)
    most = form.qmax if form.kind == "int" else 2**form.precision
    if not 0 < ber < 0.5:
        raise ValueError(f"ber was {ber}; it must lie between 0 and 0.5")
    if not 0 <= limit <= most:
        raise ValueError(f"limit was {limit}; it must be from 0 to {most}, the largest integer that {fmt} holds")
    return Likelihood(fmt, unit, limit, sigma, log((1 - ber) / ber))


def recover(
    codes: Int64[Tensor, "*any"],
    layout: str,
    block: int,
    fmt: str,
    unit: float,
    limit: int,
    shape: tuple[int, ...],
    ber: float = 1e-3,
) -> tuple[Int64[Tensor, "*any"], RecoveryReport]:
    """Undo the faults in the stored codes of a zero-sum weight of `shape`, as far as its block sums allow.

    `codes` are bit patterns; `unit` and `limit`, the largest |n| of the clean weight in units, are known safely; `ber`
    is the bit error rate to expect. Codes that cannot be right are erasures. A tile comes back exactly after a single
    faulty weight, up to 3 erasures, or any faults within one row or column that do not cancel there; rows come back
    exactly after one erasure. Where no explanation is found, the erasures become 0 and the rest stays (tile), or the
    block becomes 0 (rows). Our reconstruction of the zero-sum paper's recovery; run again after every round of
    faults, it is the scrubber.

    >>> n = torch.tensor([[3, -3], [-3, 3]])
    >>> codes = encode(n, 1.0, "int8").flatten()
    >>> codes[1] ^= 64  # one bit of one weight
    >>> mended, report = recover(codes, "tile", 2, "int8", 1.0, 3, (2, 2))
    >>> decode(mended, 1.0, "int8")[0].tolist(), report
    ([3, -3, -3, 3], RecoveryReport(blocks=1, flagged=1, corrected=1, uncorrectable=0))
    """
    if codes.numel() != prod(shape):
        raise ValueError(f"codes held {codes.numel()} entries; shape {tuple(shape)} asks for {prod(shape)}")
    if bool(((codes < 0) | (codes >> format_of(fmt).bits > 0)).any()):
        raise ValueError(f"codes ran from {codes.min()} to {codes.max()}; {fmt} codes have {format_of(fmt).bits} bits")
    blocks = blocks_of(shape, layout, block, codes.device)
    n, erased = decode(codes, unit, fmt, limit)
    like = _likelihood(fmt, unit, limit, _typical_size(n, erased), ber)
    # A copy, since blocks may be a view of the weight.
    cells, holes = blocks.gather(n).clone(), blocks.gather(erased)
    flagged = _flagged(cells, holes, blocks).nonzero().squeeze(1)
    if not len(flagged):
        return codes, RecoveryReport(len(cells), 0, 0, 0)
    received, mask, certain = blocks.gather(codes), blocks.mask, 0
    for chosen in flagged.split(BATCH):
        damaged = _Tiles(cells[chosen], holes[chosen], holes[chosen], received[chosen], mask[chosen])
        cells[chosen], sure = (_decode_rows if layout == "rows" else _decode_tiles)(damaged, like)
        certain += int(sure.sum())
    # A minus zero, which only a fault can make, becomes plus zero here without any block having shown it.
    mended = encode(blocks.scatter(cells).reshape(codes.shape), unit, fmt)
    return mended, RecoveryReport(len(mask), len(flagged), certain, len(flagged) - certain)


class TileStep(NamedTuple):
    """One move of the decoder in one tile: the tile after it, what was done, and the cells that it changed."""

    n: Int64[Tensor, "R C"]
    note: str
    cells: list[tuple[int, int]]


def tile_steps(
    n: Int64[Tensor, "R C"],
    erased: Bool[Tensor, "R C"],
    limit: int,
    sigma: float,
    fmt: str = "int8",
    unit: float = 1.0,
    ber: float = 1e-3,
) -> list[TileStep]:
    """The decoder's moves in a single tile, one after another; the last one says that it is done or stuck.

    `n` is the faulty tile in units, `erased` marks the cells known to be faulty, `sigma` the typical |n|.

    >>> n = torch.tensor([[3, -67], [-3, 3]])  # bit 6 of a -3 is flipped
    >>> [step.cells for step in tile_steps(n, n > 3, limit=127, sigma=3.0)]
    [[(0, 1)], []]
    """
    like = _likelihood(fmt, unit, limit, sigma, ber)
    n = torch.where(erased, 0, n)
    received = to_bits(n, unit, fmt)
    t = _Tiles(*(x[None].clone() for x in (n, erased, erased, received, torch.ones_like(erased))))
    steps: list[TileStep] = []
    for _ in range(8 * max(n.shape)):
        before, holes = t.n[0].clone(), t.holes[0].clone()
        rule = Rule(int(_step(t, like)))
        changed = ((t.n[0] != before) | (t.holes[0] != holes)).nonzero().tolist()
        steps.append(TileStep(t.n[0].clone(), NOTES[rule], [(row, column) for row, column in changed]))
        if rule in (Rule.DONE, Rule.STUCK):
            break
    return steps
