"""What several commands share: naming chapters, progress on a terminal, JSON on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nips26lib.runs.catalogue import Catalogue, ChapterRecord


def named(catalogue: Catalogue, names: Sequence[str]) -> list[ChapterRecord]:
    """The chapters of those names, each once."""
    return [catalogue.chapter(name) for name in dict.fromkeys(names)]


@contextmanager
def cell_progress(description: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar over the cells on stderr, gone when done; none where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(desc=description, unit="cell", file=sys.stderr, leave=False) as bar:

        def on_cell(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield on_cell


def print_json(content: Any) -> None:
    """Print what a machine reads."""
    print(json.dumps(content, indent=1, default=str))
