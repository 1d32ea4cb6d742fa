"""The chapter's figures, drawn from what `exact` and `contest` return. Matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nips26lib.blocks.stats import Interval, mean_interval
from nips26lib.chapter.figures import INK, PALETTE, decades

from .contest import Cell, Contest
from .exact import Curves, Degree, Inequality, Lag, Tracking
from .landscape import Landscape1D

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: One colour a family, through the whole chapter.
FIXED, DECAY, THIRD = PALETTE[1], PALETTE[0], PALETTE[2]


def landscape(land: Landscape1D, temperatures: Sequence[float]) -> Figure:
    """φ with a wrong well's barrier b and gap Δ, and below it the Gibbs densities at falling temperatures."""
    import matplotlib.pyplot as plt

    fig, (top, bottom) = plt.subplots(2, 1, figsize=(6.8, 4.4), sharex=True, height_ratios=(3, 2))
    shown = np.abs(land.grid) <= 2.6
    x, wells = land.grid[shown], land.wells()
    top.plot(x, land.V[shown], color=INK)
    wrong = int(np.argmax(np.where(np.isfinite(wells.barriers), wells.barriers, -1)))
    wrong = max(wrong, len(wells.minima) - 1 - wrong)  # of the two mirror images the right one
    at, low = float(wells.minima[wrong]), float(wells.gaps[wrong])
    peak = float(wells.tops[wrong])
    for x0, bottom_end, height in ((at + 0.28, 0.0, low), (peak - 0.12, low, wells.depth)):
        top.annotate("", (x0, bottom_end), (x0, bottom_end + height), arrowprops={"arrowstyle": "<->", "color": FIXED})
    top.text(at + 0.34, low / 2, f"gap Δ = {low:.2f}", color=FIXED, va="center")
    top.text(peak, low + wells.depth + 0.35, f"barrier b = {wells.depth:.2f}", color=FIXED, ha="center")
    top.plot([peak - 0.2, at + 0.35], [low, low], color=FIXED, lw=1, ls=":")
    top.plot([0, at + 0.35], [0, 0], color=FIXED, lw=1, ls=":")
    top.set(ylabel="φ(x)", ylim=(-0.3, 6), title="the best well, and wrong ones on both sides")
    for T, colour in zip(temperatures, (PALETTE[1], PALETTE[3], PALETTE[0]), strict=False):
        density = land.gibbs(T)[shown] / land.h
        bottom.plot(x, density, color=colour, label=f"T = {T:g}")
    bottom.set(xlabel="x", ylabel="density")
    bottom.legend(loc="upper right")
    return fig


