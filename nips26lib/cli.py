"""The command `nips26`. Imports come with the commands that need them, so that help is instant."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from nips26lib.runs import Refusal

if TYPE_CHECKING:
    from nips26lib.runs.catalogue import Catalogue, ChapterRecord
    from nips26lib.runs.record import RunRecord

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

FAILED, USAGE, INTERRUPTED = 1, 2, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status: 0 done, 1 something failed, 2 refused, 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.command(options)
    except Refusal as error:
        print(f"nips26: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("nips26: interrupted; finished runs are whole, nothing else was kept", file=sys.stderr)
        return INTERRUPTED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="nips26", description="Execute the chapters of the book and read what they measured.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Callable[[argparse.Namespace], int], description: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=description, description=description)
        added.set_defaults(command=command)
        return added

    json_help = "machine-readable output on stdout"
    chapters = add("list", _list, "List the chapters.")
    chapters.add_argument("--json", action="store_true", help=json_help)

    run = add("run", _run, "Execute chapters, each into a directory of its own with a record, run.json, beside it.")
    run.add_argument("chapters", nargs="*", metavar="CHAPTER", help="see `nips26 list`")
    run.add_argument("--all", action="store_true", help="every chapter of the book")
    run.add_argument("--preset", help="smoke, laptop or gpu (default: NIPS26_PRESET, else smoke)")
    run.add_argument("--seed", type=int, help="default: the chapter's own")
    run.add_argument(
        "-p",
        dest="parameters",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the notebook or a field of its preset; the value in YAML; may be repeated",
    )
    run.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="folder of all runs (default: runs)")
    run.add_argument("--quiet", action="store_true", help="no progress bar")
    run.add_argument("--json", action="store_true", help=json_help)

    claims = add("claims", _claims, "Show claims, measured values and verdicts.")
    claims.add_argument(
        "sources",
        nargs="*",
        metavar="CHAPTER|DIR",
        help="a chapter's stored outputs, or the runs below a folder (default: every chapter)",
    )
    claims.add_argument("--json", action="store_true", help=json_help)

    doctor = add("doctor", _doctor, "Say what this machine has of what the book needs.")
    doctor.add_argument("--json", action="store_true", help=json_help)

    store = add("store", _store, "Execute chapters at seed 0 and store their outputs in the book.")
    store.add_argument("chapters", nargs="+", metavar="CHAPTER", help="see `nips26 list`")
    store.add_argument("--preset", default="laptop", help="default: laptop, at which the book is stored")
    store.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


def _list(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from nips26lib.runs.catalogue import load_catalogue
    from nips26lib.runs.tables import align

    catalogue = load_catalogue()
    if options.json:
        _print_json([asdict(record) for record in catalogue.chapters])
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


def _run(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from nips26lib.runs.catalogue import load_catalogue
    from nips26lib.runs.parameters import make_plan, parse_assignment

    if bool(options.chapters) == options.all:
        raise Refusal("give chapters or --all, not both" if options.all else "name one chapter or more, or give --all")
    catalogue = load_catalogue()
    assignments = [parse_assignment(text) for text in options.parameters]
    chapters = catalogue.chapters if options.all else _named(catalogue, options.chapters)
    # Every request is checked before the first kernel starts.
    plans = [make_plan(chapter, options.preset, options.seed, assignments) for chapter in chapters]

    from nips26lib.runs.execute import execute

    finished: list[tuple[Path, RunRecord]] = []
    for plan in plans:
        with _progress(plan.chapter.slug, options.quiet) as on_cell:
            record = execute(plan, options.out, on_cell)
        finished.append((options.out / plan.directory, record))
        if not options.json:
            _tell(*finished[-1])
    if options.json:
        _print_json([{"directory": str(folder), **asdict(record)} for folder, record in finished])
    elif any(record.claims for _, record in finished):
        from nips26lib.runs.tables import claims_table

        print("\n" + claims_table(_of_record(record) for _, record in finished))
    return FAILED if any(record.status == "failed" for _, record in finished) else 0


def _tell(folder: Path, record: RunRecord) -> None:
    took = f"{record.wall_seconds:.1f} s, {record.peak_memory_bytes / 1e9:.2f} GB, {record.device}"
    if record.status == "succeeded":
        print(f"{record.chapter}: succeeded ({took}): {folder}", flush=True)
    else:
        print(f"{record.chapter}: failed ({took}): {record.reason}; notebook, log and record: {folder}", flush=True)


def _claims(options: argparse.Namespace) -> int:
    from nips26lib.runs.tables import claims_table

    tables: list[dict[str, Any]] = []
    broken: list[Refusal] = []
    for source, read in _claim_sources(options.sources):
        try:
            tables.append({"source": str(source), **read(source)})
        except Refusal as error:
            broken.append(error)
    if options.json:
        _print_json(tables)
    elif tables:
        print(claims_table(tables))
    for refusal in broken:
        print(f"nips26: {refusal}", file=sys.stderr)
    return FAILED if broken else 0


def _claim_sources(names: Sequence[str]) -> Iterator[tuple[Path, Callable[[Path], dict[str, Any]]]]:
    from nips26lib.runs.catalogue import load_catalogue
    from nips26lib.runs.record import find_records, read_record

    if not names:
        yield from ((record.notebook, _stored_claims) for record in load_catalogue().chapters)
        return
    for name in names:
        folder = Path(name)
        try:
            notebook = load_catalogue().chapter(name).notebook
        except Refusal as error:
            if not folder.is_dir():
                raise Refusal(f"{name!r} is neither a folder of runs nor a chapter: {error}") from error
            found = list(find_records(folder))
            if not found:
                raise Refusal(f"there is no run in {folder} or below it") from None
            yield from ((path, lambda path: _of_record(read_record(path))) for path in found)
        else:
            yield notebook, _stored_claims


def _stored_claims(notebook: Path) -> dict[str, Any]:
    from nips26lib.chapter.claims import read_claims

    try:
        found = read_claims(json.loads(notebook.read_text(encoding="utf-8")))
    except OSError as error:
        raise Refusal(f"{notebook} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError) as error:
        raise Refusal(f"{notebook} is not a notebook: {error}") from error
    return dict(found) if found else {"chapter": notebook.stem, "note": "no stored claims", "claims": []}


def _of_record(record: RunRecord) -> dict[str, Any]:
    claims = (record.claims or {}).get("claims", [])
    note = f"failed: {record.reason}" if record.status == "failed" else "no claims"
    return {
        "chapter": record.chapter,
        "preset": record.preset,
        "seed": record.seed,
        "device": record.device,
        "note": note,
        "claims": claims,
    }


def _doctor(options: argparse.Namespace) -> int:
    import shutil

    from nips26lib.runs.catalogue import load_catalogue
    from nips26lib.runs.record import versions

    found: dict[str, Any] = {**versions(), "executable": sys.executable, "cpus": os.cpu_count()}
    problems: list[str] = []
    try:
        import torch

        from nips26lib.chapter.presets import Preset, choose_device

        found["threads"] = torch.get_num_threads()
        found["device"] = str(choose_device({}, "", Preset()))
        if found["device"].startswith("cuda"):
            found["gpu"] = torch.cuda.get_device_name()
    except (ImportError, ValueError) as error:
        problems.append(f"device: {error}")
    found["chromium"] = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    try:
        catalogue = load_catalogue()
        found["book"], found["chapters"] = str(catalogue.root), len(catalogue.chapters)
    except Refusal as error:
        problems.append(f"book: {error}")
    mirrors = [entry for entry in os.environ.get("NIPS26_DATA", "").split(os.pathsep) if entry]
    found["data"] = mirrors
    absent = [entry for entry in mirrors if not Path(entry).is_dir()]
    problems += [f"data: NIPS26_DATA names {entry}, which is no folder" for entry in absent]

    if options.json:
        _print_json({**found, "problems": problems})
    else:
        for name, value in found.items():
            text = ", ".join(value) if isinstance(value, list) else str(value)
            print(f"{name:<12}{'none' if value in (None, []) else text}")
        for problem in problems:
            print(f"problem     {problem}")
    return FAILED if problems else 0


def _store(options: argparse.Namespace) -> int:
    from nips26lib.runs.catalogue import load_catalogue

    chapters = _named(load_catalogue(), options.chapters)

    from nips26lib.runs.store import StoreFailed, store

    status = 0
    for chapter in chapters:
        try:
            with _progress(chapter.slug, options.quiet) as on_cell:
                size = store(chapter, options.preset, on_cell)
        except StoreFailed as error:
            print(f"{error.details}\nnips26: {chapter.slug} was not stored: {error}".lstrip(), file=sys.stderr)
            status = FAILED
        else:
            print(f"{chapter.slug}: stored ({size:,} bytes): {chapter.notebook}", flush=True)
    return status


def _named(catalogue: Catalogue, names: Sequence[str]) -> list[ChapterRecord]:
    return [catalogue.chapter(name) for name in dict.fromkeys(names)]


@contextmanager
def _progress(description: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
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


def _print_json(content: Any) -> None:
    print(json.dumps(content, indent=1, default=str))


if __name__ == "__main__":
    sys.exit(main())
