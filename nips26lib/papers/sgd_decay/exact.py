"""The chapter's experiments without sampling: curves of queries, laws on a grid, spectra. All in one dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray as Array
from scipy import stats

from .diffusion import fokker_planck, fokker_planck_steps
from .functions import benchmark, section
from .landscape import Landscape1D, grid_for
from .law import sgd_law, total_variation
from .poincare import WeakPoincare, relative_entropy, weak_poincare, weak_poincare_margin
from .queries import Queries, queries_to_eps
from .wells import freezing_temperature

SIGMA = 10.0
#: Where the chains of the query curves start: in the wrong well nearest to this point.
START = 1.9

Watch = Callable[[Iterable, str], Iterable]


def _unwatched(items: Iterable, description: str) -> Iterable:
    return items


def bumpy(A: float, points: int, reach: float = 4.5) -> Landscape1D:
    """One coordinate of Rastrigin's function with bumps of height A, on [−reach, reach]."""
    return Landscape1D(section(benchmark("rastrigin", 1, A=A)), grid_for(-reach, reach, points))


@dataclass(frozen=True)
class Line:
    """A least-squares line y = slope·x + intercept and its R²."""

    slope: float
    intercept: float
    r2: float

    @classmethod
    def through(cls, x: Sequence[float] | Array, y: Sequence[float] | Array) -> Line:
        """The line through points, of which there must be three or more.

        >>> Line.through([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
        Line(slope=2.0, intercept=1.0, r2=1.0)
        """
        fit = stats.linregress(x, y)
        return cls(float(fit.slope), float(fit.intercept), float(fit.rvalue**2))


@dataclass(frozen=True)
class Curves:
    """Queries to reach each accuracy on one landscape, by both families, with the landscape's barrier b and gap Δ."""

    A: float
    barrier: float
    gap: float
    fixed: Queries
    decay: Queries

    @property
    def ratio(self) -> Float[Array, " E"]:
        """K_fixed / K_decay."""
        ratio: Array = self.fixed.K / self.decay.K
        return ratio

    @property
    def exponential(self) -> Line:
        """log K_fixed against 1/ε; theory: slope b/2."""
        return Line.through(1 / self.fixed.eps, np.log(self.fixed.K))

    @property
    def if_polynomial(self) -> Line:
        """log K_fixed against log 1/ε: the line that must fit worse."""
        return Line.through(np.log(1 / self.fixed.eps), np.log(self.fixed.K))

    @property
    def polynomial(self) -> Line:
        """log K_decay against log 1/ε; its slope is the degree."""
        return Line.through(np.log(1 / self.decay.eps), np.log(self.decay.K))


def curves(A: float, points: int, exponents: Sequence[float] | Array, settings: int, start: str = "well") -> Curves:
    """Both curves for bumps of height A at the accuracies ε = b/(2·exponent): K_fixed grows like e^exponent.

    All start in the wrong well nearest to 1.9, or (`start` = "box") uniformly in Rastrigin's box.
    """
    reach = 4.5 if start == "well" else 6.0
    land = bumpy(A, points, reach)
    wells = land.wells()
    if start == "well":
        p0 = land.point_mass(float(wells.minima[np.abs(wells.minima - START).argmin()]))
    else:
        low, high = benchmark("rastrigin", 1, A=A).box
        p0 = ((land.grid >= low) & (land.grid <= high)).astype(float)
        p0 /= p0.sum()
    eps = wells.depth / (2 * np.asarray(exponents, dtype=np.float64))
    fixed, decay = (queries_to_eps(land, eps, family, SIGMA, p0, settings) for family in ("fixed", "geometric"))
    return Curves(A, wells.depth, wells.gap, fixed, decay)


@dataclass(frozen=True)
class Degree:
    """What decay pays on bumps of height A: queries per accuracy, and κ = max b/Δ beside the degree measured."""

    A: float
    kappa: float
    decay: Queries

    @property
    def line(self) -> Line:
        """log K against log 1/ε; its slope is the degree."""
        return Line.through(np.log(1 / self.decay.eps), np.log(self.decay.K))


