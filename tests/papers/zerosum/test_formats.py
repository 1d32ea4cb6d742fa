from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

from nips26lib.papers.zerosum.constraint import project
from nips26lib.papers.zerosum.formats import FORMATS, decode, encode, grid_unit, native, values
from nips26lib.papers.zerosum.rounding import round_zero_sum

FLOATS = [name for name, fmt in FORMATS.items() if fmt.kind == "float"]


def grid(fmt: str, scale: float = 0.1, precision: int | None = None, seed: int = 0) -> tuple[torch.Tensor, float]:
    w = scale * torch.randn(32, 32, generator=torch.Generator().manual_seed(seed))
    w = project(w, "tile", 8)
    unit = grid_unit(w, fmt, precision)
    return round_zero_sum(w / unit, "tile", 8), unit


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("scale", [1e-2, 1.0, 30.0])
def test_a_zero_sum_weight_survives_the_round_trip_bit_by_bit(fmt: str, scale: float) -> None:
    n, unit = grid(fmt, scale)
    codes = encode(n, unit, fmt)
    assert codes.min() >= 0 and codes.max() < 2 ** FORMATS[fmt].bits
    back, erased = decode(codes, unit, fmt)
    assert torch.equal(back, n) and not erased.any()
    assert torch.equal(encode(back, unit, fmt), codes)


@pytest.mark.parametrize("fmt", FLOATS)
def test_the_stored_floats_sum_to_exactly_zero(fmt: str) -> None:
    n, unit = grid(fmt)
    stored = values(encode(n, unit, fmt), fmt).double().reshape(4, 8, 4, 8)
    assert stored.abs().max() > 0
    assert (stored.sum(3) == 0).all() and (stored.sum(1) == 0).all()


@pytest.mark.parametrize("fmt", FLOATS)
def test_flipping_the_top_exponent_bit_of_any_weight_is_seen(fmt: str) -> None:
    n, unit = grid(fmt)
    assert (n * unit).abs().max() < 2  # so that this bit is 0 in every weight
    codes = encode(n, unit, fmt) ^ (1 << (FORMATS[fmt].bits - 2))
    mended, erased = decode(codes, unit, fmt, limit=int(n.abs().max()))
    assert erased.all() and not mended.any()


@pytest.mark.parametrize("fmt", FORMATS)
def test_the_grid_leaves_room_for_the_rounding_and_wastes_less_than_a_bit(fmt: str) -> None:
    form = FORMATS[fmt]
    most = form.qmax - 1 if form.kind == "int" else 2**form.precision - 2
    for seed in range(20):
        w = torch.randn(16, 16, generator=torch.Generator().manual_seed(seed))
        steps = w.abs().max().item() / grid_unit(w, fmt)
        assert most / 2 - 1e-4 < steps < most + 1e-4
    exact = torch.tensor([0.5 * most])  # exactly as large as the grid of unit 0.5 allows
    assert grid_unit(exact, fmt) == 0.5


def test_a_coarser_grid_puts_more_faulty_codes_off_the_grid() -> None:
    erasures = []
    for precision in (11, 8, 5):
        n, unit = grid("fp16", precision=precision)
        codes = encode(n, unit, "fp16")
        flips = [decode(codes ^ (1 << bit), unit, "fp16", int(n.abs().max()))[1].sum().item() for bit in range(16)]
        erasures.append(sum(flips))
    assert erasures[0] < erasures[1] < erasures[2]


def test_patterns_agree_with_struct_and_with_known_codes() -> None:
    for x in (1.0, -2.5, 0.15625):
        (fp32,) = struct.unpack("<I", struct.pack("<f", x))
        (fp16,) = struct.unpack("<H", struct.pack("<e", x))
        one = torch.tensor([x])
        assert native(one, "fp32").item() == fp32
        assert native(one, "fp16").item() == fp16
        assert native(one, "bf16").item() == fp32 >> 16  # the upper half: these need 8 significant bits at most
        assert values(torch.tensor([fp32]), "fp32").item() == x
    assert native(torch.tensor([1.0, -448.0]), "fp8").tolist() == [0x38, 0xFE]  # E4M3: bias 7, largest 448
    assert torch.isnan(values(torch.tensor([0x7F, 0xFF]), "fp8")).all()
    assert encode(torch.tensor([-1, 127, -127]), 1.0, "int8").tolist() == [0xFF, 0x7F, 0x81]
    assert encode(torch.tensor([-1, 7, -7]), 1.0, "int4").tolist() == [0xF, 0x7, 0x9]


def test_every_16_bit_pattern_has_the_value_that_numpy_gives_it() -> None:
    codes = np.arange(2**16)
    expected = codes.astype(np.uint16).view(np.float16).astype(np.float32)
    got = values(torch.from_numpy(codes), "fp16").numpy()
    np.testing.assert_array_equal(got, expected)
    signed = codes[:256].astype(np.uint8).view(np.int8)
    np.testing.assert_array_equal(values(torch.from_numpy(codes[:256]), "int8", 0.5).numpy(), signed * np.float32(0.5))


def test_what_cannot_be_right_is_erased() -> None:
    patterns = [*native(torch.tensor([3.0, -4.0, 0.25, 5.0]), "fp32").tolist(), 0x7F800000, 0x7FC00000]
    n, erased = decode(torch.tensor(patterns), 0.5, "fp32", limit=8)
    assert erased.tolist() == [False, False, True, True, True, True]  # off grid, too large, infinity, NaN
    assert n.tolist() == [6, -8, 0, 0, 0, 0]
    assert decode(torch.tensor([0x80, 0x7F]), 1.0, "int8", limit=126)[1].all()


@pytest.mark.parametrize(
    "call, word",
    [
        (lambda: grid_unit(torch.ones(2), "fp12"), "fmt"),
        (lambda: grid_unit(torch.ones(2), "int8", 5), "precision"),
        (lambda: grid_unit(torch.ones(2), "fp16", 12), "precision"),
        (lambda: grid_unit(torch.tensor([torch.nan]), "fp16"), "w held"),
        (lambda: encode(torch.tensor([128]), 1.0, "int8"), "n reached 128"),
        (lambda: encode(torch.tensor([2**11 + 1]), 1.0, "fp16"), "n reached 2049"),
        (lambda: encode(torch.tensor([1]), 2.0**20, "fp16"), "n reached 1"),
        (lambda: native(torch.ones(2), "int8"), "integers need a unit"),
        (lambda: native(torch.tensor([1e6]), "fp16"), "fp16"),
    ],
)
def test_bad_input_is_refused_by_name(call: object, word: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=word):
        call()


def test_a_weight_of_zeros_has_a_unit() -> None:
    assert grid_unit(torch.zeros(4), "int8") == 1.0 and grid_unit(torch.zeros(4), "fp16") == 1.0


@pytest.mark.parametrize("fmt", FORMATS)
def test_results_lie_on_the_device_of_the_input(fmt: str) -> None:
    codes = encode(torch.zeros(3, dtype=torch.int64, device="meta"), 0.5, fmt)
    n, erased = decode(codes, 0.5, fmt, 3)
    assert codes.is_meta and n.is_meta and erased.is_meta and values(codes, fmt, 0.5).is_meta
    torch.set_default_device("meta")
    try:
        codes = encode(torch.tensor([1, -1], device="cpu"), 0.5, fmt)
        assert decode(codes, 0.5, fmt)[0].tolist() == [1, -1]
    finally:
        torch.set_default_device(None)