def query_curves(found: Sequence[Curves]) -> Figure:
    """Queries against 1/ε (left, where an exponential is straight) and its logarithm (right, where a power is)."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), sharey=True)
    for one, style in zip(found, ("-", "--", ":"), strict=False):
        for ax in axes:
            x = 1 / one.fixed.eps
            ax.plot(x, one.fixed.K, style, color=FIXED, marker="o", ms=3.5)
            ax.plot(x, one.decay.K, style, color=DECAY, marker="o", ms=3.5)
        line = one.exponential
        axes[0].annotate(f"A = {one.A:g}\nslope {line.slope:.2f}\nb/2 = {one.barrier / 2:.2f}",
                         (1 / one.fixed.eps[-1], one.fixed.K[-1]), xytext=(4, -2), textcoords="offset points",
                         fontsize=9, color=FIXED, va="top", annotation_clip=False)  # fmt: skip
        axes[1].annotate(f"A = {one.A:g}\ndegree {one.polynomial.slope:.1f}", (1 / one.decay.eps[-1], one.decay.K[-1]),
                         xytext=(4, -2), textcoords="offset points", fontsize=9, color=DECAY,
                         va="top", annotation_clip=False)  # fmt: skip
    widest = max(1 / one.fixed.eps[-1] for one in found)
    axes[0].set(yscale="log", xlabel="1/ε  (linear)", ylabel="gradient queries K", title="fixed rates: exponential",
                xlim=(0, 1.3 * widest))  # fmt: skip
    axes[1].set(yscale="log", xscale="log", xlabel="1/ε  (logarithmic)", title="decay: polynomial",
                xlim=(None, 2.6 * widest))  # fmt: skip
    axes[0].text(0.6, 0.43, "best fixed rate", color=FIXED, transform=axes[0].transAxes)
    axes[0].text(0.6, 0.35, "best decaying rate", color=DECAY, transform=axes[0].transAxes)
    return fig


def race(contests: Sequence[Contest], curves: Curves) -> Figure:
    """What real SGD reaches within K queries, per coordinate, over what the exact theory of one coordinate predicts."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    fig, ax = plt.subplots(figsize=(6.8, 3.9))
    budgets = sorted({one.K for one in contests})
    for queries, colour, label in (
        (curves.fixed, FIXED, "best fixed rate"),
        (curves.decay, DECAY, "best decaying rate"),
    ):
        ax.plot(queries.K, queries.eps, color=colour, alpha=0.8)
        near = (budgets[0] / 2 < queries.K) & (budgets[-1] * 20 > queries.K)
        last = np.flatnonzero(near)[-1] if near.any() else -1
        ax.annotate(label, (queries.K[last], queries.eps[last]), xytext=(6, 4), textcoords="offset points",
                    color=colour, annotation_clip=False)  # fmt: skip
    dims = sorted({one.d for one in contests})
    for place, d in enumerate(dims):
        shift = 1.06 ** (place - (len(dims) - 1) / 2)
        for family, colour in (("fixed", FIXED), ("decay", DECAY)):
            mine = [one for one in contests if one.d == d]
            means = [getattr(one, family).mean for one in mine]
            values = np.array([mean.value for mean in means]) / d
            spread = [[(m.value - m.low) / d for m in means], [(m.high - m.value) / d for m in means]]
            ax.errorbar([one.K * shift for one in mine], values, spread, fmt="os^D"[place % 4], color=colour, ms=5,
                        capsize=2, lw=1)  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="gradient queries K", ylabel="mean of f / d at the end",
           xlim=(budgets[0] / 2, budgets[-1] * 40))  # fmt: skip
    _plain_ticks(ax, "y", (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01))
    marks = [Line2D([], [], color=INK, marker="os^D"[place % 4], ls="", ms=5) for place in range(len(dims))]
    ax.legend(marks, [f"real SGD, d = {d}" for d in dims], loc="lower left")
    return fig


def _plain_ticks(ax: Axes, which: str, ticks: Sequence[float]) -> None:
    """Plain numbers at those of the ticks that lie within the limits of a logarithmic axis, and none between."""
    from matplotlib.ticker import NullLocator

    axis = ax.yaxis if which == "y" else ax.xaxis
    low, high = sorted(axis.get_view_interval())
    kept = [tick for tick in ticks if low <= tick <= high]
    axis.set_ticks(kept, [f"{tick:g}" for tick in kept])
    axis.set_minor_locator(NullLocator())


def benchmark_dots(contests: Sequence[Contest]) -> Figure:
    """f at the end on every function, by both families, with 95 % intervals."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6.8, 0.52 * len(contests) + 1.1))
    for row, one in enumerate(reversed(contests)):
        for result, colour, up in ((one.fixed, FIXED, 0.13), (one.decay, DECAY, -0.13)):
            _interval(ax, result.mean, row + up, colour)
    ax.set_yticks(range(len(contests)), [one.problem for one in reversed(contests)])
    ax.set(xscale="log", xlabel="f at the end, minimum 0")
    ax.grid(False, axis="y")
    ax.set_title("best fixed rate", color=FIXED)
    ax.set_title("best decaying rate", color=DECAY, loc="right")
    return fig


def _interval(ax: Axes, interval: Interval, y: float, colour: str) -> None:
    low = max(interval.low, interval.value / 30)  # an interval that reaches 0 has no end on a logarithmic axis
    ax.plot([low, interval.high], [y, y], color=colour, lw=2)
    ax.plot([interval.value], [y], "o", color=colour, ms=5)


def loudness(contests: Mapping[float, Sequence[Contest]]) -> Figure:
    """How the advantage changes with the size of the noise: f at a fixed rate over f with decay, a line a function."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6.4, 3.4))
    factors = sorted(contests)
    names = [one.problem for one in contests[factors[0]]]
    ends = []
    for place, name in enumerate(names):
        ratios = [next(one.ratio for one in contests[factor] if one.problem == name) for factor in factors]
        colour = PALETTE[place % len(PALETTE)]
        values = [ratio.value for ratio in ratios]
        ax.plot(factors, values, marker="o", ms=4, color=colour)
        ax.vlines(factors, [r.low for r in ratios], [r.high for r in ratios], color=colour, lw=1, alpha=0.6)
        ends.append((np.log(values[-1]), name, colour))
    ax.axhline(1, color=INK, lw=1)
    ax.set(xscale="log", yscale="log", xlabel="size of the noise, relative to the contest above",
           ylabel="f fixed / f with decay", xlim=(factors[0] * 0.85, factors[-1] * 3))  # fmt: skip
    _plain_ticks(ax, "x", factors)
    decades(ax.yaxis)
    low, high = np.log(ax.get_ylim())
    heights = _apart([height for height, _, _ in ends], (high - low) * 0.065)
    for (_, name, colour), height in zip(ends, heights, strict=True):
        ax.annotate(name, (factors[-1] * 1.08, np.exp(height)), color=colour, va="center", annotation_clip=False)
    return fig


