"""The wells of a function of one dimension: how deep, how far from the best, and what it takes to leave them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array


@dataclass(frozen=True)
class Wells:
    """The local minima from left to right, an entry each, and the m + 1 tops around them (or ends of the grid).

    `gaps` Δ: how far a minimum lies above the best. `barriers` b: the least climb after which a lower minimum is
    reached downhill; infinite where there is none lower. A well with a finite barrier is called *wrong*.
    """

    minima: Float[Array, " m"]
    gaps: Float[Array, " m"]
    barriers: Float[Array, " m"]
    tops: Float[Array, " m+1"]
    lowest: float

    @property
    def best(self) -> int:
        """Which of the minima is the lowest (the first, if several are)."""
        return int(np.argmin(self.gaps))

    @property
    def depth(self) -> float:
        """The critical depth: the highest barrier of a wrong well. Raises ValueError where there is no wrong well."""
        return float(self.barriers[self._wrong()].max())

    @property
    def gap(self) -> float:
        """The smallest Δ of a wrong well. Raises ValueError where there is none."""
        return float(self.gaps[self._wrong()].min())

    @property
    def kappa(self) -> float:
        """max b/Δ over the wrong wells: the degree of the polynomial that annealing pays."""
        wrong = self._wrong()
        return float((self.barriers[wrong] / self.gaps[wrong]).max())

    def _wrong(self) -> Array:
        wrong: Array = np.flatnonzero(np.isfinite(self.barriers))
        if not len(wrong):
            raise ValueError("the landscape has no wrong well: no minimum has another below it")
        return wrong


def find_wells(x: Float[Array, " n"], V: Float[Array, " n"]) -> Wells:
    """The wells of values `V` at the points `x` of an even grid, each extremum refined by a parabola through 3 points.

    An end of the grid counts as a minimum if V rises from there. Two minima closer than 1e-9 of V's range count as
    equally low.

    >>> x = np.linspace(-2, 2, 401)
    >>> wells = find_wells(x, (x**2 - 1) ** 2 + 0.2 * x)
    >>> wells.minima.round(2), wells.gaps.round(2), wells.barriers.round(2)
    (array([-1.02,  0.97]), array([0. , 0.4]), array([ inf, 0.81]))
    """
    kept = np.flatnonzero(np.diff(V, prepend=np.nan) != 0)  # of a run of equal values the first
    level = V[kept]
    rises = np.diff(level) > 0
    minima = kept[~np.append(False, rises) & np.append(rises, True)].tolist()
    tops = [a + int(np.argmax(V[a : b + 1])) for a, b in pairwise(minima)]
    bottom = [_vertex(x, V, i) for i in minima]
    ridge = [(float(x[0]), math.inf), *(_vertex(x, V, i) for i in tops), (float(x[-1]), math.inf)]
    lows, highs = np.array([v for _, v in bottom]), np.array([v for _, v in ridge])
    same = 1e-9 * np.ptp(V)
    barriers = np.array([_barrier(lows, highs, number, same) for number in range(len(lows))])
    lowest = float(lows.min())
    return Wells(np.array([p for p, _ in bottom]), lows - lowest, barriers, np.array([p for p, _ in ridge]), lowest)


def kramers_rate(curvature: float, curvature_top: float, barrier: float, T: float) -> float:
    """How often the diffusion leaves a well: √(V''(minimum) |V''(top)|)/(2π) e^{−b/T}, right for T ≪ b (Kramers 1940).

    The curvature at the top is negative; its sign does not matter. Raises ValueError for T ≤ 0.

    >>> kramers_rate(2.0, -1.0, 0.25, 0.05)  # V = (x² − 1)²/4
    0.00151...
    """
    if not T > 0:
        raise ValueError(f"T was {T}; it must be above 0")
    return math.sqrt(curvature * abs(curvature_top)) / (2 * math.pi) * math.exp(-barrier / T)


def freezing_temperature(barrier: float, attempts: float) -> float:
    """T_f = b / log(ωτ): where cooling by a factor e in the time τ leaves the wells behind.

    `attempts` is ωτ, with ω the rate of leaving a well of no barrier. What is in wrong wells stays there, about
    (ωτ)^{−Δ/b}. Raises ValueError unless ωτ > 1.

    >>> round(freezing_temperature(1.3, attempts=1e4), 3)
    0.141
    """
    if not attempts > 1:
        raise ValueError(f"attempts was {attempts}; it must be above 1, or nothing ever leaves a well")
    return barrier / math.log(attempts)


def _vertex(x: Array, V: Array, i: int) -> tuple[float, float]:
    """Place and height of the extremum near point i, from the parabola through it and its neighbours."""
    if not 0 < i < len(x) - 1:
        return float(x[i]), float(V[i])
    slope, bend = (V[i + 1] - V[i - 1]) / 2, V[i + 1] - 2 * V[i] + V[i - 1]
    if abs(bend) <= 2 * abs(slope) * (1 - 1e-12) or bend == 0:  # a plateau: the vertex would lie beyond a neighbour
        return float(x[i]), float(V[i])
    return float(x[i] - slope / bend * (x[1] - x[0])), float(V[i] - slope**2 / (2 * bend))


def _barrier(lows: Array, highs: Array, number: int, same: float) -> float:
    """The least climb from a minimum after which a lower one follows, to either side."""
    climbs = [math.inf]
    for side in (-1, 1):
        top, other = -math.inf, number
        while 0 <= other + side < len(lows):
            top = max(top, float(highs[other + (side > 0)]))
            other += side
            if lows[other] < lows[number] - same:
                climbs.append(top - float(lows[number]))
                break
    return min(climbs)
