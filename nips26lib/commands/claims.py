"""`nips26 claims`: what the stored chapters, or the runs below a folder, say of the papers' claims."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nips26lib.commands import DONE, FAILED
from nips26lib.commands.common import print_json
from nips26lib.runs import Refusal

if TYPE_CHECKING:
    from nips26lib.runs.record import RunRecord


def claims(options: argparse.Namespace) -> int:
    """Chapters give their stored tables; folders give what their runs say together, in the form that is asked for."""
    folders = [Path(name) for name in options.sources if _is_folder_of_runs(name)]
    if folders and len(folders) < len(options.sources):
        raise Refusal("some of these are chapters and some are folders of runs; give the one or the other")
    files = {"--csv": options.csv, "--html": options.html, "--results": options.results}
    if not folders:
        for flag, wanted in files.items():
            if wanted is not None:
                raise Refusal(f"{flag} tells of runs; name the folder that they are in")
        return _stored(options)
    if options.results is not None and not options.hardware:
        raise Refusal("--results says where its numbers come from; give --hardware TEXT too")
    return _pooled(folders, options)


def _is_folder_of_runs(name: str) -> bool:
    from nips26lib.runs.catalogue import load_catalogue

    try:
        load_catalogue().chapter(name)
    except Refusal as error:
        if not Path(name).is_dir():
            raise Refusal(f"{name!r} is neither a folder of runs nor a chapter: {error}") from error
        return True
    return False


def _stored(options: argparse.Namespace) -> int:
    from nips26lib.runs.catalogue import load_catalogue
    from nips26lib.runs.tables import claims_table

    catalogue = load_catalogue()
    chapters = [catalogue.chapter(name) for name in options.sources] or catalogue.chapters
    tables: list[dict[str, Any]] = []
    broken: list[Refusal] = []
    for chapter in chapters:
        try:
            tables.append({"source": str(chapter.notebook), **_stored_claims(chapter.notebook)})
        except Refusal as error:
            broken.append(error)
    if options.json:
        print_json(tables)
    elif tables:
        print(claims_table(tables))
    return _status(broken)


def _stored_claims(notebook: Path) -> dict[str, Any]:
    from nips26lib.chapter.claims import read_claims

    try:
        found = read_claims(json.loads(notebook.read_text(encoding="utf-8")))
    except OSError as error:
        raise Refusal(f"{notebook} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError) as error:
        raise Refusal(f"{notebook} is not a notebook: {error}") from error
    return dict(found) if found else {"chapter": notebook.stem, "note": "no stored claims", "claims": []}


def _pooled(folders: Sequence[Path], options: argparse.Namespace) -> int:
    from nips26lib.runs.atomic import write_file
    from nips26lib.runs.summary import summarize, to_csv, to_json, to_results, to_text

    broken: list[Refusal] = []
    summary = summarize(_records(folders, broken))
    contents = {}
    if options.csv is not None:
        contents[options.csv] = to_csv(summary)
    if options.html is not None:
        from nips26lib.runs.report import html_report

        contents[options.html] = html_report(summary, "Claims over runs")
    if options.results is not None:
        results = to_results(summary, options.hardware, datetime.now(UTC).date().isoformat())
        contents[options.results] = json.dumps(results, indent=1, sort_keys=True, allow_nan=False) + "\n"
    for path, content in contents.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content.encode("utf-8"))
        except OSError as error:
            raise Refusal(f"{path} cannot be written: {error.strerror or error}") from error
    print(to_json(summary) if options.json else to_text(summary))
    return _status(broken)


def _records(folders: Sequence[Path], broken: list[Refusal]) -> Iterator[RunRecord]:
    """The records below the folders, one at a time; those that are not whole go to `broken`."""
    from nips26lib.runs.record import find_records, read_record

    for folder in folders:
        found = False
        for path in find_records(folder):
            found = True
            try:
                yield read_record(path)
            except Refusal as error:
                broken.append(error)
        if not found:
            raise Refusal(f"there is no run in {folder} or below it")


def _status(broken: Sequence[Refusal]) -> int:
    for refusal in broken:
        print(f"nips26: {refusal}", file=sys.stderr)
    return FAILED if broken else DONE