def _apart(heights: Sequence[float], least: float) -> list[float]:
    """The heights moved up where two would be closer than `least`; in the order given."""
    order = np.argsort(heights)
    placed = np.array(heights, dtype=float)
    for below, above in pairwise(order):
        placed[above] = max(placed[above], placed[below] + least)
    return [float(height) for height in placed]


def tracking(found: Tracking) -> Figure:
    """Total variation between SGD and Langevin diffusion against the first learning rate."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(5.2, 3.2))
    ax.plot(found.eta0, found.distance, "o", color=DECAY)
    line = found.order
    ax.plot(found.eta0, np.exp(line.intercept) * found.eta0**line.slope, color=DECAY, lw=1)
    for eta, distance, stability in zip(found.eta0, found.distance, found.stability, strict=True):
        ax.annotate(f"ηL = {stability:.2f}", (eta, distance), xytext=(8, -9), textcoords="offset points", fontsize=9)
    ax.set(xscale="log", yscale="log", xlabel="first learning rate η_0", ylabel="total variation distance",
           title=f"order {line.slope:.2f} in η", xlim=(None, found.eta0[0] * 1.9))  # fmt: skip
    ax.minorticks_off()
    ax.set_xticks(found.eta0, [f"{eta:.3g}" for eta in found.eta0])
    _plain_ticks(ax, "y", (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001))
    return fig


def inequality(found: Inequality) -> Figure:
    """Poincaré constants, whole and local (left), and the mass outside of the good basin (right), against 1/T."""
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.3))
    inverse = np.array([1 / piece.T for piece in found.pieces])
    left.plot(inverse, [piece.constant for piece in found.pieces], color=FIXED, marker="o", ms=3.5)
    left.plot(inverse, [piece.constant_local for piece in found.pieces], color=DECAY, marker="o", ms=3.5)
    middle = len(inverse) * 2 // 3
    left.annotate("whole line: $C_{PI}$", (inverse[middle], found.pieces[middle].constant), xytext=(-8, 8), ha="right",
                  textcoords="offset points", color=FIXED)  # fmt: skip
    left.annotate("good basin: $C_{loc}$", (inverse[-1], found.pieces[-1].constant_local), xytext=(0, 14), ha="right",
                  textcoords="offset points", color=DECAY)  # fmt: skip
    left.set(yscale="log", xlabel="1/T", ylabel="Poincaré constant", title=f"slope {found.depth.slope:.2f}, b = "
             f"{found.barrier:.2f}")  # fmt: skip
    right.plot(inverse, [piece.mass_outside for piece in found.pieces], color=THIRD, marker="o", ms=3.5)
    right.set(yscale="log", xlabel="1/T", ylabel="μ_T(B), mass in the rest",
              title=f"slope {-found.loss.slope:.2f}, Δ = {found.gap:.2f}")  # fmt: skip
    return fig


def lags(found: Sequence[tuple[str, Lag]]) -> Figure:
    """KL to the Gibbs law of the moment while cooling, at several speeds, and that of a chain cold from the start."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6.8, 3.5))
    for (label, one), colour in zip(found, (PALETTE[3], DECAY, THIRD), strict=False):
        ax.plot(one.T, np.maximum(one.annealed, 1e-4), color=colour)
        ax.plot(one.T, one.cold, color=colour, ls="--", lw=1.2)
        at = int(np.argmin(np.abs(one.T - one.frozen)))
        ax.plot([one.frozen], [max(one.annealed[at], 1e-4)], "v", color=colour, ms=7)
        ax.annotate(label, (one.T[-1], one.annealed[-1]), xytext=(6, 0), textcoords="offset points", color=colour,
                    va="center", annotation_clip=False)  # fmt: skip
    one = found[0][1]
    ax.plot([one.T[0], one.T[-1]], [1, 1], color=INK, lw=0.8, ls=":")
    ax.text(float(one.T[0]), 17, "dashed: cold from the start", fontsize=9, va="bottom")
    ax.set(xscale="log", yscale="log", xlabel="temperature T while cooling (time runs to the right)",
           ylabel="KL to the Gibbs law, nats", ylim=(3e-4, 60), xlim=(one.T[0] * 1.05, one.T[-1] / 2.2))  # fmt: skip
    ticks = [tick for tick in (1.0, 0.5, 0.2, 0.1, 0.05) if one.T[-1] * 0.99 <= tick <= one.T[0]]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    return fig


