"""Claims over runs as one page that needs nothing else: a picture a quantity, a dot a run."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence

from nips26lib.runs.summary import (
    HEADER,
    ClaimOverRuns,
    Group,
    Quantity,
    Summary,
    number,
    table_rows,
    value_text,
)

_WIDTH, _MARGIN, _TOP = 560, 20, 22  # of a picture; the threshold is written above
_TALLEST = 180  # of a stack of dots
# Text has 4.5:1 or more on its ground, and what is drawn 3:1, in both schemes. The dots are in the book's first colour.
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1d21; --ground: #ffffff; --soft: #59606b; --dot: #0068b9; --good: #078250;
  --bad: #c93a10; --line: #868d98; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --ground: #121212; --soft: #a9b0ba; --dot: #5aa9e6;
  --good: #4cc38a; --bad: #ff8a65; --line: #767d88; } }
body { margin: 0 auto; max-width: 48rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--ground); overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { font-size: 1rem; margin: 2rem 0 .25rem; } p { margin: .25rem 0; } .soft { color: var(--soft); }
.wide { overflow-x: auto; margin: .75rem 0; } table { border-collapse: collapse; font-size: .9rem; min-width: 38rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem 1rem .25rem 0; min-width: 4rem;
  overflow-wrap: break-word; }
th { border-bottom: 1px solid var(--line); }
figure { margin: .75rem 0; max-width: 38rem; } figcaption { font-size: .9rem; }
svg { width: 100%; height: auto; display: block; } svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
@media (max-width: 34rem) { svg text { font-size: 18px; } }
"""
_LEGEND = (
    "A dot is a run, at the value that it measured: filled where the run met the condition, hollow where it did not. "
    "The diamond is the mean over the runs, with its 95 % interval. The dashed line is what the value, or an end of "
    "the run's own interval, is held against; the shaded side is where the condition is met."
)


def html_report(summary: Summary, title: str) -> str:
    """The page. It holds no script and asks no other place for anything; what chapters say is escaped."""
    sections = "".join(map(_group, summary.groups)) or "<p>There are no runs.</p>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n"
        f'<body><main><h1>{_text(title)}</h1>\n<p class="soft">{_LEGEND}</p>\n{sections}</main></body></html>\n'
    )


def _text(text: str) -> str:
    return html.escape(text, quote=True)


def _group(group: Group) -> str:
    failed = [f"Seed {seed} failed: <code>{_text(reason)}</code>" for seed, reason in group.failures]
    listed = "".join(f"<li>{item}</li>" for item in [*failed, *(f"Note: {_text(note)}" for note in group.notes)])
    claims = "".join(map(_claim, group.claims.values())) or "<p>No claims.</p>"
    return (
        f"<section><h2>{_text(group.name)}</h2><p>{group.size}.</p>{f'<ul>{listed}</ul>' if listed else ''}"
        f"{_table(group)}{claims}</section>\n"
    )


def _table(group: Group) -> str:
    rows = [row for claim in group.claims.values() for row in table_rows(claim)]
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{name}</th>' for name in HEADER)
    body = "".join(f"<tr>{''.join(f'<td>{_text(entry)}</td>' for entry in row)}</tr>" for row in rows)
    # What scrolls is to be reached with the keyboard too.
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="Claims of {_text(group.name)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _claim(claim: ClaimOverRuns) -> str:
    pictures = "".join(map(_figure, claim.quantities.values()))
    reason = f'<p class="soft">{_text(claim.reason)}</p>' if claim.reason else ""
    return f"<h3>{_text(claim.id)}: {_text(claim.verdict())}</h3><p>{_text(claim.statement)}</p>{reason}{pictures}\n"


def _figure(quantity: Quantity) -> str:
    met = f"met in {quantity.met.replace('/', ' of ')}, taken together {'met' if quantity.holds() else 'not met'}"
    caption = f"{quantity.condition.quantity}: {value_text(quantity)}; condition {quantity.condition}: {met}."
    return f"<figure>{_picture(quantity, caption)}<figcaption>{_text(caption)}</figcaption></figure>"


