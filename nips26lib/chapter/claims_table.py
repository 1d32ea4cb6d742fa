"""How claims look: an HTML table that follows the reader's theme and folds on a phone, and text for a terminal."""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nips26lib.chapter.evidence import size_of

SYMBOLS = {
    "reproduced": "✓",
    "not reproduced": "✗",
    "not testable at this preset": "○",
    "not testable here": "○",
}
_RELATIONS = {">=": "≥", "<=": "≤", ">": ">", "<": "<", "==": "="}
_WIDTH = 100

# No colour of text or ground is fixed, so that the table is as legible as the page around it. The front ends' own rules
# for tables (stripes, alignment) are outdone by !important. Front ends that drop style sheets still show a table.
_STYLE = """<style>
.nips26-claims { container-type: inline-size; overflow-x: auto; margin: 1em 0; }
.nips26-claims table { width: 100%; border-collapse: collapse; border: 0; margin: 0; font-size: .95em;
  border-bottom: 1px solid rgba(128, 128, 128, .6); table-layout: auto; }
.nips26-claims caption { caption-side: top; text-align: left; padding: 0 0 .5em; color: inherit; }
.nips26-claims tr { background: transparent !important; border: 0; }
.nips26-claims th, .nips26-claims td { text-align: left !important; vertical-align: top; padding: .3em .75em;
  border: 0; color: inherit; white-space: normal; overflow-wrap: break-word; max-width: none; }
.nips26-claims thead th { font-weight: 600; border-bottom: 1px solid rgba(128, 128, 128, .6); }
.nips26-claims .nips26-claim > * { border-top: 1px solid rgba(128, 128, 128, .6); padding-top: .7em; font-weight: 600; }
.nips26-claims .nips26-reason > td { font-style: italic; }
.nips26-claims .nips26-value { font-variant-numeric: tabular-nums; }
.nips26-claims .nips26-keep { white-space: nowrap; }
@container (max-width: 34em) {
  .nips26-claims table, .nips26-claims tbody, .nips26-claims tr, .nips26-claims th, .nips26-claims td,
  .nips26-claims caption { display: block; }
  .nips26-claims thead, .nips26-claims td:empty { display: none; }
  .nips26-claims th, .nips26-claims td { padding: .15em 0; }
  .nips26-claims tr { padding: .15em 0 .35em; }
  .nips26-claims tr:not(.nips26-claim) { padding-left: 1em; }
  .nips26-claims .nips26-claim { border-top: 1px solid rgba(128, 128, 128, .6); }
  .nips26-claims .nips26-claim > * { border-top: 0; padding-top: .3em; }
  .nips26-claims td[data-label]::before { content: attr(data-label) ": "; }
  .nips26-claims .nips26-keep { white-space: normal; }
}
</style>"""


def number(value: float | int) -> str:
    """A number to three significant digits; whole numbers whole.

    >>> number(0.12345), number(1234.5), number(7.0), number(0.0000123)
    ('0.123', '1234', '7', '1.23e-05')
    """
    if value == 0 or (value == round(value) and abs(value) < 1e7):
        return str(round(value))
    decimals = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)  # 0.9999 is 1.00, not 1.000
    decimals = 2 - math.floor(math.log10(abs(rounded)))
    return f"{value:.{max(decimals, 0)}f}" if 1e-3 <= abs(value) < 1e7 else f"{value:.3g}"


def requirement(condition: Mapping[str, Any]) -> str:
    """What a condition asks for.

    >>> requirement({"relation": ">=", "threshold": -1.5, "judged_on": "low", "unit": "points"})
    'low end ≥ -1.5 points'
    """
    unit = f" {condition['unit']}" if condition["unit"] else ""
    end = "" if condition["judged_on"] == "value" else f"{condition['judged_on']} end "
    return f"{end}{_RELATIONS[condition['relation']]} {condition['threshold']:g}{unit}"


def measured(measurement: Mapping[str, Any]) -> str:
    """A measured value with all that is known of it.

    >>> measured({"value": 0.5, "low": 0.25, "high": 0.75, "unit": "points", "n": 3})
    '0.500 points [0.250, 0.750], n = 3'
    """
    text = number(measurement["value"]) + (f" {measurement['unit']}" if measurement["unit"] else "")
    if measurement["low"] is not None:
        text += f" [{number(measurement['low'])}, {number(measurement['high'])}]"
    return text + (f", n = {measurement['n']}" if measurement["n"] is not None else "")


def verdicts_html(table: Mapping[str, Any], evidence: Mapping[str, Any] | None = None) -> str:
    """The claims of a run, one group of rows a claim; in a column of its own, what the runs of a sweep say."""
    groups = []
    for claim in table["claims"]:
        swept = _swept(claim, evidence)
        rows = [_claim_row(claim, _verdict(claim), *([] if evidence is None else [_verdict(swept) if swept else ""]))]
        for measurement in claim["measurements"]:
            beside = [] if evidence is None else [(_over(evidence), _measured_there(measurement, swept))]
            rows.append(
                _row(
                    ("", measurement["quantity"]),
                    ("Value", measured(measurement)),
                    *beside,
                    ("Must be", requirement(measurement)),
                    ("", "✓ met" if measurement["met"] else "✗ not met"),
                )
            )
        if claim["reason"]:
            span = 4 if evidence is None else 5
            rows.append(f'<tr class="nips26-reason"><td colspan="{span}">{_text(claim["reason"])}</td></tr>')
        groups.append(rows)
    columns = ["Claim, and what was measured", "Value", "Must be", "Verdict"]
    if evidence is not None:
        columns.insert(2, _over(evidence))
    return _table(_where(table, evidence), columns, groups)


