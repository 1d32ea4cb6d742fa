"""The bookkeeping of the experiments, by hand-made rows and by invariants on a tiny run."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from nips26lib.papers.zerosum import study
from nips26lib.papers.zerosum.attacks import Attack, Flip
from nips26lib.papers.zerosum.presets import PRESETS, ZeroSumPreset
from nips26lib.papers.zerosum.study import Assault, Row, Siege

TINY = ZeroSumPreset(
    epochs=1, tuning_epochs=1, rates=(1e-3,), draws=1, rounds=2, attack_flips=4, attack_images=32, first_seed=7
)


@pytest.fixture(scope="module")
def trained():
    return study.train_all(TINY, (7,), torch.device("cpu"))


def row(contender: str, error: float, accuracy: float, threat: str = "random", seed: int = 0) -> Row:
    return Row("net", "int8", seed, contender, threat, 1e-3 if threat != "clean" else 0.0, float(error), 0.0, accuracy)


def test_ranks_average_error_and_accuracy_lost():
    rows = [row("a", 0.0, 0.9, "clean"), row("b", 0.0, 0.8, "clean"), row("c", 0.0, 0.9, "clean")]
    rows += [row("a", 0.1, 0.7), row("b", 0.2, 0.7), row("c", 0.3, 0.9)]
    (cell,) = study.ranks(rows).values()
    # errors rank a, b, c as 1, 2, 3; accuracy lost is .2, .1, 0, so 3, 2, 1
    assert cell == {"a": 2.0, "b": 2.0, "c": 2.0}


def test_ranks_share_ties_and_put_infinity_last():
    rows = [row(who, 0.0, 0.9, "clean") for who in "abc"] + [
        row("a", 0.0, 0.9),
        row("b", 0.0, 0.9),
        row("c", math.inf, 0.1),
    ]
    (cell,) = study.ranks(rows).values()
    assert cell == {"a": 1.0, "b": 1.0, "c": 3.0}


def test_flips_to_half_and_censoring():
    siege = Siege(
        "net", 0, Assault("tile", ("single",), False), (0, 4, 8), (0.9, 0.6, 0.5), (0, 1, 2), Attack((), (), ()), {}
    )
    assert siege.flips_to(0.5) == (8.0, True)
    assert siege.flips_to(0.4) == (8.0, False)
    assert (siege.at(0), siege.at(5), siege.at(100)) == (0.9, 0.6, 0.5)


def test_clean_memory_is_read_back_without_error(trained):
    for fmt in TINY.formats:
        for contender in study.line_up(fmt):
            protected = trained.protect("digits-mlp", contender, fmt, 7)
            outcome = protected.outcome(protected.memory)
            assert (outcome.error, outcome.wrong) == (0.0, 0.0), (fmt, contender.name)


def test_all_defences_of_an_arm_meet_the_same_data_faults(trained):
    none, secded = (trained.protect("digits-mlp", study.CONTENDERS[name], "int8", 7) for name in ("none", "SECDED"))
    for name, stored in none.faulty(1e-2, 3).items():
        assert torch.equal(stored.codes, secded.faulty(1e-2, 3)[name].codes)


def test_stored_bytes(trained):
    sizes = {name: study.stored_bytes(trained, TINY, name) for name in ("none", "tile", "rows", "SECDED")}
    weights = 64 * 128 + 128 * 128 + 128 * 10
    assert sizes["none"] == sizes["tile"] == sizes["rows"] == 5 * weights  # four bytes as fp32, one as int8
    assert sizes["SECDED"] == 5 * weights * 9 / 8


def test_in_place_ecc_accepts_int8_alone(trained):
    assert study.formats_accepted(trained, TINY, "in-place ECC") == 1
    assert study.formats_accepted(trained, TINY, "tile") == 2


def test_error_is_the_distance_over_the_norm(trained):
    protected = trained.protect("digits-mlp", study.CONTENDERS["none"], "int8", 7)
    name = next(iter(protected.memory))
    struck = {**protected.memory, name: study.strike(protected.memory, [Flip(name, 3)])[name]}
    unit = protected.memory[name].unit
    assert protected.outcome(struck).error == pytest.approx(8 * unit / protected.size, rel=1e-5)


def test_scrubbing_beats_one_repair_at_the_end(trained):
    settings = replace(TINY, rounds=12, round_rate=1e-3)
    rows = study.cumulative_faults(trained, settings, ["int8"])
    scrubbed = next(r.error for r in rows if r.level == 12 and r.contender == "tile")
    protected = trained.protect("digits-mlp", study.CONTENDERS["tile"], "int8", 7)
    memory = dict(protected.memory)
    for number in range(1, 13):
        memory = protected.faulty(1e-3, 7 * 1000 + number, memory)
    assert scrubbed < 0.5 * protected.outcome(memory).error


def test_tensors_of_a_network_meet_faults_of_their_own(trained):
    protected = trained.protect("digits-mlp", study.CONTENDERS["none"], "int8", 7)
    struck = protected.faulty(1e-2, 3)
    first, second = ((struck[name].codes ^ protected.memory[name].codes)[:8000] for name in list(struck)[:2])
    assert not torch.equal(first, second)


def test_the_attacker_keeps_the_loss_that_hurts_more(trained, monkeypatch):
    losses = {"useless": lambda logits, labels: 0.0 * logits.sum(), "probability": study.LOSSES["probability"]}
    monkeypatch.setattr(study, "LOSSES", losses)
    settings = replace(TINY, attack_flips=8)
    (siege,) = study.besiege(trained, settings, [Assault("none", ("single",), False)])
    assert all(-1 < loss < 0 for loss in siege.attack.losses)


def test_recovery_scrubs_between_rounds(trained):
    rows = study.cumulative_faults(trained, TINY, ["int8"])
    assert {r.level for r in rows} == {1, 2}
    error = {r.contender: r.error for r in rows if r.level == 2}
    assert error["tile"] < error["none"]
    assert error["SECDED"] < error["none"]


def test_checkbit_attack_counts_wrong_data_bits(trained):
    assault = Assault("SECDED", ("checkbits",), True)
    (siege,) = study.besiege(trained, TINY, [assault], step=1)
    assert study.wrong_data_bits(trained, siege, 3) == 1
    assert study.wrong_data_bits(trained, siege, 2) == 0
    assert study.accuracy_after(trained, siege, 3) == siege.at(3)


def test_verdict_seeds_start_at_1000():
    assert all(preset.first_seed >= 1000 for preset in PRESETS.values())


def test_laptop_fits_every_format_and_three_architectures():
    assert set(PRESETS["laptop"].formats) == {"fp32", "fp16", "bf16", "int8", "int4"}
    assert len({study.NETS[net].make for net in PRESETS["laptop"].nets}) == 3
