"""The exact law of SGD's iterate in one dimension, and how far it is from that of annealed Langevin diffusion."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array
from scipy.sparse import csr_array
from torch import Tensor

from .diffusion import check_law
from .landscape import Landscape1D

#: The noise of a step must have a standard deviation of this many grid steps, or a sum over the grid is no integral.
NARROWEST = 0.7


def sgd_law(
    land: Landscape1D,
    etas: Float[Array, " K"] | Float[Tensor, " K"],
    sigma: float,
    p0: Float[Array, " n"] | Float[Array, "S n"],
) -> Float[Array, " n"] | Float[Array, "S n"]:
    """The law of x_K for x_{k+1} = x_k − η_k (V'(x_k) + σξ), ξ standard normal, and x_0 from the law `p0`.

    From a point the next one is normal with mean x − ηV'(x) and standard deviation ησ: a sparse matrix, and a product
    a step. The density is sampled at the grid points, which keeps mean and variance to 1e-3 for ησ ≥ 0.7h and to 1e-7
    from h on. The ends hold what would pass them, so cover the law. Raises ValueError for η that is not positive,
    σ ≤ 0, noise narrower than 0.7h, a radial landscape, and a `p0` that is no law.

    >>> from .landscape import grid_for
    >>> land = Landscape1D(lambda x: x**2 / 2, grid_for(-4.0, 4.0, 161))
    >>> p = sgd_law(land, np.full(200, 0.1), 1.0, land.point_mass(0.0))
    >>> round(float(p @ land.grid**2), 5)  # ησ²/(2 − η)
    0.05263
    """
    rates = etas.detach().cpu().numpy() if isinstance(etas, Tensor) else np.asarray(etas)
    rates, p = rates.astype(np.float64), np.asarray(p0, dtype=np.float64)
    if land.radial is not None:
        raise ValueError(f"land was radial, in {land.radial} dimensions; it must be of one dimension")
    if rates.ndim != 1 or not len(rates) or not ((rates > 0) & np.isfinite(rates)).all():
        raise ValueError("etas held no entry, or some that are not above 0 and finite; it must be (K,) of such")
    if not 0 < sigma < math.inf:
        raise ValueError(f"sigma was {sigma}; it must be above 0 and finite, or the law has no density")
    narrowest = float(rates.min()) * sigma
    if narrowest < NARROWEST * land.h:
        raise ValueError(
            f"land had a grid step of {land.h:.3g}; it must be at most {narrowest / NARROWEST:.3g} for noise of "
            f"standard deviation ησ = {narrowest:.3g}"
        )
    check_law(land, p, "p0")
    before = math.nan
    for eta in rates:
        if eta != before:
            matrix, before = _transition(land, float(eta), sigma), float(eta)
        p = p @ matrix
    return p


def total_variation(p: Float[Array, "*S n"], q: Float[Array, "*S n"]) -> Float[Array, "*S"]:
    """Half the sum of |p − q|: the largest difference in the probability of any set.

    >>> float(total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.5, 0.5])))
    0.5
    """
    return np.asarray(np.abs(p - q).sum(-1) / 2)


def _transition(land: Landscape1D, eta: float, sigma: float) -> csr_array:
    """The matrix of one step, row by row the law from a point; zeros beyond 9 standard deviations are not stored."""
    n, h = len(land.grid), land.h
    mean = (land.grid - eta * land.slope - land.grid[0]) / h  # in grid steps
    reach = min(math.ceil(9 * eta * sigma / h), n)
    # A mean beyond the end is held there: what is nearest gets all.
    columns = np.clip(np.rint(mean), 0, n - 1)[:, None] + np.arange(-reach, reach + 1)
    exponent = (columns - mean[:, None]) ** 2
    exponent[(columns < 0) | (columns > n - 1)] = np.inf
    exponent -= exponent.min(1, keepdims=True)
    weights = np.exp(-0.5 * (h / (eta * sigma)) ** 2 * exponent)
    weights /= weights.sum(1, keepdims=True)
    places = np.clip(columns, 0, n - 1).astype(np.int32).ravel()
    ends = np.arange(n + 1, dtype=np.int32) * (2 * reach + 1)
    return csr_array((weights.ravel(), places, ends), shape=(n, n))
