"""`nips26 list`."""

from __future__ import annotations

import argparse

from nips26lib.commands.common import print_json


def list_chapters(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from nips26lib.runs.catalogue import load_catalogue
    from nips26lib.runs.tables import align

    catalogue = load_catalogue()
    if options.json:
        print_json([asdict(record) for record in catalogue.chapters])
        return 0
    rows = [
        (
            record.slug,
            record.part,
            record.title,
            f"{record.budget['smoke'].seconds:g} s",
            f"{record.budget['laptop'].seconds / 60:.3g} min",
        )
        for record in catalogue.chapters
    ]
    print(align(("chapter", "part", "title", "smoke", "laptop"), rows))
    return 0
