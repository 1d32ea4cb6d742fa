"""Copies of the chapters that install the library first, for a branch to which the site's Colab buttons lead.

    python scripts/colab_notebooks.py https://github.com/OWNER/NAME OUT [--revision REVISION]

writes OUT/book/<part>/<slug>.ipynb. The publishing workflow commits OUT to the branch `colab`.
"""

from __future__ import annotations

import argparse
import copy
import re
import sys
from pathlib import Path
from typing import Any

import nbformat

from nips26lib.runs.catalogue import load_catalogue

ROOT = Path(__file__).resolve().parent.parent
_ADDRESS = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+?(\.git)?/?")


def install_cell(address: str, revision: str) -> str:
    """The first cell: installs the library from the repository; ValueError unless the address is one on GitHub."""
    if not _ADDRESS.fullmatch(address):
        raise ValueError(f"address was {address!r}; it must have the form https://github.com/OWNER/NAME")
    place = address.rstrip("/").removesuffix(".git")
    return (
        "# Installs the library that this chapter uses, about a minute. Then run the chapter from here.\n"
        f'%pip install --quiet "nips26lib[book] @ git+{place}@{revision}"'
    )


def with_install_cell(notebook: Any, address: str, revision: str) -> Any:
    """A copy of the notebook with that cell in front; cells and outputs stay as they are."""
    made = copy.deepcopy(notebook)
    cell = nbformat.v4.new_code_cell(install_cell(address, revision), id="install", metadata={"tags": ["install"]})
    made.cells.insert(0, cell)
    return made


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="https://github.com/OWNER/NAME")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--revision", default="main", help="branch, tag or commit to install (default: main)")
    options = parser.parse_args(arguments)
    try:
        install_cell(options.address, options.revision)
    except ValueError as error:
        parser.error(str(error))
    for record in load_catalogue(ROOT / "book").chapters:
        if record.notebook.is_file():
            target = options.out / record.notebook.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            notebook = nbformat.read(record.notebook, as_version=4)
            nbformat.write(with_install_cell(notebook, options.address, options.revision), target)
            print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
