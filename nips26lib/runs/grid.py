"""The product of a sweep's parameters: one plan a combination."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from nips26lib.runs import Refusal
from nips26lib.runs.catalogue import ChapterRecord
from nips26lib.runs.parameters import Plan, make_plan, parse_assignment

LARGEST = 100_000
_RANGE = re.compile(r"(-?\d+):(-?\d+)")


def parse_axis(text: str) -> tuple[str, tuple[Any, ...]]:
    """Split `name=v1,v2,…`; each value is YAML, and `first:last` stands for all whole numbers from first to last.

    >>> parse_axis("seed=0:3"), parse_axis("rate=1e-3,0.1"), parse_axis("widths=[4, 8],[16]")
    (('seed', (0, 1, 2, 3)), ('rate', (0.001, 0.1)), ('widths', ([4, 8], [16])))
    """
    name, separator, values = text.partition("=")
    name = name.strip()
    if not separator or not values.strip():
        raise Refusal(f"parameter {text!r} must have the form name=value, name=v1,v2 or name=first:last")
    found = _RANGE.fullmatch(values.strip())
    if found:
        first, last = int(found[1]), int(found[2])
        if last < first:
            raise Refusal(f"parameter {name!r} is {values!r}, a range that ends before it begins")
        if last - first >= LARGEST:
            raise Refusal(f"parameter {name!r} is {values!r}; a sweep may have at most {LARGEST:,} runs")
        return name, tuple(range(first, last + 1))
    # One YAML list holds them all, so that commas inside of brackets and quotes part nothing.
    name, parsed = parse_assignment(f"{name}=[{values}]")
    return name, tuple(parsed)


def make_plans(
    chapter: ChapterRecord, preset: str | None, axes: Sequence[tuple[str, Sequence[Any]]], elsewhere: bool = False
) -> list[Plan]:
    """A checked plan for every combination of the axes' values, the last axis fastest.

    Refusal, before anything runs, for whatever `make_plan` refuses in any of them, and for two that are the same run.
    """
    names = [name for name, _ in axes]
    for name in names:
        if names.count(name) > 1:
            raise Refusal(f"parameter {name!r} is given twice; list its values in one: -p {name}=v1,v2")
    size = 1
    for _, values in axes:
        size *= len(values)
    if size > LARGEST:
        raise Refusal(f"the sweep would have {size:,} runs; it may have at most {LARGEST:,}")
    plans = [
        make_plan(chapter, preset, assignments=list(zip(names, values, strict=True)), elsewhere=elsewhere)
        for values in itertools.product(*(values for _, values in axes))
    ]
    _no_doubles(plans)
    return plans


def _no_doubles(plans: Iterable[Plan]) -> None:
    seen = set()
    for plan in plans:
        if plan.directory in seen:
            raise Refusal(f"two runs of the sweep are the same: {plan.parameters}; give each value once")
        seen.add(plan.directory)
