"""`nips26 store`: the outputs of chapters, stored in the book."""

from __future__ import annotations

import argparse
import sys

from nips26lib.commands import DONE, FAILED
from nips26lib.commands.common import cell_progress, named


def store(options: argparse.Namespace) -> int:
    from nips26lib.runs.catalogue import load_catalogue

    chapters = named(load_catalogue(), options.chapters)

    from nips26lib.runs.store import StoreFailed
    from nips26lib.runs.store import store as store_chapter

    status = DONE
    for chapter in chapters:
        try:
            with cell_progress(chapter.slug, options.quiet) as on_cell:
                size = store_chapter(chapter, options.preset, on_cell)
        except StoreFailed as error:
            print(f"{error.details}\nnips26: {chapter.slug} was not stored: {error}".lstrip(), file=sys.stderr)
            status = FAILED
        else:
            print(f"{chapter.slug}: stored ({size:,} bytes): {chapter.notebook}", flush=True)
    return status