def robustness(cells: Sequence[Cell], noises: Mapping[str, str], starts: Mapping[str, str]) -> Figure:
    """f at the best fixed rate over f with decay in every cell: shapes of schedule across, noise and start down."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap

    shapes = list(dict.fromkeys(cell.shape for cell in cells))
    ways = list(dict.fromkeys((cell.noise, cell.start) for cell in cells))
    ratio = {(cell.shape, cell.noise, cell.start): cell.contest.ratio.value for cell in cells}
    grid = np.array([[ratio[shape, *way] for shape in shapes] for way in ways])
    fig, ax = plt.subplots(figsize=(1.15 * len(shapes) + 2.6, 0.4 * len(ways) + 0.8))
    shades = LinearSegmentedColormap.from_list("ratio", [PALETTE[1], "#d5dbe3", PALETTE[0]])
    ax.imshow(np.log(grid), aspect="auto", cmap=shades, vmin=-1.2, vmax=1.2, alpha=0.75)
    for row, column in np.ndindex(grid.shape):
        ax.text(column, row, f"{grid[row, column]:.2f}", ha="center", va="center", color="#000000")
    ax.set_xticks(range(len(shapes)), shapes)
    ax.xaxis.tick_top()
    ax.set_yticks(
        range(len(ways)), [f"{noises.get(noise, noise)}, {starts.get(start, start)}" for noise, start in ways]
    )
    ax.tick_params(length=0)
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return fig


def best_iterates(last: Sequence[Contest], best: Sequence[Contest]) -> Figure:
    """f / d against d: at the last iterate, and at the best of the whole run, by both families."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6.2, 3.5))
    for contests, style, kind in ((last, "-", "last iterate"), (best, "--", "best iterate")):
        dims = [one.d for one in contests]
        for family, colour in (("fixed", FIXED), ("decay", DECAY)):
            results = [getattr(one, family) for one in contests]
            means = [
                mean_interval(r.f if style == "-" else r.best).value / d for r, d in zip(results, dims, strict=True)
            ]
            ax.plot(dims, means, style, color=colour, marker="o", ms=4)
        ax.annotate(kind, (dims[-1], means[-1]), xytext=(8, 0), textcoords="offset points", va="center",
                    annotation_clip=False)  # fmt: skip
    ax.set(yscale="log", xscale="log", xlabel="dimension d", ylabel="mean of f / d", xlim=(None, dims[-1] * 1.6))
    ax.set_title("best fixed rate", color=FIXED)
    ax.set_title("best decaying rate", color=DECAY, loc="right")
    ax.set_xticks(dims, [str(d) for d in dims])
    ax.minorticks_off()
    return fig


def degrees(found: Sequence[Degree]) -> Figure:
    """The degree of the polynomial that decay pays against κ = b/Δ, one point a height of the bumps."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(5.6, 3.4))
    kappas = [one.kappa for one in found]
    slopes = [one.line.slope for one in found]
    ax.plot(kappas, slopes, "o-", color=DECAY)
    for one, kappa, slope in zip(found, kappas, slopes, strict=True):
        ax.annotate(
            f"A = {one.A:g}", (kappa, slope), xytext=(-7, 5), textcoords="offset points", fontsize=9, ha="right"
        )
    ends = [0, max(kappas) * 1.15]
    ax.plot(ends, ends, color=INK, lw=1, ls=":")
    ax.text(ends[1] * 0.8, ends[1] * 0.8, "κ", va="bottom", ha="right")
    ax.set(xlabel="κ = b/Δ of the worst well", ylabel="measured degree of K in 1/ε", xlim=(-3, ends[1]), ylim=(0, None))
    return fig
