"""What an attacker may flip in one move: candidates ranked by first-order gain, one function a kind of move.

Every function looks at one stored tensor through a `View` and returns `Candidates`: sets of bit positions (as in
`memory.flip`: data bits first, then check bits) with the loss that the attacker hopes to gain. `single` is the
bit-flip attack of Rakin, He and Fan (2019). The others know the defence [reconstructed: the paper announces adaptive
attacks on its own recovery and on error-correcting codes; these are ours]:

=============  ==========================  ======  =======================================================
move           against                     flips   why the defence does not undo it
=============  ==========================  ======  =======================================================
`pair`         block sums, RADAR           2       same bit, opposite directions: the sum stays
`confuse`      block sums                  1       the most plausible culprit is another weight
`rect`         tiles                       4       rows and columns both stay at zero
`ambiguous`    tiles                       2       the mirrored rectangle corner explains the residuals better
`double`       SECDED                      2       two errors in a word are seen, not corrected
`checkbits`    SECDED                      3       the decoder itself flips the data bit these check bits name
`triple`       SECDED                      3       the decoder completes a codeword of weight four
=============  ==========================  ======  =======================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from .constraint import blocks_of
from .defences import Defence, Radar
from .ecc import SECDED
from .formats import values
from .memory import Stored, flip

IMPOSSIBLE = -torch.inf


@dataclass(frozen=True)
class View:
    """What the attacker knows of one tensor: its memory, the defence, and the gain of flipping each data bit.

    `gain` and `bit` have shape (weights, bits); a bit that may not be flipped (again) has gain -inf. `used` tells for
    every exposed bit, check bits included, whether it was flipped before. `gradient` (weights,) is the slope of the
    attacker's loss in the weights that the network computes with.
    """

    stored: Stored
    gain: Tensor
    bit: Tensor
    used: Tensor
    gradient: Tensor
    defence: Defence | None


@dataclass(frozen=True)
class Candidates:
    """`positions` (candidates, flips a move) of bits, best first, and the `gain` (candidates,) hoped for."""

    positions: Tensor
    gain: Tensor

    def best(self, count: int) -> Candidates:
        gain, order = self.gain.topk(min(count, len(self.gain)))
        possible = torch.isfinite(gain)
        return Candidates(self.positions[order[possible]], gain[possible])


def view(stored: Stored, gradient: Tensor, used: Tensor, defence: Defence | None) -> View:
    """Tabulate the first-order gain gradient * (change of the weight) of every data bit that is not yet `used`.

    Args:
        gradient: (weights,) slope of the loss.
        used: (exposed bits,) true where a bit was flipped before.
    """
    powers = 1 << torch.arange(stored.code_bits, device=stored.codes.device)
    unit = 1.0 if stored.unit is None else stored.unit
    flipped = values(stored.codes[:, None] ^ powers, stored.fmt, unit)
    change = flipped - values(stored.codes, stored.fmt, unit)[:, None]
    # A float that turns infinite has an infinite gain; the largest finite number keeps the order and the sums.
    gain = torch.nan_to_num(gradient[:, None] * change, nan=0.0, posinf=1e30, neginf=-1e30)
    gain = gain.masked_fill(used[: stored.n_data_bits].view_as(gain), IMPOSSIBLE)
    return View(stored, gain, (stored.codes[:, None] & powers) != 0, used, gradient, defence)


def single(seen: View, count: int) -> Candidates:
    """One data bit."""
    gain, position = seen.gain.flatten().topk(min(count, seen.gain.numel()))
    return Candidates(position[:, None], gain).best(count)


def _groups(seen: View) -> tuple[Tensor, Tensor]:
    """(groups, size) indices of the weights that share one sum, and which of them are real."""
    if isinstance(seen.defence, Radar):
        return seen.defence.groups(len(seen.stored.codes), seen.stored.codes.device)
    blocks = blocks_of(seen.stored.shape, seen.stored.layout, seen.stored.block, seen.stored.codes.device)
    return blocks.index.flatten(1), blocks.mask.flatten(1)


def pair(seen: View, count: int) -> Candidates:
    """Two weights of one group, same bit, one up and one down: the group's sum does not change."""
    index, real = _groups(seen)
    gain = seen.gain[index].masked_fill(~real[..., None], IMPOSSIBLE)
    bit = seen.bit[index]
    up, who_up = gain.masked_fill(bit, IMPOSSIBLE).max(1)
    down, who_down = gain.masked_fill(~bit, IMPOSSIBLE).max(1)
    best, order = (up + down).flatten().topk(min(count, up.numel()))
    bits = up.shape[1]
    group, plane = order // bits, order % bits
    weights = torch.stack([index[group, who.flatten()[order]] for who in (who_up, who_down)], 1)
    return Candidates(weights * bits + plane[:, None], best).best(count)


