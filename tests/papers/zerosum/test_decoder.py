from __future__ import annotations

import struct
from itertools import combinations
from math import comb

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from torch import Tensor

from nips26lib.papers.zerosum import decoder
from nips26lib.papers.zerosum.constraint import blocks_of, project, residuals
from nips26lib.papers.zerosum.decoder import RecoveryReport, popcount, recover, tile_steps
from nips26lib.papers.zerosum.formats import FORMATS, decode, encode, grid_unit
from nips26lib.papers.zerosum.rounding import round_zero_sum
from tests.papers.zerosum.tile_reference import TileReference


def clean(shape: tuple[int, ...], fmt: str = "int8", layout: str = "tile", block: int = 8, seed: int = 0):
    """A zero-sum weight in units, its unit and its limit."""
    w = project(torch.randn(shape, generator=torch.Generator().manual_seed(seed)), layout, block)
    unit = grid_unit(w, fmt)
    n = round_zero_sum(w / unit, layout, block)
    return n, unit, int(n.abs().max())


def strike(codes: Tensor, bits: int, rate: float, seed: int) -> Tensor:
    hit = torch.rand(*codes.shape, bits, generator=torch.Generator().manual_seed(seed)) < rate
    return codes ^ (hit.long() << torch.arange(bits)).sum(-1)


def mend(codes: Tensor, fmt: str, unit: float, limit: int, block: int = 8, layout: str = "tile", ber: float = 1e-3):
    return recover(codes, layout, block, fmt, unit, limit, tuple(codes.shape), ber)


def error(codes: Tensor, n: Tensor, fmt: str, unit: float, limit: int) -> float:
    got, _ = decode(codes, unit, fmt, limit)
    return ((got - n).double().norm() / n.double().norm()).item()


def tiled(n: Tensor, count: int) -> Tensor:
    """`count` copies of a tile, one below the other: as many separate blocks."""
    return n.repeat(count, 1)


# What must come back exactly


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fmt", ["int8", "int4", "fp16", "fp8"])
def test_every_single_flip_in_a_tile_is_undone(fmt: str, seed: int) -> None:
    n, unit, limit = clean((8, 8), fmt, seed=seed)
    bits = FORMATS[fmt].bits
    right = encode(tiled(n, 64 * bits), unit, fmt)
    faulty = right.reshape(64, bits, 64).clone()  # one tile for each weight and each of its bits: 512 in int8
    for weight in range(64):
        faulty[weight, :, weight] ^= 1 << torch.arange(bits)
    mended, report = mend(faulty.reshape(-1, 8), fmt, unit, limit)
    assert torch.equal(mended, right)
    # The flip that turns +0 into -0 changes no sum: it is undone without being noticed.
    silent = int((n == 0).sum()) if FORMATS[fmt].kind == "float" else 0
    assert report == RecoveryReport(64 * bits, 64 * bits - silent, 64 * bits - silent, 0)


@pytest.mark.parametrize("fmt", ["fp16", "fp32"])
@pytest.mark.parametrize("block", [4, 8])
def test_up_to_three_erasures_are_filled_exactly(fmt: str, block: int) -> None:
    cells = range(block * block)
    places = [p for k in (1, 2) for p in combinations(cells, k)]
    triples = list(combinations(cells, 3))
    order = torch.randperm(len(triples), generator=torch.Generator().manual_seed(1))[:3000].tolist()
    places += [triples[i] for i in order]  # all 560 of a 4 x 4 tile, 3000 of the 41664 of an 8 x 8 one
    n, unit, limit = clean((block, block), fmt)
    right = encode(tiled(n, len(places)), unit, fmt)
    faulty = right.reshape(len(places), -1).clone()
    nan = {"fp16": 0x7E00, "fp32": 0x7FC00000}[fmt]
    for tile, place in enumerate(places):
        faulty[tile, list(place)] = nan
    mended, report = mend(faulty.reshape(-1, block), fmt, unit, limit, block)
    assert torch.equal(mended, right)
    assert report == RecoveryReport(len(places), len(places), len(places), 0)


