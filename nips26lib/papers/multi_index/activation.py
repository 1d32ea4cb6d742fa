"""Even activations, their Hermite coefficients, and the kernel that they make of the angle between two neurons.

For x ~ N(0, I) and unit vectors u, v with u·v = ρ, Mehler's formula gives E[σ(u·x) σ(v·x)] = Σ_ℓ c_ℓ ρ^ℓ, where c_ℓ
is the square of the ℓ-th coefficient of σ in orthonormal Hermite polynomials. So the population loss of a two-layer
network is a function of angles alone, and splits by order ℓ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# The slope of the kernel is infinite at ρ = ±1, where its tangential part vanishes: this far inside is close enough.
_EDGE = 1 - 1e-12


@dataclass(frozen=True)
class Activation:
    """The absolute value (`terms=None`), or the kernel Σ c_ℓ ρ^ℓ of finitely many even orders, `{0: c_0, 2: c_2, …}`.

    Raises ValueError for an odd order (the mass of a network with an odd activation cannot fit a mean that is 0) and
    for a coefficient that is negative or not finite: a c_ℓ is a square.

    >>> round(float(Activation().kernel(torch.tensor(1.0, dtype=torch.float64))), 6)
    1.0
    >>> Activation({0: 1.0, 2: 0.5}).coefs(2)
    {0: 1.0, 2: 0.5}
    """

    terms: Mapping[int, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        for order, value in (self.terms or {}).items():
            if order < 0 or order % 2:
                raise ValueError(f"terms has order {order}; the activation must be even, with orders 0, 2, 4, …")
            if not 0 <= value < math.inf:
                raise ValueError(f"terms[{order}] is {value}; a squared coefficient must be finite and not negative")
        if self.terms is not None and not any(self.terms.values()):
            raise ValueError(f"terms is {dict(self.terms)}; some coefficient must be above 0")

    def coefs(self, largest: int) -> dict[int, float]:
        """c_ℓ of every even order up to `largest`."""
        if self.terms is not None:
            return {order: float(self.terms.get(order, 0.0)) for order in range(0, largest + 1, 2)}
        return {order: _absolute_coefficient(order) for order in range(0, largest + 1, 2)}

    def kernel(self, rho: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """K(ρ) = Σ c_ℓ ρ^ℓ; for the absolute value in closed form, (2/π) (√(1 − ρ²) + ρ asin ρ)."""
        if self.terms is not None:
            return sum((value * rho**order for order, value in self.terms.items()), torch.zeros_like(rho))
        inside = rho.clamp(-1, 1)
        return 2 / math.pi * (torch.sqrt(1 - inside**2) + inside * torch.asin(inside))

    def slope(self, rho: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """K'(ρ); for the absolute value (2/π) asin ρ."""
        if self.terms is not None:
            terms = (order * value * rho ** (order - 1) for order, value in self.terms.items() if order)
            return sum(terms, torch.zeros_like(rho))
        return 2 / math.pi * torch.asin(rho.clamp(-_EDGE, _EDGE))

    def __call__(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """σ(z). A kernel of finitely many orders is that of Σ √c_ℓ h_ℓ."""
        if self.terms is None:
            return z.abs()
        return sum((math.sqrt(value) * hermite(order, z) for order, value in self.terms.items()), torch.zeros_like(z))

    def derivative(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """σ'(z), with the derivative of the absolute value at 0 taken to be 0."""
        if self.terms is None:
            return z.sign()
        terms = (
            math.sqrt(value * order) * hermite(order - 1, z) for order, value in self.terms.items() if order
        )  # h_ℓ' = √ℓ h_{ℓ−1}
        return sum(terms, torch.zeros_like(z))


def hermite(order: int, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The orthonormal (probabilists') Hermite polynomial h_ℓ(z), with E h_ℓ(z)² = 1 for z ~ N(0, 1).

    >>> hermite(2, torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)) * 2**0.5
    tensor([-1.,  0.,  3.], dtype=torch.float64)
    """
    before, now = torch.zeros_like(z), torch.ones_like(z)
    for n in range(order):
        before, now = now, (z * now - math.sqrt(n) * before) / math.sqrt(n + 1)
    return now


def hermite_coefs(function: Callable[[np.ndarray], np.ndarray], largest: int, nodes: int = 200) -> list[float]:
    """E[f(z) h_ℓ(z)] for z ~ N(0, 1) and ℓ = 0 … `largest`, by Gauss-Hermite quadrature.

    Exact to rounding for polynomials of degree below 2·`nodes` − `largest`, and slow to converge at a kink.
    """
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    z = torch.from_numpy(points)
    values = np.asarray(function(points), dtype=np.float64)
    return [float(np.sum(weights * values * hermite(order, z).numpy())) for order in range(largest + 1)]


@lru_cache(maxsize=256)
def _absolute_coefficient(order: int) -> float:
    """c_ℓ of |z|: the coefficients of the power series of the kernel in closed form."""
    if order == 0:
        return 2 / math.pi
    # (2/π)(√(1−ρ²) + ρ asin ρ) has the second derivative (2/π)(1−ρ²)^{-1/2}, a binomial series.
    half = order // 2 - 1
    return 2 / math.pi * math.comb(2 * half, half) / 4**half / (order * (order - 1))
