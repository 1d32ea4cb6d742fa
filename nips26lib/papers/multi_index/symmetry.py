"""The symmetrized network: f averaged over all isometries that leave the target and the Gaussian as they are.

The group G permutes and flips the k target coordinates and rotates the d − k others. Averaged over it, the kernel of
orders 0, 2 and 4 is a sum of products of a few moments of each neuron, so the loss of m neurons costs O(m d).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from nips26lib.papers.multi_index.target import Target, polar

ORDERS = (0, 2, 4)


def moments(W: Float[Tensor, "*batch m d"], k: int) -> tuple[Tensor, ...]:
    """Masses n, and of each direction w̄ = (s, o): ‖s‖², ‖s‖₄⁴ and ‖o‖², where s are the first k coordinates."""
    n, u = polar(W)
    inside = u[..., :k]
    return n, (inside**2).sum(-1), (inside**4).sum(-1), (u[..., k:] ** 2).sum(-1)


def symmetrized_kernel(
    Wa: Float[Tensor, "*batch a d"], Wb: Float[Tensor, "*batch b d"], k: int, orders: dict[int, float]
) -> Float[Tensor, "*batch a b"]:
    """E_g Σ_ℓ c_ℓ (g w̄_a · w̄_b)^ℓ over the group, for `orders` = {ℓ: c_ℓ} with ℓ in 0, 2, 4.

    Raises ValueError for another order, or k outside 1 … d.
    """
    d = Wa.shape[-1]
    _check(k, d, orders)
    _, a2, a4, ao = (each[..., :, None] for each in moments(Wa, k))
    _, b2, b4, bo = (each[..., None, :] for each in moments(Wb, k))
    inside2 = a2 * b2 / k
    outside2 = ao * bo / (d - k) if d > k else torch.zeros_like(inside2)
    inside4 = a4 * b4 / k
    if k > 1:
        inside4 = inside4 + 3 * (a2**2 - a4) * (b2**2 - b4) / (k * (k - 1))
    outside4 = 3 * ao**2 * bo**2 / ((d - k) * (d - k + 2)) if d > k else torch.zeros_like(inside2)
    found = orders.get(0, 0.0) + orders.get(2, 0.0) * (inside2 + outside2)
    return found + orders.get(4, 0.0) * (inside4 + 6 * inside2 * outside2 + outside4)


def symmetrized_loss(W: Float[Tensor, "*batch m d"], target: Target) -> Float[Tensor, "*batch"]:
    """½ E (f_sym − f*)² for a target on the first k coordinate axes and an activation of orders 0, 2, 4.

    The pair kernel is a sum of products of one-neuron moments, so the double sum over pairs is a sum of squares.
    """
    k, d = target.k, target.d
    orders = {order: value for order, value in (target.activation.terms or {}).items() if value}
    if target.activation.terms is None:
        raise ValueError(
            "the activation is the absolute value, with infinitely many orders; give terms {0: …, 2: …, 4: …}"
        )
    _check(k, d, orders)
    if not torch.equal(target.V, torch.eye(d, dtype=target.V.dtype, device=target.V.device)[:k]):
        raise ValueError("target must lie on the first k coordinate axes, which the group permutes")
    n, a2, a4, ao = moments(W, k)

    def square(moment: Tensor) -> Tensor:
        return (n * moment).sum(-1) ** 2

    inside, outside = square(a2) / k, square(ao) / max(d - k, 1)
    fourth = square(a4) / k + 6 * square(a2 * ao) / (k * max(d - k, 1))
    if k > 1:
        fourth = fourth + 3 * square(a2**2 - a4) / (k * (k - 1))
    if d > k:
        fourth = fourth + 3 * square(ao**2) / ((d - k) * (d - k + 2))
    c0, c2, c4 = (orders.get(order, 0.0) for order in ORDERS)
    own = c0 * n.sum(-1) ** 2 + c2 * (inside + outside) + c4 * fourth
    _, u = polar(W)
    K = target.activation.kernel
    cross = (n * K(u @ target.V.T).sum(-1)).sum(-1)
    return (own - 2 * cross + K(target.V @ target.V.T).sum()) / 2


def symmetrized_gradient(W: Float[Tensor, "*batch m d"], target: Target) -> Float[Tensor, "*batch m d"]:
    """∇_W of `symmetrized_loss`, by automatic differentiation: its cost is that of the loss."""
    leaf = W.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(symmetrized_loss(leaf, target).sum(), leaf)
    return gradient


def random_isometry(k: int, d: int, generator: torch.Generator | None = None) -> Float[Tensor, "d d"]:
    """A uniform element of the group, in float64."""
    _check(k, d, {})
    g = torch.zeros(d, d, dtype=torch.float64)
    signs = torch.randint(0, 2, (k,), generator=generator).to(torch.float64) * 2 - 1
    g[torch.arange(k), torch.randperm(k, generator=generator)] = signs
    if d > k:
        q, r = torch.linalg.qr(torch.randn(d - k, d - k, dtype=torch.float64, generator=generator))
        g[k:, k:] = q * r.diagonal().sign()
    return g


def _check(k: int, d: int, orders: dict[int, float]) -> None:
    if not 1 <= k <= d:
        raise ValueError(f"k is {k} and d is {d}; k must be from 1 to d")
    for order in orders:
        if order not in ORDERS:
            raise ValueError(f"orders has {order}; the average over the group is in closed form for 0, 2 and 4 only")
