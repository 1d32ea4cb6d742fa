"""A function of one dimension on a grid, and what can be said exactly of diffusing in it.

The diffusion dX = −V'(X) dt + √(2T) dB becomes a walk between neighbouring points that is reversible with respect to
exp(−V/T), to rounding and at every temperature. For a separable f = Σ φ(x_i) each coordinate is such a walk and
E f = d·E φ, so that all that depends on the dimension is read off one coordinate. Everything here is NumPy in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray as Array
from torch import Tensor

from .wells import Wells, find_wells

#: At the ends of a grid the density may be this much of its peak.
EDGE = 1e-6
#: Grid steps across the narrowest well.
STEPS = 5
#: Ends with weights below e^{−650} of the largest are left out of spectra: double precision stops at e^{−745}.
_DEEPEST = 650.0


@dataclass(frozen=True)
class Spectral:
    """Var_μ(g) ≤ (T/gap) E_μ|g'|² for every g: `gap` is a rate, `constant` = T/gap the Poincaré constant C_PI."""

    gap: float
    constant: float


def grid_for(low: float, high: float, points: int) -> Float[Tensor, " n"]:
    """An even grid from `low` to `high`, in float64. Raises ValueError unless low < high and points ≥ 10.

    >>> grid_for(-1.0, 1.0, 11)[:3]
    tensor([-1.0000, -0.8000, -0.6000], dtype=torch.float64)
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"low was {low} and high was {high}; both must be finite, and low below high")
    if points < 2 * STEPS:
        raise ValueError(f"points was {points}; it must be at least {2 * STEPS}")
    return torch.linspace(low, high, points, dtype=torch.float64)


class Landscape1D:
    """V on an even grid (n,), `V` mapping a float64 tensor (n,) to values (n,) in a way that autograd can follow.

    With `radial` = d the grid is one of radii, h/2, 3h/2, … say, and the law that of |X| in d dimensions: densities
    carry the weight r^{d−1}. Raises ValueError for a grid that is not even and increasing or has fewer than five steps
    across the narrowest well, for values that are not finite, and for a radial grid that does not start next to 0.

    >>> land = Landscape1D(lambda x: x**2 / 2, grid_for(-6.0, 6.0, 241))
    >>> round(land.mean_energy(0.5), 6), round(land.poincare(0.5).gap, 2)
    (0.25, 1.0)
    """

    def __init__(self, V: Callable[[Tensor], Tensor], grid: Float[Tensor, " n"], radial: int | None = None) -> None:
        x = grid.detach().to("cpu", torch.float64)
        if x.dim() != 1 or len(x) < 2 * STEPS:
            raise ValueError(f"grid had shape {tuple(x.shape)}; it must be (n,) with n of at least {2 * STEPS}")
        steps = x.diff()
        if not (bool(torch.isfinite(x).all()) and steps[0] > 0 and bool((steps / steps[0] - 1).abs().max() < 1e-4)):
            raise ValueError("grid held uneven steps; it must increase in even ones")
        with torch.enable_grad():
            leaf = x.clone().requires_grad_()
            values = V(leaf)
            if values.shape != x.shape or not bool(torch.isfinite(values).all()):
                raise ValueError("V gave values that are not finite, or not one a point of the grid")
            (slopes,) = torch.autograd.grad(values.sum(), leaf)
        self.grid: Array = x.numpy()
        self.V: Array = values.detach().numpy()
        self.slope: Array = slopes.numpy()
        self.h = float((x[-1] - x[0]) / (len(x) - 1))
        self.radial = radial
        self._log_weight: Array = np.zeros(len(x))
        if radial is not None:
            if radial < 1:
                raise ValueError(f"radial was {radial}; it must be a dimension of at least 1")
            if not 0 < self.grid[0] <= self.h * (1 + 1e-4):
                raise ValueError(f"grid started at {self.grid[0]:.4g}; radii must start above 0, within {self.h:.4g}")
            self._log_weight = (radial - 1) * np.log(self.grid)
        wells = self.wells()
        widths = np.diff(wells.tops)
        # Of the outermost wells the grid may hold a part only; that part counts if it is the best well's.
        across = float(min([widths[wells.best], *widths[1:-1]]))
        if across < STEPS * self.h * (1 - 1e-9):
            raise ValueError(
                f"grid had a step of {self.h:.3g}; it must be at most {across / STEPS:.3g}, for {STEPS} steps across "
                f"the narrowest well"
            )

    def wells(self) -> Wells:
        """The minima, barriers b, energy gaps Δ and their largest ratio κ = max b/Δ."""
        return self._wells

    @cached_property
    def _wells(self) -> Wells:
        return find_wells(self.grid, self.V)

    @property
    def smoothness(self) -> float:
        """L: the largest |V''| on the grid, from differences of V'."""
        return float(np.abs(np.diff(self.slope)).max() / self.h)

    @cached_property
    def hottest(self) -> float:
        """The highest temperature whose Gibbs law the grid covers: a density at the ends below 1e-6 of its peak."""
        low, high = -40.0, 40.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self._edge(math.exp(middle)) <= EDGE else (low, middle)
        return math.exp(low)

    def log_gibbs(self, T: float) -> Float[Array, " n"]:
        """Logarithms of the probabilities proportional to exp(−V/T); see `gibbs`."""
        _check_temperature(T)
        self.check(T)
        return self._log_gibbs(T)

    def gibbs(self, T: float) -> Float[Array, " n"]:
        """Probabilities proportional to exp(−V/T). Raises ValueError for T ≤ 0, and where the grid cuts them off."""
        return np.exp(self.log_gibbs(T))

    def check(self, T: float) -> None:
        """Raise ValueError if the grid does not cover the Gibbs law at T, the hottest temperature of a run."""
        edge = self._edge(T)
        if edge > EDGE:
            raise ValueError(
                f"grid ended at {self.grid[0]:.4g} and {self.grid[-1]:.4g}, where the density at T = {T:.4g} is "
                f"{edge:.2g} of its peak; it must be below {EDGE:g}: a wider grid, or T of at most {self.hottest:.3g}"
            )

    def energy(self, p: Float[Array, "*S n"]) -> Float[Array, "*S"]:
        """E V − min V under each law of `p`."""
        return np.asarray(p @ (self.V - self.wells().lowest))

    def mean_energy(self, T: float) -> float:
        """E V − min V under the Gibbs law: T/2 for a parabola, d·T/2 for a radial one."""
        return float(self.energy(self.gibbs(T)))

    def temperature_for(self, energy: float) -> float:
        """The T whose mean energy is `energy`; the hottest that the grid covers if all have less.

        Raises ValueError for an energy that is not positive, or so small that the grid cannot tell it from 0.
        """
        from scipy.optimize import brentq

        if not 0 < energy < math.inf:
            raise ValueError(f"energy was {energy}; it must be above 0 and finite")
        hottest = self.hottest * (1 - 1e-9)
        if self.mean_energy(hottest) <= energy:
            return hottest
        coldest = self.smoothness * self.h**2 / 4  # a standard deviation of half a step
        if not self.mean_energy(coldest) < energy:
            raise ValueError(f"energy was {energy:.3g}; the grid tells energies from {self.mean_energy(coldest):.3g}")
        return float(brentq(lambda T: self.mean_energy(T) - energy, coldest, hottest, rtol=1e-10))

    def point_mass(self, x: float) -> Float[Array, " n"]:
        """All mass at the grid point nearest to `x`. Raises ValueError for an x outside of the grid."""
        if not self.grid[0] - self.h / 2 <= x <= self.grid[-1] + self.h / 2:
            raise ValueError(f"x was {x}; it must lie on the grid, from {self.grid[0]:.4g} to {self.grid[-1]:.4g}")
        p = np.zeros(len(self.grid))
        p[np.argmin(np.abs(self.grid - x))] = 1
        return p

    def generator(self, T: float) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Rates (up, down) from every point to its right and left neighbour; the ends reflect.

        up = (T/h²) B(z) and, back, down = (T/h²) B(−z) with B(z) = z/(e^z − 1) and z = ΔV/T (Scharfetter and Gummel
        1969). B(z)/B(−z) = e^{−z}, so that detailed balance with the Gibbs law is exact. Raises ValueError for T ≤ 0.
        """
        _check_temperature(T)
        up, down = self.rates(np.array([T]))
        return np.append(up[:, 0], 0.0), np.insert(down[:, 0], 0, 0.0)

    def rates(self, T: Float[Array, " M"]) -> tuple[Float[Array, "steps M"], Float[Array, "steps M"]]:
        """Rates across every step of the grid, (up, down), a column a temperature."""
        z = np.diff(self.V)[:, None] / T - np.diff(self._log_weight)[:, None]
        size = np.clip(np.abs(z), 1e-300, 700)
        slow = size / np.expm1(size)  # B at |z|, uphill; downhill B(−|z|) = B(|z|) + |z|
        fast = slow + size
        scale = T / self.h**2
        return np.where(z > 0, slow, fast) * scale, np.where(z > 0, fast, slow) * scale

    def basin(self) -> tuple[int, int]:
        """First and last index, inclusive, of the good basin: the points between the tops around the best minimum."""
        wells = self.wells()
        left, right = wells.tops[wells.best : wells.best + 2]
        return int(np.searchsorted(self.grid, left)), int(np.searchsorted(self.grid, right, side="right")) - 1

    def poincare(self, T: float, basin: tuple[int, int] | None = None) -> Spectral:
        """The spectral gap of the generator, on the whole grid or between two indices where it is made to reflect.

        Accurate to many digits even for a gap of 1e-12 beside rates of 1e5; see `spectrum`.
        """
        gap = float(self.spectrum(T, 1, basin)[0])
        return Spectral(gap, T / gap)

    def spectrum(self, T: float, count: int, basin: tuple[int, int] | None = None) -> Float[Array, " count"]:
        """The `count` smallest eigenvalues above 0 of minus the generator.

        An eigenvalue solver on the generator itself would lose a gap of 1e-12 beside rates of 1e5 to rounding. So the
        largest eigenvalues of its *inverse* are sought: to solve −Lu = g, add up μg to the flux through every step,
        divide by the conductance, and add up the rises; all that is summed has its full relative accuracy. Raises
        ValueError for a temperature so low that the gap is beyond double precision.
        """
        from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

        mu, conductance = self.dirichlet_form(T, basin)
        n, root, peak = len(mu), np.sqrt(mu), int(np.argmax(mu))
        if not 1 <= count < n - 1:
            raise ValueError(f"count was {count}; it must be from 1 to {n - 2}, for {n} points")

        def inverse(y: Array) -> Array:
            mass = root * y.ravel()
            mass = mass - mu * mass.sum()
            left, right = np.cumsum(mass)[:-1], np.cumsum(mass[::-1])[::-1][1:]
            rise = np.where(np.abs(left) <= np.abs(right), -left, right) / conductance  # the sum with less to cancel
            # From the peak outwards, so that rounding errors in the tails, which weigh nothing, stay there.
            u = np.concatenate([-np.cumsum(rise[:peak][::-1])[::-1], [0.0], np.cumsum(rise[peak:])])
            out: Array = root * (u - mu @ u)
            return out

        start = root * np.random.default_rng(0).standard_normal(n)
        operator = LinearOperator((n, n), matvec=inverse, dtype=np.float64)
        too_cold = f"T was {T:.3g}; it must be higher, for double precision cannot hold the gap of so cold a landscape"
        if not (conductance > 0).all():
            raise ValueError(too_cold)
        try:
            found = eigsh(operator, k=count, which="LA", v0=start, tol=1e-11, return_eigenvectors=False)
        except ArpackError as error:
            raise ValueError(too_cold) from error
        smallest: Array = 1 / np.sort(found)[::-1]
        return smallest

    def dirichlet_form(
        self, T: float, basin: tuple[int, int] | None = None
    ) -> tuple[Float[Array, " m"], Float[Array, " steps"]]:
        """Weights μ that sum to 1, and conductances c = μ·up: T E_μ|g'|² is Σ c (Δg)².

        Ends whose weights double precision cannot hold are left out. Raises ValueError for T ≤ 0 and a basin that is
        not two indices of the grid in order.
        """
        _check_temperature(T)
        first, last = basin if basin is not None else (0, len(self.V) - 1)
        if not 0 <= first < last < len(self.V):
            raise ValueError(f"basin was {basin}; it must be two indices from 0 to {len(self.V) - 1}, in order")
        log_mu = self._log_gibbs(T)[first : last + 1]
        log_mu = log_mu - log_mu.max()
        kept = np.flatnonzero(log_mu > -_DEEPEST)
        inside = slice(kept[0], kept[-1] + 1)
        mu = np.exp(log_mu[inside])
        mu /= mu.sum()
        up, _ = self.rates(np.array([T]))
        return mu, mu[:-1] * up[first:last, 0][inside][: len(mu) - 1]

    def _log_gibbs(self, T: float) -> Array:
        log_p = self._log_weight - (self.V - self.wells().lowest) / T
        log_p = log_p - log_p.max()
        total: Array = log_p - math.log(np.exp(log_p).sum())
        return total

    def _edge(self, T: float) -> float:
        """The density at the ends over its peak; a radial grid has one end, at 0 nothing is cut off."""
        log_p = self._log_gibbs(T)
        ends = log_p[-1:] if self.radial is not None else log_p[[0, -1]]
        return math.exp(ends.max() - log_p.max())


def _check_temperature(T: float) -> None:
    if not 0 < T < math.inf:
        raise ValueError(f"T was {T}; it must be above 0 and finite")
