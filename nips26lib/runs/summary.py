"""What many runs say together: runs that differ in nothing but the seed are pooled, claim by claim."""

from __future__ import annotations

import csv
import io
import json
import math
import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from nips26lib.runs import Refusal
from nips26lib.runs.record import RunRecord
from nips26lib.runs.tables import align

LEVEL = 0.95
_RELATIONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}
_COLUMNS = (
    "chapter", "preset", "seed", "overrides", "parameters", "status", "claim", "verdict", "quantity", "value", "low",
    "high", "n", "unit", "relation", "threshold", "judged_on", "met",
)  # fmt: skip


@dataclass
class Quantity:
    """One measured quantity over the runs of a group: the value of each, by seed, and the condition on it."""

    name: str
    unit: str
    relation: str
    threshold: float
    judged_on: str
    seeds: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    met: int = 0

    def mean(self) -> float:
        """The mean over the runs."""
        return math.fsum(self.values) / len(self.values)

    def interval(self) -> tuple[float, float] | None:
        """The ends of Student's t interval (95 %) of the mean over the runs; None for a single run."""
        n = len(self.values)
        if n < 2:
            return None
        from scipy.special import stdtrit  # scipy.stats takes longer to load than a thousand records to read

        mean = self.mean()
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in self.values) / (n - 1))
        reach = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * spread / math.sqrt(n)
        return mean - reach, mean + reach

    def holds(self) -> bool:
        """Whether the pooled value meets the condition, judged on the end of its interval that the condition names."""
        if len(self.values) == 1:
            return bool(self.met)
        ends = self.interval()
        judged = {"value": self.mean(), "low": ends[0] if ends else None, "high": ends[1] if ends else None}
        value = judged[self.judged_on]
        return value is not None and bool(_RELATIONS[self.relation](value, self.threshold))


@dataclass
class ClaimOverRuns:
    """One claim over the runs of a group: its verdicts, counted, and its quantities."""

    id: str
    statement: str
    verdicts: Counter[str] = field(default_factory=Counter)
    quantities: dict[str, Quantity] = field(default_factory=dict)

    @property
    def tested(self) -> int:
        """In how many runs the claim was tested."""
        return self.verdicts["reproduced"] + self.verdicts["not reproduced"]

    def verdict(self) -> str:
        """The verdicts in words, such as `reproduced 4/5`."""
        if self.tested:
            return f"reproduced {self.verdicts['reproduced']}/{self.tested}"
        return ", ".join(sorted(self.verdicts))


@dataclass
class Group:
    """Runs that differ in nothing but the seed. `failures` holds seed and reason of those that failed."""

    chapter: str
    preset: str
    overrides: Mapping[str, Any]
    parameters: Mapping[str, Any]
    runs: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    claims: dict[str, ClaimOverRuns] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What tells it from other groups."""
        given = {**self.overrides, **self.parameters}
        more = f" {json.dumps(given, sort_keys=True)}" if given else ""
        return f"{self.chapter}, {self.preset}{more}"


@dataclass
class Summary:
    """All groups, and a row for every measurement of every run."""

    groups: list[Group]
    rows: list[tuple[Any, ...]]


def summarize(records: Iterable[RunRecord]) -> Summary:
    """Pool the records, one at a time.

    A measurement whose condition or statement differs from that of the first run of its group is not pooled but noted.
    """
    groups: dict[str, Group] = {}
    rows: list[tuple[Any, ...]] = []
    for record in records:
        key = json.dumps([record.chapter, record.preset, record.overrides, record.parameters], sort_keys=True)
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(record.chapter, record.preset, record.overrides, record.parameters)
        group.runs += 1
        if record.status == "failed":
            group.failures.append((record.seed, record.reason or ""))
        head = (record.chapter, record.preset, record.seed, json.dumps(record.overrides, sort_keys=True),
                json.dumps(record.parameters, sort_keys=True), record.status)  # fmt: skip
        claims = (record.claims or {}).get("claims", [])
        if not claims:
            rows.append(head + ("",) * (len(_COLUMNS) - len(head)))
        for claim in claims:
            rows.extend(head + row for row in _add(group, record.seed, claim))
    return Summary(sorted(groups.values(), key=lambda group: group.name), rows)


def _add(group: Group, seed: int, claim: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    pooled = group.claims.setdefault(claim["id"], ClaimOverRuns(claim["id"], claim["statement"]))
    same = pooled.statement == claim["statement"]
    if not same:
        group.notes.append(f"seed {seed} states claim {claim['id']!r} otherwise, so it is not pooled")
    else:
        pooled.verdicts[claim["verdict"]] += 1
    for found in claim["measurements"]:
        condition = (found.get("unit") or "", found["relation"], found["threshold"], found.get("judged_on", "value"))
        if same:
            name = found["quantity"]
            quantity = pooled.quantities.setdefault(name, Quantity(name, *condition))
            if (quantity.unit, quantity.relation, quantity.threshold, quantity.judged_on) == condition:
                quantity.seeds.append(seed)
                quantity.values.append(float(found["value"]))
                quantity.met += bool(found.get("met"))
            else:
                group.notes.append(
                    f"seed {seed} holds {name!r} of claim {claim['id']!r} to another condition, so it is not pooled"
                )
        yield (claim["id"], claim["verdict"], found["quantity"], found["value"], found.get("low"), found.get("high"),
               found.get("n"), *condition, found.get("met"))  # fmt: skip
    if not claim["measurements"]:
        yield (claim["id"], claim["verdict"], *[""] * 10)


def to_text(summary: Summary) -> str:
    """A table a group, for a terminal."""
    parts = []
    for group in summary.groups:
        runs = f"{group.runs} run{'s' * (group.runs != 1)}"
        title = f"{group.name}: {runs}" + (f", {len(group.failures)} failed" if group.failures else "")
        rows = [row for claim in group.claims.values() for row in _text_rows(claim)]
        table = (
            align(("claim", "verdict", "measured", "mean over runs", "condition", "met"), rows) if rows else "no claims"
        )
        failed = [f"seed {seed} failed: {reason}" for seed, reason in group.failures]
        parts.append("\n".join([title, table, *failed, *(f"note: {note}" for note in group.notes)]))
    return "\n\n".join(parts) if parts else "no runs"


def _text_rows(claim: ClaimOverRuns) -> Iterable[tuple[str, ...]]:
    head = (claim.id, claim.verdict())
    if not claim.quantities:
        yield (*head, "", "", "", "")
    for quantity in claim.quantities.values():
        yield (
            *head,
            quantity.name,
            value_text(quantity),
            condition_text(quantity),
            f"{quantity.met}/{len(quantity.values)}",
        )
        head = ("", "")


def value_text(quantity: Quantity) -> str:
    """Mean and interval with the unit, to four digits."""
    ends, unit = quantity.interval(), f" {quantity.unit}" if quantity.unit else ""
    return f"{quantity.mean():.4g}" + (f" [{ends[0]:.4g}, {ends[1]:.4g}]" if ends else "") + unit


def condition_text(quantity: Quantity) -> str:
    """The condition as it is judged in each run."""
    what = "" if quantity.judged_on == "value" else f"{quantity.judged_on} "
    unit = f" {quantity.unit}" if quantity.unit else ""
    return f"{what}{quantity.relation} {quantity.threshold:.4g}{unit}"


def to_csv(summary: Summary) -> str:
    """A row a measurement of a run, with full precision; a run without claims has a row that is otherwise empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(summary.rows)
    return text.getvalue()