@given(st.integers(0, 7), st.lists(st.integers(-127, 127), min_size=8, max_size=8), st.booleans(), st.integers(0, 99))
@settings(deadline=None, max_examples=100)
def test_any_faults_within_one_row_or_column_are_undone(at: int, line: list[int], column: bool, seed: int) -> None:
    n, unit, _ = clean((8, 8), seed=seed)
    faulty = n.T.clone() if column else n.clone()
    right = faulty.clone()
    faulty[at] = torch.tensor(line)
    if faulty[at].sum() == 0 and not torch.equal(faulty, right):
        return  # errors that cancel in their row do not say which row it is
    if column:
        faulty, right = faulty.T, right.T
    mended, _ = mend(encode(faulty.contiguous(), unit, "int8"), "int8", unit, 127)
    assert torch.equal(mended, encode(right.contiguous(), unit, "int8"))


def test_errors_that_cancel_in_one_row_leave_its_place_open_but_not_the_columns() -> None:
    n, unit, _ = clean((8, 8), seed=4)
    faulty = n.clone()
    faulty[2, 1], faulty[2, 6] = n[2, 1] + 16, n[2, 6] - 16
    mended, report = mend(encode(faulty, unit, "int8"), "int8", unit, 127)
    got, _ = decode(mended, unit, "int8")
    assert report.corrected == 1 and not any(s.any() for s in residuals(got, "tile", 8))
    assert set((got != n).any(0).nonzero().flatten().tolist()) <= {1, 6}


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("layout", ["rows", "tile"])
def test_without_faults_nothing_changes(fmt: str, layout: str) -> None:
    n, unit, limit = clean((20, 3, 3, 3), fmt, layout)
    codes = encode(n, unit, fmt)
    mended, report = mend(codes, fmt, unit, limit, layout=layout)
    assert torch.equal(mended, codes)
    assert report == RecoveryReport(len(blocks_of(n.shape, layout, 8).mask), 0, 0, 0)


def test_a_rectangle_is_silent_and_left_alone() -> None:
    n, unit, _ = clean((16, 16), seed=2)
    for i, k, j, m in [(0, 3, 1, 5), (2, 7, 0, 7)]:
        faulty = n.clone()
        faulty[[i, k], [j, m]] += 4
        faulty[[i, k], [m, j]] -= 4
        codes = encode(faulty, unit, "int8")
        mended, report = mend(codes, "int8", unit, 127)
        assert torch.equal(mended, codes) and report.flagged == 0


def test_blocks_without_a_fault_keep_their_codes() -> None:
    n, unit, limit = clean((64, 64), "fp16")
    codes = encode(n, unit, "fp16")
    faulty = codes.clone()
    faulty[:8, :8] = strike(codes[:8, :8], 16, 0.1, 0)
    mended, report = mend(faulty, "fp16", unit, limit)
    mended[:8, :8] = codes[:8, :8]
    assert torch.equal(mended, codes) and (report.blocks, report.flagged) == (64, 1)


# Against the same decoder in plain loops


def pattern(fmt: str):
    """The code of an integer at unit 1, by struct for floats."""
    if fmt == "int8":
        return lambda v: v & 0xFF
    return lambda v: struct.unpack("<H", struct.pack("<e", v))[0]


@pytest.mark.parametrize(
    "fmt, rate, count",
    [("int8", 2e-3, 1500), ("int8", 6e-3, 700), ("int8", 2e-2, 200), ("fp16", 1e-3, 1000), ("fp16", 5e-3, 500)],
)
@pytest.mark.parametrize("block", [4, 8])
def test_all_tiles_at_once_are_decoded_as_one_by_one(fmt: str, rate: float, count: int, block: int) -> None:
    w = project(torch.randn(count * block, block, generator=torch.Generator().manual_seed(5)), "tile", block)
    n = round_zero_sum(w * {"int8": 25.0, "fp16": 400.0}[fmt], "tile", block)
    limit = min(int(n.abs().max()), 127) if fmt == "int8" else int(n.abs().max())
    n = n.clamp(-limit, limit)
    codes = strike(encode(n, 1.0, fmt), FORMATS[fmt].bits, rate * 64 / block**2, 6)
    values, erased = decode(codes, 1.0, fmt, limit)
    # Powers of two and whole nats make every score exact in both, so that ties are the same ties.
    like = decoder.Likelihood(fmt, 1.0, limit, 32.0, 7.0)
    cells, holes = values.reshape(-1, block, block), erased.reshape(-1, block, block)
    tiles = decoder._Tiles(cells, holes, holes, codes.reshape(cells.shape), torch.ones_like(holes))
    got, certain = decoder._decode_tiles(tiles, like)
    for tile in range(count):
        reference = TileReference(
            cells[tile].tolist(), holes[tile].tolist(), pattern(fmt), limit, 32.0, 7.0, decoder.AGREEMENT
        )
        expected, sure = reference.decode()
        assert (got[tile].tolist(), bool(certain[tile])) == (expected, sure), tile


