"""Gibbs laws, generators and spectra on a grid against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh_tridiagonal

from nips26lib.papers.sgd_decay.functions import benchmark, section
from nips26lib.papers.sgd_decay.landscape import Landscape1D, grid_for


def parabola(lam: float = 1.0, reach: float = 8.0, points: int = 801) -> Landscape1D:
    return Landscape1D(lambda x: lam * x**2 / 2, grid_for(-reach, reach, points))


def bumpy(A: float = 1.0, points: int = 451) -> Landscape1D:
    return Landscape1D(section(benchmark("rastrigin", 1, A=A)), grid_for(-4.5, 4.5, points))


@pytest.mark.parametrize("T", [0.1, 0.5, 1.0])
def test_gibbs_laws_in_closed_form(T: float) -> None:
    lam = 2.0
    land = parabola(lam)
    assert land.mean_energy(T) == pytest.approx(T / 2, rel=1e-8)
    density = np.exp(-lam * land.grid**2 / (2 * T)) * math.sqrt(lam / (2 * math.pi * T))
    np.testing.assert_allclose(land.gibbs(T) / land.h, density, atol=1e-9)
    assert land.gibbs(T) @ land.grid**2 == pytest.approx(T / lam, rel=1e-8)
    edge = Landscape1D(lambda x: x.abs(), grid_for(-16.0, 16.0, 6401))
    assert edge.mean_energy(T) == pytest.approx(T, rel=1e-3)
    np.testing.assert_allclose(edge.gibbs(T) / edge.h, np.exp(-np.abs(edge.grid) / T) / (2 * T), rtol=5e-4)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_radial_gibbs_law(d: int) -> None:
    T = 0.7
    r = (torch.arange(800, dtype=torch.float64) + 0.5) * 0.0125
    land = Landscape1D(lambda r: r**2 / 2, r, radial=d)
    assert land.mean_energy(T) == pytest.approx(d * T / 2, rel=1e-4)
    # The radial Ornstein-Uhlenbeck process relaxes at the rates 2, 4, … (Laguerre).
    np.testing.assert_allclose(land.spectrum(T, 2), [2, 4], rtol=2e-3)


def test_ornstein_uhlenbeck_eigenvalues() -> None:
    for lam, T in ((1.0, 1.0), (3.0, 0.2)):
        land = parabola(lam, 8.0 if T == 1.0 else 3.0)
        np.testing.assert_allclose(land.spectrum(T, 5), lam * np.arange(1, 6), rtol=1e-2)
        assert land.poincare(T).gap == pytest.approx(lam, rel=2e-3)
        assert land.poincare(T).constant == pytest.approx(T / lam, rel=2e-3)


def test_a_box_without_a_potential() -> None:
    # Reflecting walls: eigenvalues T (kπ/L)², and on the grid exactly (4T/h²) sin²(kπ/2n).
    n, T = 60, 0.3
    land = Landscape1D(lambda x: 0 * x, grid_for(0.0, 1.0, n))
    k = np.arange(1, 4)
    np.testing.assert_allclose(land.spectrum(T, 3), 4 * T / land.h**2 * np.sin(k * math.pi / (2 * n)) ** 2, rtol=1e-9)


@given(st.floats(0.02, 1.2), st.floats(0.1, 3.0))
@settings(deadline=None, max_examples=30)
def test_generator_is_reversible_and_its_stationary_law_is_gibbs(T: float, A: float) -> None:
    land = bumpy(A)
    up, down = land.generator(T)
    assert up[-1] == down[0] == 0 and (up >= 0).all() and (down >= 0).all()
    log_mu = land.log_gibbs(T)
    # Detailed balance in logarithms: at T = 0.02 the weights themselves underflow.
    there, back = log_mu[:-1] + np.log(up[:-1]), log_mu[1:] + np.log(down[1:])
    np.testing.assert_allclose(there, back, rtol=1e-12, atol=1e-11)
    mu = np.exp(log_mu)
    out = mu * (up + down)
    into = np.append(0, (mu * up)[:-1]) + np.append((mu * down)[1:], 0)
    np.testing.assert_allclose(into, out, rtol=1e-10, atol=1e-290)
    dense = np.diag(-(up + down)) + np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    assert np.abs(dense.sum(1)).max() <= 1e-12 * np.abs(dense).max()


def test_spectrum_agrees_with_lapack_where_lapack_is_accurate() -> None:
    land = bumpy(points=301)
    for T in (0.3, 0.8):
        up, down = land.generator(T)
        off = -np.sqrt(up[:-1] * down[1:])
        values = eigh_tridiagonal(up + down, off, eigvals_only=True, select="i", select_range=(1, 4))
        np.testing.assert_allclose(land.spectrum(T, 4), values, rtol=1e-7)
        assert land.poincare(T).gap == pytest.approx(land.spectrum(T, 1)[0], rel=1e-9)


def test_gap_of_part_of_the_grid_is_that_of_the_part_alone() -> None:
    whole = parabola()
    part = Landscape1D(lambda x: x**2 / 2, torch.as_tensor(whole.grid[100:301].copy()))
    assert whole.poincare(0.4, (100, 300)).gap == pytest.approx(part.poincare(0.4).gap, rel=1e-9)


@given(st.floats(-0.5, 0.5), st.floats(0.0, 6.0), st.floats(0.1, 1.0))
@settings(deadline=None, max_examples=30)
def test_holley_stroock(height: float, phase: float, T: float) -> None:
    grid = grid_for(-5.5, 5.5, 401)
    plain = Landscape1D(lambda x: x**2 / 2, grid)
    bent = Landscape1D(lambda x: x**2 / 2 + height * torch.sin(2 * x + phase), grid)
    shift = height * np.sin(2 * plain.grid + phase)
    ratio = bent.poincare(T).constant / plain.poincare(T).constant
    bound = math.exp(np.ptp(shift) / T) * (1 + 1e-3)  # the grid's conductances are no exact means of the weights
    assert 1 / bound <= ratio <= bound


def test_good_basin_is_the_well_of_the_best_minimum() -> None:
    land = bumpy()
    first, last = land.basin()
    assert land.grid[first - 1] < -0.5268 < land.grid[first] and land.grid[last] < 0.5268 < land.grid[last + 1]


def test_a_well_that_the_grid_cuts_need_not_be_resolved() -> None:
    # The outermost wells end two steps beyond their tops.
    top = bumpy().wells().tops[-2]
    cut = Landscape1D(section(benchmark("rastrigin", 1, A=1.0)), grid_for(-top - 0.1, top + 0.1, 101))
    assert cut.wells().depth == pytest.approx(bumpy().wells().depth, rel=0.05)


def test_temperature_for_an_energy() -> None:
    assert parabola().temperature_for(0.3) == pytest.approx(0.6, rel=1e-6)
    land = bumpy()
    assert land.mean_energy(land.temperature_for(0.1)) == pytest.approx(0.1)
    assert land.temperature_for(50.0) == pytest.approx(land.hottest)


def test_hottest_temperature_that_the_grid_covers() -> None:
    land = parabola(reach=4.0)
    assert land.hottest == pytest.approx(8 / math.log(1e6), rel=1e-9)
    land.gibbs(land.hottest * 0.999)
    with pytest.raises(
        ValueError, match=r"grid ended at -4 and 4, where the density at T = 0.7 is 1.1e-05 of its peak"
    ):
        land.gibbs(0.7)


def test_energy_of_batches_and_point_masses() -> None:
    land = bumpy()
    laws = np.stack([land.point_mass(x) for x in (0.0, 1.9, -3.001)])
    np.testing.assert_allclose(land.energy(laws), land.V[[225, 320, 75]], atol=1e-12)
    assert land.smoothness == pytest.approx(2 + 4 * math.pi**2, rel=5e-3)


def test_the_default_device_does_not_matter() -> None:
    fn = benchmark("levy", 1)
    grid = grid_for(-9.0, 9.0, 301)
    expected = Landscape1D(section(fn), grid)
    torch.set_default_device("meta")
    try:
        land = Landscape1D(section(fn), grid)
        assert land.poincare(0.5) == expected.poincare(0.5)
    finally:
        torch.set_default_device(None)
    with torch.no_grad():
        assert np.array_equal(Landscape1D(section(fn), grid).slope, expected.slope)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: grid_for(1.0, 1.0, 11), "low was 1.0"),
        (lambda: grid_for(0.0, math.inf, 11), "high was inf"),
        (lambda: grid_for(0.0, 1.0, 9), "points was 9"),
        (lambda: Landscape1D(torch.square, torch.tensor([0.0, 1.0, 3.0] * 4)), "grid held uneven steps"),
        (lambda: Landscape1D(torch.square, torch.linspace(1, -1, 20)), "must increase"),
        (lambda: Landscape1D(torch.square, torch.linspace(-1, 1, 5)), "grid had shape"),
        (lambda: Landscape1D(torch.square, torch.linspace(-1, 1, 20) * math.nan), "grid held uneven"),
        (lambda: Landscape1D(torch.log, torch.linspace(-1, 1, 20)), "V gave values that are not finite"),
        (lambda: Landscape1D(torch.sum, torch.linspace(-1, 1, 20)), "or not one a point"),
        (lambda: Landscape1D(torch.square, torch.linspace(1, 2, 20), radial=2), "grid started at 1; radii must"),
        (lambda: Landscape1D(torch.square, torch.linspace(0.01, 2, 200), radial=0), "radial was 0"),
        (lambda: bumpy(points=41), "grid had a step of 0.225; it must be at most 0.2"),
        (lambda: bumpy().gibbs(0.0), "T was 0.0"),
        (lambda: bumpy().generator(-1.0), "T was -1.0"),
        (lambda: bumpy().poincare(math.nan), "T was nan"),
        (lambda: bumpy().poincare(1.0, (5, 5)), "basin was"),
        (lambda: bumpy().poincare(1.0, (0, 451)), "basin was"),
        (lambda: bumpy().spectrum(1.0, 0), "count was 0"),
        (lambda: bumpy().temperature_for(0.0), "energy was 0.0"),
        (lambda: bumpy().temperature_for(1e-4), "the grid tells energies from"),
        (lambda: bumpy().point_mass(9.0), "x was 9.0; it must lie on the grid"),
        (lambda: bumpy().point_mass(math.nan), "x was nan"),
    ],
)
def test_refusals(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()