def to_json(summary: Summary) -> str:
    """The groups, with the values of every run."""
    return json.dumps([_plain(group) for group in summary.groups], indent=1, allow_nan=False)


def _plain(group: Group) -> dict[str, Any]:
    return {
        "chapter": group.chapter,
        "preset": group.preset,
        "overrides": dict(group.overrides),
        "parameters": dict(group.parameters),
        "runs": group.runs,
        "failures": [{"seed": seed, "reason": reason} for seed, reason in group.failures],
        "notes": group.notes,
        "claims": [
            {
                "id": claim.id,
                "statement": claim.statement,
                "verdicts": dict(claim.verdicts),
                "quantities": [
                    {**asdict(quantity), "mean": quantity.mean(), "interval": quantity.interval()}
                    for quantity in claim.quantities.values()
                ],
            }
            for claim in group.claims.values()
        ],
    }


def to_results(summary: Summary, hardware: str, date: str) -> dict[str, Any]:
    """The evidence that the book shows beside the stored run, for `book/results/<slug>.json`.

    The value of a quantity is its mean over the runs, the interval that of the mean, and the verdict says whether these
    meet the conditions. Refusal unless there is one group, of two runs or more that did not fail.
    """
    if len(summary.groups) != 1:
        names = "; ".join(group.name for group in summary.groups) or "none"
        raise Refusal(f"the evidence for a chapter comes from runs that differ in the seed alone; here are: {names}")
    (group,) = summary.groups
    whole = group.runs - len(group.failures)
    if whole < 2 or not group.claims:
        raise Refusal(f"{group.name}: evidence takes two runs with claims at least; here are {whole}")
    if group.notes:
        raise Refusal(f"{group.name}: the runs do not state the same claims: {group.notes[0]}")
    claims = [_evidence(claim) for claim in group.claims.values()]
    return {"runs": whole, "preset": group.preset, "hardware": hardware, "date": date, "claims": claims}


def _evidence(claim: ClaimOverRuns) -> dict[str, Any]:
    measurements = []
    for quantity in claim.quantities.values():
        ends = quantity.interval() or (None, None)
        measurements.append({
            "quantity": quantity.name, "value": quantity.mean(), "low": ends[0], "high": ends[1],
            "n": len(quantity.values), "unit": quantity.unit, "relation": quantity.relation,
            "threshold": quantity.threshold, "judged_on": quantity.judged_on, "met": quantity.holds(),
        })  # fmt: skip
    if claim.tested:
        verdict = "reproduced" if all(found["met"] for found in measurements) else "not reproduced"
        reason = f"Reproduced in {claim.verdicts['reproduced']} of {claim.tested} runs, each judged alone."
    else:
        verdict, reason = claim.verdict(), None
    return {"id": claim.id, "statement": claim.statement, "verdict": verdict, "reason": reason,
            "measurements": measurements}  # fmt: skip