def degree(A: float, points: int, shares: Sequence[float] | Array, settings: int) -> Degree:
    """The curve of decay alone for any height of bumps, each with noise that makes its barriers passable.

    The accuracies are `shares` of the gap Δ, below which the mass in wrong wells is what counts. σ² = 2Lb, so that the
    rate 1/L has the temperature b, whatever A; the grid is as wide as that temperature needs.
    """
    wells = bumpy(A, points).wells()
    sigma = math.sqrt(2 * benchmark("rastrigin", 1, A=A).L * wells.depth)
    reach = max(4.5, 4.0 * math.sqrt(wells.depth))  # e^{−16} at the hottest
    land = bumpy(A, round(points * reach / 4.5), reach)
    p0 = land.point_mass(float(wells.minima[np.abs(wells.minima - START).argmin()]))
    eps = wells.gap * np.asarray(shares, dtype=np.float64)
    return Degree(A, wells.kappa, queries_to_eps(land, eps, "geometric", sigma, p0, settings, K_max=1e40))


@dataclass(frozen=True)
class Tracking:
    """For each first learning rate: the distance of SGD's law from that of annealed Langevin diffusion."""

    eta0: Float[Array, " N"]
    stability: Float[Array, " N"]  # η_0 L
    distance: Float[Array, " N"]

    @property
    def order(self) -> Line:
        """log distance against log η_0."""
        return Line.through(np.log(self.eta0), np.log(self.distance))


def tracking(points: int, halvings: int, T: tuple[float, float] = (1.0, 0.3), time: float = 4.0) -> Tracking:
    """Halve the learning rate along one path of temperatures, which falls linearly in time from T[0] to T[1].

    A geometric schedule in the number of queries is linear in time, with the same path whatever η_0: σ² = 2T/η grows
    as η shrinks. The first η_0 is 0.025.
    """
    land = bumpy(1.0, points)
    p0 = land.point_mass(float(land.wells().minima[np.abs(land.wells().minima - START).argmin()]))
    steps = 4000
    middle = (np.arange(steps) + 0.5) / steps
    langevin = fokker_planck(land, T[0] + (T[1] - T[0]) * middle, np.full(steps, time / steps), p0)
    eta0 = 0.025 * 0.5 ** np.arange(halvings)
    distances = []
    for eta in eta0:
        sigma = math.sqrt(2 * T[0] / eta)
        # η falls linearly in time, so that the mean over time of η is the mean of its ends, and queries are ∫ dt/η.
        K = round(time / eta * math.log(T[0] / T[1]) / (1 - T[1] / T[0]))
        rates = eta * (T[1] / T[0]) ** ((np.arange(K) + 0.5) / K)
        rates *= time / rates.sum()
        distances.append(float(total_variation(sgd_law(land, rates, sigma, p0), langevin)))
    return Tracking(eta0, eta0 * land.smoothness, np.array(distances))


@dataclass(frozen=True)
class Inequality:
    """The pieces of the weak Poincaré inequality at falling temperatures, and its smallest margin over random g."""

    barrier: float
    gap: float
    pieces: tuple[WeakPoincare, ...]
    margins: Float[Array, " N"]

    def _cold(self) -> list[WeakPoincare]:
        return [piece for piece in self.pieces if self.barrier / 6 >= piece.T]

    @property
    def depth(self) -> Line:
        """log 1/gap against 1/T for T ≤ b/6; theory: slope b."""
        cold = self._cold()
        return Line.through([1 / piece.T for piece in cold], [-math.log(piece.gap) for piece in cold])

    @property
    def loss(self) -> Line:
        """−log μ_T(B) against 1/T for T ≤ b/6; theory: slope Δ."""
        cold = self._cold()
        return Line.through([1 / piece.T for piece in cold], [-math.log(piece.mass_outside) for piece in cold])

    @property
    def spread(self) -> float:
        """The largest over the smallest gap within the good basin."""
        local = [piece.gap_local for piece in self.pieces]
        return max(local) / min(local)


def inequality(points: int, temperatures: Sequence[float] | Array, functions: int, seed: int) -> Inequality:
    """The inequality on Rastrigin-1 at each temperature, tried on `functions` random g a temperature."""
    land = bumpy(1.0, points)
    wells = land.wells()
    generator = torch.Generator().manual_seed(seed)
    pieces, margins = [], []
    for T in temperatures:
        pieces.append(weak_poincare(land, T))
        margins.append(float(weak_poincare_margin(land, T, random_functions(land, functions, generator)).min()))
    return Inequality(wells.depth, wells.gap, tuple(pieces), np.array(margins))


