"""What the chapter computes without sampling, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from nips26lib.papers.sgd_decay.exact import (
    SIGMA,
    Line,
    best_iterate_queries,
    bumpy,
    curves,
    degree,
    inequality,
    lag,
    low_energy_probability,
    random_functions,
    tracking,
)
from nips26lib.papers.sgd_decay.landscape import Landscape1D, grid_for


def parabola(points: int = 4001, reach: float = 8.0) -> Landscape1D:
    return Landscape1D(lambda x: x**2 / 2, grid_for(-reach, reach, points))


@pytest.mark.parametrize(("power", "slope", "intercept", "r2"), [(1, 1, 0, 1), (2, 3, -1, 45 / 49)])
def test_a_line_and_its_r2(power: int, slope: float, intercept: float, r2: float) -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0])
    line = Line.through(x, x**power)
    assert (line.slope, line.intercept, line.r2) == pytest.approx((slope, intercept, r2))


def test_the_bumpy_parabola_has_its_known_wells() -> None:
    wells = bumpy(1.0, 701).wells()
    assert wells.depth == pytest.approx(1.312, abs=2e-3)
    assert wells.gap == pytest.approx(0.951, abs=2e-3)


@pytest.mark.parametrize("start", ["well", "box"])
def test_curves_are_exponential_for_fixed_rates_and_polynomial_for_decay(start: str) -> None:
    found = curves(1.0, 301, (3.0, 4.5, 6.0, 7.5), 16, start)
    np.testing.assert_allclose(found.fixed.eps, found.barrier / (2 * np.array([3.0, 4.5, 6.0, 7.5])))
    assert found.fixed.settings == found.decay.settings == 16
    np.testing.assert_allclose(found.ratio, found.fixed.K / found.decay.K)
    assert (np.diff(found.ratio) > 0).all()
    assert found.exponential.slope == pytest.approx(found.barrier / 2, rel=0.3)
    assert found.exponential.r2 > found.if_polynomial.r2
    assert found.polynomial.slope < 4


def test_the_degree_grows_with_kappa() -> None:
    low, high = (degree(A, 301, (0.6, 0.4, 0.3, 0.2), 16) for A in (0.5, 2.0))
    assert low.kappa == pytest.approx(0.412, abs=0.02)
    assert high.kappa == pytest.approx(3.365, abs=0.02)
    assert low.line.slope < 2
    assert high.kappa < high.line.slope < 2 * high.kappa + 1


def test_sgd_tracks_the_diffusion_to_first_order() -> None:
    found = tracking(281, 3)
    np.testing.assert_allclose(found.eta0, [0.025, 0.0125, 0.00625])
    np.testing.assert_allclose(found.stability, found.eta0 * (2 + 4 * math.pi**2), rtol=1e-2)
    assert (np.diff(found.distance) < 0).all()
    assert 0.8 <= found.order.slope <= 1.3


def test_the_weak_inequality_and_its_slopes() -> None:
    found = inequality(301, np.geomspace(1.0, 0.08, 8), 30, seed=5)
    assert found.margins.min() >= -1e-10
    assert found.depth.slope == pytest.approx(found.barrier, rel=0.1)
    assert found.loss.slope == pytest.approx(found.gap, rel=0.1)
    local = [piece.gap_local for piece in found.pieces]
    assert found.spread == max(local) / min(local) > 1


def test_only_cold_temperatures_enter_the_slopes() -> None:
    warm, cold = (
        inequality(301, temperatures, 3, seed=5) for temperatures in ([1.0, 0.5, 0.2, 0.15, 0.1], [0.2, 0.15, 0.1])
    )
    assert warm.depth == cold.depth
    assert warm.loss == cold.loss


def test_random_functions_are_of_three_kinds_and_the_same_for_a_seed() -> None:
    land = bumpy(1.0, 301)
    one, two = (random_functions(land, 30, torch.Generator().manual_seed(2)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert one.shape == (30, 301)
    rough = np.abs(np.diff(one, axis=1)).mean(1) / np.ptp(one, axis=1)
    assert (rough[2::3] > 0.1).all()  # white noise
    assert (rough[0::3] < 0.05).all() and (rough[1::3] < 0.05).all()  # waves and steps


def test_cooling_stays_near_the_gibbs_law_and_a_cold_chain_does_not() -> None:
    found = lag(301, 100.0, 1.5, 0.05)
    assert found.time[-1] == pytest.approx(100.0 * math.log(30))
    assert found.T[0] == pytest.approx(1.5) and found.T[-1] == pytest.approx(0.05)
    warm = found.frozen <= found.T
    assert found.annealed[warm].max() < 0.2
    assert found.cold.min() > 5
    slower = lag(301, 1000.0, 1.5, 0.05)
    assert slower.frozen < found.frozen
    assert slower.annealed[-1] < found.annealed[-1]


@pytest.mark.parametrize("d", [1, 2, 5, 16])
@pytest.mark.parametrize("T", [0.2, 1.0])
def test_the_probability_of_low_energy_is_chi_square(d: int, T: float) -> None:
    # Σ x²/2 ≤ ε for normal x of variance T: Σ (x/√T)² ≤ 2ε/T.
    assert low_energy_probability(parabola(), T, 1.5, d) == pytest.approx(chi2.cdf(3.0 / T, d), rel=0.03, abs=1e-4)


def test_the_best_iterate_of_a_parabola() -> None:
    land, sigma, eps, dims = parabola(1001), 2.0, 1.0, [1, 4, 9]
    T = np.geomspace(land.h**2 / 4, land.hottest * 0.99, 40)
    # The gap and the curvature are both 1.
    wanted = [((1 + 1 / chi2.cdf(2 * eps / T, d)) / (2 * T / sigma**2)).min() for d in dims]
    np.testing.assert_allclose(best_iterate_queries(land, eps, dims, sigma), wanted, rtol=0.05)


def test_noise_of_the_exact_part_is_that_of_the_contest() -> None:
    from nips26lib.papers.sgd_decay.contest import PROBLEMS

    assert PROBLEMS["Rastrigin, A = 1"].sigma == SIGMA


def test_a_temperature_beyond_double_precision_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"T was 0\.00\d+; it must be higher"):
        for T in (0.002, 0.0015, 0.001):
            bumpy(1.0, 701).poincare(T)


def test_the_best_iterate_is_estimated_on_the_finest_grid_of_the_book() -> None:
    found = best_iterate_queries(bumpy(1.0, 701), 0.3, [1, 2, 32])
    assert (np.diff(found) > 0).all() and np.isfinite(found).all()
