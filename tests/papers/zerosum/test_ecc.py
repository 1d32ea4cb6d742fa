"""Codes on bits, against their definition and against komm's syndrome decoder."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nips26lib.papers.zerosum.ecc import SECDED, InPlaceECC, from_bytes, to_bytes, wot_clip
from nips26lib.papers.zerosum.formats import FORMATS
from nips26lib.papers.zerosum.memory import Stored, flip, flip_random, store
from tests.oracles import oracle

PAIRS_72 = torch.tensor(list(combinations(range(72), 2)))
PAIRS_64 = torch.tensor(list(combinations(range(64), 2)))


def random_int8(count: int, low: int = -128, high: int = 127, seed: int = 0) -> Stored:
    n = torch.randint(low, high + 1, (count,), generator=torch.Generator().manual_seed(seed))
    return Stored(n & 255, (count,), "int8", 1.0, 128.0)


def places(stored: Stored, bits: torch.Tensor) -> torch.Tensor:
    """Positions in memory of these bits of a 72-bit word (64 data, 8 check), row w of `bits` for word w."""
    word = torch.arange(len(bits)).view(-1, *[1] * (bits.dim() - 1))
    return torch.where(bits < 64, word * 64 + bits, stored.n_data_bits + word * 8 + bits - 64).flatten()


def word_bits(stored: Stored) -> np.ndarray:
    """(words, 72) bits of an int8 memory under SECDED, worked out by numpy."""
    data = np.unpackbits(stored.codes.numpy().astype(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    check = np.unpackbits(stored.check.numpy().astype(np.uint8)[:, None], axis=1, bitorder="little")
    return np.concatenate([data, check], axis=1).astype(int)


def same(a: Stored, b: Stored) -> bool:
    return torch.equal(a.codes, b.codes) and torch.equal(a.check, b.check)


def test_parity_check_matrix_is_hsiaos():
    matrix = SECDED.parity_check_matrix()
    heights = matrix.sum(0)
    assert (heights == 3).sum() == 56 and (heights == 5).sum() == 8 and (heights == 1).sum() == 8
    assert torch.equal(matrix[:, 64:], torch.eye(8, dtype=torch.long))
    assert len(matrix.T.unique(dim=0)) == 72
    assert matrix.sum(1).tolist() == [27] * 8
    powers = 1 << torch.arange(8)
    assert torch.equal(SECDED.columns(), (matrix * powers[:, None]).sum(0))


@pytest.mark.parametrize("fmt", FORMATS)
def test_the_top_bit_of_a_weight_never_has_a_heavy_column(fmt):
    top = torch.arange(FORMATS[fmt].bits - 1, 64, FORMATS[fmt].bits)
    assert (SECDED.parity_check_matrix()[:, top].sum(0) == 3).all()


def test_check_bits_are_the_parities_of_the_matrix():
    stored = SECDED().protect(random_int8(80))
    assert not (word_bits(stored) @ SECDED.parity_check_matrix().numpy().T % 2).any()


def test_every_single_flip_is_corrected():
    stored = SECDED().protect(random_int8(72 * 8))
    fixed, report = SECDED().recover(flip(stored, places(stored, torch.arange(72))))
    assert same(fixed, stored)
    assert (report.blocks, report.flagged, report.corrected, report.uncorrectable) == (72, 72, 72, 0)


def test_every_double_flip_is_flagged_and_left():
    stored = SECDED().protect(random_int8(len(PAIRS_72) * 8))
    faulty = flip(stored, places(stored, PAIRS_72))
    seen, report = SECDED().recover(faulty)
    assert same(seen, faulty)
    assert (report.flagged, report.corrected, report.uncorrectable) == (2556, 0, 2556)


def test_clean_memory_passes():
    stored = SECDED().protect(random_int8(800))
    seen, report = SECDED().recover(stored)
    assert same(seen, stored) and report.flagged == 0


@pytest.mark.parametrize("bits", [torch.arange(72)[:, None], PAIRS_72], ids=["single", "double"])
def test_decoder_agrees_with_komm(bits):
    komm = oracle("komm")
    code = komm.BlockCode(check_matrix=SECDED.parity_check_matrix().numpy())
    stored = SECDED().protect(random_int8(len(bits) * 8))
    faulty = flip(stored, places(stored, bits))
    received = word_bits(faulty)
    syndromes = code.check(received)
    seen, report = SECDED().recover(faulty)
    assert report.flagged == np.count_nonzero(syndromes.any(1)) == len(bits)
    decoded = komm.SyndromeTableDecoder(code).decode_to_codeword(received)
    if bits.shape[1] == 1:
        np.testing.assert_array_equal(decoded, word_bits(seen))
    else:
        # komm goes on to the nearest codeword it knows, two flips away; ours must have seen that one flip won't do.
        assert ((decoded != received).sum(1) == 2).all()
        assert report.uncorrectable == len(bits)


def test_inplace_decoder_agrees_with_komm():
    komm = oracle("komm")
    code = komm.BlockCode(check_matrix=InPlaceECC.parity_check_matrix().numpy())
    assert (code.length, code.dimension) == (64, 57)
    ecc = InPlaceECC()
    stored = ecc.protect(random_int8(64 * 8, -64, 63))
    faulty = flip(stored, torch.arange(64) * 65)
    received = np.unpackbits(faulty.codes.numpy().astype(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    decoded = komm.SyndromeTableDecoder(code).decode_to_codeword(received.astype(int))
    mine = np.unpackbits(ecc.scrub(faulty)[0].codes.numpy().astype(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    np.testing.assert_array_equal(decoded, mine)


@pytest.mark.parametrize("fmt", FORMATS)
def test_single_flips_are_corrected_in_every_format(fmt):
    stored = SECDED().protect(store(torch.randn(33, 5, generator=torch.Generator().manual_seed(0)), fmt))
    step = torch.arange(0, stored.n_data_bits, 64)
    for offset in range(0, 64, 7):
        positions = (step + offset)[step + offset < stored.n_data_bits]
        fixed, report = SECDED().recover(flip(stored, positions))
        assert same(fixed, stored) and report.corrected == len(positions)


def test_three_check_bits_make_the_decoder_flip_the_bit_they_name():
    light = (SECDED.parity_check_matrix()[:, :64].sum(0) == 3).nonzero().flatten()
    stored = SECDED().protect(random_int8(56 * 8))
    targets = torch.arange(56) * 64 + light
    fooled, report = SECDED().recover(flip(stored, SECDED.aliases(stored, targets).flatten()))
    assert torch.equal(fooled.codes, flip(stored, targets).codes)
    assert (report.corrected, report.uncorrectable) == (56, 0)


def test_heavy_columns_have_no_three_aliases():
    stored = SECDED().protect(random_int8(8))
    with pytest.raises(ValueError, match="bit 0 of a byte"):
        SECDED.aliases(stored, torch.tensor([8]))
    with pytest.raises(ValueError, match=r"0 \.\. 63"):
        SECDED.aliases(stored, torch.tensor([64]))


def test_three_bits_of_a_codeword_of_weight_four_are_completed():
    columns = SECDED.columns()[:64].tolist()
    a, b, c = next(
        (a, b, c) for a, b, c in combinations(range(64), 3) if columns[a] ^ columns[b] ^ columns[c] in columns[:64]
    )
    d = columns.index(columns[a] ^ columns[b] ^ columns[c])
    stored = SECDED().protect(random_int8(8))
    fooled, report = SECDED().recover(flip(stored, torch.tensor([a, b, c])))
    assert torch.equal(fooled.codes, flip(stored, torch.tensor([a, b, c, d])).codes)
    assert report.corrected == 1 and SECDED().recover(fooled)[1].flagged == 0


def test_a_syndrome_that_names_a_bit_of_the_padding_is_uncorrectable():
    stored = SECDED().protect(random_int8(9))  # the second word holds one weight and 56 bits of padding
    padded = 64 + 15
    rows = SECDED.parity_check_matrix()[:, padded - 64].nonzero().flatten()
    faulty = flip(stored, stored.n_data_bits + 8 + rows)
    seen, report = SECDED().recover(faulty)
    assert same(seen, faulty)
    assert (report.flagged, report.corrected, report.uncorrectable) == (1, 0, 1)


def test_recovery_leaves_its_input_alone():
    for defence in (SECDED(), InPlaceECC()):
        stored = flip_random(defence.protect(random_int8(800, -64, 63)), 0.01, 0)
        codes, check = stored.codes.clone(), stored.check.clone()
        defence.recover(stored)
        assert torch.equal(codes, stored.codes) and torch.equal(check, stored.check)


@given(st.sampled_from([4, 8, 16, 32]), st.data())
def test_bytes_round_trip(width, data):
    codes = data.draw(st.lists(st.integers(0, (1 << width) - 1), max_size=20))
    stream = to_bytes(torch.tensor(codes, dtype=torch.long), width)
    joined = sum(code << width * place for place, code in enumerate(codes))
    assert bytes(stream.tolist()) == joined.to_bytes(len(stream), "little")
    assert from_bytes(stream, width, len(codes)).tolist() == codes


def test_inplace_code_fills_the_64_odd_columns():
    matrix = InPlaceECC.parity_check_matrix()
    assert matrix.shape == (7, 64)
    assert (matrix.sum(0) % 2 == 1).all() and len(matrix.T.unique(dim=0)) == 64
    check = [8 * byte + 6 for byte in range(7)]
    assert torch.equal(matrix[:, check], torch.eye(7, dtype=torch.long))
    assert 64 - len(check) == 57


def test_inplace_needs_no_memory_and_hides_in_bit_6():
    stored = random_int8(800, -64, 63)
    protected = InPlaceECC().protect(stored)
    assert protected.nbytes == stored.nbytes
    assert not ((protected.codes ^ stored.codes) & ~(1 << 6)).any()
    assert torch.equal((protected.codes ^ stored.codes).view(-1, 8)[:, 7], torch.zeros(100, dtype=torch.long))
    assert same(InPlaceECC().recover(protected)[0], stored)


def test_inplace_round_trip_of_the_whole_range():
    n = torch.zeros(128, 8, dtype=torch.long)
    n[:, 3] = torch.arange(-64, 64)
    n[:, 7] = torch.arange(-128, 128, 2)  # each eighth weight may be large
    stored = Stored((n & 255).flatten(), (1024,), "int8", 1.0, 128.0)
    assert same(InPlaceECC().recover(InPlaceECC().protect(stored))[0], stored)


def test_inplace_corrects_every_single_flip_and_flags_every_double():
    ecc = InPlaceECC()
    stored = random_int8(64 * 8, -64, 63)
    fixed, report = ecc.recover(flip(ecc.protect(stored), torch.arange(64) * 65))
    assert same(fixed, stored) and (report.corrected, report.uncorrectable) == (64, 0)

    protected = ecc.protect(random_int8(len(PAIRS_64) * 8, -64, 63))
    faulty = flip(protected, (torch.arange(len(PAIRS_64))[:, None] * 64 + PAIRS_64).flatten())
    seen, report = ecc.scrub(faulty)
    assert same(seen, faulty) and (report.corrected, report.uncorrectable) == (0, 2016)


def test_inplace_memory_stays_protected_through_scrubbing():
    ecc = InPlaceECC()
    stored = random_int8(800, -64, 63)
    memory = ecc.protect(stored)
    for bit in (0, 6, 63):  # a fault a word in each round: none may pile up
        memory, report = ecc.scrub(flip(memory, torch.arange(0, 6400, 64) + bit))
        assert report.corrected == 100
    assert same(ecc.recover(memory)[0], stored)


@given(st.lists(st.lists(st.integers(-128, 127), min_size=8, max_size=8), min_size=1, max_size=4))
def test_wot_clip_is_the_nearest_weight_that_inplace_ecc_takes(words):
    n = [weight for word in words for weight in word]
    clipped = wot_clip(torch.tensor(n))
    expected = [v if place % 8 == 7 else min(max(v, -64), 63) for place, v in enumerate(n)]
    assert clipped.tolist() == expected
    InPlaceECC().protect(Stored(clipped & 255, (len(n),), "int8", 1.0, 128.0))


def test_wot_clip_counts_through_any_shape_and_keeps_the_dtype():
    w = torch.full((2, 2, 4), 100.0)
    clipped = wot_clip(w)
    assert clipped.dtype == torch.float32 and clipped.shape == w.shape
    assert clipped.flatten().tolist() == ([63.0] * 7 + [100.0]) * 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: InPlaceECC().protect(store(torch.ones(8), "fp16")), "format 'fp16'; in-place ECC must have 'int8'"),
        (lambda: InPlaceECC().protect(store(torch.ones(8), "int4")), "format 'int4'"),
        (lambda: InPlaceECC().protect(random_int8(12, -64, 63)), "12 weights; in-place ECC must have a multiple of 8"),
        (lambda: InPlaceECC().protect(store(torch.tensor([64.0, *[0.0] * 7]), "int8", unit=1.0)), "1 weights outside"),
        (lambda: InPlaceECC().protect(store(torch.tensor([-65.0, *[0.0] * 7]), "int8", unit=1.0)), "1 weights outside"),
        (lambda: SECDED().recover(random_int8(16)), "0 check words of 0 bits; it must have 2 of 8: call protect"),
    ],
)
def test_refusals_name_what_was_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
