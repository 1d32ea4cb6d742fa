"""Learning rates over a run, and the dictionary between them and temperatures.

A step x ← x − η (∇f + σξ) lasts for the time η and adds noise of variance η²σ². The diffusion dX = −∇f dt + √(2T) dB
adds as much in that time when T = ησ²/2. So a learning rate is a temperature, and letting it decay is annealing.
"""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

KINDS = ("fixed", "geometric", "polynomial", "cosine", "step", "logarithmic")

Number = TypeVar("Number", float, Tensor)


def temperature(eta: Number, sigma: float) -> Number:
    """T = ησ²/2, the temperature of SGD with learning rate `eta` and noise of standard deviation `sigma`.

    Raises ValueError unless η > 0 and σ ≥ 0.

    >>> temperature(0.02, sigma=10.0)
    1.0
    """
    _positive(eta, "eta")
    _not_negative(sigma)
    return eta * sigma**2 / 2


def eta_for(T: Number, sigma: float) -> Number:
    """η = 2T/σ², the learning rate whose temperature is T. Raises ValueError unless T > 0 and σ > 0.

    >>> eta_for(1.0, sigma=10.0)
    0.02
    """
    _positive(T, "T")
    _not_negative(sigma)
    if sigma == 0:
        raise ValueError("sigma was 0; without noise no learning rate has a temperature above 0")
    return 2 * T / sigma**2


def schedule(
    kind: str,
    K: int,
    eta0: float,
    eta1: float | None = None,
    *,
    power: float = 1.0,
    drops: tuple[float, ...] = (1 / 3, 2 / 3, 5 / 6),
    factor: float = 3.0,
    device: torch.device | str | None = None,
) -> Float[Tensor, " K"]:
    """K learning rates in float64 that start at `eta0`; all kinds but "fixed" and "step" end at `eta1`.

    With s = k/(K − 1) for k = 0 … K − 1:

    "fixed"        η_0
    "geometric"    η_0 (η_1/η_0)^s
    "polynomial"   η_0 (1 + cs)^{−power}
    "cosine"       η_1 + (η_0 − η_1) (1 + cos πs)/2
    "logarithmic"  η_0 log 2 / log(2 + cs), Hajek's T = b/log(2 + t) for time counted in queries
    "step"         η_0, divided by `factor` when each of the fractions `drops` of the run is over

    Raises ValueError for an unknown kind, K < 1, rates or a power that are not positive, an `eta1` that is missing,
    superfluous or above `eta0`, a factor of 1 or less, and drops outside of (0, 1).

    >>> schedule("geometric", 3, 1.0, 0.01)
    tensor([1.0000, 0.1000, 0.0100], dtype=torch.float64)
    """
    if kind not in KINDS:
        raise ValueError(f"kind was {kind!r}; it must be one of {', '.join(KINDS)}")
    if int(K) != K or K < 1:
        raise ValueError(f"K was {K}; it must be a whole number of at least 1")
    _positive(eta0, "eta0")
    _positive(power, "power")
    if not (1 < factor < math.inf and all(0 < drop < 1 for drop in drops)):
        raise ValueError(f"factor was {factor} and drops was {drops}; the one must be above 1, the others in (0, 1)")
    k = torch.arange(K, dtype=torch.float64, device=device)
    if kind in ("fixed", "step"):
        if eta1 is not None:
            raise ValueError(f"eta1 was {eta1}; it must be None for the schedule {kind!r}")
        over = [(k >= drop * K).to(torch.float64) for drop in (drops if kind == "step" else ())]
        return eta0 * factor ** -sum(over, torch.zeros_like(k))
    if eta1 is None:
        raise ValueError(f"eta1 was None; the schedule {kind!r} must be given where to end")
    _positive(eta1, "eta1")
    if eta1 > eta0:
        raise ValueError(f"eta1 was {eta1}; it must be at most eta0, which was {eta0}")
    s, ratio = k / max(K - 1, 1), eta0 / eta1
    if kind == "geometric":
        return eta0 * ratio**-s
    if kind == "polynomial":
        return eta0 * (1 + (ratio ** (1 / power) - 1) * s) ** -power
    if kind == "cosine":
        return eta1 + (eta0 - eta1) * (1 + torch.cos(math.pi * s)) / 2
    if ratio > 1000:
        raise ValueError(f"eta1 was {eta1}; a logarithm must not end below eta0/1000 = {eta0 / 1000:g}")
    return eta0 * math.log(2) / torch.log(2 + (2**ratio - 2) * s)


def _positive(value: float | Tensor, name: str) -> None:
    fine = bool(((value > 0) & torch.isfinite(value)).all()) if isinstance(value, Tensor) else 0 < value < math.inf
    if not fine:
        raise ValueError(f"{name} was {value}; it must be above 0 and finite")


def _not_negative(sigma: float) -> None:
    if not 0 <= sigma < math.inf:
        raise ValueError(f"sigma was {sigma}; it must be 0 or above, and finite")
