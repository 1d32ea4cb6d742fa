"""The exact law of the iterate against closed forms on a quadratic, against Monte Carlo, and against the diffusion."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nips26lib.papers.sgd_decay.descent import sgd
from nips26lib.papers.sgd_decay.diffusion import fokker_planck
from nips26lib.papers.sgd_decay.functions import benchmark, section
from nips26lib.papers.sgd_decay.landscape import Landscape1D, grid_for
from nips26lib.papers.sgd_decay.law import sgd_law, total_variation
from nips26lib.papers.sgd_decay.schedules import schedule


def bumpy(points: int = 281) -> Landscape1D:
    return Landscape1D(section(benchmark("rastrigin", 1, A=1.0)), grid_for(-4.2, 4.2, points))


def parabola(lam: float, points: int = 161) -> Landscape1D:
    return Landscape1D(lambda x: lam * x**2 / 2, grid_for(-4.0, 4.0, points))


@pytest.mark.parametrize(("lam", "eta", "sigma"), [(1.0, 0.1, 1.0), (2.0, 0.5, 1.0), (1.0, 1.5, 0.4), (0.5, 0.05, 0.8)])
def test_stationary_law_on_a_quadratic(lam: float, eta: float, sigma: float) -> None:
    land = parabola(lam)
    p = sgd_law(land, np.full(600, eta), sigma, land.point_mass(0.5))
    variance = eta * sigma**2 / (lam * (2 - eta * lam))
    assert p @ land.grid == pytest.approx(0, abs=1e-6)
    assert p @ land.grid**2 == pytest.approx(variance, rel=1e-3)
    assert p @ land.grid**2 / (eta * sigma**2 / (2 * lam)) == pytest.approx(1 / (1 - eta * lam / 2), rel=1e-3)
    density = land.h * np.exp(-(land.grid**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    assert total_variation(p, density).item() < 1e-3


def test_mean_and_variance_step_by_step_while_the_rate_decays() -> None:
    land, sigma, mean, variance = parabola(1.0), 1.0, 1.5, 0.0
    etas = schedule("geometric", 12, 0.5, 0.05)
    p = sgd_law(land, etas, sigma, land.point_mass(1.5))
    for eta in etas.tolist():
        mean, variance = (1 - eta) * mean, (1 - eta) ** 2 * variance + (eta * sigma) ** 2
    assert p @ land.grid == pytest.approx(mean, rel=1e-6)
    assert p @ land.grid**2 - mean**2 == pytest.approx(variance, rel=1e-6)


def test_agrees_with_many_runs() -> None:
    land, sigma, chains = bumpy(421), 10.0, 20_000
    etas = schedule("geometric", 100, 0.02, 0.004)
    p = sgd_law(land, etas, sigma, land.point_mass(1.9))
    fn = benchmark("rastrigin", 1, A=1.0)
    x = sgd(fn, torch.full((chains, 1), 1.9).double(), etas, sigma, torch.Generator().manual_seed(0)).x_last.numpy()
    for low, high in ((-0.5, 0.5), (0.5, 1.5), (1.5, 2.5)):
        share = float(p[(land.grid > low) & (land.grid < high)].sum())
        seen = ((x > low) & (x < high)).mean()
        assert abs(seen - share) < 3 * math.sqrt(share * (1 - share) / chains) + p.max()  # a cell at the border


def test_tends_to_the_diffusion_as_steps_get_shorter() -> None:
    land, T, t = bumpy(), 0.5, 1.0
    p0 = land.point_mass(1.9)
    fine = fokker_planck(land, np.full(8000, T), np.full(8000, t / 8000), p0)
    distances = []
    for eta in (0.025, 0.0125, 0.00625):
        K = round(t / eta)
        distances.append(float(total_variation(sgd_law(land, np.full(K, eta), math.sqrt(2 * T / eta), p0), fine)))
    slopes = np.log2(np.array(distances[:-1]) / distances[1:])
    assert (slopes > 0.8).all() and (slopes < 1.5).all()
    assert distances[-1] < 0.05


@given(st.lists(st.floats(0.3, 1.0), min_size=1, max_size=4), st.integers(0, 280), st.floats(0.1, 40.0))
@settings(deadline=None, max_examples=25)
def test_the_law_stays_a_law(etas: list[float], start: int, sigma: float) -> None:
    # At rates far beyond 2/L = 0.05 much of the mass lands beyond the grid, some by a hundred times the noise.
    land = bumpy()
    p = sgd_law(land, np.array(etas), sigma, land.point_mass(float(land.grid[start])))
    assert (p >= 0).all() and abs(p.sum() - 1) < 1e-12


def test_several_starts_at_once() -> None:
    land, etas = bumpy(), np.array([0.01, 0.01, 0.008])
    p0 = np.stack([land.point_mass(1.9), land.point_mass(-0.9), land.gibbs(0.5)])
    together = sgd_law(land, etas, 10.0, p0)
    for s in range(3):
        np.testing.assert_allclose(together[s], sgd_law(land, etas, 10.0, p0[s]), rtol=1e-12, atol=1e-300)


def test_total_variation() -> None:
    p, q = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), np.array([[0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])
    assert total_variation(p, q).tolist() == [0.25, 1.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma": 0.0}, "sigma was 0.0"),
        ({"sigma": -1.0}, "sigma was -1.0"),
        ({"etas": np.array([0.1, 0.0])}, "etas held"),
        ({"etas": np.array([np.nan])}, "etas held"),
        ({"etas": np.ones(0)}, "etas held no entry"),
        ({"etas": np.array([0.1, 0.001])}, "land had a grid step of 0.03; it must be at most 0.0143"),
        ({"p0": np.ones(281)}, "p0 was no law"),
        ({"land": Landscape1D(torch.square, torch.linspace(0.03, 8.4, 280).double(), radial=2)}, "land was radial"),
    ],
)
def test_refusals(change, message) -> None:
    land = bumpy()
    call = {"land": land, "etas": np.array([0.1]), "sigma": 10.0, "p0": land.point_mass(0.0)} | change
    with pytest.raises(ValueError, match=message):
        sgd_law(**call)
