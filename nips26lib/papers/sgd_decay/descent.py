"""Stochastic gradient descent with noise of known size, for many schedules and many chains at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from .functions import TestFunction

NOISES = ("gaussian", "rademacher", "student_t5")
#: How many numbers of noise are drawn at once: a bound on memory (8 MB in float64).
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Trajectory:
    """What is kept of a run: f after the recorded numbers of queries, the last points, and the lowest f on the way.

    A chain that leaves the finite numbers is a failure and has f = inf from there on. The leading axis C, an entry a
    schedule, is there when the learning rates had one. `best` is None unless it was asked for.
    """

    queries: Int64[Tensor, " R"]
    f: Float[Tensor, "*C R B"]
    x_last: Float[Tensor, "*C B d"]
    best: Float[Tensor, "*C B"] | None

    @property
    def f_last(self) -> Float[Tensor, "*C B"]:
        """f at the last points."""
        return self.f[..., -1, :]

    @property
    def failures(self) -> int:
        """How many chains ended where f is not finite."""
        return int(torch.isinf(self.f_last).sum())


@torch.no_grad()
def sgd(
    fn: TestFunction,
    x0: Float[Tensor, "B d"],
    etas: Float[Tensor, " K"] | Float[Tensor, "C K"],
    sigma: float,
    generator: torch.Generator | None = None,
    record: Sequence[int] | None = None,
    noise: str | Tensor = "gaussian",
    best: bool = False,
) -> Trajectory:
    """x_{k+1} = x_k − η_k (∇f(x_k) + σξ_k): B chains from `x0`, by one schedule (K,) or by C of them (C, K).

    The coordinates of ξ are independent with mean 0 and variance 1; `noise` names their law (one of `NOISES`) or holds
    them ready-made. Every schedule meets the same ξ, so that all are compared on the same luck. `record` lists after
    how many queries f is kept, 0 for the start (default: K alone); `best` keeps the lowest f of each chain, for one
    evaluation of f more a step. Runs where `x0` is, in its dtype. Raises ValueError for σ < 0, a start that is not
    finite or not of dimension d, learning rates that are not positive, and records outside of 0 … K.
    """
    _check(fn, x0, etas, sigma, noise, generator)
    K, (B, d) = etas.shape[-1], x0.shape
    marks = _marks(record, K)
    # One row a query, (C, 1, 1): what a step multiplies its gradient by.
    rates = etas.to(x0).reshape(-1, K).T.contiguous()[:, :, None, None]
    x = x0.expand(rates.shape[1], B, d).clone()
    values = {0: _value(fn, x)} if best or 0 in marks else {}
    lowest = values[0].clone() if best else None
    block = max(1, _BLOCK // max(B * d, 1))
    for first in range(0, K, block):
        last = min(first + block, K)
        # A tensor a query, cut here once: indexing in the loop costs as much as an operation on small tensors.
        pushes = _draw(noise, first, last, x0, generator).mul(sigma).unbind()
        for k, (rate, push) in enumerate(zip(rates[first:last].unbind(), pushes, strict=True), first + 1):
            x.sub_(fn.grad(x).add_(push).mul_(rate))
            if lowest is not None:
                torch.fmin(lowest, fn.f(x), out=lowest)
            if k in marks:
                values[k] = _value(fn, x)
    f = torch.stack([values[k] for k in marks], 1)
    queries = torch.tensor(list(marks), device=x0.device)
    if etas.dim() == 1:
        return Trajectory(queries, f[0], x[0], None if lowest is None else lowest[0])
    return Trajectory(queries, f, x, lowest)


def uniform_start(fn: TestFunction, chains: int, generator: torch.Generator) -> Float[Tensor, "B d"]:
    """Starts drawn uniformly from the function's box, in float64, where the generator is."""
    low, high = fn.box
    unit = torch.rand(chains, fn.d, dtype=torch.float64, generator=generator, device=generator.device)
    return low + (high - low) * unit


def _value(fn: TestFunction, x: Tensor) -> Tensor:
    """f, and inf wherever it is not a finite number."""
    return fn.f(x).nan_to_num(nan=math.inf, posinf=math.inf, neginf=math.inf)


def _draw(
    noise: str | Tensor, first: int, last: int, x0: Tensor, generator: torch.Generator | None
) -> Float[Tensor, "count B d"]:
    if isinstance(noise, Tensor):
        return noise[first:last].to(x0)
    xi = torch.empty(last - first, *x0.shape, dtype=x0.dtype, device=x0.device)
    if noise == "rademacher":
        return xi.random_(2, generator=generator).mul_(2).sub_(1)
    xi.normal_(generator=generator)
    if noise == "student_t5":
        # A normal over the root of a mean of 5 squares, and scaled: its variance is 5/3.
        squares = torch.empty(5, *xi.shape, dtype=xi.dtype, device=xi.device).normal_(generator=generator).square_()
        xi.mul_(math.sqrt(3)).div_(squares.sum(0).sqrt_())
    return xi


def _marks(record: Sequence[int] | None, K: int) -> dict[int, None]:
    """The queries to record, in order; a dictionary, to ask quickly whether one is among them."""
    asked = sorted({int(query) for query in (record if record is not None else (K,))})
    if not asked or asked[0] < 0 or asked[-1] > K:
        raise ValueError(f"record was {record}; it must hold numbers of queries from 0 to K = {K}")
    return dict.fromkeys(asked)


def _check(
    fn: TestFunction,
    x0: Tensor,
    etas: Tensor,
    sigma: float,
    noise: str | Tensor,
    generator: torch.Generator | None,
) -> None:
    if not 0 <= sigma < math.inf:
        raise ValueError(f"sigma was {sigma}; it must be 0 or above, and finite")
    if x0.dim() != 2 or x0.shape[1] != fn.d or len(x0) == 0:
        raise ValueError(f"x0 had shape {tuple(x0.shape)}; it must be (chains, d) with d = {fn.d}")
    if not bool(torch.isfinite(x0).all()):
        raise ValueError("x0 held entries that are not finite; a chain must start somewhere")
    if etas.dim() not in (1, 2) or etas.numel() == 0:
        raise ValueError(f"etas had shape {tuple(etas.shape)}; it must be (K,) or (C, K)")
    if not bool(((etas > 0) & torch.isfinite(etas)).all()):
        raise ValueError("etas held entries that are not above 0 and finite; every learning rate must be")
    if isinstance(noise, Tensor):
        wanted = (etas.shape[-1], *x0.shape)
        if tuple(noise.shape) != wanted:
            raise ValueError(f"noise had shape {tuple(noise.shape)}; it must be {wanted}, an entry a query")
        if not bool(torch.isfinite(noise).all()):
            raise ValueError("noise held entries that are not finite")
    elif noise not in NOISES:
        raise ValueError(f"noise was {noise!r}; it must be one of {', '.join(NOISES)}, or a tensor")
    elif generator is not None and generator.device.type != x0.device.type:
        raise ValueError(f"generator was on {generator.device}; it must be on {x0.device}, where x0 is")
