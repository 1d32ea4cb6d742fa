"""`nips26 run`: chapters, one after another."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nips26lib.commands import DONE, FAILED
from nips26lib.commands.common import cell_progress, named, print_json
from nips26lib.runs import Refusal

if TYPE_CHECKING:
    from nips26lib.runs.record import RunRecord


def run(options: argparse.Namespace) -> int:
    """Every request is checked before the first kernel starts; one that fails stops no other."""
    from dataclasses import asdict

    from nips26lib.runs.catalogue import load_catalogue
    from nips26lib.runs.parameters import make_plan, parse_assignment

    if bool(options.chapters) == options.all:
        raise Refusal("give chapters or --all, not both" if options.all else "name one chapter or more, or give --all")
    catalogue = load_catalogue()
    assignments = [parse_assignment(text) for text in options.parameters]
    chapters = catalogue.chapters if options.all else named(catalogue, options.chapters)
    plans = [make_plan(chapter, options.preset, options.seed, assignments) for chapter in chapters]

    from nips26lib.runs.execute import execute
    from nips26lib.runs.watch import Limits, parse_size

    limits = Limits(None if options.memory is None else parse_size(options.memory), options.timeout)
    finished: list[tuple[Path, RunRecord]] = []
    for plan in plans:
        with cell_progress(plan.chapter.slug, options.quiet) as on_cell:
            record = execute(plan, options.out, on_cell, limits)
        finished.append((options.out / plan.directory, record))
        if not options.json:
            _tell(*finished[-1])
    if options.json:
        print_json([{"directory": str(folder), **asdict(record)} for folder, record in finished])
    elif any(record.claims for _, record in finished):
        from nips26lib.runs.tables import claims_table

        print("\n" + claims_table(_claims_of(record) for _, record in finished))
    return FAILED if any(record.status == "failed" for _, record in finished) else DONE


def _tell(folder: Path, record: RunRecord) -> None:
    took = f"{record.wall_seconds:.1f} s, {record.peak_memory_bytes / 1e9:.2f} GB, {record.device}"
    if record.status == "succeeded":
        print(f"{record.chapter}: succeeded ({took}): {folder}", flush=True)
    else:
        print(f"{record.chapter}: failed ({took}): {record.reason}; notebook, log and record: {folder}", flush=True)


def _claims_of(record: RunRecord) -> dict[str, Any]:
    note = f"failed: {record.reason}" if record.status == "failed" else "no claims"
    claims = (record.claims or {}).get("claims", [])
    return {"chapter": record.chapter, "preset": record.preset, "seed": record.seed, "note": note, "claims": claims}
