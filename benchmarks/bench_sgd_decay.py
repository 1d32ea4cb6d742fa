"""The sgd_decay kernels beside what a user would pick instead, on the same input and with the answers compared.

pytest benchmarks/bench_sgd_decay.py            prints times and ratios
pytest benchmarks/bench_sgd_decay.py --record   and writes them to benchmarks/results/sgd_decay.json
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.linalg import eigh_tridiagonal, expm, solve_banded
from scipy.sparse import csr_array
from torch import Tensor

from nips26lib.papers.sgd_decay.descent import sgd
from nips26lib.papers.sgd_decay.diffusion import fokker_planck
from nips26lib.papers.sgd_decay.exact import curves
from nips26lib.papers.sgd_decay.functions import benchmark as function
from nips26lib.papers.sgd_decay.functions import section
from nips26lib.papers.sgd_decay.landscape import Landscape1D, grid_for
from nips26lib.papers.sgd_decay.schedules import schedule

OURS = "nips26lib"


def parametrize(*peers: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("who", [OURS, *peers])


def bumpy(points: int = 701) -> Landscape1D:
    return Landscape1D(section(function("rastrigin", 1, A=1.0)), grid_for(-4.5, 4.5, points))


# --- Descent ----------------------------------------------------------------------------------------------------------

STEPS, SIGMA = 200, 10.0


def _optimizer(x0: Tensor, etas: Tensor, xi: Tensor) -> Tensor:
    """torch.optim.SGD on all chains of a schedule at once, the gradient by autograd, a schedule at a time."""
    fn, last = function("rastrigin", 8, A=1.0), []
    for rates in etas.tolist():
        x = x0.clone().requires_grad_()
        optimizer = torch.optim.SGD([x], lr=1.0)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k, rates=rates: rates[min(k, STEPS - 1)])
        for k in range(STEPS):
            optimizer.zero_grad()
            (fn.f(x).sum() + SIGMA * (xi[k] * x).sum()).backward()
            optimizer.step()
            scheduler.step()
        last.append(x.detach())
    return torch.stack(last)


def _numpy(x0: Tensor, etas: Tensor, xi: Tensor) -> Tensor:
    x = np.repeat(x0.numpy()[None], len(etas), 0)
    for eta, noise in zip(etas.numpy().T[:, :, None, None], xi.numpy(), strict=True):
        x -= eta * (2 * x + 2 * np.pi * np.sin(2 * np.pi * x) + SIGMA * noise)
    return torch.from_numpy(x)


@pytest.mark.benchmark(group="SGD, 10 schedules x 24 chains x 8 dimensions, 200 steps")
@parametrize("torch.optim.SGD", "numpy, all at once")
def test_descent(benchmark, who):
    generator = torch.Generator().manual_seed(0)
    x0, xi = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((24, 8), (STEPS, 24, 8)))
    etas = torch.stack([schedule("geometric", STEPS, 0.02, 0.002 * (1 + i)) for i in range(9)])
    etas = torch.cat([etas, schedule("fixed", STEPS, 0.01)[None]])
    fn = function("rastrigin", 8, A=1.0)
    peer = {"torch.optim.SGD": _optimizer, "numpy, all at once": _numpy}
    if who == OURS:
        got = benchmark(lambda: sgd(fn, x0, etas, SIGMA, noise=xi).x_last)
    else:
        got = benchmark(peer[who], x0, etas, xi)
    torch.testing.assert_close(got, sgd(fn, x0, etas, SIGMA, noise=xi).x_last, rtol=1e-6, atol=1e-6)


def _a_chain_at_a_time(x0: Tensor, etas: Tensor, xi: Tensor) -> Tensor:
    """torch.optim.SGD as in a tutorial: an optimizer a chain, the library's gradient put in place."""
    fn, rates, last = function("rastrigin", 8, A=1.0), etas.tolist(), []
    for chain, start in enumerate(x0):
        x = start.clone().requires_grad_()
        optimizer = torch.optim.SGD([x], lr=1.0)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: rates[min(k, len(rates) - 1)])
        for k in range(len(rates)):
            x.grad = fn.grad(x.detach()) + SIGMA * xi[k, chain]
            optimizer.step()
            scheduler.step()
        last.append(x.detach())
    return torch.stack(last)


@pytest.mark.benchmark(group="SGD, 1,000 chains x 8 dimensions, 50 steps, beside a loop over chains")
@parametrize("torch.optim.SGD, a chain at a time")
def test_many_chains(benchmark, who):
    generator = torch.Generator().manual_seed(0)
    x0, xi = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((1000, 8), (50, 1000, 8)))
    etas, fn = schedule("geometric", 50, 0.02, 0.002), function("rastrigin", 8, A=1.0)
    expected = sgd(fn, x0, etas, SIGMA, noise=xi).x_last
    if who == OURS:
        got = benchmark(lambda: sgd(fn, x0, etas, SIGMA, noise=xi).x_last)
    else:
        got = benchmark.pedantic(_a_chain_at_a_time, (x0, etas, xi), rounds=1)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


# --- Fokker-Planck ----------------------------------------------------------------------------------------------------


