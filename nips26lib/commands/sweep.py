"""`nips26 sweep`: many runs of one chapter, on this machine's cores or on a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nips26lib.commands import DONE, FAILED
from nips26lib.commands.common import print_json

if TYPE_CHECKING:
    from nips26lib.runs.record import RunRecord
    from nips26lib.runs.sweep import OnChange, Progress


def sweep(options: argparse.Namespace) -> int:
    """Run the product of the parameters; the table of claims over all its runs comes last."""
    from nips26lib.runs.catalogue import load_catalogue
    from nips26lib.runs.grid import make_plans, parse_axis
    from nips26lib.runs.record import read_record
    from nips26lib.runs.sweep import sweep as run_sweep
    from nips26lib.runs.watch import Limits, parse_size

    chapter = load_catalogue().chapter(options.chapter)
    axes = [parse_axis(text) for text in options.parameters]
    limits = Limits(None if options.memory is None else parse_size(options.memory), options.timeout)
    plans = make_plans(chapter, options.preset, axes, elsewhere=options.scheduler is not None)
    with _display(chapter.slug, options.quiet or options.json) as on_change:
        finished = run_sweep(
            plans,
            options.out,
            workers=options.workers,
            scheduler=options.scheduler,
            retries=options.retries,
            limits=limits,
            on_change=on_change,
        )

    if options.json:
        failures = [{"directory": str(folder), "reason": reason} for folder, reason in finished.failures.items()]
        print_json(
            {
                "runs": len(plans),
                "kept": finished.kept,
                "failed": len(failures),
                "missing": finished.missing,
                "halted": finished.halted,
                "failures": failures,
                "directories": [str(folder) for folder in finished.directories],
            }
        )
    else:
        from nips26lib.runs.summary import summarize, to_text

        print(to_text(summarize(map(read_record, finished.directories))))
        done = len(plans) - finished.kept - len(finished.failures) - finished.missing
        print(
            f"\n{chapter.slug}: {len(plans)} runs in {options.out / chapter.slug}: {done} done now, "
            f"{finished.kept} whole before, {len(finished.failures)} failed, {finished.missing} not run"
        )
        for folder, reason in finished.failures.items():
            print(f"  failed: {reason}; notebook, log and record: {folder}")
    if finished.halted is not None:
        print(f"nips26: the sweep stopped: {finished.halted}", file=sys.stderr)
    return FAILED if finished.failures or finished.halted else DONE


@contextmanager
def _display(description: str, quiet: bool) -> Iterator[OnChange | None]:
    """A live bar on a terminal; a line a finished run where stderr is a file; nothing where it is to be quiet."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        from tqdm import tqdm

        form = "{desc}: {n_fmt}/{total_fmt} |{bar}| {postfix}"
        with tqdm(desc=description, total=1, bar_format=form, file=sys.stderr, leave=False) as bar:

            def on_change(progress: Progress, record: RunRecord | None) -> None:
                bar.total, bar.n = progress.total, progress.done
                bar.set_postfix_str(_state(progress))

            yield on_change
    else:

        def on_line(progress: Progress, record: RunRecord | None) -> None:
            if record is not None:
                what = record.status if record.reason is None else f"{record.status}: {record.reason}"
                name = f"{record.chapter} {record.preset} seed {record.seed}"
                print(f"{name}: {what} ({progress.done}/{progress.total}, {_state(progress)})", file=sys.stderr)

        yield on_line


def _state(progress: Progress) -> str:
    left = progress.seconds_left
    parts = [f"{progress.running} running", f"{progress.failed} failed"]
    if progress.kept:
        parts.append(f"{progress.kept} whole before")
    if left is not None and progress.done < progress.total:
        parts.append(f"{_duration(left)} left")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
