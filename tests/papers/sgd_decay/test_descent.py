"""SGD against closed forms on a quadratic, against torch.optim step by step, and against itself one chain at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from nips26lib.papers.sgd_decay.descent import NOISES, sgd, uniform_start
from nips26lib.papers.sgd_decay.functions import TestFunction, benchmark, section
from nips26lib.papers.sgd_decay.landscape import Landscape1D, grid_for
from nips26lib.papers.sgd_decay.law import sgd_law
from nips26lib.papers.sgd_decay.schedules import schedule


def quadratic(d: int, lam: float = 1.0) -> TestFunction:
    def f(x: Tensor) -> Tensor:
        return lam * x.square().sum(-1) / 2

    return TestFunction("quadratic", f, lambda x: lam * x, d, torch.zeros(d, dtype=torch.float64), (-1.0, 1.0), lam)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=seeded(seed))


def test_without_noise_it_is_gradient_descent() -> None:
    x0, lam, eta, K = normal(4, 3), 1.7, 0.1, 200
    run = sgd(quadratic(3, lam), x0, torch.full((K,), eta, dtype=torch.float64), 0.0, record=range(K + 1))
    k = torch.arange(K + 1, dtype=torch.float64)
    torch.testing.assert_close(run.x_last, (1 - eta * lam) ** K * x0, rtol=0, atol=1e-12)
    expected = (1 - eta * lam) ** (2 * k[:, None]) * quadratic(3, lam).f(x0)
    torch.testing.assert_close(run.f, expected, rtol=1e-10, atol=1e-12)


def test_stationary_variance_on_a_quadratic() -> None:
    lam, eta, sigma, chains = 2.0, 0.2, 1.5, 20_000
    run = sgd(quadratic(1, lam), torch.zeros(chains, 1).double(), torch.full((60,), eta), sigma, seeded())
    expected = eta * sigma**2 / (lam * (2 - eta * lam))
    squares = run.x_last.squeeze().square()
    assert abs(squares.mean().item() - expected) < 3 * squares.std().item() / math.sqrt(chains)
    assert abs(expected / (eta * sigma**2 / 2 / lam) - 1) > 0.2  # the Gibbs value T/λ would have been told apart


@pytest.mark.parametrize("noise", NOISES)
def test_noise_has_mean_zero_and_variance_one(noise: str) -> None:
    # One step of rate 1 on f = 0 from 0 leaves −σξ.
    flat = TestFunction("flat", lambda x: x.sum(-1) * 0, torch.zeros_like, 2, torch.zeros(2), (-1.0, 1.0), 1.0)
    n = 200_000
    xi = -sgd(flat, torch.zeros(n, 2).double(), torch.ones(1), 3.0, seeded(), noise=noise).x_last / 3
    fourth = {"gaussian": 3.0, "rademacher": 1.0, "student_t5": 9.0}[noise]
    assert xi.mean().abs() < 4 / math.sqrt(2 * n)
    assert abs(xi.square().mean().item() - 1) < max(4 * math.sqrt((fourth - 1) / (2 * n)), 1e-12)
    assert abs((xi[:, 0] * xi[:, 1]).mean().item()) < 4 / math.sqrt(n)
    # E|ξ| tells the laws apart: √(2/π), 1, and that of t₅ scaled to variance 1.
    scaled_t = 2 * math.sqrt(5) * math.gamma(3) / (math.sqrt(math.pi) * math.gamma(2.5) * 4) * math.sqrt(3 / 5)
    mean_size = {"gaussian": math.sqrt(2 / math.pi), "rademacher": 1.0, "student_t5": scaled_t}[noise]
    assert xi.abs().mean().item() == pytest.approx(mean_size, abs=0.01)


def test_chains_and_settings_at_once_are_single_runs_with_the_same_noise() -> None:
    fn, K = benchmark("levy", 3), 40
    x0, xi = uniform_start(fn, 5, seeded()), normal(K, 5, 3)
    etas = torch.stack([schedule("fixed", K, 0.01), schedule("geometric", K, 0.05, 0.001)])
    together = sgd(fn, x0, etas, 2.0, noise=xi, record=(10, K), best=True)
    assert together.f.shape == (2, 2, 5) and together.x_last.shape == (2, 5, 3)
    for c in range(2):
        for b in range(5):
            alone = sgd(fn, x0[b : b + 1], etas[c], 2.0, noise=xi[:, b : b + 1], record=(10, K), best=True)
            torch.testing.assert_close(alone.f[:, 0], together.f[c, :, b], rtol=1e-12, atol=0)
            torch.testing.assert_close(alone.x_last[0], together.x_last[c, b], rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(alone.best[0], together.best[c, b], rtol=1e-12, atol=0)


def test_same_seed_same_numbers_and_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    fn, x0 = benchmark("rastrigin", 2), normal(16, 2)
    etas = schedule("geometric", 50, 1e-3, 1e-4)
    first = sgd(fn, x0, etas, 3.0, seeded(7))
    assert torch.equal(first.x_last, sgd(fn, x0, etas, 3.0, seeded(7)).x_last)
    assert not torch.equal(first.x_last, sgd(fn, x0, etas, 3.0, seeded(8)).x_last)
    monkeypatch.setattr("nips26lib.papers.sgd_decay.descent._BLOCK", 32 * 7)
    assert torch.equal(first.x_last, sgd(fn, x0, etas, 3.0, seeded(7)).x_last)


def schedulers(optimizer: torch.optim.Optimizer, kind: str, K: int) -> torch.optim.lr_scheduler.LRScheduler:
    if kind == "geometric":
        return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.02 ** (1 / (K - 1)))
    if kind == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=K - 1, eta_min=0.02 * 0.01)
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, [K // 3, 2 * K // 3, 5 * K // 6], gamma=1 / 3)


@pytest.mark.parametrize("kind", ["geometric", "cosine", "step"])
def test_agrees_with_torch_optim_and_its_schedulers(kind: str) -> None:
    fn, K, sigma = benchmark("ackley", 3), 60, 4.0
    x0, xi = uniform_start(fn, 4, seeded()), normal(K, 4, 3)
    etas = schedule(kind, K, 0.01, None if kind == "step" else 0.02 * 0.01)
    x = x0.clone().requires_grad_()
    optimizer = torch.optim.SGD([x], lr=0.01)
    scheduler = schedulers(optimizer, kind, K)
    for k in range(K):
        optimizer.zero_grad()
        (fn.f(x).sum() + sigma * (xi[k] * x).sum()).backward()
        optimizer.step()
        scheduler.step()
    torch.testing.assert_close(sgd(fn, x0, etas, sigma, noise=xi).x_last, x.detach(), rtol=0, atol=1e-9)


def test_mean_in_seven_dimensions_is_seven_times_the_exact_law() -> None:
    d, K, sigma, chains = 7, 300, 10.0, 2000
    etas = schedule("geometric", K, 0.02, 0.006)
    land = Landscape1D(section(benchmark("rastrigin", 1, A=1.0)), grid_for(-4.5, 4.5, 451))
    p = sgd_law(land, etas, sigma, land.point_mass(1.9))
    run = sgd(benchmark("rastrigin", d, A=1.0), torch.full((chains, d), 1.9).double(), etas, sigma, seeded())
    error = run.f_last.std().item() / math.sqrt(chains)
    assert abs(run.f_last.mean().item() - d * float(p @ land.V)) < 3 * error
    assert error < 0.02 * run.f_last.mean()


def test_best_is_the_lowest_value_on_the_way() -> None:
    fn, K = benchmark("rastrigin", 2, A=1.0), 30
    run = sgd(fn, normal(8, 2), torch.full((2, K), 0.02), 5.0, seeded(), record=range(K + 1), best=True)
    assert torch.equal(run.best, run.f.amin(1))
    assert run.queries.tolist() == list(range(K + 1))


def test_a_run_that_explodes_is_a_failure_of_value_inf() -> None:
    fn = quadratic(2)
    etas = torch.stack([torch.full((2000,), 4.0), torch.full((2000,), 0.1)])
    run = sgd(fn, normal(3, 2), etas, 0.1, seeded(), record=(0, 2000), best=True)
    assert run.failures == 3
    assert run.f_last[0].isinf().all() and run.f_last[1].isfinite().all()
    assert run.f_last.shape == (2, 3) and run.f_last.mean(-1)[0] == math.inf
    torch.testing.assert_close(run.best[0], run.f[0, 0])  # the start, from which it only went up


def test_dtype_and_device_follow_the_start() -> None:
    fn = benchmark("griewank", 2)
    x0 = torch.ones(3, 2)
    expected = sgd(fn, x0, schedule("fixed", 5, 0.1), 1.0, seeded())
    assert expected.x_last.dtype == expected.f.dtype == torch.float32
    torch.set_default_device("meta")
    try:
        for noise in NOISES:
            etas = schedule("fixed", 5, 0.1, device="cpu")
            run = sgd(fn, x0, etas, 1.0, torch.Generator("cpu").manual_seed(0), noise=noise, best=True)
            assert run.x_last.device.type == run.f.device.type == run.queries.device.type == "cpu"
            if noise == "gaussian":
                assert torch.equal(run.x_last, expected.x_last)
        assert uniform_start(fn, 3, torch.Generator("cpu")).device.type == "cpu"
    finally:
        torch.set_default_device(None)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_the_numbers_are_those_of_the_cpu() -> None:
    fn, xi = benchmark("levy", 3), normal(50, 4, 3)
    x0, etas = normal(4, 3), schedule("cosine", 50, 0.05, 0.001)
    there = sgd(fn, x0.cuda(), etas.cuda(), 1.0, noise=xi.cuda())
    torch.testing.assert_close(there.x_last.cpu(), sgd(fn, x0, etas, 1.0, noise=xi).x_last, rtol=1e-9, atol=1e-9)


def test_starts_fill_the_box() -> None:
    fn = benchmark("rastrigin", 3)
    x = uniform_start(fn, 4000, seeded()).numpy()
    assert x.min() >= -5.12 and x.max() <= 5.12
    assert np.abs(np.quantile(x, [0.25, 0.5, 0.75]) - [-2.56, 0, 2.56]).max() < 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma": -1.0}, "sigma was -1.0"),
        ({"sigma": math.nan}, "sigma was nan"),
        ({"x0": torch.tensor([[1.0, math.inf]])}, "x0 held entries that are not finite"),
        ({"x0": torch.ones(1, 3)}, "x0 had shape"),
        ({"etas": torch.tensor([0.1, 0.0])}, "etas held entries that are not above 0"),
        ({"etas": torch.tensor([[0.1, -0.1]])}, "etas held entries"),
        ({"etas": torch.tensor([0.1, math.nan])}, "etas held entries"),
        ({"etas": torch.ones(0)}, "etas had shape"),
        ({"record": (3,)}, "record was"),
        ({"record": (-1,)}, "record was"),
        ({"noise": "uniform"}, "noise was 'uniform'; it must be one of gaussian, rademacher, student_t5"),
        ({"noise": torch.ones(3, 1, 2)}, "noise had shape"),
        ({"noise": torch.full((2, 1, 2), math.nan)}, "noise held"),
    ],
)
def test_refusals(change, message) -> None:
    call = {"x0": torch.ones(1, 2), "etas": torch.tensor([0.1, 0.1]), "sigma": 1.0} | change
    with pytest.raises(ValueError, match=message):
        sgd(benchmark("rastrigin", 2), **call)
