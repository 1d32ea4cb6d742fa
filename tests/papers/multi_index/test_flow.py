from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from nips26lib.papers.multi_index import (
    Activation,
    Target,
    axis_target,
    first_time,
    flow_gradient,
    gradient_flow,
    init_weights,
    largest_step,
    logistic_mass,
    mass_shares,
    mean_half_time,
    network,
    population_loss,
    sample_gradient,
    two_stage_ode,
    winner_takes_all,
)

SMOOTH = Activation({0: 0.6, 2: 0.3, 4: 0.1})


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_gradient_is_that_of_the_loss() -> None:
    target, W = axis_target(2, 5, SMOOTH), init_weights(6, 5, 2.0, 2, generator()).requires_grad_()
    (expected,) = torch.autograd.grad(population_loss(W, target).sum(), W)
    assert torch.allclose(flow_gradient(W.detach(), target), expected, atol=1e-12)


def test_the_gradient_with_the_absolute_value() -> None:
    """By central differences: automatic differentiation meets 0·∞ where a neuron meets itself."""
    target, W = axis_target(2, 5), init_weights(6, 5, 2.0, 1, generator())[0]
    found, step = flow_gradient(W, target), 1e-5
    for i in range(6):
        for j in range(5):
            change = torch.zeros_like(W)
            change[i, j] = step
            numeric = (population_loss(W + change, target) - population_loss(W - change, target)) / (2 * step)
            assert float(found[i, j]) == pytest.approx(float(numeric), abs=1e-5)


def test_the_gradient_without_an_order_is_that_of_the_rest() -> None:
    target, rest = axis_target(2, 5, SMOOTH), axis_target(2, 5, Activation({2: 0.3, 4: 0.1}))
    W = init_weights(6, 5, 2.0, 1, generator())
    assert torch.allclose(flow_gradient(W, target, without=(0,)), flow_gradient(W, rest), atol=1e-13)
    only = axis_target(2, 5, Activation({0: 0.6, 4: 0.1}))
    assert torch.allclose(flow_gradient(W, target, without=(2,)), flow_gradient(W, only), atol=1e-13)


def test_the_correlation_gradient_lets_no_neuron_feel_another() -> None:
    target, W = axis_target(2, 5, SMOOTH), init_weights(6, 5, 2.0, 1, generator())[0]
    together = flow_gradient(W, target, "correlation")
    alone = torch.cat([flow_gradient(row[None], target, "correlation") for row in W])
    assert torch.allclose(together, alone, atol=1e-14)
    leaf = W.clone().requires_grad_()
    n, u = leaf.square().sum(-1), leaf / leaf.norm(dim=-1, keepdim=True)
    (expected,) = torch.autograd.grad(-(n * SMOOTH.kernel(u @ target.V.T).sum(-1)).sum(), leaf)
    assert torch.allclose(together, expected, atol=1e-13)


@pytest.mark.parametrize("activation", [Activation(), SMOOTH])
def test_the_sample_gradient_is_that_of_the_empirical_loss(activation: Activation) -> None:
    target = axis_target(2, 5, activation)
    x = torch.randn(3, 50, 5, dtype=torch.float64, generator=generator(1))
    y = torch.stack([target(each) for each in x])
    W = init_weights(6, 5, 2.0, 3, generator())
    found = sample_gradient(W, x, y, activation)
    for each, points, values, gradient in zip(W, x, y, found, strict=True):
        leaf = each.clone().requires_grad_()
        loss = (network(leaf, points, activation) - values).square().mean() / 2
        assert torch.allclose(gradient, torch.autograd.grad(loss, leaf)[0], atol=1e-12)


def test_it_is_what_torch_s_own_descent_does() -> None:
    """An nn.Module with |·|, trained by torch.optim.SGD on the same sample."""
    target = axis_target(2, 5)
    x = torch.randn(200, 5, dtype=torch.float64, generator=generator(1))
    W0 = init_weights(6, 5, 1.0, 1, generator())[0]
    flow = gradient_flow(W0, target, 2.0, 0.05, samples=(x, target(x)))
    layer = torch.nn.Linear(5, 6, bias=False, dtype=torch.float64)
    layer.weight.data = W0.clone()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
    for _ in range(40):
        optimizer.zero_grad()
        out = (layer(x).abs() * layer.weight.norm(dim=1)).sum(1)
        ((out - target(x)).square().mean() / 2).backward()
        optimizer.step()
    assert torch.allclose(layer.weight.detach(), flow.W, atol=1e-10)


def test_stage_1_is_the_logistic_law() -> None:
    """With order 0 alone; Euler's error halves with the step."""
    target, W0 = axis_target(4, 16, Activation({0: 2 / math.pi})), init_weights(40, 16, 1.0, 1, generator())[0]
    M0 = float((W0**2).sum())
    errors = []
    for step in (0.004, 0.002):
        flow = gradient_flow(W0, target, 0.5, step)
        expected = logistic_mass(flow.t, M0, 4, 2 / math.pi)
        errors.append(float(((flow.mass - expected) / expected).abs().max()))
    assert errors[1] < 2e-3 and errors[0] / errors[1] == pytest.approx(2, abs=0.1)
    half = float(gradient_flow(W0, target, 0.5, 0.001, orders=(0,), marks=500).half_times()[0])
    assert half == pytest.approx(mean_half_time(M0, 4, 2 / math.pi), rel=0.01)


