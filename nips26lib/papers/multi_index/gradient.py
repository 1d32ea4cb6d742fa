"""Gradients of the losses in closed form, for any number of networks at once.

With n = ‖w‖² and w̄ = w/‖w‖, a loss with the functional derivative G(w̄) has the gradient
∇_w L = 2 G(w̄) w + ‖w‖ ∇_S G(w̄): the first part changes the mass, the second turns the direction (∇_S is the gradient
on the sphere). In time, ṅ = −4 n G(w̄) and dw̄/dt = −∇_S G(w̄).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from nips26lib.papers.multi_index.activation import Activation
from nips26lib.papers.multi_index.target import Target, polar

LOSSES = ("full", "correlation")


def flow_gradient(
    W: Float[Tensor, "*batch m d"], target: Target, loss: str = "full", without: Sequence[int] = ()
) -> Float[Tensor, "*batch m d"]:
    """∇_W of the population loss ("full"), or of its part that is linear in the network ("correlation").

    `without` lists Hermite orders that are left out of the loss. Without order 0, nothing holds the total mass to the
    mean of the target. Cost: O(m² + m k) kernel values a network.
    """
    if loss not in LOSSES:
        raise ValueError(f"loss is {loss!r}; it must be one of {', '.join(LOSSES)}")
    n, u = polar(W)
    V = target.V
    K, slope = target.activation.kernel, target.activation.slope
    dropped = {order: target.activation.coefs(order)[order] for order in without}

    cross = u @ V.T
    pull, turn = _without(K(cross), slope(cross), cross, dropped)
    G = -pull.sum(-1)
    along = -(turn @ V)
    radial = -(turn * cross).sum(-1)
    if loss == "full":
        own = u @ u.mT
        push, bend = _without(K(own), slope(own), own, dropped)
        G = G + torch.einsum("...ij,...j->...i", push, n)
        weighted = bend * n[..., None, :]
        along = along + weighted @ u
        radial = radial + (weighted * own).sum(-1)
    tangent = along - radial[..., None] * u
    return 2 * G[..., None] * W + n.sqrt()[..., None] * tangent


def _without(kernel: Tensor, slope: Tensor, rho: Tensor, dropped: dict[int, float]) -> tuple[Tensor, Tensor]:
    for order, value in dropped.items():
        kernel = kernel - value * rho**order
        if order:
            slope = slope - value * order * rho ** (order - 1)
    return kernel, slope


def sample_gradient(
    W: Float[Tensor, "*batch m d"],
    x: Float[Tensor, "*batch n d"],
    y: Float[Tensor, "*batch n"],
    activation: Activation,
) -> Float[Tensor, "*batch m d"]:
    """∇_W of the empirical loss ½ mean (f(x) − y)²; each network of the batch has its own sample."""
    n, u = polar(W)
    z = x @ u.mT
    value, rise = activation(z), activation.derivative(z)
    residual = torch.einsum("...nm,...m->...n", value, n) - y
    residual = residual / y.shape[-1]
    G = torch.einsum("...n,...nm->...m", residual, value)
    rise = rise * residual[..., None]
    tangent = rise.mT @ x - (rise * z).sum(-2)[..., None] * u
    return 2 * G[..., None] * W + n.sqrt()[..., None] * tangent
