"""The static half of an explorable: precomputed frames packed into one self-contained piece of HTML."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from nips26lib.chapter.figures import INK

_LARGEST_PLAYER = 600_000  # bytes of HTML


def player_html(
    frames: Sequence[str], controls: Sequence[Mapping[str, Any]], *, title: str, alt: str, caption: str | None = None
) -> str:
    """The player as HTML that needs no other file, no network and no library.

    ``frames`` are SVG texts, one for each point of the grid, the last control running fastest. A control is a mapping
    with ``kind`` ("slider" or "choice"), ``label``, ``texts`` (what each value reads as) and ``start`` (the index of
    the default). Without scripts the default frame stands as a picture. Raises ValueError above 600 KB.
    """
    start = 0
    for control in controls:
        start = start * len(control["texts"]) + control["start"]
    payload = pack(frames, controls, alt)
    width = max(_size(frame)[0] for frame in frames)
    height = max(_size(frame)[1] for frame in frames)
    picture = base64.b64encode(frames[start].encode()).decode()
    below = f"<figcaption>{html.escape(caption, quote=False)}</figcaption>" if caption else ""
    document = (
        f'<div class="nips26-explorable" role="group" aria-label="{html.escape(title)}">'
        f"<style>{asset('player.css')}</style>"
        f'<p class="nips26-title"><strong>{html.escape(title, quote=False)}</strong></p>'
        f'<figure><div class="nips26-picture" style="max-width:{width}px;aspect-ratio:{width}/{height}">'
        f'<img alt="{html.escape(alt)}" width="{width}" height="{height}" style="background:#fff;max-width:100%" '
        f'src="data:image/svg+xml;base64,{picture}"/></div>{below}</figure>'
        f'<script type="application/gzip+base64" class="nips26-frames">{payload}</script>'
        f"<script>{asset('player.js')}</script></div>"
    )
    size = len(document.encode())
    if size > _LARGEST_PLAYER:
        raise ValueError(
            f"explorable {title!r} takes {size // 1000} KB of a page and must take {_LARGEST_PLAYER // 1000} at most: "
            f"give its controls fewer values than these {len(frames)} points, or draw fewer points in each figure"
        )
    return document


def pack(frames: Sequence[str], controls: Sequence[Mapping[str, Any]], alt: str) -> str:
    """The frames and controls as base64 of gzip of JSON, each distinct frame and each distinct piece of SVG once.

    Neighbouring frames differ little, but lie farther apart than gzip looks back; so tags are numbered over all
    frames, and a frame is the list of runs ``[first, count, ...]`` of those numbers.
    """
    numbers: dict[str, int] = {}
    distinct: dict[str, int] = {}
    runs: list[list[int]] = []
    for frame in frames:
        if frame in distinct:
            continue
        distinct[frame] = len(distinct)
        run: list[int] = []
        for piece in re.findall(r"[^>]*>|[^>]+$", frame):
            number = numbers.setdefault(piece, len(numbers))
            if run and run[-2] + run[-1] == number:
                run[-1] += 1
            else:
                run += [number, 1]
        runs.append(run)
    data = {
        "alt": alt,
        "ink": INK,
        "controls": [dict(control) for control in controls],
        "points": [distinct[frame] for frame in frames],
        "frames": runs,
        "pieces": list(numbers),
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def unpack(document: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The controls and the frames (one for each point of the grid) in a player's HTML.

    Raises ValueError when the HTML holds no player.

    >>> svg = '<svg width="72pt" height="36pt"></svg>'
    >>> slider = {"kind": "slider", "label": "Bits", "texts": ["4", "8"], "start": 0}
    >>> controls, frames = unpack(player_html([svg, svg], [slider], title="Dial", alt="An empty picture."))
    >>> controls == [slider], frames == [svg, svg]
    (True, True)
    """
    found = re.search(r'<script[^>]*class="nips26-frames"[^>]*>([^<]*)<', document)
    if found is None:
        raise ValueError("document holds no explorable; it must be HTML with a script of class 'nips26-frames'")
    data = json.loads(gzip.decompress(base64.b64decode(found[1])))
    pieces = data["pieces"]
    distinct = [
        "".join(
            piece for first, count in zip(run[::2], run[1::2], strict=True) for piece in pieces[first : first + count]
        )
        for run in data["frames"]
    ]
    return data["controls"], [distinct[point] for point in data["points"]]


def inline_picture(svg: str, prefix: str, label: str) -> str:
    """The SVG as part of a page: its ids behind ``prefix``, its ink in the colour of the page's text."""
    width, _ = _size(svg)
    svg = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{prefix}", svg).replace(INK, "currentColor")
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1)
    return f'<div class="nips26-picture" style="max-width:{width}px">{svg}</div>'


@cache
def asset(name: str) -> str:
    """The text of a file that lies beside this module."""
    return files("nips26lib.chapter").joinpath(name).read_text(encoding="utf-8").strip()


def _size(svg: str) -> tuple[int, int]:
    """Width and height of an SVG in CSS pixels (matplotlib writes points)."""
    width, height = (re.search(rf'<svg[^>]*\s{side}="([\d.]+)pt"', svg) for side in ("width", "height"))
    if width is None or height is None:
        raise ValueError(f"frames held {svg[:60]!r}; each must be an SVG with width and height in points")
    return round(float(width[1]) * 96 / 72), round(float(height[1]) * 96 / 72)
