"""What the book has measured: stored notebooks, this machine's runs, committed sweeps. Reads files, knows no Sphinx."""

from __future__ import annotations

import html
import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from nips26lib.chapter.claims import read_claims
from nips26lib.runs.catalogue import ChapterRecord

_FIGURE = re.compile(r"<figure\b[^>]*\bnips26-figure\b.*?</figure>", re.DOTALL)
_NAME = re.compile(r'<figure\b[^>]*\bdata-name="([^"]*)"')


@dataclass(frozen=True)
class Picture:
    """A stored figure: its media type, bytes and alternative text."""

    media: str
    content: bytes
    alt: str


@dataclass(frozen=True)
class Evidence:
    """The claims as one source measured them. `claims` as in the notebook's data, by claim id."""

    source: str
    claims: dict[str, dict[str, Any]]
    order: tuple[str, ...]

    def counts(self) -> Counter[str]:
        """How many claims have which verdict."""
        return Counter(claim["verdict"] for claim in self.claims.values())


class _Images(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.found.append({name: value or "" for name, value in attrs})


def picture_of(tag: str) -> Picture | None:
    """The picture that an <img> with a base64 data address holds; None for any other."""
    reader = _Images()
    reader.feed(tag)
    for image in reader.found:
        head, comma, data = image.get("src", "").partition(",")
        if comma and head.startswith("data:") and head.endswith(";base64"):
            return Picture(head[5:-7], b64decode(data), image.get("alt", ""))
    return None


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook as a dictionary."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def stored_picture(notebook: dict[str, Any], name: str) -> Picture | None:
    """The stored figure of that name."""
    for text in _html_outputs(notebook):
        for figure in _FIGURE.findall(text):
            named = _NAME.match(figure)
            if named is not None and html.unescape(named[1]) == name:
                return picture_of(figure)
    return None


def _html_outputs(notebook: dict[str, Any]) -> Iterator[str]:
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            text = output.get("data", {}).get("text/html")
            if text is not None:
                yield text if isinstance(text, str) else "".join(text)


def stored_evidence(notebook: dict[str, Any]) -> Evidence | None:
    """The claims in the stored outputs."""
    bundle = read_claims(notebook)
    return None if bundle is None else _evidence(bundle, _where(bundle))


def local_evidence(runs: Path, record: ChapterRecord) -> Evidence | None:
    """The claims of the latest run on this machine that has any; `runs` is the folder of all runs."""
    latest: dict[str, Any] | None = None
    for path in sorted((runs / record.slug).glob("*/run.json")):
        try:
            run = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # not a record of ours, or its folder is being removed
        if run.get("claims") and (latest is None or str(run["started"]) > str(latest["started"])):
            latest = run
    if latest is None:
        return None
    day = str(latest["started"])[:10]
    return _evidence(latest["claims"], f"{_where(latest)}, {latest['wall_seconds']:.0f} s, {day}")


def sweep_evidence(book: Path, record: ChapterRecord) -> Evidence | None:
    """The claims of the committed sweep, book/results/<slug>.json."""
    path = book / "results" / f"{record.slug}.json"
    if not path.is_file():
        return None
    sweep = json.loads(path.read_text(encoding="utf-8"))
    source = f"{sweep['runs']} runs on {sweep['hardware']}, {sweep['date']}"
    return _evidence(sweep["claims"], source)


def _where(run: dict[str, Any]) -> str:
    return f"preset {run['preset']}, seed {run['seed']}, {run['device']}"


def _evidence(bundle: dict[str, Any] | list[dict[str, Any]], source: str) -> Evidence:
    claims = bundle["claims"] if isinstance(bundle, dict) else bundle
    return Evidence(source, {claim["id"]: claim for claim in claims}, tuple(claim["id"] for claim in claims))
