"""Progress bars that a reader sees and a stored notebook does not."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

from nips26lib.chapter.presets import current_run, no_front_end

T = TypeVar("T")


def progress(iterable: Iterable[T], description: str, total: int | None = None) -> Iterable[T]:
    """The iterable, with a bar while it lasts where somebody watches, and no output at all where nobody does.

    >>> list(progress(range(3), "counting"))
    [0, 1, 2]
    """
    run = current_run()
    if run.static if run else no_front_end():
        return iterable
    from tqdm.auto import tqdm

    # Elsewhere than in a kernel, tqdm itself keeps silent unless a terminal is there to draw in.
    disable = False if "ipykernel" in sys.modules else None
    bar: Iterable[T] = tqdm(iterable, desc=description, total=total, leave=False, disable=disable)
    return bar