def rect(seen: View, count: int) -> Candidates:
    """The four corners of a rectangle in one tile, same bit, signs + - - +: every row and column sum stays.

    For rows i and k the corners split in two columns: up in (i, j) and down in (k, j), down in (i, l) and up in (k, l).
    A column that serves the first kind cannot serve the second, so the two maxima never meet in one column.
    """
    index, gain, bit = _tiles(seen)
    up, down = gain.masked_fill(bit, IMPOSSIBLE), gain.masked_fill(~bit, IMPOSSIBLE)  # (tiles, bits, b, b)
    first, j = (up[:, :, :, None, :] + down[:, :, None, :, :]).max(-1)  # (tiles, bits, rows i, rows k)
    second, col = (down[:, :, :, None, :] + up[:, :, None, :, :]).max(-1)
    best, order = (first + second).flatten().topk(min(count, first.numel()))
    tile, plane, i, k = torch.unravel_index(order, first.shape)
    j, col = j.flatten()[order], col.flatten()[order]
    weights = torch.stack([index[tile, i, j], index[tile, k, j], index[tile, i, col], index[tile, k, col]], 1)
    return Candidates(weights * gain.shape[1] + plane[:, None], best).best(count)


def _tiles(seen: View) -> tuple[Tensor, Tensor, Tensor]:
    """Index (tiles, b, b), gain (tiles, bits, b, b) and bit states of the same shape."""
    blocks = blocks_of(seen.stored.shape, seen.stored.layout, seen.stored.block, seen.stored.codes.device)
    gain = seen.gain[blocks.index].masked_fill(~blocks.mask[..., None], IMPOSSIBLE)
    return blocks.index, gain.movedim(-1, 1), seen.bit[blocks.index].movedim(-1, 1)


