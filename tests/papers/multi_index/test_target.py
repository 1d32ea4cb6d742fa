from __future__ import annotations

import math

import pytest
import torch

from nips26lib.papers.multi_index import (
    Activation,
    Target,
    axis_target,
    init_weights,
    mass_shares,
    network,
    order_residuals,
    polar,
    population_loss,
)


def weights(m: int = 12, d: int = 6, seeds: int = 1, mass: float = 2.0) -> torch.Tensor:
    return init_weights(m, d, mass, seeds, torch.Generator().manual_seed(1))


def test_the_loss_is_the_sum_over_orders() -> None:
    target, W = axis_target(3, 6), weights(seeds=2)
    orders = tuple(range(0, 400, 2))
    coefs = torch.tensor(list(Activation().coefs(398).values()), dtype=torch.float64)
    residuals = order_residuals(W, target, orders)
    assert torch.allclose((coefs[:, None] * residuals).sum(0) / 2, population_loss(W, target), rtol=1e-4)
    assert torch.allclose(residuals[0], ((W**2).sum((1, 2)) - 3) ** 2), "R_0 = (M − k)²"


def test_the_loss_is_the_mean_over_samples() -> None:
    target, W = axis_target(3, 6), weights()[0]
    x = torch.randn(200_000, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sample = (network(W, x, target.activation) - target(x)) ** 2 / 2
    standard_error = float(sample.std()) / math.sqrt(len(sample))
    assert float(sample.mean()) == pytest.approx(float(population_loss(W, target)), abs=3 * standard_error)


def test_residuals_are_distances_of_tensors() -> None:
    target, W = axis_target(2, 3), weights(4, 3)[0]
    n, u = polar(W)
    second = torch.einsum("j,ja,jb->ab", n, u, u) - torch.einsum("ia,ib->ab", target.V, target.V)
    fourth = torch.einsum("j,ja,jb,jc,je->abce", n, u, u, u, u) - torch.einsum("ia,ib,ic,ie->abce", *[target.V] * 4)
    found = order_residuals(W, target, (2, 4))
    assert found.tolist() == pytest.approx([float((second**2).sum()), float((fourth**2).sum())])


def test_k_neurons_on_the_directions_are_a_global_minimum() -> None:
    target = axis_target(3, 7)
    assert float(population_loss(target.V, target)) == pytest.approx(0, abs=1e-12)
    assert float(order_residuals(-target.V, target).abs().max()) < 1e-12, "the sign of a neuron does not matter"


def test_shares_by_hand() -> None:
    target = axis_target(2, 3)
    rows = [[2.0, 0, 0], [1, 1, 0], [0, 0, 1]]  # masses 4, 2, 1: aligned, inside but not aligned, outside
    shares = mass_shares(torch.tensor(rows, dtype=torch.float64), target)
    assert (float(shares.mass), float(shares.subspace), float(shares.aligned)) == pytest.approx((7, 6 / 7, 4 / 7))


def test_standard_initialization() -> None:
    W = init_weights(4000, 8, 3.0, 2, torch.Generator().manual_seed(0))
    assert W.shape == (2, 4000, 8) and W.dtype == torch.float64
    assert (W**2).sum((1, 2)).tolist() == pytest.approx([3, 3], rel=0.05)
    shares = mass_shares(W, axis_target(2, 8))
    assert shares.subspace.tolist() == pytest.approx([0.25, 0.25], rel=0.05)


def test_bad_input_is_refused() -> None:
    eye = torch.eye(3, dtype=torch.float64)
    for V in (eye[[0, 0]], eye * 1.001, torch.full((1, 3), torch.nan, dtype=torch.float64)):
        with pytest.raises(ValueError, match="must be orthonormal"):
            Target(V, Activation())
    with pytest.raises(ValueError, match="k is 4 and d is 3"):
        axis_target(4, 3)
    for m, mass in ((0, 1.0), (3, 0.0), (3, math.inf)):
        with pytest.raises(ValueError, match="must be"):
            init_weights(m, 3, mass)
    with pytest.raises(ValueError, match="row that is zero"):
        population_loss(torch.zeros(2, 3, dtype=torch.float64), axis_target(1, 3))
    with pytest.raises(ValueError, match="orders has 3"):
        order_residuals(weights(), axis_target(1, 6), (3,))
    with pytest.raises(ValueError, match="threshold is 1"):
        mass_shares(weights(), axis_target(1, 6), 1.0)
