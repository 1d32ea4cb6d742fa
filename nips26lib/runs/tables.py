"""Text tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

CLAIMS_HEADER = ("chapter", "preset", "seed", "claim", "verdict", "measured", "value", "condition")


def align(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The rows under the header, each column as wide as its longest entry.

    >>> print(align(("a", "b"), [("long", "x"), ("y", "")]))
    a     b
    ----  -
    long  x
    y
    """
    body = [list(header), [], *([*row] for row in rows)]
    widths = [max(len(row[column]) for row in body if row) for column in range(len(header))]
    body[1] = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(entry.ljust(width) for entry, width in zip(row, widths, strict=True)).rstrip() for row in body
    )


def claims_table(tables: Iterable[Mapping[str, Any]]) -> str:
    """Claims tables, as chapters and run records hold them, as one text; a line a measurement."""
    return align(CLAIMS_HEADER, (row for table in tables for row in _rows(table)))


def _rows(table: Mapping[str, Any]) -> Iterable[Sequence[str]]:
    where = (str(table["chapter"]), str(table.get("preset") or ""), _number(table.get("seed")))
    blank = ("", "", "")
    if not table.get("claims"):
        yield (*where, "", str(table.get("note") or "no claims"), "", "", "")
        return
    for claim in table["claims"]:
        head = (*where, str(claim["id"]), str(claim["verdict"]))
        where = blank
        for measurement in claim["measurements"] or [None]:
            yield (*head, *(_measured(measurement) if measurement else blank))
            head = (*blank, "", "")


def _measured(measurement: Mapping[str, Any]) -> tuple[str, str, str]:
    unit = f" {measurement['unit']}" if measurement.get("unit") else ""
    value = _number(measurement["value"])
    if measurement.get("low") is not None and measurement.get("high") is not None:
        value += f" [{_number(measurement['low'])}, {_number(measurement['high'])}]"
    judged = measurement.get("judged_on", "value")
    condition = f"{measurement['relation']} {_number(measurement['threshold'])}{unit}"
    if judged != "value":
        condition = f"{judged} {condition}"
    if measurement.get("met") is not None:
        condition += ": met" if measurement["met"] else ": not met"
    return str(measurement["quantity"]), f"{value}{unit}" if value else "", condition


def _number(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