def ambiguous(seen: View, count: int, shortlist: int = 48, searched: int = 1024) -> Candidates:
    """Two equal errors e at (i, j) and (k, l) of a tile that the decoder takes for errors at (i, l) and (k, j).

    It then leaves e in the first two weights and takes e from the other two: four wrong weights for two flips. That
    needs mirrored corners whose bits look as if they had just been flipped, and of which one is, in the direction of e,
    larger than both weights that were hit. Ranked by the sum of the four first-order gains, then by the gain that is
    left once the decoder has had its say.
    """
    index, gain, bit = _tiles(seen)
    n = values(seen.stored.codes, seen.stored.fmt)[index][:, None]  # (tiles, 1, b, b)
    limit = seen.stored.limit / (1.0 if seen.stored.unit is None else seen.stored.unit)
    found = []
    for falls in (False, True):  # bits that are clear and rise, then bits that are set and fall
        step = _steps(gain.shape[1], falls, index.device)[:, None, None]
        worth = seen.gradient[index][:, None] * step * (seen.stored.unit or 1.0)
        height = step.sign() * n  # what the decoder likes to take back
        free = (bit == falls) & torch.isfinite(gain) & ((n + step).abs() <= limit)
        explains = bit != falls
        # Column j of rows i and k: (i, j) is hit and (k, j) mirrors. The best j and l, each for itself, bound the sum.
        first = (worth[:, :, :, None, :] - worth[:, :, None, :, :]).masked_fill(
            ~(free[:, :, :, None, :] & explains[:, :, None, :, :]), IMPOSSIBLE
        )
        bound = first.amax(-1) + first.amax(-1).transpose(-1, -2)
        order = bound.flatten().topk(min(searched, bound.numel())).indices
        tile, plane, i, k = torch.unravel_index(order, bound.shape)
        total = first[tile, plane, i, k][:, :, None] + first[tile, plane, k, i][:, None, :]  # (pairs, j, l)
        hit, mirror = height + step.abs(), height.expand_as(gain)
        highest_hit = torch.maximum(hit[tile, plane, i][:, :, None], hit[tile, plane, k][:, None, :])
        highest_mirror = torch.maximum(mirror[tile, plane, k][:, :, None], mirror[tile, plane, i][:, None, :])
        total = total.masked_fill(highest_mirror <= highest_hit, IMPOSSIBLE)
        hope, best = total.flatten().topk(min(shortlist, total.numel()))
        pair, j, col = torch.unravel_index(best, total.shape)
        weights = torch.stack([index[tile[pair], i[pair], j], index[tile[pair], k[pair], col]], 1)
        found.append(Candidates(weights * gain.shape[1] + plane[pair][:, None], hope))
    hopes = Candidates(torch.cat([c.positions for c in found]), torch.cat([c.gain for c in found])).best(shortlist)
    return _after_recovery(seen, hopes).best(count)


def _steps(bits: int, falls: bool, device: torch.device) -> Tensor:
    """What flipping each bit of an integer adds to it, if the bit is clear (or set, where it `falls`)."""
    steps = 2.0 ** torch.arange(bits, device=device)
    steps[-1] = -steps[-1]  # two's complement: the top bit counts negative
    return -steps if falls else steps


