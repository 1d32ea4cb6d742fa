"""Claims over runs as one page that needs nothing else: a picture a quantity, a dot a run."""

from __future__ import annotations

import html
import math
from collections.abc import Callable

from nips26lib.runs.summary import ClaimOverRuns, Group, Quantity, Summary, condition_text, value_text

_WIDTH, _LINE, _DOT = 640, 40, 4.5
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1d21; --ground: #ffffff; --soft: #59606b; --dot: #0068b9; --good: #09a166;
  --bad: #c93a10; --line: #d5d9df; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --ground: #121212; --soft: #a9b0ba; --dot: #5aa9e6;
  --good: #4cc38a; --bad: #ff8a65; --line: #3a3f46; } }
body { margin: 0 auto; max-width: 46rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--ground); }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; } p { margin: .25rem 0; } .soft { color: var(--soft); }
figure { margin: .75rem 0; } figcaption { font-size: .9rem; } svg { width: 100%; height: auto; display: block; }
svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
@media (max-width: 30rem) { svg text { font-size: 21px; } }
code { overflow-wrap: anywhere; }
"""


def html_report(summary: Summary, title: str) -> str:
    """The page. It holds no script and asks no other place for anything; what chapters say is escaped."""
    sections = "".join(map(_group, summary.groups)) or "<p>There are no runs.</p>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n"
        f'<body><h1>{html.escape(title)}</h1>\n<p class="soft">'
        "A dot is a run, at the value that it measured. The diamond "
        "is the mean over the runs, with its 95 % interval. The dashed line is what the value is held against, and the "
        f"shaded side is where the condition is met.</p>\n{sections}</body></html>\n"
    )


def _group(group: Group) -> str:
    runs = f"{group.runs} run{'s' * (group.runs != 1)}"
    failed = "".join(
        f"<li>Seed {seed} failed: <code>{html.escape(reason)}</code></li>" for seed, reason in group.failures
    )
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in group.notes)
    listed = f"<ul>{failed}{notes}</ul>" if failed or notes else ""
    claims = "".join(map(_claim, group.claims.values())) or "<p>No claims.</p>"
    return f"<section><h2>{html.escape(group.name)}</h2><p>{runs}.</p>{listed}{claims}</section>\n"


def _claim(claim: ClaimOverRuns) -> str:
    pictures = "".join(map(_figure, claim.quantities.values()))
    return (
        f"<h3>{html.escape(claim.id)}: {html.escape(claim.verdict())}</h3>"
        f"<p>{html.escape(claim.statement)}</p>{pictures}\n"
    )


def _figure(quantity: Quantity) -> str:
    met = f"met in {quantity.met} of {len(quantity.values)}"
    caption = f"{quantity.name}: {value_text(quantity)}; condition {condition_text(quantity)}, {met}."
    return f"<figure>{_picture(quantity, caption)}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _picture(quantity: Quantity, caption: str) -> str:
    """The values on one axis, stacked where they would hide one another."""
    low, high = _range(quantity)

    def x(value: float) -> float:
        return 20 + (value - low) / (high - low) * (_WIDTH - 40)

    heights = _stacked([x(value) for value in quantity.values])
    base = max(heights, default=0) * 2 * _DOT + 16
    parts = [_condition(quantity, x, base)]
    parts.append(f'<line x1="20" x2="{_WIDTH - 20}" y1="{base:.1f}" y2="{base:.1f}" stroke="var(--line)"/>')
    for seed, value, height in zip(quantity.seeds, quantity.values, heights, strict=True):
        y = base - _DOT - height * 2 * _DOT
        parts.append(f'<circle cx="{x(value):.1f}" cy="{y:.1f}" r="{_DOT}" fill="var(--dot)">'
                     f"<title>seed {seed}: {value:.6g}</title></circle>")  # fmt: skip
    parts.append(_mean(quantity, x, base + 12))
    for value in (low, high):
        anchor = "start" if value == low else "end"
        parts.append(f'<text x="{x(value):.1f}" y="{base + _LINE - 6:.1f}" text-anchor="{anchor}">{value:.4g}</text>')
    label = html.escape(f"{caption} Each dot is one run.", quote=True)
    return f'<svg viewBox="0 0 {_WIDTH} {base + _LINE:.0f}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _range(quantity: Quantity) -> tuple[float, float]:
    """What the axis shows: every value, the interval and the threshold, with a little room on both sides."""
    ends = quantity.interval() or ()
    shown = [*quantity.values, *ends, float(quantity.threshold)]
    low, high = min(shown), max(shown)
    room = (high - low) * 0.05 or max(abs(high) * 0.05, 1e-12)
    return low - room, high + room


def _stacked(places: list[float]) -> list[int]:
    """For each dot, how many lie below it: the lowest row in which it touches no other."""
    rows: list[list[float]] = []
    found = []
    for place in places:
        row = next((n for n, row in enumerate(rows) if all(abs(place - other) >= 2 * _DOT for other in row)), len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append(place)
        found.append(row)
    return found


def _condition(quantity: Quantity, x: Callable[[float], float], base: float) -> str:
    """The threshold, and the side of it where the condition is met."""
    edge = x(float(quantity.threshold))
    left, right = {">": (edge, _WIDTH - 20), "<": (20, edge)}.get(quantity.relation[0], (edge - 1, edge + 1))
    place = f'x="{left:.1f}" y="4" width="{max(right - left, 0):.1f}" height="{base - 4:.1f}"'
    shade = f'<rect {place} fill="var(--good)" opacity="0.15"/>'
    line = (
        f'<line x1="{edge:.1f}" x2="{edge:.1f}" y1="4" y2="{base:.1f}" stroke="currentColor" stroke-dasharray="4 3"/>'
    )
    return shade + line


def _mean(quantity: Quantity, x: Callable[[float], float], y: float) -> str:
    middle, ends = x(quantity.mean()), quantity.interval()
    colour = "var(--good)" if quantity.holds() else "var(--bad)"
    bar = ""
    if ends is not None and math.isfinite(ends[0]):
        bar = (
            f'<line x1="{x(ends[0]):.1f}" x2="{x(ends[1]):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>'
        )
    points = f"{middle:.1f},{y - 6} {middle + 6:.1f},{y} {middle:.1f},{y + 6} {middle - 6:.1f},{y}"
    return f'{bar}<polygon points="{points}" fill="{colour}"/>'
