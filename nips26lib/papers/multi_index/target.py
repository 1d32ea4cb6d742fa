"""The target, the standard initialization, and the population loss from Gram matrices: no sample is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from nips26lib.papers.multi_index.activation import Activation


@dataclass(frozen=True)
class Target:
    """f*(x) = Σ_i σ(v_i·x) with orthonormal directions `V` (k, d).

    Raises ValueError where the rows of `V` are not orthonormal (to 1e-8) or are more than d.
    """

    V: Float[Tensor, "k d"]
    activation: Activation

    def __post_init__(self) -> None:
        k, d = self.V.shape
        if not 1 <= k <= d:
            raise ValueError(f"V has shape ({k}, {d}); it must have from 1 to d rows")
        off = float((self.V @ self.V.T - torch.eye(k, dtype=self.V.dtype, device=self.V.device)).abs().max())
        if not off <= 1e-8:
            raise ValueError(f"V Vᵀ differs from the identity by {off:.3g}; the rows of V must be orthonormal to 1e-8")

    @property
    def k(self) -> int:
        """How many directions there are."""
        return self.V.shape[0]

    @property
    def d(self) -> int:
        """How many dimensions there are."""
        return self.V.shape[1]

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f*(x)."""
        return self.activation(x @ self.V.T).sum(-1)


def axis_target(k: int, d: int, activation: Activation | None = None, dtype: torch.dtype = torch.float64) -> Target:
    """The target whose directions are the first k coordinate axes; by rotation invariance as good as any."""
    if not 1 <= k <= d:
        raise ValueError(f"k is {k} and d is {d}; k must be from 1 to d")
    return Target(torch.eye(d, dtype=dtype)[:k], activation or Activation())


def init_weights(
    m: int, d: int, mass: float = 1.0, seeds: int = 1, generator: torch.Generator | None = None
) -> Float[Tensor, "seeds m d"]:
    """Standard initialization: w_j ~ N(0, mass/(m d)·I), so that the total mass Σ‖w_j‖² is about `mass`, in float64."""
    if m < 1 or d < 1 or seeds < 1:
        raise ValueError(f"m is {m}, d is {d}, seeds is {seeds}; each must be at least 1")
    if not 0 < mass < math.inf:
        raise ValueError(f"mass is {mass}; it must be above 0 and finite")
    draw = torch.randn(seeds, m, d, dtype=torch.float64, generator=generator)
    return draw * math.sqrt(mass / (m * d))


def polar(W: Float[Tensor, "*batch m d"]) -> tuple[Float[Tensor, "*batch m"], Float[Tensor, "*batch m d"]]:
    """Masses n_j = ‖w_j‖² and directions w̄_j. Raises ValueError for a row that is zero or not finite."""
    norms = W.norm(dim=-1)
    if not bool(((norms > 0) & torch.isfinite(norms)).all()):
        raise ValueError("W has a row that is zero or not finite; each neuron must have a direction")
    return norms**2, W / norms[..., None]


def network(W: Float[Tensor, "m d"], x: Float[Tensor, "n d"], activation: Activation) -> Float[Tensor, " n"]:
    """f(x) = Σ_j ‖w_j‖² σ(w̄_j·x)."""
    n, u = polar(W)
    return activation(x @ u.T) @ n


def population_loss(W: Float[Tensor, "*batch m d"], target: Target) -> Float[Tensor, "*batch"]:
    """½ E (f − f*)² over x ~ N(0, I), exactly: quadratic in the masses, with the kernel of the angles."""
    n, u = polar(W)
    K = target.activation.kernel
    own = torch.einsum("...i,...ij,...j->...", n, K(u @ u.mT), n)
    cross = torch.einsum("...i,...ij->...", n, K(u @ target.V.T))
    constant = K(target.V @ target.V.T).sum()
    return (own - 2 * cross + constant) / 2


def order_residuals(
    W: Float[Tensor, "*batch m d"], target: Target, orders: tuple[int, ...] = (0, 2, 4, 6)
) -> Float[Tensor, orders * batch]:
    """R_ℓ = ‖Σ_j n_j w̄_j^{⊗ℓ} − Σ_i v_i^{⊗ℓ}‖² for each order; the loss is ½ Σ_ℓ c_ℓ R_ℓ.

    The target's own part is k for ℓ ≥ 1 and k² for ℓ = 0, where R_0 = (M − k)².
    """
    n, u = polar(W)
    own, cross, self = u @ u.mT, u @ target.V.T, target.V @ target.V.T
    found = []
    for order in orders:
        if order < 0 or order % 2:
            raise ValueError(f"orders has {order}; an even activation has orders 0, 2, 4, …")
        square = torch.einsum("...i,...ij,...j->...", n, own**order, n)
        mixed = torch.einsum("...i,...ij->...", n, cross**order)
        found.append((square - 2 * mixed + (self**order).sum()).clamp_min(0))
    return torch.stack(found)


@dataclass(frozen=True)
class Shares:
    """Where the mass is: all of it, the share inside the target's subspace, the share on aligned neurons."""

    mass: Float[Tensor, "*batch"]
    subspace: Float[Tensor, "*batch"]
    aligned: Float[Tensor, "*batch"]


def mass_shares(W: Float[Tensor, "*batch m d"], target: Target, threshold: float = 0.95) -> Shares:
    """Total mass M = Σ n_j; the share of M in span(v); and the share on neurons with max_i |w̄_j·v_i| > `threshold`."""
    if not 0 < threshold < 1:
        raise ValueError(f"threshold is {threshold}; it must be between 0 and 1")
    n, u = polar(W)
    overlap = u @ target.V.T
    total = n.sum(-1)
    inside = (n * (overlap**2).sum(-1)).sum(-1) / total
    aligned = (n * (overlap.abs().amax(-1) > threshold)).sum(-1) / total
    return Shares(total, inside, aligned)
