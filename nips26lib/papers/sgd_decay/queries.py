"""How many gradient queries reach a given accuracy: by the best fixed learning rate, and by the best that decays.

No sampling: E φ(x_K) is that of the Fokker-Planck law after the time t = Σ η_k at the temperatures ησ²/2. In d
dimensions a separable f has E f ≤ ε exactly when E φ ≤ ε/d, so `eps` here stands for ε/d.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from .diffusion import check_law, fokker_planck_steps
from .landscape import Landscape1D
from .schedules import eta_for, temperature

FAMILIES = ("fixed", "geometric")
#: By how much the number of queries grows from one backward Euler step to the next at a fixed learning rate.
GROWTH = 0.04
#: By how much the temperature falls in a step, and by what factor cooling times differ from path to path.
COOLING, SPACING = 0.02, 1.5


@dataclass(frozen=True)
class Queries:
    """Per accuracy the fewest queries K found (inf: none up to K_max), and with which learning rates, first and last.

    `settings` counts what the family was tuned over: learning rates, or pairs of them.
    """

    family: str
    eps: Float[Array, " E"]
    K: Float[Array, " E"]
    eta0: Float[Array, " E"]
    eta1: Float[Array, " E"]
    settings: int


def queries_to_eps(
    land: Landscape1D,
    eps: Sequence[float] | Float[Array, " E"],
    family: str,
    sigma: float,
    p0: Float[Array, " n"],
    settings: int = 64,
    K_max: float = 1e15,
) -> Queries:
    """The fewest queries K with E φ(x_K) ≤ ε from the law `p0`, for each ε, over a family and all K up to `K_max`.

    "fixed" tries `settings` learning rates, whose floors E φ under the Gibbs law run from just below the smallest ε up
    to the largest: a finer grid than decay gets, and all of it useful. "geometric" tries as many pairs (η_0, η_1) with
    η_0 up to 1/L. Both are capped by the temperature that the grid covers. Raises ValueError for an unknown family,
    ε ≤ 0 or below what the grid resolves, σ ≤ 0, fewer than 4 settings or a number of them that is no square, K_max < 1
    and a `p0` that is no law.
    """
    found = np.asarray(eps, dtype=np.float64)
    if family not in FAMILIES:
        raise ValueError(f"family was {family!r}; it must be one of {', '.join(FAMILIES)}")
    if found.ndim != 1 or not len(found) or not ((found > 0) & np.isfinite(found)).all():
        raise ValueError(f"eps was {eps}; it must hold accuracies above 0")
    if settings < 4 or math.isqrt(settings) ** 2 != settings:
        raise ValueError(f"settings was {settings}; it must be a square of at least 4, the same for both families")
    if not 1 <= K_max < math.inf:
        raise ValueError(f"K_max was {K_max}; it must be at least 1, and finite")
    eta_for(1.0, sigma)  # refuses a sigma without temperature
    check_law(land, np.asarray(p0), "p0")
    search = _fixed if family == "fixed" else _geometric
    K, eta0, eta1 = search(land, found, sigma, np.asarray(p0, dtype=np.float64), settings, K_max)
    return Queries(family, found, K, eta0, eta1, settings)


def _fixed(
    land: Landscape1D, eps: Array, sigma: float, p0: Array, settings: int, K_max: float
) -> tuple[Array, Array, Array]:
    # The best is some T/b below the temperature whose floor is ε: hot to be quick, with room left to converge in.
    T = np.geomspace(0.7 * land.temperature_for(eps.min()), land.temperature_for(eps.max()), settings)
    etas = 2 * T / sigma**2
    counts = [0.0]
    while counts[-1] < K_max:
        counts.append(min(counts[-1] + max(1.0, GROWTH * counts[-1]), K_max))
    lengths = np.diff(counts)
    energies = [np.full(settings, float(land.energy(p0)))]
    # All settings have made the same number of queries: once one of them is there, none can be quicker.
    laws = fokker_planck_steps(land, np.broadcast_to(T, (len(lengths), settings)), lengths[:, None] * etas, p0)
    for p in laws:
        energies.append(land.energy(p))
        if energies[-1].min() <= eps.min():
            break
    rows, first = np.stack(energies), np.array(counts[: len(energies)])
    K = np.array([[_first_crossing(first, rows[:, which], wanted) for which in range(settings)] for wanted in eps])
    best = np.where(np.isfinite(K.min(1)), etas[K.argmin(1)], np.nan)
    return K.min(1), best, best


def _geometric(
    land: Landscape1D, eps: Array, sigma: float, p0: Array, settings: int, K_max: float
) -> tuple[Array, Array, Array]:
    side = math.isqrt(settings)
    hottest = min(float(temperature(1 / land.smoothness, sigma)), land.hottest * (1 - 1e-9))
    starts = np.geomspace(hottest, hottest / 8, side)
    ends = np.geomspace(0.8 * land.temperature_for(eps.max()), 0.25 * land.temperature_for(eps.min()), side)
    paths = [_Path.through(float(start), ends[ends < start * (1 - 1e-9)]) for start in starts if ends[-1] < start]
    shortest = min((path.ends_after.min() for path in paths), default=math.inf)
    energies: list[list[Array]] = [[] for _ in paths]
    best = np.full((3, len(eps)), np.inf)  # K, η_0, η_1
    # Queries per e-fold of cooling, slower and slower. A path of given η_0 and cooling passes every η_1 on its way.
    per_fold = 10.0 * SPACING ** np.arange(8)
    while per_fold[-8] * shortest < min(float(best[0].max()), K_max):
        for path, known in zip(paths, energies, strict=True):
            known.extend(path.energies(land, sigma, p0, per_fold[-8:]))
            rows = np.stack(known)
            for end, (T, after) in enumerate(zip(path.ends, path.ends_after, strict=True)):
                for e, wanted in enumerate(eps):
                    K = _first_crossing(per_fold * after, rows[:, end], float(wanted))
                    if best[0, e] > K and K_max >= K:
                        best[:, e] = K, 2 * path.start / sigma**2, 2 * T / sigma**2
        per_fold = np.append(per_fold, per_fold[-8:] * SPACING**8)
    best[1:, np.isinf(best[0])] = np.nan
    return best[0], best[1], best[2]


@dataclass(frozen=True)
class _Path:
    """Cooling from `start` through all of `ends`: the levels of temperature, and which step reaches which end."""

    start: float
    ends: Array
    levels: Array
    marks: tuple[int, ...]

    @classmethod
    def through(cls, start: float, ends: Array) -> _Path:
        levels, marks = [start], []
        for end in ends:
            steps = math.ceil(math.log(levels[-1] / end) / COOLING)
            levels += list(np.geomspace(levels[-1], end, steps + 1)[1:])
            marks.append(len(levels) - 2)
        return cls(start, ends, np.array(levels), tuple(marks))

    @property
    def ends_after(self) -> Array:
        """How many e-folds of cooling lie before each end."""
        folds: Array = np.log(self.start / self.ends)
        return folds

    def energies(self, land: Landscape1D, sigma: float, p0: Array, per_fold: Array) -> Float[Array, "paths ends"]:
        """E φ when each end is reached, for every cooling."""
        T = np.sqrt(self.levels[:-1] * self.levels[1:])[:, None]
        # While η falls from a to b at c queries per e-fold, the time that passes is ∫ η dk = c (a − b).
        dt = -np.diff(2 * self.levels / sigma**2)[:, None] * per_fold
        laws = fokker_planck_steps(land, T, dt, p0)
        return np.stack([land.energy(p) for step, p in enumerate(laws) if step in self.marks], 1)


def _first_crossing(K: Array, energy: Array, eps: float) -> float:
    """Where E φ, known after the numbers of queries K, first falls to ε (log K interpolated); inf if it does not."""
    reached = np.flatnonzero(energy <= eps)
    if not len(reached):
        return math.inf
    i = int(reached[0])
    if i == 0:
        return float(K[0])
    share = (energy[i - 1] - eps) / (energy[i - 1] - energy[i])
    before = max(float(K[i - 1]), 1.0)
    return float(before * (max(float(K[i]), 1.0) / before) ** share)