@pytest.mark.benchmark(group="Fokker-Planck, 701 points, T from 1 to 0.1 in 400 steps up to t = 10")
@parametrize("scipy solve_banded", "scipy solve_ivp (LSODA)")
def test_fokker_planck(benchmark, who):
    land, n = bumpy(), 400
    T, dt, p0 = np.geomspace(1.0, 0.1, n), np.full(n, 10 / n), land.point_mass(1.9)
    if who == OURS:
        got = benchmark(fokker_planck, land, T, dt, p0)
    elif who == "scipy solve_banded":

        def march() -> np.ndarray:
            p = p0
            for temperature, length in zip(T, dt, strict=True):
                up, down = land.generator(float(temperature))
                p = solve_banded((1, 1), np.stack([-length * down, 1 + length * (up + down), -length * up]), p)
            return p

        # Bands are aligned by columns: entry (i, i + 1) is the rate down from i + 1, entry (i + 1, i) that up from i.
        got = benchmark(march)
    else:

        def slope(t: float, p: np.ndarray) -> np.ndarray:
            up, down = land.generator(float(T[min(int(t / dt[0]), n - 1)]))
            flow = p[:-1] * up[:-1] - p[1:] * down[1:]
            return -np.diff(flow, prepend=0, append=0)

        got = benchmark.pedantic(
            lambda: solve_ivp(slope, (0, 10), p0, method="LSODA", lband=1, uband=1, rtol=1e-5, atol=1e-9).y[:, -1],
            rounds=1,
        )
    expected = fokker_planck(land, T, dt, p0)
    assert np.abs(got - expected).sum() < (1e-8 if who != "scipy solve_ivp (LSODA)" else 0.05)
    benchmark.extra_info["largest |sum - 1|"] = f"{abs(got.sum() - 1):.1e}"
    benchmark.extra_info["lowest entry"] = f"{got.min():.1e}"


@pytest.mark.benchmark(group="Fokker-Planck, 701 points, T = 0.3 up to t = 1, total variation error below 2e-3")
@parametrize("scipy expm", "scipy solve_ivp (BDF)")
def test_equal_error(benchmark, who):
    land, T, p0 = bumpy(), 0.3, bumpy().gibbs(1.0)
    up, down = land.generator(T)
    Q = np.diag(-up - down) + np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    exact = p0 @ expm(Q)
    if who == OURS:
        dt = 1.15 ** np.arange(40)
        got = benchmark(fokker_planck, land, np.full(40, T), dt / dt.sum(), p0)
    elif who == "scipy expm":
        got = benchmark(lambda: p0 @ expm(Q))
    else:
        flow, jacobian = csr_array(Q.T), csr_array(Q.T)
        got = benchmark(
            lambda: solve_ivp(lambda t, p: flow @ p, (0, 1), p0, "BDF", rtol=1e-3, atol=1e-6, jac=jacobian).y[:, -1]
        )
    error = np.abs(got - exact).sum() / 2
    benchmark.extra_info["total variation error"] = f"{error:.1e}"
    assert error < 2e-3


@pytest.mark.benchmark(group="queries to epsilon, 701 points, ten accuracies, 64 settings, both families")
@parametrize()
def test_queries(benchmark, who):
    found = benchmark.pedantic(lambda: curves(1.0, 701, np.linspace(3, 16.5, 10), 64), rounds=1)
    assert found.ratio[-1] > 100


@pytest.mark.benchmark(group="Fokker-Planck, 701 points, one step of dt = 1e9 at T = 0.03")
@parametrize("scipy solve_banded")
def test_a_long_step(benchmark, who):
    land, T, dt = bumpy(), np.array([0.03]), np.array([1e9])
    p0 = land.point_mass(1.9)
    if who == OURS:
        got = benchmark(fokker_planck, land, T, dt, p0)
    else:
        up, down = land.generator(0.03)
        got = benchmark(solve_banded, (1, 1), np.stack([-1e9 * down, 1 + 1e9 * (up + down), -1e9 * up]), p0)
    benchmark.extra_info["largest |sum - 1|"] = f"{abs(got.sum() - 1):.1e}"
    assert who != OURS or abs(got.sum() - 1) < 1e-12


# --- Spectral gap -----------------------------------------------------------------------------------------------------


@pytest.mark.benchmark(group="spectral gap, 701 points, T = 0.08 (gap 4.5e-7 beside rates of 1e3)")
@parametrize("scipy eigh_tridiagonal")
def test_spectral_gap(benchmark, who):
    land, T = bumpy(), 0.08
    if who == OURS:
        gap = benchmark(lambda: land.poincare(T).gap)
    else:
        up, down = land.generator(T)
        off = -np.sqrt(up[:-1] * down[1:])
        gap = benchmark(lambda: eigh_tridiagonal(up + down, off, eigvals_only=True, select="i", select_range=(0, 1))[1])
    expected = land.poincare(T).gap
    benchmark.extra_info["relative error"] = f"{abs(gap / expected - 1):.1e}"
    assert gap == pytest.approx(expected, rel=1e-2)
