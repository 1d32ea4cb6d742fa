"""Weights as the memory holds them: bit patterns, and faults that flip their bits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from .constraint import residuals
from .formats import FORMATS, check_finite, encode, format_of, grid_unit, native, values
from .rounding import round_zero_sum


@dataclass(frozen=True, eq=False)
class Stored:
    """One weight tensor in memory: its bit patterns, and the few numbers about it that are assumed safe.

    Only `codes` and `check` can be faulty. Scale, limit and shape are well below one percent of the bits.

    >>> stored = store(torch.tensor([[2.0, -2.0], [-2.0, 2.0]]), "int8", layout="tile", block=2)
    >>> stored.n_data_bits, stored.nbytes, stored.values().sum().item()
    (32, 4, 0.0)
    """

    codes: Int64[Tensor, " weights"]  #: one unsigned bit pattern a weight, in [0, 2^code_bits)
    shape: tuple[int, ...]
    fmt: str
    unit: float | None  #: weight of one grid step; None for a plain float tensor, which lies on no grid
    limit: float  #: largest |weight| of the clean tensor, in units of the weight
    layout: str = "none"
    block: int = 0
    check: Int64[Tensor, " words"] = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    check_bits: int = 0  #: bits of one check word
    check_safe: bool = False  #: the check words lie where no fault and no attacker reaches them

    @property
    def code_bits(self) -> int:
        """Bits of one weight."""
        return FORMATS[self.fmt].bits

    @property
    def n_data_bits(self) -> int:
        return len(self.codes) * self.code_bits

    @property
    def n_check_bits(self) -> int:
        return len(self.check) * self.check_bits

    @property
    def n_bits(self) -> int:
        """All the bits it takes to store the tensor, check bits included."""
        return self.n_data_bits + self.n_check_bits

    @property
    def n_exposed_bits(self) -> int:
        """The bits that faults and attackers reach: positions 0 .. n_exposed_bits - 1 of `flip`."""
        return self.n_data_bits if self.check_safe else self.n_bits

    @property
    def nbytes(self) -> int:
        return -(-self.n_bits // 8)

    def values(self) -> Float[Tensor, "*shape"]:
        """The weights that a network would compute with, float32; a fault can make them huge, infinite or NaN."""
        return values(self.codes, self.fmt, 1.0 if self.unit is None else self.unit).reshape(self.shape)

    def with_codes(self, codes: Int64[Tensor, " weights"]) -> Stored:
        """The same memory holding other bit patterns.

        Raises:
            ValueError: another number of codes, or one outside [0, 2^code_bits).
        """
        if codes.shape != self.codes.shape:
            raise ValueError(f"codes had shape {tuple(codes.shape)}; it must be {tuple(self.codes.shape)}")
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < 1 << self.code_bits:
            raise ValueError(
                f"codes spanned {int(codes.min())} .. {int(codes.max())}; "
                f"it must lie in 0 .. {(1 << self.code_bits) - 1} for format {self.fmt!r}"
            )
        return replace(self, codes=codes)


def store(
    w: Float[Tensor, "*shape"],
    fmt: str,
    layout: str = "none",
    block: int = 0,
    n: Int64[Tensor, "*same"] | None = None,
    unit: float | None = None,
) -> Stored:
    """Put a weight tensor into memory.

    Without a layout, floats are cast to the format as they are (given a `unit`: rounded to that grid) and integer
    formats rounded and clamped. With one, the weights are rounded to the nearest zero-sum integers of the grid.

    Args:
        w: weights, any shape.
        fmt: a name in `FORMATS`.
        n: the integers to store, shaped like `w`, where they are known already; they must keep the layout's sums.
        unit: weight of one grid step; chosen by `grid_unit` when left out.

    Raises:
        ValueError: an unknown format or layout, weights that are not finite, `n` of another shape, out of range or not
            zero-sum, or a unit that is not a positive number.

    >>> store(torch.tensor([0.5, -1.0]), "fp16").codes.tolist() == [0x3800, 0xBC00]
    True
    """
    form, shape = format_of(fmt), tuple(w.shape)
    check_finite("w", w)
    if unit is not None and not 0 < unit < float("inf"):
        raise ValueError(f"unit was {unit}; it must be a positive finite number")
    if layout == "none" and form.kind == "float" and unit is None and n is None:
        codes = native(w, fmt).flatten()
        return _with_limit(Stored(codes, shape, fmt, None, 0.0, check=codes.new_empty(0)))
    if unit is None:
        unit = grid_unit(w, fmt)
    if n is None:
        n = round_zero_sum(w / unit, layout, block)
        if layout == "none" and form.kind == "int":
            n = n.clamp(-form.qmax, form.qmax)
    elif tuple(n.shape) != shape:
        raise ValueError(f"n had shape {tuple(n.shape)}; it must be that of w, {shape}")
    require_zero_sum(n, layout, block)
    codes = encode(n, unit, fmt).flatten()
    return _with_limit(Stored(codes, shape, fmt, unit, 0.0, layout, block, check=codes.new_empty(0)))


def _with_limit(stored: Stored) -> Stored:
    weights = stored.values()
    return replace(stored, limit=float(weights.abs().max()) if weights.numel() else 0.0)


def require_zero_sum(n: Int64[Tensor, "*shape"], layout: str, block: int) -> None:
    """Refuse integers whose blocks do not sum to zero as `layout` says (ValueError)."""
    if layout == "none":
        return
    sums = residuals(n, layout, block)
    broken = sum(int((part != 0).sum()) for part in (sums if isinstance(sums, tuple) else (sums,)))
    if broken:
        raise ValueError(f"{broken} sums of layout {layout!r}, block {block}, were not zero; all of them must be")


def flip(stored: Stored, positions: Int64[Tensor, " flips"]) -> Stored:
    """Flip bits: bit k of weight i is at i * code_bits + k; the check words follow, bit k of word j likewise.

    Flipping a bit twice leaves it as it was.

    Raises:
        ValueError: a position outside 0 .. n_exposed_bits - 1.

    >>> stored = store(torch.zeros(2), "int8", unit=1.0)
    >>> flip(stored, torch.tensor([7])).values().tolist()  # the sign bit of the first weight counts -128
    [-128.0, 0.0]
    """
    positions = positions.to(stored.codes.device)
    if len(positions) == 0:
        return stored
    if not 0 <= int(positions.min()) <= int(positions.max()) < stored.n_exposed_bits:
        raise ValueError(
            f"positions spanned {int(positions.min())} .. {int(positions.max())}; "
            f"it must lie in 0 .. {stored.n_exposed_bits - 1}"
        )
    positions, times = positions.unique(return_counts=True)
    return _flip_distinct(stored, positions[times % 2 == 1])


def _flip_distinct(stored: Stored, positions: Tensor) -> Stored:
    data = positions < stored.n_data_bits
    codes = _toggle(stored.codes, positions[data], stored.code_bits)
    check = _toggle(stored.check, positions[~data] - stored.n_data_bits, stored.check_bits)
    return replace(stored, codes=codes, check=check)


def _toggle(words: Tensor, positions: Tensor, width: int) -> Tensor:
    if len(positions) == 0:
        return words
    struck, which = (positions // width).unique(return_inverse=True)
    # Distinct bits of one word add up to its mask.
    masks = torch.zeros_like(struck).index_add_(0, which, 1 << positions % width)
    words = words.clone()
    words[struck] ^= masks
    return words


def flip_random(stored: Stored, ber: float, seed: int, where: str = "all") -> Stored:
    """Flip every exposed bit with probability `ber` (bit error rate), independently.

    Data and check bits draw from generators of their own: for one seed, all defences of one tensor meet the same data
    faults, however many check bits they add. The faults are drawn on the CPU, so they are the same on every device.

    Raises:
        ValueError: `ber` outside [0, 1], a negative seed, or an unknown `where`.

    >>> stored = store(torch.zeros(1000), "int8", unit=1.0)
    >>> faulty = flip_random(stored, 0.5, seed=0)
    >>> 3700 < sum(int(code).bit_count() for code in faulty.codes) < 4300
    True
    """
    if not 0.0 <= ber <= 1.0:
        raise ValueError(f"ber was {ber}; it must lie in [0, 1]")
    if seed < 0:
        raise ValueError(f"seed was {seed}; it must be at least 0")
    if where not in ("all", "data", "check"):
        raise ValueError(f"where was {where!r}; it must be 'all', 'data' or 'check'")
    data = stored.n_data_bits if where != "check" else 0
    check = stored.n_check_bits if where != "data" and not stored.check_safe else 0
    faults = (_faults(data, ber, seed, stream=0), _faults(check, ber, seed, stream=1) + stored.n_data_bits)
    return _flip_distinct(stored, torch.from_numpy(np.concatenate(faults)).to(stored.codes.device))


def _faults(bits: int, ber: float, seed: int, stream: int) -> np.ndarray:
    """Positions in 0 .. bits - 1, each in with probability `ber`, ascending.

    The gaps between faults of independent bits are geometric, so only the faults are drawn and not every bit.
    """
    if ber == 0.0 or bits == 0:
        return np.empty(0, dtype=np.int64)
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, stream])))
    draws = int(bits * ber + 4 * (bits * ber) ** 0.5) + 16
    chunks, last = [], -1
    while last < bits:
        gaps = np.minimum(generator.geometric(ber, draws), bits + 1)  # the cut keeps the sum far from overflow
        chunks.append(last + np.cumsum(gaps))
        last = int(chunks[-1][-1])
    positions = np.concatenate(chunks)
    return positions[positions < bits]