# How well it does beyond what is certain


@pytest.mark.parametrize("fmt", ["fp32", "fp16", "bf16", "fp8", "int8", "int4"])
def test_weight_error_after_random_faults_is_a_fraction_of_the_guards(fmt: str) -> None:
    n, unit, limit = clean((128, 128), fmt)
    codes = encode(n, unit, fmt)
    for rate, share in ((1e-4, 0.02), (1e-3, 0.2)):
        before = after = 0.0
        for seed in range(3):
            faulty = strike(codes, FORMATS[fmt].bits, rate, seed)
            mended, _ = mend(faulty, fmt, unit, limit)
            before += error(faulty, n, fmt, unit, limit)  # what `decode` erases counts as 0: the range guard
            after += error(mended, n, fmt, unit, limit)
        assert after < share * before


@pytest.mark.parametrize("fmt", ["fp32", "int8"])
def test_many_faults_are_never_made_much_worse(fmt: str) -> None:
    n, unit, limit = clean((128, 128), fmt)
    faulty = strike(encode(n, unit, fmt), FORMATS[fmt].bits, 0.05, 0)
    mended, report = mend(faulty, fmt, unit, limit)
    assert error(mended, n, fmt, unit, limit) < 1.05 * error(faulty, n, fmt, unit, limit)
    assert report.flagged == report.corrected + report.uncorrectable == report.blocks


def test_scrubbing_after_every_round_keeps_faults_from_adding_up() -> None:
    n, unit, limit = clean((128, 128))
    right = encode(n, unit, "int8")
    scrubbed, left = right, right
    for seed in range(20):
        scrubbed, _ = mend(strike(scrubbed, 8, 2e-4, seed), "int8", unit, limit)
        left = strike(left, 8, 2e-4, seed)
    assert error(scrubbed, n, "int8", unit, limit) < 0.1 * error(left, n, "int8", unit, limit)


def test_a_rectangle_of_erasures_gets_its_least_squares_value() -> None:
    n, unit, limit = clean((8, 8), "fp16", seed=1)
    codes = encode(n, unit, "fp16")
    rows, columns = [1, 1, 4, 4], [2, 6, 2, 6]
    codes[rows, columns] = 0x7E00
    mended, report = mend(codes, "fp16", unit, limit)
    got, _ = decode(mended, unit, "fp16")
    assert report.uncorrectable == 1 and not any(s.any() for s in residuals(got, "tile", 8))
    # The sums fix the four values up to t (+ - - +); their norm is least at t = (a - b - c + d) / 4 taken away.
    a, b, c, d = n[rows, columns].double().tolist()
    t = (a - b - c + d) / 4
    assert max(abs(x - y) for x, y in zip(got[rows, columns].tolist(), [a - t, b + t, c + t, d - t], strict=True)) < 1


def test_a_tile_with_too_many_erasures_is_left_to_the_guard() -> None:
    n, unit, limit = clean((8, 8), "fp16", seed=1)
    codes = encode(n, unit, "fp16")
    codes.view(-1)[torch.arange(0, 64, 8)] = 0x7C00
    mended, report = mend(codes, "fp16", unit, limit)
    expected = n.clone()
    expected.view(-1)[torch.arange(0, 64, 8)] = 0
    assert torch.equal(decode(mended, unit, "fp16")[0], expected)
    assert report == RecoveryReport(1, 1, 0, 1)


# Rows