def random_functions(land: Landscape1D, count: int, generator: torch.Generator) -> Float[Array, "count n"]:
    """Functions on the grid of three kinds in turn: smooth waves, a step at a random place, white noise."""
    x = torch.as_tensor(land.grid)
    span = float(x[-1] - x[0])

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    order = torch.arange(1, 13, dtype=torch.float64)
    waves = (draw(count, 12) / order) @ torch.sin(order[:, None] * math.pi * x / span + draw(12, 1) * math.pi)
    places = x[torch.randint(len(x), (count, 1), generator=generator)]
    steps = torch.tanh((x - places) / (span / 50) * draw(count, 1).exp())
    kinds = torch.stack([waves, steps, draw(count, len(x))])
    functions: Array = kinds[torch.arange(count) % 3, torch.arange(count)].numpy()
    return functions


@dataclass(frozen=True)
class Lag:
    """Cooling against standing still at the last temperature, from the Gibbs law of the hottest; KL in nats, over time.

    `annealed` is KL(law_t ‖ μ_{T_t}), `cold` the same for the chain that is cold from the start; T the temperature of
    the former, `frozen` the freezing temperature.
    """

    time: Float[Array, " N"]
    T: Float[Array, " N"]
    annealed: Float[Array, " N"]
    cold: Float[Array, " N"]
    frozen: float


def lag(points: int, per_fold: float, hot: float, cold: float, steps: int = 600) -> Lag:
    """Cool Rastrigin-1 geometrically from `hot` to `cold`, spending the time `per_fold` on every factor e."""
    land = bumpy(1.0, points)
    wells = land.wells()
    T = np.geomspace(hot, cold, steps)
    dt = np.full(steps, per_fold * math.log(hot / cold) / steps)
    start = land.gibbs(hot)

    def path(temperatures: Array) -> Array:
        laws = fokker_planck_steps(land, temperatures, dt, start)
        return np.array(
            [float(relative_entropy(p, land.log_gibbs(float(t)))) for p, t in zip(laws, temperatures, strict=True)]
        )

    # What leaves the critical wells per unit of time, were there no barrier: Kramers' prefactor, from the spectrum.
    attempts = land.poincare(wells.depth / 10).gap * math.exp(10)
    frozen = freezing_temperature(wells.depth, attempts * per_fold)
    return Lag(np.cumsum(dt), T, path(T), path(np.full(steps, cold)), frozen)


def low_energy_probability(land: Landscape1D, T: float, eps: float, d: int, bins: int = 400) -> float:
    """P(φ(x_1) + … + φ(x_d) ≤ ε) for independent coordinates from the Gibbs law at T.

    The law of φ is put in bins of width ε/bins, at their middles, and convolved with itself; what exceeds ε is dropped.
    """
    energy = land.V - land.wells().lowest
    kept = energy < eps
    one = np.bincount((energy[kept] / eps * bins).astype(int), weights=land.gibbs(T)[kept], minlength=bins)[:bins]
    # A sum of d bins' middles is a whole number of bins plus d/2: the half bins are added at the end.
    total, power, left = np.eye(1, bins)[0], one, d
    while left:
        if left & 1:
            total = np.convolve(total, power)[:bins]
        power, left = np.convolve(power, power)[:bins], left >> 1
    return float(total[: max(bins - d // 2, 1)].sum())


def best_iterate_queries(
    land: Landscape1D, eps: float, dims: Sequence[int], sigma: float = SIGMA, settings: int = 40
) -> Float[Array, " D"]:
    """About how many queries until *some* iterate of a fixed learning rate has f ≤ ε, at the best rate, per dimension.

    An estimate, not a law: a chain relaxes once, in the time 1/gap, and then draws anew every 1/V''(x*), each time with
    the probability that all d coordinates are low at once.
    """
    middle = int(land.V.argmin())
    curvature = float(land.slope[middle + 1] - land.slope[middle - 1]) / (2 * land.h)
    barriers = land.wells().barriers
    # As cold as the grid can tell; and nobody waits for e^100.
    coldest = max(curvature * land.h**2 / 4, float(barriers[np.isfinite(barriers)].max(initial=0.0)) / 100)
    best = np.full(len(dims), np.inf)
    for T in np.geomspace(coldest, land.hottest * 0.99, settings).tolist():
        relaxation, eta = 1 / land.poincare(T).gap, 2 * T / sigma**2
        lucky = np.array([low_energy_probability(land, T, eps, d) for d in dims])
        with np.errstate(divide="ignore"):
            best = np.minimum(best, (relaxation + 1 / (curvature * lucky)) / eta)
    return best
