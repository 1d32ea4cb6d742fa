"""The weak Poincaré inequality on random functions, its pieces against closed forms, and relative entropies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nips26lib.papers.sgd_decay.functions import benchmark, section
from nips26lib.papers.sgd_decay.landscape import Landscape1D, grid_for
from nips26lib.papers.sgd_decay.poincare import (
    entropy_path,
    relative_entropy,
    squared_gradient,
    variance,
    weak_poincare,
    weak_poincare_margin,
)


def bumpy(points: int = 301, A: float = 1.0) -> Landscape1D:
    return Landscape1D(section(benchmark("rastrigin", 1, A=A)), grid_for(-4.5, 4.5, points))


def parabola() -> Landscape1D:
    return Landscape1D(lambda x: x**2 / 2, grid_for(-6.0, 6.0, 601))


def test_pieces_on_a_parabola() -> None:
    land, T = parabola(), 0.7
    mu, x = land.gibbs(T), land.grid
    g = np.stack([x, x**2, np.ones_like(x)])
    np.testing.assert_allclose(variance(mu, g), [T, 2 * T**2, 0], rtol=1e-6, atol=1e-20)
    np.testing.assert_allclose(squared_gradient(land, T, g), [1, 4 * T, 0], rtol=1e-3, atol=1e-20)
    assert weak_poincare(land, T).mass_outside == 0  # one well


@given(st.integers(0, 2**31), st.floats(0.06, 1.2), st.floats(0.2, 2.0))
@settings(deadline=None, max_examples=25)
def test_holds_for_random_functions(seed: int, T: float, A: float) -> None:
    land, rng = bumpy(201, A), np.random.default_rng(seed)
    white = rng.standard_normal((4, 201))
    steps = np.sign(land.grid - rng.uniform(-3, 3, (4, 1)))
    g = np.concatenate([white, white.cumsum(1), steps, np.exp(3 * steps)])
    assert weak_poincare_margin(land, T, g).min() >= -1e-10


def test_margin_is_right_side_less_left_and_tight_for_the_slowest_function() -> None:
    land, T = bumpy(), 0.1
    pieces = weak_poincare(land, T)
    rng = np.random.default_rng(0)
    g = rng.standard_normal((3, 301))
    mu = land.gibbs(T)
    right = pieces.constant_local * squared_gradient(land, T, g) + 1.25 * pieces.mass_outside * np.ptp(g, axis=1) ** 2
    np.testing.assert_allclose(weak_poincare_margin(land, T, g), right - variance(mu, g), rtol=1e-12)
    # A function that tells good from bad has the variance μ(G) μ(B) and hardly a gradient where there is mass.
    first, last = land.basin()
    g = np.ones(301)
    g[first : last + 1] = 0
    assert variance(mu, g) / (1.25 * pieces.mass_outside) == pytest.approx(0.8, rel=0.01)
    left_over = float(weak_poincare_margin(land, T, g))
    assert 0 < left_over < pieces.mass_outside


def test_gaps_and_masses_against_arrhenius() -> None:
    land = bumpy(701)
    wells = land.wells()
    cold = [weak_poincare(land, T) for T in np.geomspace(0.08, wells.depth / 6, 5).tolist()]
    over_T = [1 / piece.T for piece in cold]
    slope = np.polyfit(over_T, [-math.log(piece.gap) for piece in cold], 1)[0]
    assert slope == pytest.approx(wells.depth, rel=0.1)
    slope = np.polyfit(over_T, [-math.log(piece.mass_outside) for piece in cold], 1)[0]
    assert slope == pytest.approx(wells.gap, rel=0.1)
    # Δ: two wells, equal curvature up to prefactors; μ(B) ≈ 2 √(φ''(0)/φ''(x₁)) e^{−Δ/T}.
    bend = 2 + 4 * math.pi**2 * math.cos(2 * math.pi * wells.minima[wells.best + 1])
    leading = 2 * math.sqrt((2 + 4 * math.pi**2) / bend) * math.exp(-wells.gap / cold[0].T)
    assert cold[0].mass_outside == pytest.approx(leading, rel=0.02)
    local = [piece.gap_local for piece in cold] + [weak_poincare(land, 1.0).gap_local]
    assert min(local) > 20 and max(local) < 42
    assert cold[0].constant / cold[0].constant_local == pytest.approx(cold[0].gap_local / cold[0].gap)


def test_mass_outside_far_below_rounding() -> None:
    # 1 − μ(G) would be 0.
    pieces = weak_poincare(bumpy(701), 0.02)
    assert 0.9 < -0.02 * math.log(pieces.mass_outside) < 1.0


def test_relative_entropy_of_gaussians() -> None:
    land = parabola()
    for T, S in ((0.5, 0.7), (0.7, 0.2)):
        ratio = T / S
        expected = (ratio - 1 - math.log(ratio)) / 2
        assert relative_entropy(land.gibbs(T), land.log_gibbs(S)) == pytest.approx(expected, rel=1e-6)
    both = relative_entropy(np.stack([land.gibbs(0.5), land.point_mass(0.0)]), land.log_gibbs(0.5))
    assert both[0] == pytest.approx(0, abs=1e-12) and both[1] == pytest.approx(-land.log_gibbs(0.5)[300])


def test_entropy_never_grows_at_a_fixed_temperature() -> None:
    land = bumpy()
    path = entropy_path(land, np.full(40, 0.3), np.geomspace(1e-3, 10, 40), land.point_mass(1.9))
    assert (np.diff(path) <= 1e-12).all() and path[0] > 5 and path[-1] < 0.1


def test_an_annealed_path_keeps_close_where_a_cold_one_does_not() -> None:
    land, n = bumpy(), 200
    T, dt = np.geomspace(1.0, 0.15, n), np.full(n, 200 / n)
    assert entropy_path(land, T, dt, land.point_mass(1.9))[10:].max() < 0.2
    assert entropy_path(land, np.full(n, 0.06), dt, land.point_mass(1.9))[-1] > 20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weak_poincare_margin(bumpy(), 0.1, np.ones(5)), "g had shape"),
        (lambda: weak_poincare_margin(bumpy(), 0.1, np.full(301, np.nan)), "it must be finite"),
        (lambda: weak_poincare(bumpy(), 0.0), "T was 0.0"),
        (lambda: weak_poincare(bumpy(), 3.0), "grid ended"),
        (lambda: weak_poincare(bumpy(), 0.1, (10, 5)), "basin was"),
    ],
)
def test_refusals(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()
