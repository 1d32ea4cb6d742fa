"""What the chapter's three explorables draw: one function of the slider values each."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray as Array

from nips26lib.chapter.figures import INK, decades

from .diffusion import fokker_planck_steps
from .exact import SIGMA, START, Curves, best_iterate_queries, bumpy
from .landscape import Landscape1D
from .pictures import DECAY, FIXED, THIRD
from .poincare import weak_poincare
from .schedules import schedule
from .wells import freezing_temperature

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How a cooling run can go: the schedule's kind, and whether a fixed rate is the first or the last one.
SCHEDULES = ("geometric", "cosine", "step", "fixed, hot", "fixed, cold")
#: Points of a law or a landscape that are drawn: every so many, to keep frames small.
_SPARSE = 2


@lru_cache(maxsize=256)
def _cooled(A: float, eta0: float, eta1: float, kind: str, K: int, points: int) -> tuple[Array, Array, Array]:
    """After each of 60 pieces of the run: queries, temperatures and laws, from all mass in the well at 1.9."""
    land = bumpy(A, points)
    start = land.point_mass(float(land.wells().minima[np.abs(land.wells().minima - START).argmin()]))
    if kind.startswith("fixed"):
        etas = schedule("fixed", K, eta0 if kind == "fixed, hot" else eta1)
    elif kind == "step":
        etas = schedule("step", K, eta0, factor=(eta0 / eta1) ** (1 / 3))
    else:
        etas = schedule(kind, K, eta0, eta1)
    # Queries in pieces that grow: the first ones are where most happens.
    cuts = np.unique(np.round(np.geomspace(1, K, 60)).astype(int))
    rates, ends = etas.numpy(), np.append(0, cuts)
    dt = np.array([rates[a:b].sum() for a, b in pairwise(ends)])
    squares = np.array([(rates[a:b] ** 2).sum() for a, b in pairwise(ends)])
    T = squares / dt * SIGMA**2 / 2  # the mean temperature over the time of the piece
    return cuts, T, np.stack(list(fokker_planck_steps(land, T, dt, start)))


def cooling(
    A: float = 1.0, eta0: float = 0.02, eta1: float = 0.001, points: int = 301
) -> Callable[[str, int, float], Figure]:
    """The drawing function of *Cooling a landscape*: schedule, budget K, share of log K that is spent."""
    land = bumpy(A, points)
    wells = land.wells()
    first, last = land.basin()
    attempts = land.poincare(wells.depth / 10).gap * math.exp(10)  # Kramers' prefactor, from the spectrum
    shown = slice(None, None, _SPARSE)

    def draw(kind: str, K: int, spent: float) -> Figure:
        import matplotlib.pyplot as plt

        queries, T, laws = _cooled(A, eta0, eta1, kind, K, points)
        now = int(np.searchsorted(queries, max(1.0, K**spent)))
        now = min(now, len(queries) - 1)
        p, mu = laws[now], land.gibbs(float(T[now]))
        fig, (left, right) = plt.subplots(1, 2, figsize=(7.8, 3.0), width_ratios=(5, 4))
        x = land.grid[shown]
        left.plot(x, land.V[shown] / 6, color=INK, lw=1, alpha=0.6)
        left.fill_between(x, p[shown] / p.max(), color=DECAY, alpha=0.35, lw=0)
        left.plot(x, mu[shown] / mu.max(), color=FIXED, lw=1.2)
        left.set(
            xlim=(-3, 3), ylim=(0, 1.6), xlabel="x", yticks=[], title=f"{queries[now]:,} queries, T = {T[now]:.3f}"
        )
        left.text(0, 1.45, "law of the iterate", color=DECAY, fontsize=9, ha="center")
        left.text(0, 1.32, "Gibbs law at T", color=FIXED, fontsize=9, ha="center")
        energy = land.energy(laws)
        wrong = laws[:, :first].sum(1) + laws[:, last + 1 :].sum(1)
        right.plot(queries, energy, color=DECAY)
        right.plot(queries, wrong, color=THIRD)
        right.plot([queries[now]] * 2, [energy[now], wrong[now]], "o", color=INK, ms=4)
        frozen = freezing_temperature(wells.depth, attempts * K * (eta0 - eta1) / math.log(eta0 / eta1) ** 2)
        below = np.flatnonzero(frozen > T)
        if len(below) and not kind.startswith("fixed"):
            right.axvline(queries[below[0]], color=INK, lw=0.8, ls=":")
            right.text(queries[below[0]], 2.6, "wells freeze ", fontsize=8, ha="right")
        right.set(xscale="log", yscale="log", ylim=(3e-3, 6), xlabel="queries", title="")
        decades(right.xaxis, right.yaxis)
        right.set_title("E φ", color=DECAY)
        right.set_title("mass in wrong wells", color=THIRD, loc="right")
        return fig

    return draw


def budget_race(curves: Curves, points: int) -> Callable[[float, int, str], Figure]:
    """The drawing function of *Budget race*: total accuracy ε, dimension d, and which iterate counts."""
    land: Landscape1D = bumpy(curves.A, points)

    dims = np.unique(np.geomspace(1, 32, 16).round().astype(int))

    @lru_cache(maxsize=64)
    def lucky(eps: float) -> Array:
        return best_iterate_queries(land, eps, dims.tolist())

    def needed(eps: float) -> tuple[float, float]:
        """Queries by both families for an accuracy of ε in one dimension; extrapolated by the fitted lines."""
        exponential, polynomial = curves.exponential, curves.polynomial
        inside = curves.fixed.eps[-1] <= eps <= curves.fixed.eps[0]
        if inside:
            order = np.argsort(curves.fixed.eps)
            return tuple(  # type: ignore[return-value]
                float(np.exp(np.interp(math.log(eps), np.log(q.eps[order]), np.log(q.K[order]))))
                for q in (curves.fixed, curves.decay)
            )
        return (
            math.exp(exponential.intercept + exponential.slope / eps),
            math.exp(polynomial.intercept + polynomial.slope * math.log(1 / eps)),
        )

    def draw(eps: float, d: int, iterate: str) -> Figure:
        import matplotlib.pyplot as plt

        fig, ax = plt.subplots(figsize=(6.6, 3.1))
        fixed, decay = np.array([needed(eps / int(n)) for n in dims]).T
        here_fixed, here_decay = needed(eps / d)
        if iterate == "best (estimate)":
            fixed = lucky(eps)
            here_fixed = float(np.exp(np.interp(math.log(d), np.log(dims), np.log(fixed))))
        ax.plot(dims, fixed, color=FIXED)
        ax.plot(dims, decay, color=DECAY)
        ax.plot([d, d], [here_fixed, here_decay], "o", color=INK, ms=6)
        times = here_fixed / here_decay
        told = f"fixed needs {times:,.0f} times as many" if times >= 2 else f"fixed / decay = {times:.2f}"
        ax.set(xscale="log", yscale="log", xlabel="dimension d", ylabel="queries to f ≤ ε", ylim=(10, 1e16))
        decades(ax.yaxis)
        ax.set_title(f"ε = {eps:g}, d = {d}: {told if times < 1e9 else f'fixed needs {times:.0e} times as many'}")
        ax.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
        ax.minorticks_off()
        ax.text(1.05, 2e14, "best fixed rate", color=FIXED)
        ax.text(1.05, 6e12, "best decaying rate", color=DECAY)
        return fig

    return draw


def weak_inequality(A: float, points: int) -> Callable[[float], Figure]:
    """The drawing function of *Weak Poincaré*: the temperature."""
    land = bumpy(A, points)
    first, last = land.basin()

    def draw(T: float) -> Figure:
        import matplotlib.pyplot as plt

        pieces, mu = weak_poincare(land, T), land.gibbs(T)
        fig, (left, right) = plt.subplots(1, 2, figsize=(7.6, 2.9), width_ratios=(5, 4))
        x, inside = land.grid, np.arange(len(land.grid))
        good = (inside >= first) & (inside <= last)
        left.plot(x[::_SPARSE], land.V[::_SPARSE] / 6, color=INK, lw=1, alpha=0.6)
        left.fill_between(x, mu / mu.max(), where=good, color=DECAY, alpha=0.5, lw=0)
        left.fill_between(x, mu / mu.max(), where=~good, color=FIXED, alpha=0.6, lw=0)
        left.set(xlim=(-3, 3), ylim=(0, 1.45), yticks=[], xlabel="x", title=f"Gibbs law at T = {T:g}")
        left.text(-0.1, 1.3, "good basin G", color=DECAY, fontsize=9, ha="right")
        left.text(0.1, 1.3, "the rest B", color=FIXED, fontsize=9)
        values = (pieces.constant, pieces.constant_local, pieces.mass_outside)
        for place, (value, colour) in enumerate(zip(values, (FIXED, DECAY, THIRD), strict=True)):
            right.barh(2 - place, value, left=0, color=colour, alpha=0.85)
            right.text(max(value, 1e-7) * 1.5, 2 - place, f"{value:.2g}", va="center", fontsize=9)
        right.set_yticks([2, 1, 0], ["C_PI", "C_loc", "μ(B)"])
        right.set(xscale="log", xlim=(1e-7, 1e10))
        decades(right.xaxis)
        right.grid(False, axis="y")
        return fig

    return draw
