"""Building sites for the tests, and serving them on this machine alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tests.site.fixture.make_chapter import write_chapter

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = Path(__file__).parent / "fixture"
PAGES_OF_THE_BOOK = ("index.md", "reading-guide.md", "reproducibility.md", "bibliography.md", "references.bib")


def build(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the book at `folder` as `make html` does; the site is at folder/_build/html."""
    command = [str(Path(sys.executable).parent / "jupyter-book"), "build", ".", "-W", "-n", "--keep-going", "-q"]
    surroundings = {key: value for key, value in os.environ.items() if not key.startswith("NIPS26_")}
    return subprocess.run(
        [*command, *options], cwd=folder, env=surroundings | environment, text=True, capture_output=True, timeout=600
    )


def make_fixture_book(folder: Path) -> None:
    """A small book: the real one's configuration, pages and library, with a chapter that holds every kind of output."""
    shutil.copytree(FIXTURE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copyfile(ROOT / "_config.yml", folder / "_config.yml")
    without_caches = shutil.ignore_patterns("__pycache__")
    for name in ("_ext", "_static", "_templates"):
        shutil.copytree(ROOT / "book" / name, folder / "book" / name, ignore=without_caches)
    for name in PAGES_OF_THE_BOOK:
        shutil.copyfile(ROOT / "book" / name, folder / "book" / name)
    shutil.copytree(ROOT / "nips26lib" / "chapter", folder / "nips26lib" / "chapter", ignore=without_caches)
    chapter = folder / "book" / "guarantees" / "tiny.ipynb"
    chapter.parent.mkdir()
    write_chapter(chapter)
    execute(chapter)


def execute(chapter: Path) -> None:
    """Execute the notebook where it lies, as a stored chapter is."""
    notebook = nbformat.read(chapter, as_version=4)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(chapter.parent)}})
    client.execute(env=os.environ | {"NIPS26_STATIC": "1"})
    notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, chapter)


def sources_of_the_site() -> Iterator[Path]:
    """All files of this repository that the real site is made of."""
    yield from (ROOT / "_config.yml", ROOT / "_toc.yml")
    for folder in (ROOT / "book", ROOT / "nips26lib"):
        for path in folder.rglob("*"):
            if path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts):
                yield path


def is_stale(site: Path) -> bool:
    """Whether the site is missing or older than something that it is made of."""
    built = site / "searchindex.js"
    return not built.is_file() or any(path.stat().st_mtime > built.stat().st_mtime for path in sources_of_the_site())


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the folder on a free port of the loopback; gives the origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def pages(site: Path) -> list[str]:
    """The pages of a site by address, without the theme's fragments and the redirection at the top."""
    found = (path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return sorted(page for page in found if not page.startswith("_static/") and page != "index.html")
