"""What no file of the project says, and what an import does not bring along."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nips26lib import papers

ROOT = Path(__file__).parents[1]
PAPERS = [module.name for module in pkgutil.iter_modules(papers.__path__)]
OPTIONAL = ("IPython", "ipywidgets", "matplotlib", "mlxtend", "nbformat", "papermill", "pandas", "sklearn", "yaml")

# Of the workplace and not of the project. In halves, so that this file does not name them.
FORBIDDEN = re.compile(
    "|".join(
        re.escape(start) + end
        for start, end in [
            ("/wo", r"rk/"),
            ("/tm", r"p/plan"),
            ("/opt/py", r"pi"),
            ("files.python", r"hosted"),
            ("py", r"pi\.org"),
            ("download.py", r"torch\.org"),
            ("shared/sp", r"ecs"),
            ("DESI", r"GN\.md"),
            ("PLA", r"N\.md"),
            ("Cla", r"ude\b"),
            ("Anth", r"ropic"),
            ("language mo", r"del assistant"),
            ("help", r"er session"),
        ]
    )
)


def files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git repository, so there is no list of the project's files")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_speaks_of_the_workplace() -> None:
    said = []
    for path in files():
        text = path.read_bytes().decode("utf-8", errors="ignore")
        said += [f"{path.relative_to(ROOT)}: {found[0]!r}" for found in FORBIDDEN.finditer(text)]
    assert not said, "\n".join(["", *said])


def test_no_data_and_nothing_huge_is_committed() -> None:
    large = {str(path.relative_to(ROOT)): path.stat().st_size for path in files() if path.stat().st_size > 3_000_000}
    assert not large


def loaded(statement: str) -> set[str]:
    """The modules that a fresh interpreter holds after the statement."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("package", ["nips26lib", "nips26lib.cli", "nips26lib.chapter"])
def test_the_package_and_the_command_load_nothing_heavy(package: str) -> None:
    assert not loaded(f"import {package}") & {"torch", "scipy", "matplotlib", "IPython", "ipywidgets", "papermill"}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_loads_no_other_and_no_optional_package(paper: str) -> None:
    modules = loaded(f"import nips26lib.papers.{paper}")
    others = {f"nips26lib.papers.{name}" for name in PAPERS if name != paper}
    assert f"nips26lib.papers.{paper}" in modules
    assert not modules & (others | set(OPTIONAL))