def confuse(seen: View, count: int, tries: int = 2) -> Candidates:
    """One flip whose block the decoder repairs in the wrong place (two wrong weights), or one that it cannot place."""
    index, real = _groups(seen)
    gain = seen.gain[index].masked_fill(~real[..., None], IMPOSSIBLE).flatten(1)
    bits = seen.gain.shape[1]
    hope, order = gain.topk(min(tries, gain.shape[1]), 1)
    positions = torch.gather(index, 1, order // bits) * bits + order % bits
    hopes = Candidates(positions.reshape(-1, 1), hope.flatten()).best(hope.numel())
    return _after_recovery(seen, hopes).best(count)


def _after_recovery(seen: View, hopes: Candidates, a_block: int = 2) -> Candidates:
    """The first-order gain that each candidate keeps when the decoder has worked on it; the best `a_block` of a block.

    Blocks are decoded one by one, so one call judges a candidate in each of many blocks at once. At most a quarter of
    the blocks is touched in a call, so that the decoder's view of the tensor as a whole hardly changes.
    """
    if seen.defence is None or len(hopes.gain) == 0:
        return hopes
    groups, real = _groups(seen)
    owner = torch.empty(len(seen.stored.codes), dtype=torch.long, device=groups.device)
    owner[groups[real]] = torch.arange(len(groups), device=groups.device)[:, None].expand_as(groups)[real]
    block = owner[hopes.positions[:, 0] // seen.stored.code_bits]
    # Candidates come best first, so the rank within a block is the place in a stable sort by block.
    order = torch.argsort(block, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - torch.searchsorted(block[order], block[order])
    before = seen.defence.recover(seen.stored)[0].values().flatten()
    kept = torch.full_like(hopes.gain, IMPOSSIBLE)
    for level in range(min(a_block, int(rank.max()) + 1)):
        for part in (rank == level).nonzero().flatten().split(max(1, len(groups) // 4)):
            hit = flip(seen.stored, hopes.positions[part].flatten())
            after = seen.defence.recover(hit)[0].values().flatten()
            left = torch.nan_to_num(seen.gradient * (after - before))
            per_block = torch.zeros(len(groups), dtype=left.dtype, device=left.device).index_add_(0, owner, left)
            kept[part] = per_block[block[part]].to(kept.dtype)
    return Candidates(hopes.positions, kept)


def _words(seen: View, fresh: bool = False) -> Tensor:
    """Gain (words, 64) of the data bits, 64 consecutive ones a word; the tail that no word fills is left out.

    `fresh` rules out words of which any bit was flipped before: the decoder can be made to complete one pattern of
    errors in a word, and a second pattern there would only turn both into a double error.
    """
    flat = seen.gain.flatten()
    words = len(flat) // 64
    gain = flat[: words * 64].view(-1, 64)
    if fresh:
        data, check = seen.used[: seen.stored.n_data_bits], seen.used[seen.stored.n_data_bits :]
        touched = data[: words * 64].view(-1, 64).any(1) | check.view(-1, 8)[:words].any(1)
        gain = gain.masked_fill(touched[:, None], IMPOSSIBLE)
    return gain


def double(seen: View, count: int) -> Candidates:
    """The two most harmful data bits of one 64-bit word: SECDED reports the word and leaves it."""
    gain, bit = _words(seen).topk(2, 1)
    best, word = gain.sum(1).topk(min(count, len(gain)))
    return Candidates(word[:, None] * 64 + bit[word], best).best(count)


def checkbits(seen: View, count: int) -> Candidates:
    """Three check bits that name one data bit: SECDED flips that bit itself. No data bit is touched by the attacker."""
    three = _weight(SECDED.columns(seen.stored.codes.device)[:64]) == 3
    gain = _words(seen, fresh=True).masked_fill(~three, IMPOSSIBLE)
    best, position = gain.flatten().topk(min(count, int(torch.isfinite(gain).sum())))
    return Candidates(SECDED.aliases(seen.stored, position), best)


def triple(seen: View, count: int, words: int = 24) -> Candidates:
    """Three of the four data bits of a codeword of weight four: SECDED completes it, and sees nothing wrong."""
    four = _weight_four().to(seen.gain.device)  # (codewords, 4)
    gain = _words(seen, fresh=True)
    # no set of four bits of a word is worth more than its best four: only the most promising words are searched
    word = gain.topk(4, 1).values.sum(1).topk(min(words, len(gain))).indices
    total = gain[word][:, four].sum(-1)  # (words, codewords)
    best, order = total.flatten().topk(min(count, total.numel()))
    bits = four[order % len(four)]
    return Candidates(word[order // len(four)][:, None] * 64 + bits[:, :3], best).best(count)


def _weight(integers: Tensor) -> Tensor:
    return ((integers[:, None] >> torch.arange(8, device=integers.device)) & 1).sum(1)


@lru_cache(maxsize=1)
def _weight_four() -> Tensor:
    """Every set of four data columns of SECDED's H that adds up to zero over GF(2), as (sets, 4) indices."""
    columns = SECDED.columns()[:64]
    a, b, c, d = (side.flatten() for side in torch.meshgrid(*[torch.arange(64, dtype=torch.uint8)] * 4, indexing="ij"))
    ordered = ((a < b) & (b < c) & (c < d)).nonzero().flatten()
    sets = torch.stack([side[ordered] for side in (a, b, c, d)], 1).long()
    parts = columns[sets]
    return sets[(parts[:, 0] ^ parts[:, 1] ^ parts[:, 2] ^ parts[:, 3]) == 0]


MOVES: dict[str, Callable[[View, int], Candidates]] = {
    move.__name__: move for move in (single, pair, confuse, rect, ambiguous, double, checkbits, triple)
}