def conditions_html(claims: Sequence[Mapping[str, Any]]) -> str:
    """The claims before the run."""
    groups = []
    for claim in claims:
        rows = [_tested_row(claim)]
        rows += [
            _row(("", condition["quantity"]), ("Must be", requirement(condition)), ("", ""))
            for condition in claim["conditions"]
        ]
        if claim["untestable"]:
            rows.append(f'<tr class="nips26-reason"><td colspan="3">{_text(claim["untestable"])}</td></tr>')
        groups.append(rows)
    caption = "What will be measured, and how it will be judged; a claim holds when all its conditions are met"
    return _table(caption, ("Claim, and what will be measured", "Must be", "Tested at preset"), groups)


def verdicts_text(table: Mapping[str, Any]) -> str:
    """The claims of a run, for a terminal."""
    blocks = []
    for claim in table["claims"]:
        rows = [
            (
                "✓" if measurement["met"] else "✗",
                measurement["quantity"],
                measured(measurement),
                requirement(measurement),
            )
            for measurement in claim["measurements"]
        ]
        head = f"{_verdict(claim)}: {claim['statement']} ({claim['id']})"
        blocks.append(_block(head, rows, claim["reason"]))
    return "\n\n".join([_where(table), *blocks])


def conditions_text(claims: Sequence[Mapping[str, Any]]) -> str:
    """The claims before the run, for a terminal."""
    blocks = []
    for claim in claims:
        rows = [(condition["quantity"], requirement(condition)) for condition in claim["conditions"]]
        blocks.append(
            _block(f"{claim['statement']} ({claim['id']}; tested at: {_tested(claim)})", rows, claim["untestable"])
        )
    return "\n\n".join(blocks)


def _where(table: Mapping[str, Any], evidence: Mapping[str, Any] | None = None) -> str:
    here = f"Measured by {table['chapter']} at preset {table['preset']}, seed {table['seed']}, on {table['device']}"
    return here if evidence is None else f"{here}; beside it the means over {size_of(evidence)}"


def _verdict(claim: Mapping[str, Any]) -> str:
    return f"{SYMBOLS[claim['verdict']]} {claim['verdict']}"


def _over(evidence: Mapping[str, Any]) -> str:
    return f"Over {evidence['runs']} runs"


def _swept(claim: Mapping[str, Any], evidence: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The same claim in the evidence."""
    found = (evidence or {}).get("claims", ())
    return next((other for other in found if other["id"] == claim["id"]), None)


def _measured_there(measurement: Mapping[str, Any], swept: Mapping[str, Any] | None) -> str:
    """The same quantity in the evidence; nothing where it was held to something else."""
    for other in (swept or {}).get("measurements", ()):
        if all(other[key] == measurement[key] for key in ("quantity", "relation", "threshold", "judged_on")):
            return measured({**other, "n": None})
    return ""


def _tested(claim: Mapping[str, Any]) -> str:
    return "no preset" if claim["untestable"] else ", ".join(claim["tested_at"])


def _text(text: str) -> str:
    return html.escape(text, quote=False)


def _row(*cells: tuple[str, str]) -> str:
    """A row of (label where the table is folded, text)."""
    written = []
    for label, text in cells:
        name = f' data-label="{label}"' if label else ""
        kind = ' class="nips26-value"' if label == "Value" or label.startswith("Over") else ""
        if label:  # numbers: a true minus sign; a condition, an interval and "n = 3" each stay on one line
            text = re.sub(r"(?<![\w.)])-(?=[\d.])", "−", text)
            text = re.sub(r" = |\[.*?\]", lambda found: found[0].replace(" ", "\u00a0"), text)
        text = f'<span class="nips26-keep">{_text(text)}</span>' if label == "Must be" else _text(text)
        written.append(f"<td{kind}{name}>{text}</td>")
    return f"<tr>{''.join(written)}</tr>"


def _claim_row(claim: Mapping[str, Any], verdict: str, *swept: str) -> str:
    """The claim and its verdict, and in the column of the sweep, where there is one, the verdict there."""
    beside = "".join(f'<td data-label="Over more runs">{_text(text)}</td><td></td>' for text in swept)
    span = 2 if swept else 3
    return (
        f'<tr class="nips26-claim"><th scope="rowgroup" colspan="{span}">{_text(claim["statement"])}</th>'
        f"{beside}<td>{_text(verdict)}</td></tr>"
    )


def _tested_row(claim: Mapping[str, Any]) -> str:
    return (
        f'<tr class="nips26-claim"><th scope="rowgroup" colspan="2">{_text(claim["statement"])}</th>'
        f'<td data-label="Tested at preset">{_text(_tested(claim))}</td></tr>'
    )


def _table(caption: str, columns: Sequence[str], groups: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = "\n".join(f"<tbody>\n{chr(10).join(rows)}\n</tbody>" for rows in groups)
    return (
        f'{_STYLE}\n<div class="nips26-claims" style="overflow-x:auto">\n<table>\n<caption>{_text(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n{body}\n</table>\n</div>"
    )


def _block(head: str, rows: Sequence[Sequence[str]], reason: str | None) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    lines = textwrap.wrap(head, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    lines += ["    " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    if reason:
        lines += textwrap.wrap(reason, _WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)
