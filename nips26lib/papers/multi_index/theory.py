"""What can be said of the stages on paper: the logistic law of the mass, the two rates of the subspace, half-times."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


def logistic_mass(t: Float[Tensor, " times"], M0: float, k: int, c0: float) -> Float[Tensor, " times"]:
    """Stage 1, order 0 alone: Ṁ = −4 c_0 M (M − k), so M(t) = k / (1 + (k/M_0 − 1) e^{−4 c_0 k t}).

    >>> logistic_mass(torch.tensor([0.0, 100.0]), M0=1.0, k=4, c0=0.5).tolist()
    [1.0, 4.0]
    """
    _positive(M0=M0, k=k, c0=c0)
    return k / (1 + (k / M0 - 1) * torch.exp(-4 * c0 * k * t))


def mean_half_time(M0: float, k: int, c0: float) -> float:
    """τ_0: when the logistic law has halved R_0 = (M − k)²."""
    _positive(M0=M0, k=k, c0=c0)
    if k == M0:
        raise ValueError(f"M0 is {M0}, the target's k; there is nothing to halve")
    M = k - (k - M0) / math.sqrt(2)
    return math.log((k / M0 - 1) / (k / M - 1)) / (4 * c0 * k)


@dataclass(frozen=True)
class TwoStage:
    """A = Σ w wᵀ is α on the target's subspace and β on its complement, at each time t."""

    t: Float[Tensor, " times"]
    alpha: Float[Tensor, " times"]
    beta: Float[Tensor, " times"]
    k: int
    d: int

    @property
    def mass(self) -> Float[Tensor, " times"]:
        """M = k α + (d − k) β."""
        return self.k * self.alpha + (self.d - self.k) * self.beta

    @property
    def subspace(self) -> Float[Tensor, " times"]:
        """The share of the mass in the subspace."""
        return self.k * self.alpha / self.mass

    def residuals(self) -> Float[Tensor, "2 times"]:
        """R_0 = (M − k)² and R_2 = k (α − 1)² + (d − k) β²."""
        return torch.stack(
            [(self.mass - self.k) ** 2, self.k * (self.alpha - 1) ** 2 + (self.d - self.k) * self.beta**2]
        )

    def half_times(self) -> tuple[float, float]:
        """τ_0 and τ_2, to the step; inf where it is never reached."""
        found = []
        for r in self.residuals():
            below = (r <= r[0] / 2).nonzero()
            found.append(float(self.t[below[0, 0]]) if len(below) else math.inf)
        return found[0], found[1]


def two_stage_ode(d: int, k: int, M0: float, c0: float, c2: float, t_end: float, step: float = 1e-3) -> TwoStage:
    """Stage 2, orders 0 and 2: α̇ = −4(λ + c_2(α − 1))α, β̇ = −4(λ + c_2 β)β, with λ = c_0(M − k).

    From α = β = M_0/d. Each step is that of Euler on the weights, w ← (1 − 2·step·…) w, so that a network whose A is a
    multiple of the identity is followed exactly, and the ODE to first order in `step`.
    """
    _positive(M0=M0, k=k, t_end=t_end, step=step)
    if not k <= d:
        raise ValueError(f"k is {k} and d is {d}; k must be from 1 to d")
    if c0 < 0 or c2 < 0:
        raise ValueError(f"c0 is {c0} and c2 is {c2}; neither may be negative")
    steps = max(1, round(t_end / step))
    alpha = beta = M0 / d
    found = [(alpha, beta)]
    for _ in range(steps):
        pressure = c0 * (k * alpha + (d - k) * beta - k)
        alpha, beta = (
            alpha * (1 - 2 * step * (pressure + c2 * (alpha - 1))) ** 2,
            beta * (1 - 2 * step * (pressure + c2 * beta)) ** 2,
        )
        found.append((alpha, beta))
    values = torch.tensor(found, dtype=torch.float64)
    return TwoStage(torch.arange(steps + 1, dtype=torch.float64) * step, values[:, 0], values[:, 1], k, d)


def winner_takes_all(
    x0: Float[Tensor, " k"], c4: float, t_end: float, step: float = 0.01
) -> tuple[Float[Tensor, " times"], Float[Tensor, "times k"]]:
    """Stage 3 for one neuron inside the subspace: ẋ_i = 4 c_4 x_i (x_i² − Σ_l x_l⁴), kept on the unit sphere.

    Raises ValueError for a start that is zero or not finite. Times and the coordinates at each.
    """
    _positive(c4=c4, t_end=t_end, step=step)
    norm = float(x0.norm())
    if not 0 < norm < math.inf:
        raise ValueError(f"x0 has norm {norm}; it must be above 0 and finite")
    x = x0 / norm
    found = [x]
    for _ in range(max(1, round(t_end / step))):
        x = x + step * 4 * c4 * x * (x**2 - (x**4).sum())
        x = x / x.norm()
        found.append(x)
    return torch.arange(len(found), dtype=x0.dtype) * step, torch.stack(found)


def _positive(**values: float | int) -> None:
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} is {value}; it must be above 0 and finite")
