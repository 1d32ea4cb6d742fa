"""The defences behind one interface: what each brings back, and what it refuses."""

from __future__ import annotations

import pytest
import torch

from nips26lib.papers.zerosum.defences import Guard, Nothing, Radar, ZeroSum
from nips26lib.papers.zerosum.ecc import SECDED, InPlaceECC
from nips26lib.papers.zerosum.formats import FORMATS
from nips26lib.papers.zerosum.memory import Stored, flip, flip_random, store

FLOATS = [name for name, form in FORMATS.items() if form.kind == "float"]


def weights(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def int8(values: list[float]) -> Stored:
    return store(torch.tensor(values), "int8", unit=1.0)


CLEAN = {
    "nothing": (Nothing(), "int8", "none", 0),
    "guard": (Guard(), "fp16", "none", 0),
    "clamp": (Guard("clamp"), "int8", "none", 0),
    "grid guard": (Guard(grid=True), "fp16", "tile", 8),
    "radar": (Radar(), "int8", "none", 0),
    "secded": (SECDED(), "bf16", "none", 0),
    "rows": (ZeroSum(), "int8", "rows", 16),
    "tile int8": (ZeroSum(), "int8", "tile", 8),
    "tile int4": (ZeroSum(), "int4", "tile", 8),
    **{f"tile {fmt}": (ZeroSum(), fmt, "tile", 8) for fmt in FLOATS},
}


@pytest.mark.parametrize("case", CLEAN)
def test_without_faults_recovery_is_the_identity(case):
    defence, fmt, layout, block = CLEAN[case]
    stored = store(weights(24, 20), fmt, layout, block)
    protected = flip_random(defence.protect(stored), 0.0, seed=0)
    for verb in (defence.recover, defence.scrub):
        seen, report = verb(protected)
        assert torch.equal(seen.codes, stored.codes)
        assert (report.flagged, report.corrected, report.uncorrectable) == (0, 0, 0)


@pytest.mark.parametrize("case", CLEAN)
def test_recovery_leaves_its_input_alone(case):
    defence, fmt, layout, block = CLEAN[case]
    faulty = flip_random(defence.protect(store(weights(24, 20), fmt, layout, block)), 0.01, seed=0)
    codes, check = faulty.codes.clone(), faulty.check.clone()
    defence.recover(faulty)
    assert torch.equal(faulty.codes, codes) and torch.equal(faulty.check, check)


def test_nothing_does_nothing():
    faulty = flip_random(store(weights(24, 20), "int8"), 0.1, seed=0)
    assert Nothing().recover(faulty)[0] is faulty


@pytest.mark.parametrize("fmt", FLOATS)
def test_guard_leaves_nothing_out_of_range(fmt):
    stored = store(weights(64, 32), fmt)
    faulty = flip_random(stored, 0.05, seed=0)
    assert not (faulty.values().abs() <= stored.limit).all()
    for mode in ("zero", "clamp"):
        repaired, report = Guard(mode).recover(faulty)
        assert (repaired.values().abs() <= stored.limit).all()
        in_range = (faulty.values().abs() <= stored.limit).flatten()
        assert torch.equal(repaired.codes[in_range], faulty.codes[in_range])
        assert report.flagged == report.uncorrectable == int((~in_range).sum())


def test_guard_clamps_to_the_sign_and_zeroes_nan():
    stored = store(torch.tensor([2.0, -1.0, 0.5]), "fp32")
    faulty = stored.with_codes(torch.tensor([0x7F800000, 0xFF7FFFFF, 0x7FC00000]))  # infinity, -3.4e38, NaN
    assert Guard("clamp").recover(faulty)[0].values().tolist() == [2.0, -2.0, 0.0]
    assert Guard("zero").recover(faulty)[0].values().tolist() == [0.0, 0.0, 0.0]


def test_guard_on_integers_knows_only_the_range():
    stored = int8([100.0, -90.0, 3.0])
    faulty = flip(stored, torch.tensor([7, 16 + 6]))  # 100 - 128 is within the range, 3 + 64 too
    assert torch.equal(Guard().recover(faulty)[0].codes, faulty.codes)
    beyond = flip(stored, torch.tensor([8 + 5]))  # -90 - 32 is not: bit 5 of -90 is set, so it falls
    assert beyond.values()[1] == -122.0
    assert Guard("clamp").recover(beyond)[0].values().tolist() == [100.0, -100.0, 3.0]


def test_grid_guard_sees_what_is_off_the_grid():
    stored = store(torch.tensor([0.25, -0.5]), "fp32", unit=0.25)
    faulty = flip(stored, torch.tensor([0]))  # last bit of the mantissa
    assert Guard(grid=True).recover(faulty)[0].values().tolist() == [0.0, -0.5]
    assert torch.equal(Guard().recover(faulty)[0].codes, faulty.codes)
    with pytest.raises(ValueError, match="lay on no grid"):
        Guard(grid=True).protect(store(torch.tensor([0.5]), "fp32"))


@pytest.mark.parametrize("interleave", [True, False])
@pytest.mark.parametrize("count", [32, 37, 5])
def test_radar_groups_share_out_the_weights(count, interleave):
    index, real = Radar(group=8, interleave=interleave).groups(count)
    assert sorted(index[real].tolist()) == list(range(count))
    assert index.shape == (-(-count // 8), 8)
    if not interleave:
        assert index[0][real[0]].tolist() == list(range(min(8, count)))


def test_radar_signature_is_two_bits_of_the_sum():
    n = torch.randint(-128, 128, (37,), generator=torch.Generator().manual_seed(0))
    radar = Radar(group=8)
    stored = radar.protect(Stored(n & 255, (37,), "int8", 1.0, 128.0))
    index, real = radar.groups(37)
    expected = [
        sum(int(n[i]) for i, r in zip(g, m, strict=True) if r) // 128 % 4 for g, m in zip(index, real, strict=True)
    ]
    assert stored.check.tolist() == expected
    assert stored.n_check_bits == 10 and stored.n_exposed_bits == 37 * 8


def test_radar_catches_every_flip_of_a_top_bit_and_zeroes_the_group():
    radar = Radar(group=16)
    stored = radar.protect(store(weights(320), "int8"))
    index = radar.groups(320)[0]
    for weight in range(0, 320, 13):
        seen, report = radar.recover(flip(stored, torch.tensor([weight * 8 + 7])))
        group = (index == weight).any(1)
        assert not seen.codes[index[group]].any()
        assert torch.equal(seen.codes[index[~group]], stored.codes[index[~group]])
        assert report.flagged == 1


def test_radar_misses_two_opposite_flips_in_one_group():
    radar = Radar(group=2, interleave=False)
    stored = radar.protect(int8([5.0, -7.0]))
    faulty = flip(stored, torch.tensor([7, 15]))
    seen, report = radar.recover(faulty)
    assert report.flagged == 0 and seen.values().tolist() == [-123.0, 121.0]


def test_a_group_that_radar_gave_up_stays_quiet():
    radar = Radar(group=16)
    scrubbed, report = radar.scrub(flip(radar.protect(store(weights(320), "int8")), torch.tensor([7])))
    assert report.flagged == 1
    assert radar.recover(scrubbed)[1].flagged == 0


def test_zero_sum_tiles_bring_single_faults_back():
    stored = ZeroSum().protect(store(weights(32, 32), "int8", "tile", 8))
    faulty = flip(stored, torch.tensor([7, 32 * 16 * 8 + 16 * 8 + 6]))  # one weight in each of two tiles
    seen, report = ZeroSum().recover(faulty)
    assert torch.equal(seen.codes, stored.codes)
    assert (report.flagged, report.corrected) == (2, 2)


@pytest.mark.parametrize("fmt", FORMATS)
def test_zero_sum_beats_the_guard_in_every_format(fmt):
    """Weight error after faults at 1e-3, on the same faults: less than half of the guard's."""
    tile = store(weights(128, 128), fmt, "tile", 8)
    clean = tile.values()
    errors = []
    for defence in (Guard(), ZeroSum()):
        seen = [defence.recover(flip_random(tile, 1e-3, seed))[0].values() for seed in range(3)]
        errors.append(sum(float((w - clean).norm() / clean.norm()) for w in seen))
    assert errors[1] < 0.5 * errors[0]


def test_secded_and_zero_sum_agree_that_sparse_faults_vanish():
    w = weights(64, 64)
    for defence, layout, block in ((SECDED(), "none", 0), (ZeroSum(), "tile", 8)):
        stored = defence.protect(store(w, "int8", layout, block))
        words = torch.arange(0, stored.n_data_bits, 64 * 8 * 8)  # one fault in each stripe of eight rows
        assert torch.equal(defence.recover(flip(stored, words))[0].codes, stored.codes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Guard("drop"), "mode was 'drop'; it must be 'zero' or 'clamp'"),
        (lambda: Radar(group=1), "group was 1; it must be at least 2"),
        (lambda: Radar().protect(store(weights(8), "fp16")), "format 'fp16'; RADAR must have 'int8'"),
        (lambda: Radar().recover(store(weights(32), "int8")), "0 signatures; it must have 2: call protect first"),
        (lambda: ZeroSum(ber=0.0), r"ber was 0.0; it must lie in \(0, 0.5\)"),
        (lambda: ZeroSum().protect(store(weights(8, 8), "int8")), "layout 'none'; zero-sum recovery must have"),
        (
            lambda: ZeroSum().protect(flip(store(weights(8, 8), "int8", "tile", 8), torch.tensor([0]))),
            "2 sums of layout 'tile', block 8, were not zero",
        ),
        (
            lambda: ZeroSum().protect(flip(store(weights(8, 8), "fp32", "tile", 8), torch.tensor([30]))),
            "1 codes off its grid or out of range",
        ),
    ],
)
def test_refusals_name_what_was_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_defences_are_values():
    assert Radar(group=8) == Radar(group=8) and Guard("clamp") != Guard("zero")
    assert {d.name for d in (Nothing(), Guard(), ZeroSum(), Radar(), SECDED(), InPlaceECC())} == {
        "none",
        "guard",
        "zero-sum",
        "RADAR",
        "SECDED",
        "in-place ECC",
    }
