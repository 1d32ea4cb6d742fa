"""Wells, barriers and gaps against roots of the derivative; Kramers' rate and the freezing temperature."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from nips26lib.papers.sgd_decay.functions import benchmark, section
from nips26lib.papers.sgd_decay.landscape import Landscape1D, grid_for
from nips26lib.papers.sgd_decay.wells import find_wells, freezing_temperature, kramers_rate


def rastrigin_extrema(A: float) -> tuple[list[float], list[float]]:
    """Minima and tops of x² + A(1 − cos 2πx) on x > 0, roots of 2x + 2πA sin 2πx found by bracketing."""

    def slope(x: float) -> float:
        return 2 * x + 2 * math.pi * A * math.sin(2 * math.pi * x)

    x = np.linspace(0.01, 4, 4000)
    roots = [brentq(slope, a, b, xtol=1e-14) for a, b in pairwise(x) if slope(a) * slope(b) < 0]
    return roots[1::2], roots[::2]


@pytest.mark.parametrize(("A", "depth", "gap"), [(1.0, 1.312, 0.951), (0.5, 0.373, 0.905)])
def test_rastrigin(A: float, depth: float, gap: float) -> None:
    def phi(x: float) -> float:
        return x**2 + A * (1 - math.cos(2 * math.pi * x))

    minima, tops = rastrigin_extrema(A)
    wells = Landscape1D(section(benchmark("rastrigin", 1, A=A)), grid_for(-4.5, 4.5, 901)).wells()
    right = wells.minima > 0.1
    np.testing.assert_allclose(wells.minima[right], minima, atol=2e-4)
    np.testing.assert_allclose(wells.gaps[right], [phi(x) for x in minima], atol=1e-5)
    climbs = [phi(b) - phi(a) for a, b in zip(minima, tops, strict=True)]
    np.testing.assert_allclose(wells.barriers[right], climbs, atol=5e-5)
    np.testing.assert_allclose(wells.tops[np.flatnonzero(right)], tops, atol=2e-4)
    np.testing.assert_allclose(wells.gaps, wells.gaps[::-1], atol=1e-12)
    assert wells.barriers[wells.best] == math.inf and abs(wells.minima[wells.best]) < 1e-12
    assert (round(wells.depth, 3), round(wells.gap, 3)) == (depth, gap)
    assert wells.kappa == pytest.approx(max(b / g for b, g in zip(wells.barriers, wells.gaps, strict=True) if g > 0.1))


def test_the_way_to_a_lower_minimum_may_lead_over_others() -> None:
    # Heights at 0, 1, 2, …: minima 2, 3, 1 and 0; from 3 the nearer side is the way over 4 to 2, not over 6 to 1.
    heights = np.array([9, 2, 4, 3, 6, 1, 5, 0, 9])
    x = np.linspace(0, 8, 801)
    rise, share = np.diff(heights, append=9)[x.astype(int)], (1 - np.cos(math.pi * (x % 1))) / 2
    wells = find_wells(x, heights[x.astype(int)] + rise * share)
    np.testing.assert_allclose(wells.minima, [1, 3, 5, 7], atol=0.01)
    np.testing.assert_allclose(wells.gaps, [2, 3, 1, 0], atol=0.01)
    np.testing.assert_allclose(wells.barriers, [4, 1, 4, math.inf], atol=0.01)
    np.testing.assert_allclose(wells.tops, [0, 2, 4, 6, 8], atol=0.01)
    assert (wells.depth, wells.gap, wells.kappa) == pytest.approx((4, 1, 4), abs=0.01) and wells.best == 3


def test_plateaus_and_ends() -> None:
    x = np.linspace(0, 1, 12)
    wells = find_wells(x, np.array([3, 3, 2, 2, 2, 1, 1, 4, 4, 3, 3, 3], dtype=float))
    # A step on the way down is no minimum, a low end is one.
    np.testing.assert_allclose(wells.minima, [x[5], x[9]], atol=x[1])
    np.testing.assert_allclose(wells.barriers, [math.inf, 1], atol=0.6)
    assert find_wells(x, np.arange(12.0)).minima.tolist() == [0]


def test_a_landscape_without_wrong_well() -> None:
    x = np.linspace(-2, 2, 81)
    for V in (x**2, (x**2 - 1) ** 2):  # one well, and two that are equally low
        wells = find_wells(x, V)
        assert np.isinf(wells.barriers).all()
        with pytest.raises(ValueError, match="no wrong well"):
            _ = wells.kappa


@pytest.mark.parametrize(("ratio", "expected"), [(4, 0.903), (6, 0.928), (8, 0.947), (10, 0.959)])
def test_kramers_formula_against_the_exact_gap_of_a_double_well(ratio: float, expected: float) -> None:
    H = 2.0
    land = Landscape1D(lambda x: H * (x**2 - 1) ** 2 / 4, grid_for(-2.6, 2.6, 1201))
    T = H / 4 / ratio
    formula = 2 * kramers_rate(2 * H, -H, H / 4, T)
    assert formula == pytest.approx(math.sqrt(2) * H / math.pi * math.exp(-ratio))
    assert land.poincare(T).gap / formula == pytest.approx(expected, abs=1e-3)


def test_kramers_formula_far_below_rounding_of_the_rates() -> None:
    H, ratio = 1.0, 100
    land = Landscape1D(lambda x: H * (x**2 - 1) ** 2 / 4, grid_for(-1.6, 1.6, 3001))
    gap = land.poincare(H / 4 / ratio).gap
    assert gap < 1e-40 and 0.98 < gap / (2 * kramers_rate(2 * H, -H, H / 4, H / 4 / ratio)) < 1


def test_wrong_mass_freezes_where_the_formula_says() -> None:
    # dp/dt = −ω e^{−b/T} (p − e^{−Δ/T}) while T falls by a factor e per τ; what is left is about (ωτ)^{−Δ/b}.
    b, gap, omega = 1.3, 0.95, 6.0
    left = []
    for attempts in (1e4, 1e6):
        tau = attempts / omega

        def slope(log_T, p, tau=tau):
            T = math.exp(-log_T)
            return tau * omega * math.exp(-b / T) * (math.exp(-gap / T) - p)

        left.append(solve_ivp(slope, (0, 4), [math.exp(-gap)], method="LSODA", rtol=1e-8, atol=1e-14).y[0, -1])
        assert 1 < left[-1] / math.exp(-gap / freezing_temperature(b, attempts)) < 6
    assert math.log(left[0] / left[1]) / math.log(100) == pytest.approx(gap / b, rel=0.15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kramers_rate(1.0, -1.0, 1.0, 0.0), "T was 0.0"),
        (lambda: freezing_temperature(1.0, 1.0), "attempts was 1.0"),
        (lambda: freezing_temperature(1.0, math.nan), "attempts was nan"),
    ],
)
def test_refusals(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_sections_of_the_benchmarks_have_wrong_wells() -> None:
    for name, reach in (("griewank", 9.0), ("levy", 9.0), ("ackley", 4.5), ("styblinski_tang", 4.9)):
        fn = benchmark(name, 2)
        centre = float(fn.x_star[0]) if name != "styblinski_tang" else 0.0
        grid = torch.linspace(centre - reach, centre + reach, 1801, dtype=torch.float64)
        wells = Landscape1D(section(fn), grid).wells()
        assert abs(wells.minima[wells.best] - float(fn.x_star[0])) < 1e-2
        assert np.isfinite(wells.barriers).sum() == len(wells.minima) - 1
