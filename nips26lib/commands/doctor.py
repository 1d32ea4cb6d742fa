"""`nips26 doctor`: what this machine has of what the book needs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nips26lib.commands import DONE, FAILED
from nips26lib.commands.common import print_json
from nips26lib.runs import Refusal

if TYPE_CHECKING:
    from nips26lib.data.registry import DataFile

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def doctor(options: argparse.Namespace) -> int:
    """Device, versions, threads, the book, and the data: what is here, what is missing, and how to get it."""
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
    found["mirrors"] = mirrors
    absent = [entry for entry in mirrors if not Path(entry).is_dir()]
    problems += [f"data: NIPS26_DATA names {entry}, which is no folder" for entry in absent]

    files = _data()
    problems += [
        f"data: {file['name']} at {file['path']} is damaged; remove it" for file in files if file["where"] == "damaged"
    ]

    if options.json:
        print_json({**found, "data": files, "problems": problems})
    else:
        for name, value in found.items():
            text = ", ".join(value) if isinstance(value, list) else str(value)
            print(f"{name:<12}{'none' if value in (None, []) else text}")
        for line in _data_lines(files):
            print(line)
        for problem in problems:
            print(f"problem     {problem}")
    return FAILED if problems else DONE


def _data() -> list[dict[str, Any]]:
    from nips26lib.data.fetch import presence

    return [
        {
            "name": found.file.name,
            "where": found.where,
            "path": None if found.path is None else str(found.path),
            "bytes": found.file.bytes,
            "licence": found.file.licence,
            "get": _advice(found.file),
        }
        for found in presence()
    ]


def _advice(file: DataFile) -> str:
    """How a missing file comes here."""
    if file.by_hand is not None:
        return f"by hand, at FOLDER/{file.name} with NIPS26_DATA=FOLDER: {file.by_hand}"
    return f"downloaded when it is first asked for, from {file.url or file.originals[0].url}"


def _data_lines(files: list[dict[str, Any]]) -> list[str]:
    """A line a folder of the registry; under it, how to get what is missing."""
    lines = []
    for folder in dict.fromkeys(file["name"].partition("/")[0] for file in files):
        own = [file for file in files if file["name"].partition("/")[0] == folder]
        missing = [file for file in own if file["where"] == "missing"]
        here = sum(file["where"] in ("mirror", "cache") for file in own)
        size = sum(file["bytes"] for file in own) / 1e6
        lines.append(f"data        {folder}: {here} of {len(own)} files here ({size:.1f} MB in all)")
        ways = dict.fromkeys(file["get"].partition(", from ")[0].partition(", at ")[0] for file in missing)
        lines += [f"            {sum(file['get'].startswith(way) for file in missing)} missing: {way}" for way in ways]
    return lines
