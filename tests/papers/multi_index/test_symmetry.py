from __future__ import annotations

import pytest
import torch

from nips26lib.papers.multi_index import (
    Activation,
    axis_target,
    gradient_flow,
    init_weights,
    layer_wise,
    lazy_fit,
    polar,
    population_loss,
    random_isometry,
    ridge_losses,
    symmetrized_gradient,
    symmetrized_kernel,
    symmetrized_loss,
)

ORDERS = {0: 0.6, 2: 0.3, 4: 0.1}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("k", "d"), [(3, 7), (1, 5), (4, 4), (2, 3)])
def test_the_average_over_the_group(k: int, d: int) -> None:
    Wa, Wb = init_weights(3, d, 1.0, 2, generator())
    draw = generator(5)
    _, ua = polar(Wa)
    _, ub = polar(Wb)
    samples = []
    for _ in range(3000):
        rho = (ua @ random_isometry(k, d, draw).T) @ ub.T
        samples.append(sum(value * rho**order for order, value in ORDERS.items()))
    sampled = torch.stack([torch.as_tensor(each) for each in samples])
    error = sampled.std(0) / len(samples) ** 0.5
    assert ((symmetrized_kernel(Wa, Wb, k, ORDERS) - sampled.mean(0)).abs() < 4 * error + 1e-12).all()


def test_a_random_isometry_keeps_the_target() -> None:
    g = random_isometry(3, 7, generator())
    assert torch.allclose(g @ g.T, torch.eye(7, dtype=torch.float64), atol=1e-12)
    assert (g[:3, :3].abs().sum(0) == 1).all() and not g[:3, 3:].any()


def test_the_loss_is_the_double_sum_and_is_invariant() -> None:
    target, W = axis_target(3, 7, Activation(ORDERS)), init_weights(5, 7, 2.0, 1, generator())[0]
    n, u = polar(W)
    own = n @ symmetrized_kernel(W, W, 3, ORDERS) @ n
    cross = (n[:, None] * target.activation.kernel(u @ target.V.T)).sum()
    constant = target.activation.kernel(target.V @ target.V.T).sum()
    assert float(symmetrized_loss(W, target)) == pytest.approx(float((own - 2 * cross + constant) / 2))
    g = random_isometry(3, 7, generator(2))
    assert float(symmetrized_loss(W @ g, target)) == pytest.approx(float(symmetrized_loss(W, target)))
    assert float(symmetrized_loss(W, target)) <= float(population_loss(W, target)), "an average is nearer (Jensen)"


def test_a_network_that_is_symmetric_has_the_loss_of_its_average() -> None:
    """The orbit of one neuron under signed permutations, with k = d."""
    from itertools import permutations, product

    rows = [[s * x for s, x in zip(signs, order, strict=True)] for order in permutations((0.9, 0.4, 0.2))
            for signs in product((1, -1), repeat=3)]  # fmt: skip
    W, target = torch.tensor(rows, dtype=torch.float64) / 5, axis_target(3, 3, Activation(ORDERS))
    assert float(symmetrized_loss(W, target)) == pytest.approx(float(population_loss(W, target)), rel=1e-12)


def test_the_gradient_and_the_flow() -> None:
    target, W = axis_target(2, 6, Activation(ORDERS)), init_weights(5, 6, 1.0, 2, generator())
    gradient = symmetrized_gradient(W, target)
    for i, j in ((0, 1), (4, 5)):
        up, down = W.clone(), W.clone()
        up[0, i, j] += 1e-6
        down[0, i, j] -= 1e-6
        numeric = (symmetrized_loss(up, target)[0] - symmetrized_loss(down, target)[0]) / 2e-6
        assert float(gradient[0, i, j]) == pytest.approx(float(numeric), abs=1e-7)
    flow = gradient_flow(W, target, 10.0, 0.1, loss="symmetrized")
    assert (symmetrized_loss(flow.W, target) < symmetrized_loss(W, target)).all()


def test_lazy_masses_are_the_best_there_are() -> None:
    target, U = axis_target(2, 4), init_weights(12, 4, 1.0, 1, generator())[0]
    fit = lazy_fit(U, target)
    assert fit.loss == pytest.approx(float(population_loss(fit.W, target)))
    # Karush, Kuhn and Tucker: no mass can be added or shifted to advantage.
    (n, alive), (_, u), kernel = polar(fit.W), polar(U), target.activation.kernel
    slope = kernel(u @ alive.T) @ n - kernel(u @ target.V.T).sum(-1)
    used = kernel(alive @ alive.T) @ n - kernel(alive @ target.V.T).sum(-1)
    assert float(slope.min()) > -1e-8 and float(used.abs().max()) < 1e-8 and len(alive) < 12
    assert lazy_fit(torch.cat([U, target.V]), target).loss == pytest.approx(0, abs=1e-7)


def test_trained_beats_lazy_and_ridge_learns_something() -> None:
    target, W0 = axis_target(2, 8), init_weights(40, 8, 1.0, 1, generator())[0]
    trained = float(gradient_flow(W0, target, 30.0, 0.1).losses[-1])
    lazy, layered = lazy_fit(W0, target).loss, layer_wise(W0, target, 100.0, 0.1).loss
    assert lazy > 5 * trained and layered < lazy
    x = torch.randn(400, 8, dtype=torch.float64, generator=generator(1))
    test_x = torch.randn(2000, 8, dtype=torch.float64, generator=generator(2))
    variance = float(target(test_x).var()) / 2
    losses = ridge_losses(x, target(x), test_x, target(test_x), features=300)
    assert set(losses) == {"kernel ridge (RBF)", "random features"}
    assert all(trained < loss < variance for loss in losses.values())


def test_bad_input_is_refused() -> None:
    W = init_weights(3, 5, generator=generator())
    with pytest.raises(ValueError, match="orders has 6"):
        symmetrized_kernel(W, W, 2, {6: 1.0})
    with pytest.raises(ValueError, match="k is 6 and d is 5"):
        symmetrized_kernel(W, W, 6, ORDERS)
    with pytest.raises(ValueError, match="infinitely many orders"):
        symmetrized_loss(W, axis_target(2, 5))
    turned = axis_target(2, 5, Activation(ORDERS))
    from nips26lib.papers.multi_index import Target

    with pytest.raises(ValueError, match="first k coordinate axes"):
        symmetrized_loss(W, Target(turned.V.flip(1), turned.activation))