def test_one_erasure_in_a_row_block_is_filled_exactly() -> None:
    n, unit, limit = clean((4, 40), "fp16", "rows", 16)
    right = encode(n, unit, "fp16")
    for at in range(0, 160, 3):
        faulty = right.clone()
        faulty.view(-1)[at] = 0xFE00
        mended, report = mend(faulty, "fp16", unit, limit, 16, "rows")
        assert torch.equal(mended, right) and report == RecoveryReport(10, 1, 1, 0)


def test_several_erasures_share_what_is_missing() -> None:
    codes = encode(torch.tensor([[5, 2, -4, -3]]), 1.0, "fp16")
    codes[0, 1:3] = 0x7E00
    mended, report = mend(codes, "fp16", 1.0, 5, 4, "rows")
    assert decode(mended, 1.0, "fp16")[0].tolist() == [[5, -1, -1, -3]]
    assert report == RecoveryReport(1, 1, 0, 1)
    codes[0, 3] = 0x7E00
    assert sorted(decode(mend(codes, "fp16", 1.0, 5, 4, "rows")[0], 1.0, "fp16")[0][0].tolist()) == [-2, -2, -1, 5]


def test_a_row_block_blames_the_cell_that_one_flip_explains_best() -> None:
    n = torch.tensor([[3, -2, 4, -5]])
    faulty = torch.tensor([[3, -2, 4, 59]])  # bit 6 of -5: any other culprit would have been below -60
    mended, report = mend(encode(faulty, 1.0, "int8"), "int8", 1.0, 127, 4, "rows")
    assert decode(mended, 1.0, "int8")[0].tolist() == n.tolist()
    assert report.corrected == 1


def test_a_row_block_that_no_single_fault_explains_becomes_zero() -> None:
    faulty = torch.tensor([[7, 7, 7, 7]])  # taking 28 off any one leaves -21
    mended, report = mend(encode(faulty, 1.0, "int8"), "int8", 1.0, 10, 4, "rows")
    assert not mended.any() and report == RecoveryReport(1, 1, 0, 1)


