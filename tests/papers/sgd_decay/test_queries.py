"""Numbers of queries: on a parabola against its closed form, on bumps against runs of the very settings found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from nips26lib.papers.sgd_decay.diffusion import fokker_planck
from nips26lib.papers.sgd_decay.functions import benchmark, section
from nips26lib.papers.sgd_decay.landscape import Landscape1D, grid_for
from nips26lib.papers.sgd_decay.queries import FAMILIES, _first_crossing, queries_to_eps

SIGMA = 10.0


def parabola() -> Landscape1D:
    return Landscape1D(lambda x: x**2 / 2, grid_for(-6.0, 6.0, 241))


def bumpy() -> Landscape1D:
    return Landscape1D(section(benchmark("rastrigin", 1, A=1.0)), grid_for(-4.5, 4.5, 251))


def test_best_fixed_rate_on_a_parabola() -> None:
    # E φ = (x0² s + T (1 − s))/2 with s = e^{−2t}, and K = t/η = σ²t/(2T).
    land, x0, eps = parabola(), 2.0, 0.1

    def queries(T: float) -> float:
        t = brentq(lambda t: (x0**2 * math.exp(-2 * t) + T * (1 - math.exp(-2 * t))) / 2 - eps, 0, 40)
        return SIGMA**2 * t / (2 * T)

    best = minimize_scalar(queries, bounds=(0.02, 0.1999), method="bounded")
    found = queries_to_eps(land, [eps], "fixed", SIGMA, land.point_mass(x0))
    assert found.K[0] == pytest.approx(best.fun, rel=0.08)
    assert found.eta0[0] * SIGMA**2 / 2 == pytest.approx(best.x, rel=0.1)
    assert found.eta1[0] == found.eta0[0]


def test_a_geometric_schedule_on_a_parabola() -> None:
    # The second moment of the schedule found, query by query: m ← m e^{−2η} + T (1 − e^{−2η}).
    land, eps = parabola(), np.array([0.2, 0.05])
    found = queries_to_eps(land, eps, "geometric", SIGMA, land.point_mass(2.0))
    for K, eta0, eta1, wanted in zip(found.K, found.eta0, found.eta1, eps, strict=True):
        moment, count = 4.0, round(K * 50)
        for k in range(count):
            eta = eta0 * (eta1 / eta0) ** ((k + 0.5) / count)
            decay = math.exp(-2 * eta / 50)
            moment = moment * decay + eta * SIGMA**2 / 2 * (1 - decay)
        assert moment / 2 == pytest.approx(wanted, rel=0.08)


def test_found_settings_reach_the_accuracy_and_decay_wins_more_and_more() -> None:
    land = bumpy()
    p0, eps = land.point_mass(1.9), np.array([0.2, 0.14, 0.1])
    fixed, decay = (queries_to_eps(land, eps, family, SIGMA, p0, settings=16) for family in FAMILIES)
    assert fixed.settings == decay.settings == 16 and fixed.eps.tolist() == eps.tolist()
    assert (np.diff(fixed.K) > 0).all() and (np.diff(decay.K) > 0).all()
    ratio = fixed.K / decay.K
    assert (np.diff(ratio) > 0).all() and ratio[-1] > 15
    for e, wanted in enumerate(eps):
        T, t = fixed.eta0[e] * SIGMA**2 / 2, fixed.K[e] * fixed.eta0[e]
        n = 1000
        p = fokker_planck(land, np.full(n, T), np.full(n, t / n), p0)
        assert land.energy(p) == pytest.approx(wanted, rel=0.05)
        etas = decay.eta0[e] * (decay.eta1[e] / decay.eta0[e]) ** ((np.arange(n) + 0.5) / n)
        p = fokker_planck(land, etas * SIGMA**2 / 2, etas * decay.K[e] / n, p0)
        assert land.energy(p) == pytest.approx(wanted, rel=0.05)
    assert (decay.eta0 <= 1 / land.smoothness * (1 + 1e-9)).all()


def test_one_pass_finds_what_each_accuracy_alone_would() -> None:
    # More accuracies change the grids of settings, but not much what the best of 36 reaches.
    land = Landscape1D(section(benchmark("rastrigin", 1, A=0.5)), grid_for(-4.5, 4.5, 181))
    p0 = land.point_mass(0.95)
    for family in FAMILIES:
        together = queries_to_eps(land, [0.3, 0.15], family, SIGMA, p0, settings=36)
        alone = queries_to_eps(land, [0.15], family, SIGMA, p0, settings=36)
        assert alone.K[0] == pytest.approx(together.K[1], rel=0.15)


def test_more_noise_needs_as_many_more_queries() -> None:
    # At equal temperatures η is σ² times smaller, and every query lasts as much shorter.
    land = bumpy()
    p0 = land.point_mass(0.95)
    one, two = (queries_to_eps(land, [0.15], "fixed", sigma, p0, settings=16) for sigma in (10.0, 20.0))
    assert two.K[0] == pytest.approx(4 * one.K[0], rel=0.03)


def test_a_budget_that_does_not_suffice() -> None:
    land = bumpy()
    for family in FAMILIES:
        found = queries_to_eps(land, [0.3, 0.1], family, SIGMA, land.point_mass(1.9), settings=16, K_max=6000.0)
        assert np.isfinite(found.K).tolist() == [True, False]
        assert math.isnan(found.eta0[1]) and math.isnan(found.eta1[1]) and found.K[1] == math.inf
        enough = queries_to_eps(land, [0.3, 0.1], family, SIGMA, land.point_mass(1.9), settings=16)
        assert found.K[0] == pytest.approx(enough.K[0], rel=1e-9)


def test_a_start_that_is_good_enough() -> None:
    land = bumpy()
    assert queries_to_eps(land, [0.1], "fixed", SIGMA, land.gibbs(0.1), settings=16).K[0] <= 1


def test_the_first_crossing_is_interpolated_in_log_queries() -> None:
    K, energy = np.array([10.0, 100.0, 1000.0, 1e4]), np.array([0.8, 0.4, 0.6, 0.1])
    crossings = [_first_crossing(K, energy, eps) for eps in (0.9, 0.6, 0.4, 0.35, 0.05)]
    assert crossings == pytest.approx([10, 10**1.5, 100, 10**3.5, math.inf])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "cosine"}, "family was 'cosine'; it must be one of fixed, geometric"),
        ({"eps": [0.1, 0.0]}, "eps was"),
        ({"eps": [math.nan]}, "eps was"),
        ({"eps": []}, "eps was"),
        ({"eps": [1e-5]}, "energy was .*; the grid tells energies from"),
        ({"sigma": 0.0}, "sigma was 0"),
        ({"sigma": -1.0}, "sigma was -1.0"),
        ({"settings": 15}, "settings was 15; it must be a square"),
        ({"settings": 1}, "settings was 1"),
        ({"K_max": 0.0}, "K_max was 0.0"),
        ({"p0": np.ones(251)}, "p0 was no law"),
    ],
)
def test_refusals(change, message) -> None:
    land = bumpy()
    call = {"eps": [0.1], "family": "fixed", "sigma": SIGMA, "p0": land.point_mass(1.9)} | change
    with pytest.raises(ValueError, match=message):
        queries_to_eps(land, **call)
