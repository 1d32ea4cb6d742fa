"""Checkers for the chapter's exercises: each says what is right, or shows the first case that is not."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .constraint import project
from .rounding import round_zero_sum


def check_repair_one(repair: Callable[[Tensor], Tensor], trials: int = 200) -> str:
    """Try `repair` on zero-sum tiles of several sizes with one wrong entry or none, and say how it did.

    >>> check_repair_one(lambda tile: tile).splitlines()[0]
    'Not yet: this tile'
    """
    generator = torch.Generator().manual_seed(0)
    for trial in range(trials):
        size = 3 + trial % 6
        weights = project(torch.randn(size, size, generator=generator), "tile", size)
        clean = round_zero_sum(20 * weights, "tile", size)
        hit = clean.clone()
        if trial % 10:
            i, j = torch.randint(size, (2,), generator=generator).tolist()
            hit[i, j] += 2 ** int(torch.randint(7, (1,), generator=generator)) * (1 if trial % 2 else -1)
        try:
            answer = repair(hit.clone())
        except Exception as error:  # whatever a reader's code raises is an answer, not a crash of the chapter
            return f"Not yet: repair_one raised {type(error).__name__}: {error}, for\n{hit}"
        if not isinstance(answer, Tensor) or answer.shape != clean.shape or not torch.equal(answer.long(), clean):
            return f"Not yet: this tile\n{hit}\nshould become\n{clean}\nbut repair_one returned\n{answer}"
    return f"Right: all {trials} tiles were repaired."
