"""The law of annealed Langevin diffusion on a grid: the Fokker-Planck equation by backward Euler, a solve a step.

A step of length dt solves (1 + dt(up + down)) p − dt up' p' − dt down″ p″ = q, with ' the left and ″ the right
neighbour. Elimination from the left never subtracts: with P the pivot and s = P − dt up,

    s_0 = 1,   P_i = s_i + dt up_i,   s_{i+1} = 1 + dt down_{i+1} s_i / P_i

and so do the two substitutions. So all probabilities stay positive and sum to 1 to rounding, whatever dt: 1e-6 or 1e12.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array
from scipy.linalg.lapack import dgttrs

from .landscape import Landscape1D

#: How many systems are factorized at once: a bound on memory, and enough to make the Python loop cheap.
_BLOCK = 256


def fokker_planck(
    land: Landscape1D,
    T_path: Float[Array, " N"] | Float[Array, "N _"],
    dt_path: Float[Array, " N"] | Float[Array, "N _"],
    p0: Float[Array, " n"] | Float[Array, "S n"],
) -> Float[Array, " n"] | Float[Array, "S n"]:
    """The law after N steps at the temperatures `T_path`, each of the length in `dt_path`, from the law `p0`.

    S paths at once where any argument has an axis S (of length 1 if shared). First order in dt, stable for any, and
    the Gibbs law is exactly stationary. Raises ValueError for T or dt that is not positive and finite, for a `p0` that
    is no law, for shapes that do not fit, and for a grid that does not cover the Gibbs law at the hottest T.

    >>> from .landscape import grid_for
    >>> land = Landscape1D(lambda x: x**2 / 2, grid_for(-8.0, 8.0, 321))
    >>> p = fokker_planck(land, np.full(1000, 1.0), np.full(1000, 0.001), land.point_mass(2.0))
    >>> round(float(p @ land.grid), 3)  # 2/e, but for the size of the steps
    0.736
    """
    for p in fokker_planck_steps(land, T_path, dt_path, p0):  # noqa: B007
        pass
    return p


def fokker_planck_steps(
    land: Landscape1D,
    T_path: Float[Array, " N"] | Float[Array, "N _"],
    dt_path: Float[Array, " N"] | Float[Array, "N _"],
    p0: Float[Array, " n"] | Float[Array, "S n"],
) -> Iterator[Array]:
    """The laws after every step, one at a time; arguments and errors are those of `fokker_planck`."""
    T, dt, p, batched = _prepare(land, T_path, dt_path, p0)
    return _steps(land, T, dt, p, batched)


def _steps(land: Landscape1D, T: Array, dt: Array, p: Array, batched: bool) -> Iterator[Array]:
    (N, S), n = T.shape, p.shape[1]
    places = np.arange(1, n + 1, dtype=np.int32)  # of the pivots, as LAPACK counts: no row is ever exchanged
    none = np.zeros(n - 2)
    block = max(1, _BLOCK // S)
    for first in range(0, N, block):
        some = slice(first, first + block)
        lower, pivots, upper = _factorize(land, T[some].ravel(), dt[some].ravel())
        for start in range(0, len(pivots), S):
            after = np.empty_like(p)
            for path in range(S):
                k = start + path
                after[path] = dgttrs(lower[k], pivots[k], upper[k], none, places, p[path])[0]
            p = after
            yield p.copy() if batched else p[0].copy()


def _factorize(land: Landscape1D, T: Array, dt: Array) -> tuple[Array, Array, Array]:
    """Multipliers (M, n−1), pivots (M, n) and upper diagonals (M, n−1) of M systems."""
    different, which = np.unique(T, return_inverse=True)
    up, down = land.rates(different)
    climb, fall = up[:, which] * dt, down[:, which] * dt
    pivots = np.empty((len(climb) + 1, len(T)))
    s = np.ones(len(T))
    for i, (c, f) in enumerate(zip(climb, fall, strict=True)):
        pivot = np.add(s, c, out=pivots[i])
        np.divide(s, pivot, out=s)
        s *= f
        s += 1
    pivots[-1] = s
    lower = np.divide(climb, pivots[:-1], out=climb)
    return np.ascontiguousarray(-lower.T), np.ascontiguousarray(pivots.T), np.ascontiguousarray(-fall.T)


def _prepare(
    land: Landscape1D, T_path: Array, dt_path: Array, p0: Array
) -> tuple[Float[Array, "N S"], Float[Array, "N S"], Float[Array, "S n"], bool]:
    T, dt, p = (np.asarray(value, dtype=np.float64) for value in (T_path, dt_path, p0))
    for name, path in (("T_path", T), ("dt_path", dt)):
        if path.ndim not in (1, 2) or path.size == 0:
            raise ValueError(f"{name} had shape {path.shape}; it must be (N,) or (N, S)")
        if not ((path > 0) & np.isfinite(path)).all():
            raise ValueError(f"{name} held entries that are not above 0 and finite; every one must be")
    check_law(land, p, "p0")
    batched = T.ndim == 2 or dt.ndim == 2 or p.ndim == 2
    T, dt = (path.reshape(len(path), -1) for path in (T, dt))
    p = p.reshape(-1, len(land.grid))
    paths = max(T.shape[1], dt.shape[1], len(p))
    if len(T) != len(dt) or any(count not in (1, paths) for count in (T.shape[1], dt.shape[1], len(p))):
        shapes = f"{T.shape}, {dt.shape} and {p.shape}"
        raise ValueError(f"T_path, dt_path and p0 had shapes {shapes}; they must be (N, S), (N, S) and (S, n)")
    land.check(float(T.max()))
    shape = (len(T), paths)
    return np.broadcast_to(T, shape), np.broadcast_to(dt, shape), np.broadcast_to(p, (paths, p.shape[1])), batched


def check_law(land: Landscape1D, p: Array, name: str) -> None:
    """Raise ValueError unless `p`, (n,) or (S, n), holds laws on the grid: no entry below 0, all sums 1."""
    if p.ndim not in (1, 2) or p.shape[-1] != len(land.grid):
        raise ValueError(f"{name} had shape {p.shape}; it must be (n,) or (S, n) with n = {len(land.grid)} grid points")
    if not (np.isfinite(p).all() and (p >= 0).all() and np.allclose(p.sum(-1), 1, rtol=0, atol=1e-9)):
        raise ValueError(f"{name} was no law; its entries must be 0 or above, and sum to 1")
