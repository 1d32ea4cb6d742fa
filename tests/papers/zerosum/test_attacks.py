"""The attack against exhaustive search and finite differences; every adaptive move against what it promises."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nips26lib.papers.zerosum.attacks import Attack, Flip, bit_flip_attack, margin_loss, probability_loss, read, strike
from nips26lib.papers.zerosum.constraint import project, residuals
from nips26lib.papers.zerosum.decoder import popcount
from nips26lib.papers.zerosum.defences import Radar, ZeroSum
from nips26lib.papers.zerosum.ecc import SECDED
from nips26lib.papers.zerosum.formats import decode
from nips26lib.papers.zerosum.memory import Stored, flip, store
from nips26lib.papers.zerosum.moves import MOVES, View, view


def weights(layout: str, shape: tuple[int, int] = (16, 24), block: int = 8, fmt: str = "int8", seed: int = 0) -> Stored:
    w = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return store(project(w, layout, block) if layout != "none" else w, fmt, layout, block)


def seen(stored: Stored, defence=None, seed: int = 1) -> View:
    gradient = torch.randn(len(stored.codes), generator=torch.Generator().manual_seed(seed))
    return view(stored, gradient, torch.zeros(stored.n_exposed_bits, dtype=torch.bool), defence)


def linear_loss(logits, labels):
    return logits.sum()


class TestGain:
    def test_sign_bit_of_zero_takes_128_steps_off(self):
        stored = store(torch.zeros(2), "int8", unit=0.5)
        table = view(stored, torch.ones(2), torch.zeros(16, dtype=torch.bool), None).gain
        assert table[0].tolist() == [0.5, 1, 2, 4, 8, 16, 32, -64]

    @pytest.mark.parametrize("fmt", ["int8", "int4", "fp16"])
    def test_equals_the_change_of_a_linear_loss(self, fmt):
        net = nn.Linear(6, 5, bias=False)
        stored = weights("none", (5, 6), fmt=fmt)
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(2))
        slope = x.sum(0).expand(5, 6).flatten()
        table = view(stored, slope, torch.zeros(stored.n_data_bits, dtype=torch.bool), None).gain

        def loss(memory: Stored) -> float:
            return float((x.double() @ memory.values().double().T).sum())

        for position in range(0, stored.n_data_bits, 7):
            after = loss(flip(stored, torch.tensor([position])))
            expected = table.flatten()[position].item()
            if abs(expected) < 1e6 and after == after and abs(after) < 1e6:
                assert after - loss(stored) == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert net.weight.shape == stored.shape


class TestSearch:
    def test_zero_flips_do_nothing(self):
        stored = weights("none", (4, 6))
        attack = bit_flip_attack(
            nn.Linear(6, 4, bias=False), {"weight": stored}, torch.ones(2, 6), torch.zeros(2, dtype=torch.long), 0
        )
        assert attack == Attack((), (), ())
        assert torch.equal(strike({"weight": stored}, attack.flips)["weight"].codes, stored.codes)

    def test_one_flip_is_the_best_of_all_single_flips(self):
        net = nn.Linear(6, 4, bias=False)
        stored = weights("none", (4, 6))
        generator = torch.Generator().manual_seed(3)
        x, y = torch.randn(8, 6, generator=generator), torch.randint(4, (8,), generator=generator)
        attack = bit_flip_attack(net, {"weight": stored}, x, y, 1, candidates=stored.n_bits)
        losses = [
            float(probability_loss(x @ flip(stored, torch.tensor([bit])).values().T, y)) for bit in range(stored.n_bits)
        ]
        assert attack.losses[0] == pytest.approx(max(losses), abs=1e-6)
        assert attack.flips == [Flip("weight", int(torch.tensor(losses).argmax()))]
        assert attack.queries[0] == stored.n_bits + 1  # every candidate, and the gradient

    def test_never_flips_a_bit_twice_and_keeps_the_budget(self):
        stored = weights("tile", (8, 8))
        x, y = torch.randn(16, 8, generator=torch.Generator().manual_seed(4)), torch.arange(16) % 8
        attack = bit_flip_attack(nn.Linear(8, 8, bias=False), {"weight": stored}, x, y, 21, ("single", "rect"))
        assert len(attack.flips) <= 21
        assert len(set(attack.flips)) == len(attack.flips)
        assert {len(move) for move in attack.moves} <= {1, 4}

    def test_moves_compete_by_their_gain_per_flip(self):
        # the better half of a pair gains more per flip than the pair, which gains more in all
        stored = weights("none", (8, 8))
        x, y = torch.randn(64, 8, generator=torch.Generator().manual_seed(4)), torch.arange(64) % 8
        attack = bit_flip_attack(nn.Linear(8, 8, bias=False), {"weight": stored}, x, y, 2, ("single", "double"))
        assert [len(move) for move in attack.moves] == [1, 1]

    def test_raises_the_loss(self):
        stored = weights("none", (8, 8))
        x, y = torch.randn(64, 8, generator=torch.Generator().manual_seed(4)), torch.arange(64) % 8
        net = nn.Linear(8, 8, bias=False)
        before = float(probability_loss(x @ stored.values().T, y))
        attack = bit_flip_attack(net, {"weight": stored}, x, y, 10)
        assert before < attack.losses[0] < attack.losses[-1] <= 0
        after = strike({"weight": stored}, attack.flips)["weight"].values()
        assert attack.losses[-1] == pytest.approx(float(probability_loss(x @ after.T, y)), abs=1e-6)

    def test_within_makes_moves_whole_or_not_at_all(self):
        one, two = (Flip("a", 0),), (Flip("a", 1), Flip("a", 2))
        attack = Attack((one, two, one), (1, 2, 3), (0.0, 0.0, 0.0))
        assert attack.within(2) == list(one)
        assert attack.within(3) == [*one, *two]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"moves": ("jump",)}, "moves must be one or more of single, pair"),
            ({"moves": ()}, "moves must be one or more"),
            ({"n_flips": -1}, "n_flips must be 0 or more, got -1"),
            ({"memory": {"bias": weights("none", (4, 6))}}, "memory names \\['bias'\\]"),
        ],
    )
    def test_refusals(self, change, message):
        call = {"memory": {"weight": weights("none", (4, 6))}, "n_flips": 1, "moves": ("single",)} | change
        with pytest.raises(ValueError, match=message):
            bit_flip_attack(
                nn.Linear(6, 4, bias=False), inputs=torch.ones(1, 6), labels=torch.zeros(1, dtype=torch.long), **call
            )


class TestLosses:
    def test_uniform_logits(self):
        labels = torch.tensor([0, 1, 2])
        assert probability_loss(torch.zeros(3, 10), labels).item() == pytest.approx(-0.1)
        assert margin_loss(torch.zeros(3, 10), labels).item() == 0

    def test_an_image_that_is_lost_counts_no_more(self):
        lost = torch.tensor([[-50.0, 50.0]])
        assert margin_loss(lost, torch.tensor([0])).item() == 1
        assert margin_loss(10 * lost, torch.tensor([0])).item() == 1
        assert probability_loss(lost, torch.tensor([0])).item() == pytest.approx(0, abs=1e-6)

    def test_logits_that_are_no_numbers_count_as_broken(self):
        nothing = torch.full((2, 10), torch.nan)
        assert probability_loss(nothing, torch.tensor([0, 0])).item() == 0
        assert margin_loss(nothing, torch.tensor([0, 0])).item() == 1


class TestMoves:
    def test_pair_keeps_block_sums(self):
        stored = weights("rows", block=8)
        found = MOVES["pair"](seen(stored, ZeroSum()), 20)
        assert found.positions.shape == (20, 2)
        for positions in found.positions:
            n, _ = decode(flip(stored, positions).codes, stored.unit, "int8")
            assert not residuals(n.view(stored.shape), "rows", 8).any()

    def test_pair_keeps_radar_silent(self):
        radar = Radar(group=16)
        stored = radar.protect(weights("none"))
        for positions in MOVES["pair"](seen(stored, radar), 10).positions:
            assert radar.recover(flip(stored, positions))[1].flagged == 0

    def test_rect_is_silent_and_stays(self):
        stored = weights("tile")
        found = MOVES["rect"](seen(stored, ZeroSum()), 20)
        assert found.positions.shape == (20, 4)
        for positions in found.positions:
            hit = flip(stored, positions)
            recovered, report = ZeroSum().recover(hit)
            assert report.flagged == 0
            assert torch.equal(recovered.codes, hit.codes)

    def test_rect_finds_the_best_rectangle(self):
        stored = weights("tile", (4, 4), block=4)
        at = seen(stored, ZeroSum())
        best = max(
            sum(at.gain[cell, bit].item() for cell in cells)
            for bit in range(8) for i in range(4) for k in range(4) for j in range(4) for m in range(4)
            if i != k and j != m
            for cells in [(4 * i + j, 4 * k + j, 4 * i + m, 4 * k + m)]
            if [bool(at.bit[cell, bit]) for cell in cells] == [False, True, True, False]
        )  # fmt: skip
        assert MOVES["rect"](at, 1).gain.item() == pytest.approx(best)

    def test_ambiguous_leaves_four_wrong_weights(self):
        stored = weights("tile", (32, 32))
        found = MOVES["ambiguous"](seen(stored, ZeroSum()), 5)
        assert found.positions.shape[1] == 2
        assert len(found.gain) > 0
        wrong = [int((ZeroSum().recover(flip(stored, p))[0].codes != stored.codes).sum()) for p in found.positions]
        assert max(wrong) == 4

    @pytest.mark.parametrize(("kind", "layout"), [("ambiguous", "tile"), ("confuse", "rows")])
    def test_gain_kept_is_that_of_decoding_each_candidate_alone(self, kind, layout):
        stored = weights(layout, (32, 32))
        at = seen(stored, ZeroSum())
        found = MOVES[kind](at, 6)
        assert len(found.gain) == 6
        for positions, gain in zip(found.positions, found.gain, strict=True):
            after = ZeroSum().recover(flip(stored, positions))[0].values().flatten()
            kept = float((at.gradient * (after - stored.values().flatten())).sum())
            assert gain.item() == pytest.approx(kept, rel=1e-4, abs=1e-4)

    def test_double_is_noticed_and_not_repaired(self):
        stored = SECDED().protect(weights("none"))
        for positions in MOVES["double"](seen(stored, SECDED()), 10).positions:
            recovered, report = SECDED().recover(flip(stored, positions))
            assert (report.flagged, report.corrected, report.uncorrectable) == (1, 0, 1)
            assert int(popcount(recovered.codes ^ stored.codes).sum()) == 2

    def test_check_bits_alone_flip_the_named_data_bit(self):
        stored = SECDED().protect(weights("none"))
        at = seen(stored, SECDED())
        found = MOVES["checkbits"](at, 10)
        assert (found.positions >= stored.n_data_bits).all()
        for positions, gain in zip(found.positions, found.gain, strict=True):
            recovered, _ = SECDED().recover(flip(stored, positions))
            changed = (recovered.codes ^ stored.codes).nonzero().flatten()
            assert len(changed) == 1
            bit = int((recovered.codes ^ stored.codes)[changed[0]]).bit_length() - 1
            assert at.gain[changed[0], bit] == gain

    @pytest.mark.parametrize("kind", ["checkbits", "triple"])
    @pytest.mark.parametrize("touched", ["data", "check"])
    def test_a_word_touched_before_is_left_alone(self, kind, touched):
        stored = SECDED().protect(weights("none", (8, 16)))
        at = seen(stored, SECDED())

        def words(found):
            data = found.positions < stored.n_data_bits
            return torch.where(data, found.positions // 64, (found.positions - stored.n_data_bits) // 8)

        favourite = int(words(MOVES[kind](at, 1))[0, 0])
        used = at.used.clone()
        used[64 * favourite + 1 if touched == "data" else stored.n_data_bits + 8 * favourite] = True
        again = MOVES[kind](view(stored, at.gradient, used, SECDED()), 40)
        assert len(again.gain) > 0
        assert not (words(again) == favourite).any()

    @pytest.mark.parametrize(("kind", "bits"), [("checkbits", 1), ("triple", 4)])
    def test_moves_that_fool_secded_never_share_a_word(self, kind, bits):
        secded = SECDED()
        stored = secded.protect(weights("none", (8, 16)))
        x, y = torch.randn(32, 16, generator=torch.Generator().manual_seed(4)), torch.arange(32) % 8
        net = nn.Linear(16, 8, bias=False)
        attack = bit_flip_attack(net, {"weight": stored}, x, y, 24, (kind,), secded)
        assert len(attack.moves) == 8
        recovered, _ = secded.recover(strike({"weight": stored}, attack.flips)["weight"])
        assert int(popcount(recovered.codes ^ stored.codes).sum()) == 8 * bits

    def test_triple_makes_four_wrong_bits_unnoticed(self):
        stored = SECDED().protect(weights("none"))
        for positions in MOVES["triple"](seen(stored, SECDED()), 10).positions:
            recovered, report = SECDED().recover(flip(stored, positions))
            assert report.uncorrectable == 0
            assert int(popcount(recovered.codes ^ stored.codes).sum()) == 4


def test_strike_and_read_leave_the_memory_alone():
    memory = {"a": weights("none", (4, 4)), "b": weights("none", (4, 4), seed=5)}
    kept = {name: stored.codes.clone() for name, stored in memory.items()}
    struck = strike(memory, [Flip("a", 0), Flip("a", 9)])
    assert all(torch.equal(memory[name].codes, kept[name]) for name in memory)
    assert (struck["a"].codes ^ kept["a"]).tolist()[:2] == [1, 2]
    assert torch.equal(read(struck, None)["b"], memory["b"].values())
