"""Number formats as bit patterns: an integer weight n, its stored code, and which codes cannot be right."""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp
from typing import Literal

import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor


@dataclass(frozen=True)
class Format:
    """A number format of `bits` bits: a float with `precision` significant bits, or an integer up to `qmax`."""

    name: str
    bits: int
    kind: Literal["float", "int"]
    precision: int = 0
    qmax: int = 0
    dtype: torch.dtype | None = None
    pattern: torch.dtype | None = None


FORMATS = {
    fmt.name: fmt
    for fmt in (
        Format("fp32", 32, "float", precision=24, dtype=torch.float32, pattern=torch.int32),
        Format("fp16", 16, "float", precision=11, dtype=torch.float16, pattern=torch.int16),
        Format("bf16", 16, "float", precision=8, dtype=torch.bfloat16, pattern=torch.int16),
        Format("fp8", 8, "float", precision=4, dtype=torch.float8_e4m3fn, pattern=torch.uint8),
        Format("int8", 8, "int", qmax=127),
        Format("int4", 4, "int", qmax=7),
    )
}


def format_of(fmt: str) -> Format:
    """The format of that name; ValueError listing the known ones."""
    if fmt not in FORMATS:
        raise ValueError(f"fmt was {fmt!r}; it must be one of {tuple(FORMATS)}")
    return FORMATS[fmt]


def check_finite(name: str, x: Tensor) -> None:
    """ValueError if `x` holds NaN or infinity (a tensor without data, on the meta device, passes)."""
    if not x.is_meta and not bool(torch.isfinite(x).all()):
        raise ValueError(f"{name} held NaN or infinity; every entry must be finite")


def grid_unit(w: Float[Tensor, "*shape"], fmt: str, precision: int | None = None) -> float:
    """The unit u so that w / u, rounded to a zero-sum integer, fits the format exactly.

    Integers: max|w| / (qmax - 1); floats of p significant bits: the power of two with max|w| <= (2^p - 2) u. Either
    way one step is left for the rounding, which moves an entry by less than 2. `precision` < p makes a coarser grid,
    on which more bit flips fall off the grid. A weight of zeros has unit 1.

    >>> grid_unit(torch.tensor([0.5, -1.5]), "int8"), grid_unit(torch.tensor([0.5, -1.5]), "fp16")
    (0.011904761904761904, 0.0009765625)
    """
    form = format_of(fmt)
    check_finite("w", w)
    largest = w.abs().max().item() if w.numel() else 0.0
    if form.kind == "int":
        if precision is not None:
            raise ValueError(f"precision was {precision}; it must be None for {fmt}, whose grid is the integers")
        return largest / (form.qmax - 1) or 1.0
    bits = form.precision if precision is None else precision
    if not 2 <= bits <= form.precision:
        raise ValueError(f"precision was {precision}; it must be from 2 to {form.precision} for {fmt}")
    mantissa, exponent = frexp(largest / (2**bits - 2))
    assert form.dtype is not None
    # No finer than the format's own smallest step.
    finest = torch.finfo(form.dtype).smallest_normal * 2.0 ** (1 - form.precision)
    return max(2.0 ** (exponent - (mantissa == 0.5)), finest) if largest else 1.0


def to_bits(n: Int64[Tensor, "*shape"], unit: float, fmt: str) -> Int64[Tensor, "*shape"]:
    """The codes of `n` without `encode`'s check that the format holds them."""
    form = format_of(fmt)
    if form.kind == "int":
        return n & (2**form.bits - 1)
    return native(n.to(torch.float32) * unit, fmt, check=False)


def encode(n: Int64[Tensor, "*shape"], unit: float, fmt: str) -> Int64[Tensor, "*shape"]:
    """The codes, bit patterns from 0 to 2^bits - 1, in which the format stores n * unit. ValueError if it cannot.

    >>> encode(torch.tensor([1, -1]), 0.01, "int8").tolist(), encode(torch.tensor([1, -1]), 1.0, "fp16").tolist()
    ([1, 255], [15360, 48128])
    """
    codes = to_bits(n, unit, fmt)
    if not n.is_meta:
        form = format_of(fmt)
        if form.kind == "int":
            held = bool((n.abs() <= form.qmax).all())
        else:
            back, lost = decode(codes, unit, fmt)
            held = torch.equal(back, n) and not bool(lost.any())
        if not held:
            raise ValueError(f"n reached {int(n.abs().max())} units of {unit:g}; {fmt} must hold n * unit exactly")
    return codes


def decode(
    codes: Int64[Tensor, "*shape"], unit: float, fmt: str, limit: int | None = None
) -> tuple[Int64[Tensor, "*shape"], Bool[Tensor, "*shape"]]:
    """The integers n behind the codes, and which codes are certainly faulty (*erased*; their n is 0).

    Erased: NaN, infinity, no multiple of `unit`, or |n| > `limit` (in units; by default whatever the format holds).

    >>> n, erased = decode(torch.tensor([15360, 31744, 14336]), 1.0, "fp16")  # 1, infinity and 0.5
    >>> n.tolist(), erased.tolist()
    ([1, 0, 0], [False, True, True])
    """
    form = format_of(fmt)
    if form.kind == "int":
        n = _signed(codes, form.bits)
        limit = 2 ** (form.bits - 1) if limit is None else limit
        erased = n.abs() > limit
    else:
        # float32 holds every format's values exactly, and division by a power of two loses nothing.
        x = values(codes, fmt) / unit
        whole = x.round()
        erased = ~((x == whole) & (whole.abs() <= (2**24 if limit is None else limit)))
        n = torch.where(erased, torch.zeros_like(whole), whole).to(torch.int64)
    return torch.where(erased, torch.zeros_like(n), n), erased


def values(codes: Int64[Tensor, "*shape"], fmt: str, unit: float = 1.0) -> Float32[Tensor, "*shape"]:
    """What a network computes with: the codes as float32, NaN and infinity included; integers times `unit`.

    >>> values(torch.tensor([127, 255]), "int8", 0.5).tolist(), values(torch.tensor([15360]), "fp16").tolist()
    ([63.5, -0.5], [1.0])
    """
    form = format_of(fmt)
    if form.kind == "int":
        return _signed(codes, form.bits).to(torch.float32) * unit
    assert form.dtype is not None and form.pattern is not None
    pattern = codes if form.pattern is torch.uint8 else _signed(codes, form.bits)
    return pattern.to(form.pattern).view(form.dtype).to(torch.float32)


def native(w: Float[Tensor, "*shape"], fmt: str, check: bool = True) -> Int64[Tensor, "*shape"]:
    """The codes of a plain tensor cast to a float format, with no grid. ValueError for integers or overflow.

    >>> native(torch.tensor([1.0, -2.0]), "bf16").tolist()
    [16256, 49152]
    """
    form = format_of(fmt)
    if form.kind == "int":
        raise ValueError(f"fmt was {fmt!r}; native needs a float format, integers need a unit: use encode")
    assert form.dtype is not None and form.pattern is not None
    cast = w.to(form.dtype)
    if check:
        check_finite("w", w)
        check_finite(f"w as {fmt}", cast.to(torch.float32))
    return cast.view(form.pattern).to(torch.int64) & (2**form.bits - 1)


def _signed(codes: Tensor, bits: int) -> Tensor:
    sign = 1 << (bits - 1)
    return (codes ^ sign) - sign
