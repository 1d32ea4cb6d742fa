"""The weak Poincaré inequality: why annealing need not wait for the wells that it has left.

With G the good basin and B the rest, Var_μ(g) = μ(G) Var_G + μ(B) Var_B + μ(G) μ(B) (m_G − m_B)². The first part is
at most C_loc E_μ|g'|² with C_loc = C_PI(μ|G); the second at most μ(B) Osc(g)²/4, the third at most μ(B) Osc(g)². So

    Var_μ(g) ≤ C_loc E_μ|g'|² + (5/4) μ(B) Osc(g)²

(the inequality: Röckner and Wang, J. Funct. Anal. 2001; the split: ours). C_PI itself would be e^{b/T} larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from .diffusion import fokker_planck_steps
from .landscape import Landscape1D


@dataclass(frozen=True)
class WeakPoincare:
    """At temperature T: the spectral gap, that of the good basin alone, and the mass of the rest, μ_T(B)."""

    T: float
    gap: float
    gap_local: float
    mass_outside: float

    @property
    def constant(self) -> float:
        """C_PI = T/gap."""
        return self.T / self.gap

    @property
    def constant_local(self) -> float:
        """C_loc = T/gap_local."""
        return self.T / self.gap_local


def weak_poincare(land: Landscape1D, T: float, basin: tuple[int, int] | None = None) -> WeakPoincare:
    """The pieces of the inequality at T; `basin` holds the first and last index of G, by default `land.basin()`.

    Raises ValueError for T ≤ 0, a grid that does not cover the Gibbs law, or a basin that is no part of the grid.
    """
    first, last = land.basin() if basin is None else basin
    local = land.poincare(T, (first, last))
    mu = land.gibbs(T)
    # Summed over B itself: 1 − μ(G) would lose a mass of 1e-20.
    outside = float(mu[:first].sum() + mu[last + 1 :].sum())
    return WeakPoincare(T, land.poincare(T).gap, local.gap, outside)


def variance(mu: Float[Array, " n"], g: Float[Array, "*S n"]) -> Float[Array, "*S"]:
    """Var_μ(g).

    >>> float(variance(np.array([0.5, 0.5]), np.array([0.0, 2.0])))
    1.0
    """
    return np.asarray((g - (g @ mu)[..., None]) ** 2 @ mu)


def squared_gradient(land: Landscape1D, T: float, g: Float[Array, "*S n"]) -> Float[Array, "*S"]:
    """E_μ|g'|² on the grid: the Dirichlet form of the generator at T, over T."""
    up, _ = land.generator(T)
    conductance = land.gibbs(T)[:-1] * up[:-1]
    return np.asarray(np.diff(g) ** 2 @ conductance / T)


def weak_poincare_margin(
    land: Landscape1D, T: float, g: Float[Array, "*S n"], basin: tuple[int, int] | None = None
) -> Float[Array, "*S"]:
    """The right side of the weak Poincaré inequality less the left, for functions `g` on the grid; never below 0.

    Raises ValueError for functions of another length or with values that are not finite, and as `weak_poincare` does.
    """
    if g.shape[-1] != len(land.grid) or not np.isfinite(g).all():
        raise ValueError(f"g had shape {g.shape}; it must be finite and (…, n) with n = {len(land.grid)}")
    pieces = weak_poincare(land, T, basin)
    local = pieces.constant_local * squared_gradient(land, T, g)
    return np.asarray(local + 1.25 * pieces.mass_outside * np.ptp(g, axis=-1) ** 2 - variance(land.gibbs(T), g))


def relative_entropy(p: Float[Array, "*S n"], log_q: Float[Array, " n"]) -> Float[Array, "*S"]:
    """KL(p ‖ q) in nats, q given by its logarithms: Gibbs probabilities may be below what a float can hold.

    >>> float(relative_entropy(np.array([1.0, 0.0]), np.log([0.5, 0.5])))  # log 2
    0.693147...
    """
    log_p = np.log(np.where(p > 0, p, 1))
    return np.asarray(np.where(p > 0, p * (log_p - log_q), 0).sum(-1))


def entropy_path(
    land: Landscape1D, T_path: Float[Array, " N"], dt_path: Float[Array, " N"], p0: Float[Array, " n"]
) -> Float[Array, " N"]:
    """KL(law_t ‖ μ_{T_t}) after every step: how far the law lags behind the Gibbs law of the moment.

    Arguments and errors are those of `fokker_planck`, for one path.
    """
    laws = fokker_planck_steps(land, T_path, dt_path, p0)
    return np.array([float(relative_entropy(p, land.log_gibbs(float(T)))) for p, T in zip(laws, T_path, strict=True)])
