"""`nips26 doctor`: what this machine has of what the book needs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from nips26lib.commands import DONE, FAILED
from nips26lib.commands.common import print_json
from nips26lib.runs import Refusal

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def doctor(options: argparse.Namespace) -> int:
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
        print_json({**found, "problems": problems})
    else:
        for name, value in found.items():
            text = ", ".join(value) if isinstance(value, list) else str(value)
            print(f"{name:<12}{'none' if value in (None, []) else text}")
        for problem in problems:
            print(f"problem     {problem}")
    return FAILED if problems else DONE