def test_the_share_of_silent_double_flips_in_a_row_block() -> None:
    block, trials = 16, 40_000
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 256, (trials, block), generator=generator)
    first = torch.randint(0, 8 * block, (trials,), generator=generator)
    second = (first + torch.randint(1, 8 * block, (trials,), generator=generator)) % (8 * block)
    faulty = codes.clone()
    for bit in (first, second):
        faulty[torch.arange(trials), bit // 8] ^= 1 << (bit % 8)
    change = decode(faulty, 1.0, "int8")[0] - decode(codes, 1.0, "int8")[0]
    silent = int((residuals(change, "rows", block) == 0).sum())
    # The same bit of two of the B weights, which goes up in one and down in the other: half of 8 C(B, 2) pairs.
    share = 2 * block * (block - 1) / comb(8 * block, 2)
    assert binomtest(silent, trials, share).pvalue > 1e-3


# The parts, and what is refused


def test_popcount_agrees_with_python() -> None:
    numbers = torch.randint(0, 2**32, (1000,), generator=torch.Generator().manual_seed(0))
    assert popcount(numbers).tolist() == [v.bit_count() for v in numbers.tolist()]


def test_the_steps_of_a_tile_lead_to_what_recover_returns() -> None:
    n, unit, limit = clean((8, 8), "fp16", seed=3)
    several = 0
    for seed in range(40):
        codes = strike(encode(n, unit, "fp16"), 16, 3e-3, seed)
        values, erased = decode(codes, unit, "fp16", limit)
        sigma = max(1.0, 1.4826 * values[~erased].abs().float().median().item())
        steps = tile_steps(values, erased, limit, sigma, "fp16", unit)
        assert "zero" in steps[-1].note and steps[-1].cells == []
        state = values
        for step in steps:
            changed = (step.n != state).nonzero().tolist()
            assert {tuple(cell) for cell in changed} <= set(step.cells)
            state = step.n
        several += len(steps) > 2
        assert torch.equal(decode(mend(codes, "fp16", unit, limit)[0], unit, "fp16")[0], steps[-1].n)
    assert several > 5


def test_small_batches_give_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    n, unit, limit = clean((64, 72))
    faulty = strike(encode(n, unit, "int8"), 8, 3e-3, 0)
    whole = mend(faulty, "int8", unit, limit)
    monkeypatch.setattr(decoder, "BATCH", 7)
    pieces = mend(faulty, "int8", unit, limit)
    assert torch.equal(whole[0], pieces[0]) and whole[1] == pieces[1]


@given(
    st.sampled_from(["rows", "tile"]),
    st.sampled_from(["int8", "int4", "fp16", "bf16"]),
    st.tuples(st.integers(2, 20), st.integers(2, 20)),
    st.integers(2, 9),
    st.floats(0, 0.1),
    st.integers(0, 2**31),
)
@settings(deadline=None, max_examples=80)
def test_whatever_the_faults_the_result_is_in_range_and_counted(
    layout: str, fmt: str, shape: tuple[int, int], block: int, rate: float, seed: int
) -> None:
    n, unit, limit = clean(shape, fmt, layout, block, seed % 1000)
    faulty = strike(encode(n, unit, fmt), FORMATS[fmt].bits, rate, seed)
    mended, report = mend(faulty, fmt, unit, limit, block, layout)
    got, erased = decode(mended, unit, fmt, limit)
    assert not erased.any()
    cells = blocks_of(shape, layout, block)
    broken = torch.zeros(report.blocks, dtype=torch.bool)
    for axis in cells.axes:
        broken |= cells.gather(got).sum(axis).reshape(report.blocks, -1).any(-1)
    assert int(broken.sum()) <= report.uncorrectable
    assert report.flagged == report.corrected + report.uncorrectable <= report.blocks


@pytest.mark.parametrize(
    "change, word",
    [
        ({"layout": "none"}, "layout"),
        ({"fmt": "int7"}, "fmt"),
        ({"limit": 128}, "limit"),
        ({"ber": 0.0}, "ber"),
        ({"ber": 0.5}, "ber"),
        ({"shape": (8, 9)}, "codes held 64"),
        ({"codes": torch.full((8, 8), 256)}, "codes ran from 256"),
        ({"codes": torch.full((8, 8), -1)}, "codes ran from -1"),
    ],
)
def test_bad_input_is_refused_by_name(change: dict[str, object], word: str) -> None:
    good: dict[str, object] = {
        "codes": torch.zeros(8, 8, dtype=torch.int64),
        "layout": "tile",
        "block": 8,
        "fmt": "int8",
        "unit": 1.0,
        "limit": 127,
        "shape": (8, 8),
        "ber": 1e-3,
    }
    with pytest.raises(ValueError, match=word):
        recover(**(good | change))  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", ["rows", "tile"])
def test_the_default_device_does_not_matter(layout: str) -> None:
    n, unit, limit = clean((20, 18), "fp16", layout)
    faulty = strike(encode(n, unit, "fp16"), 16, 3e-3, 0)
    expected = mend(faulty, "fp16", unit, limit, layout=layout)
    torch.set_default_device("meta")
    try:
        got = mend(faulty, "fp16", unit, limit, layout=layout)
    finally:
        torch.set_default_device(None)
    assert torch.equal(got[0], expected[0]) and got[1] == expected[1]


def test_two_faults_of_different_size_apart_are_repaired():
    # Equal row and column sums name both crossings; without that evidence a fifth of these tiles comes out wrong.
    generator = torch.Generator().manual_seed(0)
    tiles = 100
    n = round_zero_sum(project(24 * torch.randn(8 * tiles, 8, generator=generator), "tile", 8), "tile", 8)
    hit = n.clone()
    for tile in range(tiles):
        rows, columns, bits = (torch.randperm(size, generator=generator)[:2].tolist() for size in (8, 8, 5))
        for row, column, bit in zip(rows, columns, bits, strict=True):
            code = int(n[8 * tile + row, column]) & 255 ^ 2 << bit
            hit[8 * tile + row, column] = code - 256 if code > 127 else code
    shape = (8 * tiles, 8)
    repaired, report = recover(encode(hit, 1.0, "int8").flatten(), "tile", 8, "int8", 1.0, 127, shape)
    assert torch.equal(repaired, encode(n, 1.0, "int8").flatten())
    assert (report.flagged, report.corrected) == (tiles, tiles)