def _picture(quantity: Quantity, caption: str) -> str:
    """The values on one axis, stacked where they would hide one another."""
    ends = quantity.interval() or ()
    shown = [*quantity.values, quantity.mean(), *ends, quantity.condition.threshold]
    x = _axis([float(value) for value in shown])
    radius = max(2.0, min(4.5, 40 / math.sqrt(len(quantity.runs))))
    rows = _stacked([x(value) for value in quantity.values], 2 * radius)
    # A stack that is too tall is pushed together: its dots then overlap, and each still has a place of its own.
    step = min(2 * radius, _TALLEST / (max(rows) + 1))
    base = _TOP + max(rows) * step + 2 * radius + 6
    parts = [
        _condition(quantity, x(quantity.condition.threshold), base),
        f'<line x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{base:.1f}" y2="{base:.1f}" stroke="var(--line)"/>',
    ]
    for run, row in zip(quantity.runs, rows, strict=True):
        fill = "var(--dot)" if run.met else "var(--ground)"
        parts.append(
            f'<circle cx="{x(run.value):.2f}" cy="{base - radius - 1 - row * step:.2f}" r="{radius - 0.6:.1f}" '
            f'fill="{fill}" stroke="var(--dot)" stroke-width="1.2"><title>seed {run.seed}: {number(run.value)}</title>'
            "</circle>"
        )
    parts.append(_mean(quantity, [x(value) for value in (quantity.mean(), *ends)], base + 13))
    least, most = min(shown), max(shown)
    for value, anchor in ((least, "start"), (most, "end")) if most > least else ((least, "middle"),):
        parts.append(_label(value, x(value), base + 40, anchor))
    label = _text(f"{caption} Each dot is one run.")
    return f'<svg viewBox="0 0 {_WIDTH} {base + 46:.0f}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _label(value: float | int, x: float, y: float, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(number(value)).replace("-", "−")}</text>'


def _axis(shown: Sequence[float]) -> Callable[[float | int], float]:
    """Where a value lies in the picture. All that is `shown` fits, with room for a dot on both sides."""
    # Halves, since the difference of two large numbers can be beyond floating point.
    least, most = min(shown) / 2, max(shown) / 2
    left, right = _MARGIN + 8, _WIDTH - _MARGIN - 8
    if most == least:
        return lambda _: (left + right) / 2
    return lambda value: left + (value / 2 - least) / (most - least) * (right - left)


def _stacked(places: Sequence[float], apart: float) -> list[int]:
    """For each dot, the lowest row in which it is `apart` from every other; from left to right."""
    last: list[float] = []  # the rightmost place of each row
    rows = [0] * len(places)
    for index in sorted(range(len(places)), key=lambda index: places[index]):
        row = next((row for row, place in enumerate(last) if places[index] - place >= apart), len(last))
        last[row : row + 1] = [places[index]]
        rows[index] = row
    return rows


def _condition(quantity: Quantity, edge: float, base: float) -> str:
    """The threshold, and the side of it where the condition is met."""
    sides = {">": (edge, _WIDTH - _MARGIN), "<": (_MARGIN, edge)}
    left, right = sides.get(quantity.condition.relation[0], (edge - 2, edge + 2))
    anchor = "start" if edge < _WIDTH / 3 else "end" if edge > _WIDTH * 2 / 3 else "middle"
    return (
        f'<rect x="{left:.1f}" y="{_TOP}" width="{right - left:.1f}" height="{base - _TOP:.1f}" fill="var(--good)" '
        f'opacity="0.15"/><line x1="{edge:.1f}" x2="{edge:.1f}" y1="{_TOP}" y2="{base:.1f}" stroke="currentColor" '
        f'stroke-dasharray="4 3"/>{_label(quantity.condition.threshold, edge, _TOP - 5.0, anchor)}'
    )


def _mean(quantity: Quantity, places: Iterable[float], y: float) -> str:
    """The diamond and its bar, at the mean and the ends of the interval."""
    middle, *ends = places
    colour = "var(--good)" if quantity.holds() else "var(--bad)"
    bar = ""
    if ends:
        place = f'x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y:.1f}" y2="{y:.1f}"'
        bar = f'<line {place} stroke="{colour}" stroke-width="3"/>'
    points = f"{middle:.1f},{y - 6:.1f} {middle + 6:.1f},{y:.1f} {middle:.1f},{y + 6:.1f} {middle - 6:.1f},{y:.1f}"
    return f'{bar}<polygon points="{points}" fill="{colour}"/>'
