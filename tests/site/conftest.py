"""The two sites that the tests look at: one of a small book with every kind of output, and the real one."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from tests.site.building import ROOT, build, is_stale, make_fixture_book

# Where Jupyter Book finds the extension too.
sys.path.append(str(ROOT / "book" / "_ext"))


@pytest.fixture(scope="session")
def fixture_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small book, built."""
    folder = tmp_path_factory.mktemp("book")
    make_fixture_book(folder)
    result = build(folder)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="session")
def real_site() -> Path:
    """The real site, built anew if it is missing or older than its sources."""
    site = ROOT / "_build" / "html"
    (ROOT / "_build").mkdir(exist_ok=True)
    with FileLock(ROOT / "_build" / ".tests.lock"):
        if is_stale(site):
            shutil.rmtree(site, ignore_errors=True)
            result = build(ROOT, "--all")
            assert result.returncode == 0, result.stdout + result.stderr
    return site


@pytest.fixture(scope="session", params=["fixture", "real"])
def site(request: pytest.FixtureRequest) -> Path:
    """The folder of one of the two sites."""
    if request.param == "real":
        found: Path = request.getfixturevalue("real_site")
        return found
    book: Path = request.getfixturevalue("fixture_book")
    return book / "_build" / "html"
