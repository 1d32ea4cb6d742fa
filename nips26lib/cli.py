"""The command `nips26`: what it takes. What it does is in `nips26lib.commands`."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from nips26lib.commands import INTERRUPTED, USAGE
from nips26lib.runs import Refusal


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status: 0 done, 1 something failed, 2 refused, 130 interrupted."""
    options = _parser().parse_args(arguments)
    module, _, function = options.command.partition(":")
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        status: int = getattr(importlib.import_module(f"nips26lib.commands.{module}"), function)(options)
    except Refusal as error:
        print(f"nips26: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("nips26: interrupted; finished runs are whole, nothing else was kept", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    return status


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """What a batch system sends before it kills ends a run as Ctrl-C does."""
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="nips26", description="Execute the chapters of the book and read what they measured.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: str, description: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=description, description=description)
        added.set_defaults(command=command)
        return added

    _list(add("list", "listing:list_chapters", "List the chapters."))
    _run(add("run", "run:run", "Execute chapters, each into a directory of its own, with a record."))
    _sweep(add("sweep", "sweep:sweep", "Execute one chapter for every combination of parameters, on Dask; resumable."))
    _claims(add("claims", "claims:claims", "Show claims, measured values and verdicts."))
    _doctor(add("doctor", "doctor:doctor", "Say what this machine has of what the book needs."))
    _store(add("store", "store:store", "Execute chapters at seed 0 and store their outputs in the book."))
    return parser


def _list(parser: argparse.ArgumentParser) -> None:
    _json(parser)


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="see `nips26 list`")
    parser.add_argument("--all", action="store_true", help="every chapter of the book")
    _request(parser, "NAME=VALUE", "the value in YAML")
    parser.add_argument("--seed", type=int, help="default: the chapter's own")
    _limits(parser)
    _json(parser)


def _sweep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", metavar="CHAPTER", help="see `nips26 list`")
    _request(parser, "NAME=V1,V2,...", "values in YAML, or FIRST:LAST for whole numbers, both ends included")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, metavar="N", help="runs at once here (default: as cores allow)")
    where.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler that is there already, tcp://HOST:PORT")
    parser.add_argument(
        "--retries", type=int, default=1, metavar="K", help="tries after a dead kernel or worker (default: 1)"
    )
    _limits(parser)
    _json(parser)


def _claims(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="CHAPTER|DIR",
        help="chapters' stored outputs, or folders of runs, taken together (default: every chapter)",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="a row a measurement of a run")
    parser.add_argument("--html", type=Path, metavar="FILE", help="a report, one file, with a picture a claim")
    parser.add_argument("--results", type=Path, metavar="FILE", help="the evidence for book/results/")
    parser.add_argument("--hardware", metavar="TEXT", help="what the runs ran on, for --results")
    _json(parser)


def _doctor(parser: argparse.ArgumentParser) -> None:
    _json(parser)


def _store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapters", nargs="+", metavar="CHAPTER", help="see `nips26 list`")
    parser.add_argument("--preset", default="laptop", help="default: laptop, at which the book is stored")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _request(parser: argparse.ArgumentParser, form: str, meaning: str) -> None:
    parser.add_argument("--preset", help="smoke, laptop or gpu (default: NIPS26_PRESET, else smoke)")
    parser.add_argument(
        "-p",
        dest="parameters",
        action="append",
        default=[],
        metavar=form,
        help=f"a parameter of the notebook or a field of its preset; {meaning}; may be repeated",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="folder of all runs (default: runs)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress display")


def _limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--memory", metavar="SIZE", help="end a run that takes more, for example 4GB")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="end a run that takes longer")


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable output on stdout")


if __name__ == "__main__":
    sys.exit(main())