def test_stage_2_is_exact_for_a_balanced_start() -> None:
    """A network with Σ w wᵀ a multiple of the identity follows α and β to rounding, step by step."""
    d, k, c0, c2, step = 12, 3, 0.6, 0.3, 0.01
    W0 = torch.linalg.qr(torch.randn(30, d, dtype=torch.float64, generator=generator()))[0] / math.sqrt(d)
    target = axis_target(k, d, Activation({0: c0, 2: c2}))
    ode = two_stage_ode(d, k, 1.0, c0, c2, 20.0, step)
    W = W0
    for n in range(1, 2001):
        W = W - step * flow_gradient(W, target)
        if n % 500 == 0:
            A = W.T @ W
            expected = torch.diag(torch.cat([ode.alpha[n].expand(k), ode.beta[n].expand(d - k)]))
            assert torch.allclose(A, expected, atol=1e-12)
    assert float(ode.alpha[-1]) == pytest.approx(1, abs=0.05) and float(ode.beta[-1]) < 0.05
    assert float(ode.mass.max()) > k, "the mass overshoots: that drains the complement"


def test_the_half_time_of_the_subspace_grows_with_log_d() -> None:
    c0, c2 = 2 / math.pi, 1 / math.pi
    times = [two_stage_ode(d, 4, 1.0, c0, c2, 20.0).half_times()[1] for d in (256, 512, 1024)]
    slopes = [b - a for a, b in pairwise(times)]
    assert slopes == pytest.approx([math.log(2) / (4 * c2)] * 2, rel=0.05)


def test_the_loss_falls_and_rotations_carry_over() -> None:
    W0 = init_weights(20, 6, 1.0, 2, generator())
    flow = gradient_flow(W0, axis_target(2, 6), 20.0, 0.1)
    assert (flow.losses.diff(dim=0) <= 1e-12).all()
    Q = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=generator(3)))[0]
    turned = gradient_flow(W0 @ Q, Target(axis_target(2, 6).V @ Q, Activation()), 20.0, 0.1)
    assert torch.allclose(turned.W, flow.W @ Q, atol=1e-6)
    order = torch.randperm(20, generator=generator(4))
    mixed = gradient_flow(-W0[:, order], axis_target(2, 6), 20.0, 0.1)
    assert torch.allclose(mixed.W, -flow.W[:, order], atol=1e-6)


def test_a_batch_is_its_members() -> None:
    W0 = init_weights(10, 6, 1.0, 3, generator())
    together = gradient_flow(W0, axis_target(2, 6), 5.0, 0.1)
    alone = gradient_flow(W0[1], axis_target(2, 6), 5.0, 0.1)
    assert torch.allclose(together.W[1], alone.W, atol=1e-10) and torch.allclose(
        together.R[:, :, 1], alone.R, atol=1e-10
    )


def test_the_staircase() -> None:
    flow = gradient_flow(init_weights(64, 16, 1.0, 3, generator()), axis_target(4, 16), 12.0, 0.1)
    half = flow.half_times()
    assert (half.diff(dim=0) > 0).all(), "order by order, in every network"
    shares = mass_shares(flow.W, axis_target(4, 16))
    assert (shares.subspace > 0.9).all() and torch.allclose(shares.subspace, flow.subspace[-1])


def test_without_order_0_the_complement_is_not_drained() -> None:
    W0 = init_weights(64, 16, 4.0, 1, generator())[0]
    target = axis_target(4, 16)
    plain, free = (gradient_flow(W0, target, 8.0, 0.05, without=orders) for orders in ((), (0,)))
    outside = [float(flow.mass[-1] * (1 - flow.subspace[-1])) for flow in (plain, free)]
    assert outside[1] > 2 * outside[0]


def test_winner_takes_all() -> None:
    t, x = winner_takes_all(torch.tensor([0.6, 0.5, 0.4, 0.3], dtype=torch.float64), 1 / (12 * math.pi), 400.0)
    assert x.norm(dim=1).tolist() == pytest.approx([1] * len(t)) and float(x[-1, 0]) > 0.999
    assert (x[:, 0].diff() >= -1e-12).all()


def test_first_times() -> None:
    t = torch.tensor([0.0, 1, 2, 4], dtype=torch.float64)
    x = torch.tensor([[0.0, 5, 0], [1, 6, 0], [3, 7, 0], [3, 8, 0]], dtype=torch.float64)
    assert first_time(t, x, 2.0).tolist() == [1.5, 0.0, math.inf]


@pytest.mark.parametrize(("changes", "why"), [
    ({"loss": "half"}, "loss is 'half'"), ({"t_end": 0.0}, r"t_end is 0\.0"), ({"marks": 1}, "marks is 1"),
    ({"step": 0.5}, r"step is 0\.5; for k = 4 and mass .* below 0\.19"), ({"step": 0.0}, r"step is 0\.0"),
])  # fmt: skip
def test_bad_input_is_refused(changes: dict[str, object], why: str) -> None:
    arguments = {"t_end": 1.0, "step": 0.1} | changes
    with pytest.raises(ValueError, match=why):
        gradient_flow(init_weights(5, 8, generator=generator()), axis_target(4, 8), **arguments)  # type: ignore[arg-type]


def test_the_bound_on_the_step() -> None:
    assert largest_step(axis_target(4, 8), 1.0) == pytest.approx(math.pi / 16)
    with pytest.raises(ValueError, match="has 7 columns"):
        gradient_flow(init_weights(5, 7), axis_target(4, 8), 1.0)
    with pytest.raises(ValueError, match="k is 4 and d is 3"):
        two_stage_ode(3, 4, 1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="nothing to halve"):
        mean_half_time(4.0, 4, 1.0)
