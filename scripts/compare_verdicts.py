"""Hold the verdicts of runs against the stored ones: `python scripts/compare_verdicts.py runs`.

Exit status 0 if every claim of every run below the folder has the verdict that its stored chapter shows, 1 if one
differs or a run failed, 2 if there is nothing to compare.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nips26lib.chapter import read_claims
from nips26lib.runs import Refusal
from nips26lib.runs.catalogue import load_catalogue
from nips26lib.runs.record import RunRecord, find_records, read_record


def differences(record: RunRecord, stored: Mapping[str, Any] | None) -> list[str]:
    """One line for each way in which a run does not confirm the claims table stored in its chapter."""
    if record.status == "failed":
        return [f"the run failed: {record.reason}"]
    if stored is None or record.claims is None:
        return [f"the {'stored chapter' if stored is None else 'run'} has no claims table"]
    if stored["preset"] != record.preset:
        return [
            f"the run is at {record.preset}, the stored outputs at {stored['preset']}; only the same can be compared"
        ]
    before, now = ({claim["id"]: claim for claim in table["claims"]} for table in (stored, record.claims))
    lines = []
    for name in before | now:
        was, found = (table[name]["verdict"] if name in table else "absent" for table in (before, now))
        if was != found:
            lines.append(f"{name}: stored {was}{_measured(before.get(name))}, now {found}{_measured(now.get(name))}")
    return lines


def _measured(claim: Mapping[str, Any] | None) -> str:
    values = [
        f"{item['quantity']} = {item['value']:.4g}"
        for item in (claim or {}).get("measurements", [])
        if item["value"] is not None
    ]
    return f" ({'; '.join(values)})" if values else ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="a run's folder, or one with runs below it")
    folder = parser.parse_args(arguments).runs
    try:
        if not folder.is_dir():
            raise Refusal(f"{folder} is no folder")
        catalogue, records = load_catalogue(), [read_record(path) for path in find_records(folder)]
        if not records:
            raise Refusal(f"there is no run in {folder} or below it")
        notebooks = [catalogue.chapter(record.chapter).notebook for record in records]
    except Refusal as error:
        print(f"compare_verdicts: {error}", file=sys.stderr)
        return 2
    status = 0
    for record, notebook in zip(records, notebooks, strict=True):
        found = differences(record, read_claims(json.loads(notebook.read_text(encoding="utf-8"))))
        print(f"{record.chapter} at {record.preset}: {'as stored' if not found else 'DIFFERS'}")
        for line in found:
            print(f"  {line}")
        status = status or int(bool(found))
    return status


if __name__ == "__main__":
    sys.exit(main())
