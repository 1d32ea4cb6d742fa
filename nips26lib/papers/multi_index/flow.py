"""Gradient flow by Euler steps, with what is to be seen of it recorded at times spaced evenly in log t."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from nips26lib.papers.multi_index.gradient import flow_gradient, sample_gradient
from nips26lib.papers.multi_index.symmetry import symmetrized_gradient
from nips26lib.papers.multi_index.target import Target, mass_shares, order_residuals, population_loss

LOSSES = ("full", "correlation", "symmetrized")


@dataclass(frozen=True)
class Flow:
    """What was recorded: times, population loss, residual R_ℓ of each order, mass, shares; and the last weights.

    `losses` is the whole population loss even where the flow goes down another.
    """

    t: Float[Tensor, " marks"]
    losses: Float[Tensor, marks * batch]
    orders: tuple[int, ...]
    R: Float[Tensor, "marks orders *batch"]
    mass: Float[Tensor, marks * batch]
    subspace: Float[Tensor, marks * batch]
    aligned: Float[Tensor, marks * batch]
    W: Float[Tensor, "*batch m d"]

    def half_times(self) -> Float[Tensor, orders * batch]:
        """First recorded t with R_ℓ(t) ≤ R_ℓ(0)/2, linearly interpolated in t; inf where it never is."""
        return torch.stack([_first_below(self.t, r, r[0] / 2) for r in self.R.unbind(1)])


def gradient_flow(
    W0: Float[Tensor, "*batch m d"],
    target: Target,
    t_end: float,
    step: float = 0.1,
    loss: str = "full",
    samples: tuple[Tensor, Tensor] | None = None,
    without: Sequence[int] = (),
    marks: int = 120,
    orders: tuple[int, ...] = (0, 2, 4, 6),
    threshold: float = 0.95,
    fixed_norms: bool = False,
) -> Flow:
    """Follow dW/dt = −∇L from `W0` to `t_end`.

    `loss` is "full", "correlation" or "symmetrized" on the population; with `samples` = (x (*batch, n, d),
    y (*batch, n)) it is full-batch gradient descent on the empirical loss. `without` leaves Hermite orders out;
    `fixed_norms` puts every neuron back to its initial norm after each step. `threshold` is what counts as aligned.
    Raises ValueError for a step beyond the stability bound (`largest_step`), which it names.
    """
    _check(W0, target, t_end, step, loss, samples, marks)
    gradient = _gradient(target, loss, samples, without)
    steps = max(1, round(t_end / step))
    recorded = set(_marks(steps, marks))
    norms = W0.norm(dim=-1, keepdim=True)
    W = W0.clone()
    rows = [_look(W, target, orders, threshold)]
    times = [0]
    for number in range(1, steps + 1):
        W = W - step * gradient(W)
        if fixed_norms:
            W = W * (norms / W.norm(dim=-1, keepdim=True))
        if number in recorded:
            times.append(number)
            rows.append(_look(W, target, orders, threshold))
    t = torch.tensor(times, dtype=W0.dtype, device=W0.device) * step
    losses, R, mass, subspace, aligned = (torch.stack(each) for each in zip(*rows, strict=True))
    return Flow(t, losses, orders, R, mass, subspace, aligned, W)


def largest_step(target: Target, mass: float) -> float:
    """1/(2 c_0 max(k, M)): beyond it Euler's step overshoots the fastest motion there is, that of M towards k."""
    c0 = target.activation.coefs(0)[0]
    return math.inf if c0 == 0 else 1 / (2 * c0 * max(mass, target.k))


def first_time(t: Float[Tensor, " marks"], x: Float[Tensor, marks * batch], level: float) -> Float[Tensor, "*batch"]:
    """First recorded time at which x ≥ `level`, linearly interpolated; inf where it never is."""
    return _first_below(t, -x, torch.full_like(x[0], -level))


def _first_below(t: Tensor, x: Tensor, level: Tensor) -> Tensor:
    below = x <= level
    index = below.to(torch.int64).argmax(0)
    before = (index - 1).clamp_min(0)
    x1, x0 = x.gather(0, index[None])[0], x.gather(0, before[None])[0]
    fraction = torch.where(index > 0, (x0 - level) / (x0 - x1).clamp_min(1e-300), torch.zeros_like(level))
    time = t[before] + fraction * (t[index] - t[before])
    return torch.where(below.any(0), time, torch.full_like(time, math.inf))


def _gradient(
    target: Target, loss: str, samples: tuple[Tensor, Tensor] | None, without: Sequence[int]
) -> Callable[[Tensor], Tensor]:
    if samples is not None:
        return lambda W: sample_gradient(W, *samples, target.activation)
    if loss == "symmetrized":
        return lambda W: symmetrized_gradient(W, target)
    return lambda W: flow_gradient(W, target, loss, without)


def _look(W: Tensor, target: Target, orders: tuple[int, ...], threshold: float) -> tuple[Tensor, ...]:
    shares = mass_shares(W, target, threshold)
    return population_loss(W, target), order_residuals(W, target, orders), shares.mass, shares.subspace, shares.aligned


def _marks(steps: int, marks: int) -> list[int]:
    grid = torch.logspace(0, math.log10(steps), marks, dtype=torch.float64)
    return sorted({*grid.round().to(torch.int64).tolist(), steps})


def _check(
    W0: Tensor,
    target: Target,
    t_end: float,
    step: float,
    loss: str,
    samples: tuple[Tensor, Tensor] | None,
    marks: int,
) -> None:
    if loss not in LOSSES:
        raise ValueError(f"loss is {loss!r}; it must be one of {', '.join(LOSSES)}")
    if samples is not None and loss != "full":
        raise ValueError(f"loss is {loss!r} with samples; the empirical loss is the full one")
    if W0.shape[-1] != target.d:
        raise ValueError(f"W0 has {W0.shape[-1]} columns; the target has d = {target.d}")
    if not 0 < t_end < math.inf:
        raise ValueError(f"t_end is {t_end}; it must be above 0 and finite")
    if marks < 2:
        raise ValueError(f"marks is {marks}; it must be at least 2")
    mass = float((W0**2).sum((-1, -2)).max())
    bound = largest_step(target, mass)
    if not 0 < step < bound:
        raise ValueError(
            f"step is {step}; for k = {target.k} and mass {mass:.3g} it must be above 0 and below {bound:.4g}"
        )
