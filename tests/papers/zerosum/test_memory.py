"""Bit patterns in memory and the faults that strike them."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nips26lib.papers.zerosum.constraint import residuals
from nips26lib.papers.zerosum.defences import Radar
from nips26lib.papers.zerosum.ecc import SECDED
from nips26lib.papers.zerosum.formats import FORMATS, decode
from nips26lib.papers.zerosum.memory import Stored, flip, flip_random, store

LAYOUTS = [("none", 0), ("rows", 16), ("tile", 8)]


def weights(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def random_int8(count: int, seed: int = 0) -> Stored:
    codes = torch.randint(256, (count,), generator=torch.Generator().manual_seed(seed))
    return Stored(codes, (count,), "int8", 1.0, 128.0)


def distance(a: Stored, b: Stored) -> int:
    """Number of bits in which two memories differ."""
    words = zip((*a.codes.tolist(), *a.check.tolist()), (*b.codes.tolist(), *b.check.tolist()), strict=True)
    return sum((x ^ y).bit_count() for x, y in words)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize(("layout", "block"), LAYOUTS)
def test_stored_weights_are_close_and_take_no_more_room(fmt, layout, block):
    w = weights(16, 32)
    stored = store(w, fmt, layout, block)
    assert stored.nbytes == 16 * 32 * FORMATS[fmt].bits // 8
    assert stored.limit == stored.values().abs().max().item()
    step = stored.unit or w.abs().max().item() * 2.0 ** -FORMATS[fmt].precision
    if layout == "none":
        assert (stored.values() - w).abs().max() <= step
    else:
        sums = residuals(decode(stored.codes, stored.unit, fmt)[0].view(16, 32), layout, block)
        assert all(not part.any() for part in (sums if isinstance(sums, tuple) else (sums,)))
        assert stored.values().double().sum().item() == pytest.approx(0.0, abs=1e-5)


def test_check_bits_count_as_memory():
    stored = store(weights(16, 32), "int8")
    assert SECDED().protect(stored).nbytes / stored.nbytes == 1.125
    assert Radar(group=16).protect(stored).n_check_bits == 2 * 16 * 32 / 16


@pytest.mark.parametrize(("fmt", "dtype"), [("fp32", np.float32), ("fp16", np.float16)])
def test_flips_of_floats_are_those_of_the_machine(fmt, dtype):
    w = weights(40)
    positions = torch.randperm(40 * FORMATS[fmt].bits, generator=torch.Generator().manual_seed(1))[:60]
    bits = np.unpackbits(w.numpy().astype(dtype).view(np.uint8), bitorder="little")
    bits[positions.numpy()] ^= 1
    with np.errstate(invalid="ignore"):  # signalling NaN
        expected = np.packbits(bits, bitorder="little").view(dtype).astype(np.float32)
    np.testing.assert_array_equal(flip(store(w, fmt), positions).values().numpy(), expected)


def test_flips_of_int8_are_those_of_twos_complement():
    stored = random_int8(32)
    for bit in range(8):
        change = flip(stored, torch.arange(32) * 8 + bit).values() - stored.values()
        was_set = stored.codes >> bit & 1
        step = -128 if bit == 7 else 1 << bit
        assert change.tolist() == torch.where(was_set == 1, -step, step).tolist()
    zero = store(torch.zeros(1), "int8", unit=1.0)
    assert flip(zero, torch.tensor([7])).values().item() == -128


def test_check_words_follow_the_data():
    stored = SECDED().protect(random_int8(16))
    faulty = flip(stored, torch.tensor([16 * 8 + 8 + 3]))
    assert torch.equal(faulty.codes, stored.codes)
    assert (faulty.check ^ stored.check).tolist() == [0, 8]


@given(st.lists(st.integers(0, 9 * 64 // 8 * 8 + 71), max_size=30))
def test_flipping_the_same_bits_again_undoes_it(positions):
    stored = SECDED().protect(random_int8(72))
    where = torch.tensor(positions, dtype=torch.long)
    once = flip(stored, where)
    assert distance(stored, once) == sum(positions.count(p) % 2 for p in set(positions))
    assert distance(stored, flip(once, where)) == 0


def test_random_faults_at_the_ends_of_the_range():
    stored = SECDED().protect(random_int8(100))
    assert distance(stored, flip_random(stored, 0.0, seed=3)) == 0
    assert distance(stored, flip_random(stored, 1.0, seed=3)) == stored.n_bits
    assert distance(stored, flip_random(stored, 1e-300, seed=3)) == 0


@pytest.mark.parametrize("ber", [1e-3, 0.05, 0.5, 0.9])
def test_random_faults_strike_every_bit_equally_often(ber):
    stored = random_int8(4000)
    draws = 25
    hits = np.zeros((4000, 8), dtype=np.int64)
    for seed in range(draws):
        difference = flip_random(stored, ber, seed).codes ^ stored.codes
        hits += (difference[:, None] >> torch.arange(8) & 1).numpy()
    assert stats.binomtest(int(hits.sum()), hits.size * draws, ber).pvalue > 1e-4
    assert stats.chisquare(hits.sum(0)).pvalue > 1e-4  # bits of a weight
    assert stats.chisquare(hits.reshape(40, -1).sum(1)).pvalue > 1e-4  # early and late weights


def test_number_of_random_faults_is_binomial():
    stored = random_int8(250)
    counts = np.array([distance(stored, flip_random(stored, 0.01, seed)) for seed in range(600)])
    edges = np.arange(13, 29)
    observed = np.histogram(counts, [-1, *edges, 10**6])[0]
    share = np.diff([0.0, *stats.binom.cdf(edges - 1, 2000, 0.01), 1.0])
    assert stats.chisquare(observed, share * len(counts)).pvalue > 1e-4


def test_faults_are_reproducible_and_differ_between_seeds():
    stored = random_int8(1000)
    assert torch.equal(flip_random(stored, 0.01, 5).codes, flip_random(stored, 0.01, 5).codes)
    assert not torch.equal(flip_random(stored, 0.01, 5).codes, flip_random(stored, 0.01, 6).codes)


def test_defences_meet_the_same_data_faults():
    plain = random_int8(1000)
    struck = flip_random(plain, 0.01, seed=7)
    for defence in (SECDED(), Radar()):
        assert torch.equal(flip_random(defence.protect(plain), 0.01, seed=7).codes, struck.codes)


def test_where_picks_data_or_check_bits_without_changing_either():
    stored = SECDED().protect(random_int8(1000))
    everywhere, data, check = (flip_random(stored, 0.05, 7, where) for where in ("all", "data", "check"))
    assert torch.equal(data.codes, everywhere.codes) and torch.equal(data.check, stored.check)
    assert torch.equal(check.check, everywhere.check) and torch.equal(check.codes, stored.codes)
    assert not torch.equal(check.check, stored.check)


def test_data_and_check_faults_do_not_repeat_each_other():
    stored = Stored(
        torch.zeros(1000, dtype=torch.long),
        (1000,),
        "int8",
        1.0,
        1.0,
        check=torch.zeros(1000, dtype=torch.long),
        check_bits=8,
    )
    faulty = flip_random(stored, 0.05, seed=7)
    assert not torch.equal(faulty.codes, faulty.check)


def test_safe_check_words_are_never_struck():
    stored = Radar().protect(random_int8(1000))
    assert torch.equal(flip_random(stored, 1.0, 0).check, stored.check)
    with pytest.raises(ValueError, match=r"0 \.\. 7999"):
        flip(stored, torch.tensor([8000]))


@pytest.mark.parametrize("size", [8, 64])
def test_share_of_double_flips_that_a_block_sum_misses(size):
    """Spec fact: 2B(B-1) of C(8B, 2) pairs of bits leave the sum of B random int8 weights as it was."""
    blocks = 20_000
    stored = random_int8(blocks * size)
    choice = np.random.default_rng(0).random((blocks, size * 8)).argpartition(2, axis=1)[:, :2]
    positions = torch.from_numpy(choice + np.arange(blocks)[:, None] * size * 8).flatten()
    change = flip(stored, positions).values().long() - stored.values().long()
    missed = int((residuals(change, "rows", size) == 0).sum())
    expected = 2 * size * (size - 1) / comb(8 * size, 2)
    assert stats.binomtest(missed, blocks, expected).pvalue > 1e-3


def test_double_flips_missed_in_one_block_are_those_of_one_bit_plane_and_opposite_direction():
    size = 8
    block = random_int8(size)
    pairs = torch.tensor(list(combinations(range(size * 8), 2)))
    copies = Stored(block.codes.repeat(len(pairs)), (len(pairs) * size,), "int8", 1.0, 128.0)
    faulty = flip(copies, (pairs + torch.arange(len(pairs))[:, None] * size * 8).flatten())
    missed = residuals((faulty.values() - copies.values()).long(), "rows", size) == 0
    ones = (block.codes[:, None] >> torch.arange(8) & 1).sum(0)
    assert int(missed.sum()) == int((ones * (size - ones)).sum())


def test_given_integers_are_stored_as_they_are():
    n = torch.tensor([[3, -3], [-3, 3]])
    stored = store(n * 0.5, "int8", "tile", 2, n=n, unit=0.5)
    assert torch.equal(stored.values(), n * 0.5)


def test_a_unit_puts_a_float_tensor_on_a_grid():
    stored = store(torch.tensor([0.3, -0.6]), "fp32", unit=0.25)
    assert stored.values().tolist() == [0.25, -0.5]


def test_integers_are_clamped_to_a_given_unit():
    assert store(torch.tensor([500.0, -500.0, 2.4]), "int8", unit=1.0).values().tolist() == [127.0, -127.0, 2.0]


def test_memory_of_nothing():
    empty = store(torch.zeros(0), "int8", unit=1.0)
    assert empty.n_bits == 0 and empty.limit == 0.0
    assert len(flip_random(empty, 0.5, 0).codes) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: store(torch.ones(4), "int7"), r"fmt was 'int7'; it must be one of .*int8"),
        (lambda: store(torch.tensor([1.0, torch.nan]), "fp32"), "w held NaN"),
        (lambda: store(torch.tensor([1.0, torch.inf]), "int8"), "w held NaN or infinity"),
        (lambda: store(torch.ones(4), "int8", unit=0.0), "unit was 0.0; it must be a positive"),
        (lambda: store(torch.ones(4), "int8", unit=float("nan")), "unit was nan"),
        (lambda: store(torch.ones(4), "int8", n=torch.tensor([200, 0, 0, 0]), unit=1.0), "n reached 200"),
        (lambda: store(torch.ones(4), "int8", n=torch.ones(3, dtype=torch.long), unit=1.0), r"n had shape \(3,\)"),
        (lambda: store(torch.ones(4), "int8", "rows", 4, n=torch.tensor([1, 0, 0, 0]), unit=1.0), "1 sums of layout"),
        (lambda: store(torch.ones(4), "int8", "rows", 1), "block was 1"),
        (lambda: store(torch.ones(4), "int8", "columns", 2), "layout was 'columns'"),
        (lambda: flip(random_int8(4), torch.tensor([0, 32])), "positions spanned 0 .. 32; it must lie in 0 .. 31"),
        (lambda: flip(random_int8(4), torch.tensor([-1])), "positions spanned -1"),
        (lambda: flip_random(random_int8(4), 1.5, 0), r"ber was 1.5; it must lie in \[0, 1\]"),
        (lambda: flip_random(random_int8(4), -0.1, 0), "ber was -0.1"),
        (lambda: flip_random(random_int8(4), float("nan"), 0), "ber was nan"),
        (lambda: flip_random(random_int8(4), 0.1, -1), "seed was -1"),
        (lambda: random_int8(4).with_codes(torch.tensor([0, 1, 2, 256])), "codes spanned 0 .. 256"),
        (lambda: random_int8(4).with_codes(torch.tensor([0, 1])), r"codes had shape \(2,\)"),
    ],
)
def test_refusals_name_what_was_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
