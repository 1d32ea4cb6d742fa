"""The contest: equal grids, fresh seeds, paired noise; and what its numbers say where they are known beforehand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from nips26lib.blocks.stats import mean_interval
from nips26lib.papers.sgd_decay import contest as module
from nips26lib.papers.sgd_decay.contest import (
    JUDGING,
    PROBLEMS,
    Contest,
    Problem,
    Result,
    Setting,
    contest,
    grid,
    queries_to_match,
    references,
    robustness,
)
from nips26lib.papers.sgd_decay.descent import sgd, uniform_start

BUMPY = "Rastrigin, A = 1"
SMALL = {"seed": 3, "chains": 6, "settings": 4}


def result(values: list[float], kind: str = "fixed") -> Result:
    return Result(Setting(kind, 0.1, 0.1), 0.0, torch.tensor(values, dtype=torch.float64))


def pair(K: int, fixed: list[float], decay: list[float], d: int = 2) -> Contest:
    return Contest("made up", d, K, result(fixed), result(decay, "geometric"))


@pytest.mark.parametrize("kind", ["fixed", "geometric", "cosine", "step"])
@pytest.mark.parametrize("settings", [4, 10])
def test_both_families_get_equally_many_settings(kind: str, settings: int) -> None:
    entries = grid(PROBLEMS[BUMPY], kind, settings)
    assert len(set(entries)) == settings


def test_fixed_rates_surround_the_centre_and_decay_starts_above_it() -> None:
    problem = Problem("levy", 1.0, 0.2)
    fixed = [entry.eta0 for entry in grid(problem, "fixed", 5 * 2)]
    assert fixed[0] == pytest.approx(0.2 / 3) and fixed[-1] == pytest.approx(0.6)
    ratios = [b / a for a, b in pairwise(fixed)]
    assert max(ratios) == pytest.approx(min(ratios))
    decay = grid(problem, "geometric", 10)
    assert {round(entry.eta0 / entry.eta1) for entry in decay} == {10, 100}
    assert min(entry.eta0 for entry in decay) == pytest.approx(0.3)
    assert max(entry.eta0 for entry in decay) == pytest.approx(2.4)


@pytest.mark.parametrize("settings", [0, 2, 5])
def test_a_grid_of_another_size_is_refused(settings: int) -> None:
    with pytest.raises(ValueError, match=f"settings was {settings}"):
        grid(PROBLEMS[BUMPY], "fixed", settings)


@pytest.mark.parametrize("kind", ["geometric", "polynomial", "cosine", "step", "logarithmic"])
def test_every_shape_runs_from_the_first_rate_to_the_last(kind: str) -> None:
    etas = Setting(kind, 0.5, 0.05).etas(600)
    assert float(etas[0]) == pytest.approx(0.5)
    assert float(etas[-1]) == pytest.approx(0.05)
    assert bool((etas.diff() <= 1e-15).all())


def test_the_best_setting_is_run_again_on_a_fresh_seed() -> None:
    (one,) = contest(BUMPY, 2, 50, **SMALL)
    fn = PROBLEMS[BUMPY].function(2)
    for seed, same in ((JUDGING + 3, True), (3, False)):
        generator = torch.Generator().manual_seed(seed)
        x0 = uniform_start(fn, 6, generator)
        etas = torch.stack([one.fixed.setting.etas(50), one.decay.setting.etas(50)])
        f = sgd(fn, x0, etas, PROBLEMS[BUMPY].sigma, generator).f_last
        assert torch.equal(f[0], one.fixed.f) is same
        assert torch.equal(f[1], one.decay.f) is same
        if not same:  # the tuning seed: there the mean is the one by which the setting was chosen
            assert float(f[0].mean()) == pytest.approx(one.fixed.tuned)
            assert float(f[1].mean()) == pytest.approx(one.decay.tuned)


def test_the_best_of_the_grid_is_chosen() -> None:
    (one,) = contest(BUMPY, 2, 50, **SMALL)
    fn, generator = PROBLEMS[BUMPY].function(2), torch.Generator().manual_seed(3)
    x0 = uniform_start(fn, 6, generator)
    entries = grid(PROBLEMS[BUMPY], "fixed", 4)
    means = sgd(fn, x0, torch.stack([e.etas(50) for e in entries]), PROBLEMS[BUMPY].sigma, generator).f_last.mean(1)
    assert one.fixed.setting == entries[int(means.argmin())]


def test_tuning_and_judging_seeds_never_meet() -> None:
    tuned, judged = ({seed % module.TUNING for seed in range(1000)}, {JUDGING + seed for seed in range(1000)})
    assert max(tuned) < 100 and min(judged) >= 1000


def test_one_call_holds_a_contest_for_every_shape_against_the_same_fixed_rate() -> None:
    both = contest(BUMPY, 2, 50, kinds=("geometric", "cosine"), **SMALL)
    assert [one.decay.setting.kind for one in both] == ["geometric", "cosine"]
    assert torch.equal(both[0].fixed.f, both[1].fixed.f)


def test_a_start_in_the_well_is_there() -> None:
    (one,) = contest(BUMPY, 3, 10, start="well", **SMALL)
    problem, x0 = PROBLEMS[BUMPY], torch.full((6, 3), 1.9, dtype=torch.float64)
    by_hand = sgd(
        problem.function(3), x0, one.fixed.setting.etas(10), problem.sigma, torch.Generator().manual_seed(JUDGING + 3)
    )
    torch.testing.assert_close(by_hand.f_last, one.fixed.f)


@pytest.mark.parametrize("louder", [0.5, 3.0])
def test_louder_noise_keeps_the_temperatures(louder: float) -> None:
    (one,) = contest(BUMPY, 2, 20, louder=louder, **SMALL)
    temperatures = {round(e.eta0 * PROBLEMS[BUMPY].sigma ** 2, 9) for e in grid(PROBLEMS[BUMPY], "fixed", 4)}
    assert round(one.fixed.setting.eta0 * (louder * PROBLEMS[BUMPY].sigma) ** 2, 9) in temperatures


def test_the_best_iterate_is_never_above_the_last() -> None:
    (one,) = contest(BUMPY, 2, 50, by_best=True, **SMALL)
    for family in (one.fixed, one.decay):
        assert family.best is not None
        assert bool((family.best <= family.f).all())


def test_ratio_and_decision_of_known_samples() -> None:
    one = pair(10, [2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert one.ratio[:3] == pytest.approx((2.0, 2.0, 2.0))
    assert not one.decided  # wide intervals overlap
    assert pair(10, [4.0, 4.1, 4.2], [1.0, 1.1, 1.2]).decided
    assert not pair(10, [1.0, 1.1, 1.2], [4.0, 4.1, 4.2]).decided
    assert one.fixed.mean == mean_interval([2.0, 4.0, 6.0])


@pytest.mark.parametrize(
    ("fixed", "decay", "ratio", "decided"),
    [(math.inf, 1.0, math.inf, True), (1.0, math.inf, 0.0, False), (math.inf, math.inf, 1.0, False)],
)
def test_a_chain_that_left_the_finite_numbers_counts(fixed: float, decay: float, ratio: float, decided: bool) -> None:
    one = pair(10, [1.0, 1.0, fixed], [1.0, 1.0, decay])
    assert one.ratio[:3] == (ratio, ratio, ratio)
    assert one.decided is decided


def test_queries_to_match_on_a_power_law() -> None:
    # Decay reaches 100/K, the fixed rate 0.25 with the largest budget: decay was there at K = 400.
    contests = [pair(K, [0.25, 0.25], [100 / K, 100 / K]) for K in (100, 1000, 10_000)]
    assert queries_to_match(contests, 2) == pytest.approx(400)
    assert queries_to_match([pair(K, [5.0, 5.0], [1.0, 1.0]) for K in (10, 100)], 2) == 10
    assert queries_to_match([pair(K, [0.1, 0.1], [1.0, 1.0]) for K in (10, 100)], 2) == 100
    others = [pair(K, [1e-9, 1e-9], [1.0, 1.0], d=7) for K in (10, 100)]
    assert queries_to_match(contests + others, 2) == pytest.approx(400)


def test_the_cells_are_all_combinations() -> None:
    cells = robustness(("geometric", "step"), ("gaussian", "rademacher"), ("box", "well"), 2, 20, **SMALL)
    found = [(cell.shape, cell.noise, cell.start) for cell in cells]
    assert len(found) == len(set(found)) == 8
    assert all(cell.contest.decay.setting.kind == cell.shape for cell in cells)


def test_references_find_a_minimum_within_their_calls() -> None:
    found = references(BUMPY, 2, 1500, seed=0, repeats=2)
    assert [one.method for one in found] == ["dual_annealing", "basinhopping"]
    for one in found:
        assert bool((one.f < 1e-6).all())
        assert bool((one.calls <= 1500).all())


def test_references_stop_when_the_budget_is_spent() -> None:
    for one in references("Levy", 5, 7, seed=0, repeats=1):
        assert int(one.calls.max()) <= 7
        assert math.isfinite(float(one.f[0]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"name": "sphere"}, "name was 'sphere'; it must be one of Rastrigin"), ({"start": "hill"}, "start was 'hill'")],
)
def test_what_it_does_not_know_is_refused(changes: dict[str, str], message: str) -> None:
    name = changes.pop("name", BUMPY)
    with pytest.raises(ValueError, match=message):
        contest(name, 2, 10, **SMALL, **changes)


def test_an_unknown_reference_problem_is_refused() -> None:
    with pytest.raises(ValueError, match="name was 'sphere'"):
        references("sphere", 2, 10, seed=0, repeats=1)
