"""The Fokker-Planck solver: laws stay laws whatever the step; Ornstein-Uhlenbeck closed forms; dense algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from nips26lib.papers.sgd_decay.diffusion import fokker_planck, fokker_planck_steps
from nips26lib.papers.sgd_decay.functions import benchmark, section
from nips26lib.papers.sgd_decay.landscape import Landscape1D, grid_for


def bumpy(points: int = 181) -> Landscape1D:
    return Landscape1D(section(benchmark("rastrigin", 1, A=1.0)), grid_for(-4.5, 4.5, points))


def parabola() -> Landscape1D:
    return Landscape1D(lambda x: x**2 / 2, grid_for(-8.0, 8.0, 641))


def dense(land: Landscape1D, T: float) -> np.ndarray:
    up, down = land.generator(T)
    return np.diag(-(up + down)) + np.diag(up[:-1], 1) + np.diag(down[1:], -1)


@given(
    st.lists(st.tuples(st.floats(0.02, 1.2), st.floats(-12.0, 200.0)), min_size=1, max_size=4),
    st.integers(0, 80),
    st.floats(0.1, 2.0),
    st.floats(0.0, 6.0),
)
@settings(deadline=None, max_examples=60)
def test_laws_stay_laws_whatever_the_step(
    path: list[tuple[float, float]], start: int, height: float, phase: float
) -> None:
    land = Landscape1D(lambda x: x**2 + height * torch.cos(6 * x + phase), grid_for(-4.6, 4.6, 81))
    T, dt = np.array([t for t, _ in path]), 10.0 ** np.array([e for _, e in path])
    p = fokker_planck(land, T, dt, land.point_mass(float(land.grid[start])))
    assert (p >= 0).all()
    assert abs(p.sum() - 1) < 1e-11


def test_the_gibbs_law_is_stationary_and_reached() -> None:
    land = bumpy()
    for T in (0.1, 0.9):
        mu = land.gibbs(T)
        for dt in (1e-6, 1.0, 1e12):
            np.testing.assert_allclose(fokker_planck(land, np.array([T]), np.array([dt]), mu), mu, rtol=1e-9)
        far = fokker_planck(land, np.array([T]), np.array([1e30]), land.point_mass(1.9))
        np.testing.assert_allclose(far, mu, rtol=1e-9)


def test_one_step_is_the_dense_solve() -> None:
    land = bumpy()
    p0 = np.random.default_rng(0).dirichlet(np.ones(181))
    for T, dt in ((0.9, 1e-3), (0.3, 0.5)):
        expected = np.linalg.solve(np.eye(181) - dt * dense(land, T).T, p0)
        np.testing.assert_allclose(fokker_planck(land, np.array([T]), np.array([dt]), p0), expected, rtol=1e-9)


def test_mass_that_crosses_a_high_barrier_is_right_to_many_digits() -> None:
    # From the well at 0.95 the share 1 − p that has left after dt = 1e-3/gap; a subtraction would lose it to rounding.
    land, T = bumpy(301), 0.05
    gap = land.poincare(T).gap
    assert gap < 1e-10
    before = land.gibbs(T) * (np.abs(land.grid - 0.95) < 0.42)
    before /= before.sum()
    after = fokker_planck(land, np.array([T]), np.array([1e-3 / gap]), before)
    assert after[np.abs(land.grid) < 0.5].sum() == pytest.approx(1e-3, rel=0.01)


def test_converges_to_the_matrix_exponential_at_first_order() -> None:
    land, T, t = bumpy(91), 0.5, 0.3
    p0 = land.point_mass(1.9)
    exact = expm(t * dense(land, T)).T @ p0
    errors = [np.abs(fokker_planck(land, np.full(n, T), np.full(n, t / n), p0) - exact).sum() for n in (50, 100, 200)]
    assert errors[2] < 0.01
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1) and errors[1] / errors[2] == pytest.approx(2, rel=0.1)


def test_ornstein_uhlenbeck_relaxation() -> None:
    land, x0, T, t, n = parabola(), 2.0, 0.5, 1.0, 2000
    p = fokker_planck(land, np.full(n, T), np.full(n, t / n), land.point_mass(x0))
    mean = p @ land.grid
    assert mean == pytest.approx(x0 * math.exp(-t), rel=2e-3)
    assert p @ (land.grid - mean) ** 2 == pytest.approx(T * (1 - math.exp(-2 * t)), rel=5e-3)


def test_ornstein_uhlenbeck_while_it_is_cooled() -> None:
    # Var' = −2 Var + 2T with T = e^{−t}: Var = 2 (e^{−t} − e^{−2t}) from a point.
    land, n, t = parabola(), 3000, 1.5
    times = (np.arange(n) + 0.5) * t / n
    p = fokker_planck(land, np.exp(-times), np.full(n, t / n), land.point_mass(0.0))
    assert p @ land.grid**2 == pytest.approx(2 * (math.exp(-t) - math.exp(-2 * t)), rel=5e-3)


def test_radial_relaxation() -> None:
    # E R² of d coordinates: d T (1 − e^{−2t}) from near 0.
    d, T, t, n = 3, 0.5, 0.8, 1000
    land = Landscape1D(lambda r: r**2 / 2, (torch.arange(500).double() + 0.5) * 0.012, radial=d)
    p = fokker_planck(land, np.full(n, T), np.full(n, t / n), land.point_mass(0.006))
    assert p @ land.grid**2 == pytest.approx(d * T * (1 - math.exp(-2 * t)), rel=5e-3)


def test_paths_and_starts_at_once_are_single_runs() -> None:
    land, rng = bumpy(), np.random.default_rng(0)
    T, dt = rng.uniform(0.1, 0.9, (7, 3)), 10 ** rng.uniform(-3, 2, (7, 3))
    p0 = rng.dirichlet(np.ones(181), 3)
    together = fokker_planck(land, T, dt, p0)
    for s in range(3):
        np.testing.assert_array_equal(together[s], fokker_planck(land, T[:, s], dt[:, s], p0[s]))
    shared = fokker_planck(land, T[:, :1], dt, p0[0])
    for s in range(3):
        np.testing.assert_array_equal(shared[s], fokker_planck(land, T[:, 0], dt[:, s], p0[0]))


def test_steps_yield_every_law_and_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    land = bumpy()
    T, dt, p0 = np.linspace(0.9, 0.1, 11), np.geomspace(1e-3, 1, 11), land.point_mass(1.9)
    laws = list(fokker_planck_steps(land, T, dt, p0))
    assert len(laws) == 11
    np.testing.assert_array_equal(laws[4], fokker_planck(land, T[:5], dt[:5], p0))
    monkeypatch.setattr("nips26lib.papers.sgd_decay.diffusion._BLOCK", 4)
    np.testing.assert_array_equal(laws[-1], fokker_planck(land, T, dt, p0))


ONE = np.ones(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"T_path": 0 * ONE}, "T_path held entries that are not above 0"),
        ({"T_path": np.nan * ONE}, "T_path held entries"),
        ({"dt_path": -ONE}, "dt_path held entries that are not above 0"),
        ({"dt_path": np.inf * ONE}, "dt_path held entries"),
        ({"T_path": np.ones(0), "dt_path": np.ones(0)}, "T_path had shape"),
        ({"p0": np.ones(181)}, "p0 was no law"),
        ({"p0": np.full(181, np.nan)}, "p0 was no law"),
        ({"p0": np.append([-0.5, 1.5], np.zeros(179))}, "p0 was no law"),
        ({"p0": np.ones(5) / 5}, "p0 had shape"),
        ({"T_path": np.ones((3, 2)) / 2, "p0": np.full((3, 181), 1 / 181)}, "T_path, dt_path and p0 had shapes"),
        ({"T_path": 3 * ONE}, "grid ended at -4.5 and 4.5, where the density at T = 3 is"),
    ],
)
def test_refusals(change, message) -> None:
    land = bumpy()
    call = {"T_path": ONE / 2, "dt_path": ONE, "p0": land.point_mass(0.0)} | change
    with pytest.raises(ValueError, match=message):
        fokker_planck(land, **call)
