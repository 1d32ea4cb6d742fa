"""The checker of the chapter's programming exercise: it tells right from wrong, and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .descent import sgd
from .functions import benchmark
from .schedules import schedule


def check_cooling(cool: Callable[[float, float, float, int], Tensor]) -> str:
    """Judge `cool(T0, T1, sigma, K)`, which is to return K learning rates that cool geometrically from T0 to T1.

    Returns "Correct." or what is wrong, never raises.
    """
    T0, T1, sigma, K = 0.6, 0.02, 10.0, 400
    try:
        etas = cool(T0, T1, sigma, K)
    except Exception as error:
        return f"Not yet: cool({T0}, {T1}, {sigma}, {K}) raised {type(error).__name__}: {error}"
    if not isinstance(etas, Tensor) or etas.shape != (K,):
        return f"Not yet: cool must return a tensor of shape ({K},), one learning rate a query."
    etas = etas.double()
    if not bool(((etas > 0) & torch.isfinite(etas)).all()):
        return "Not yet: every learning rate must be positive and finite."
    first, last = float(etas[0] * sigma**2 / 2), float(etas[-1] * sigma**2 / 2)
    if abs(first / T0 - 1) > 1e-3 or abs(last / T1 - 1) > 1e-3:
        return f"Not yet: the temperatures ησ²/2 run from {first:.4g} to {last:.4g}; they must run from {T0} to {T1}."
    ratios = etas[1:] / etas[:-1]
    if float(ratios.max() - ratios.min()) > 1e-6:
        return (
            "Not yet: the ends are right, but the ratio of one rate to the next changes; it must be the same each time."
        )
    fn, start = benchmark("rastrigin", 4, A=1.0), torch.full((64, 4), 1.9, dtype=torch.float64)
    fixed = schedule("fixed", K, float(etas[-1]))
    mine, cold = (
        float(sgd(fn, start, e, sigma, torch.Generator().manual_seed(3)).f_last.mean()) for e in (etas, fixed)
    )
    return f"Correct. From the wrong wells your schedule ends at f = {mine:.2f}, its last rate alone at {cold:.2f}."
