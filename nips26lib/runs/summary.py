"""What many runs say together: runs that differ in nothing but the seed are pooled, claim by claim."""

from __future__ import annotations

import csv
import io
import json
import math
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nips26lib.runs import Refusal
from nips26lib.runs.record import RunRecord
from nips26lib.runs.tables import align

LEVEL = 0.95
HEADER = ("claim", "verdict", "measured", "mean over runs", "condition", "met")
_TESTED = ("reproduced", "not reproduced")
_RELATIONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}
_COLUMNS = (
    "chapter", "preset", "seed", "overrides", "parameters", "status", "claim", "verdict", "quantity", "value", "low",
    "high", "n", "unit", "relation", "threshold", "judged_on", "met", "reason",
)  # fmt: skip


class Condition(NamedTuple):
    """What a quantity was held to, as `nips26lib.chapter.Condition` says it."""

    quantity: str
    unit: str
    relation: str
    threshold: float | int
    judged_on: str

    def __str__(self) -> str:
        end = "" if self.judged_on == "value" else f"{self.judged_on} end "
        return f"{end}{self.relation} {number(self.threshold)}" + (f" {self.unit}" if self.unit else "")


class Measured(NamedTuple):
    """What one run measured: the value, its own interval, and whether the condition was met by it."""

    seed: int
    value: float | int
    low: float | int | None
    high: float | int | None
    n: int | None
    met: bool


@dataclass(frozen=True)
class Quantity:
    """One quantity over the runs of a group, ordered by seed, and the condition on it."""

    condition: Condition
    runs: tuple[Measured, ...]

    @property
    def values(self) -> list[float]:
        """The value of each run."""
        return [float(run.value) for run in self.runs]

    @property
    def met(self) -> str:
        """In how many runs the condition was met, each judged alone, such as `4/5`."""
        return f"{sum(run.met for run in self.runs)}/{len(self.runs)}"

    def mean(self) -> float:
        """The mean over the runs."""
        scale, values = _scaled(self.values)
        return math.ldexp(math.fsum(values) / len(values), scale)

    def interval(self) -> tuple[float, float] | None:
        """Student's t interval (95 %) of the mean over the runs; None for a single run, or beyond floating point."""
        n = len(self.runs)
        if n < 2:
            return None
        from scipy.special import stdtrit  # scipy.stats takes longer to load than a thousand records to read

        scale, values = _scaled(self.values)
        mean = math.fsum(values) / n
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
        reach = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * spread / math.sqrt(n)
        try:
            return math.ldexp(mean - reach, scale), math.ldexp(mean + reach, scale)
        except OverflowError:
            return None

    def holds(self) -> bool:
        """Whether the pooled value meets the condition, judged on the end of its interval that the condition names."""
        if len(self.runs) == 1:
            return self.runs[0].met
        low, high = self.interval() or (None, None)
        judged = {"value": self.mean(), "low": low, "high": high}[self.condition.judged_on]
        return judged is not None and bool(_RELATIONS[self.condition.relation](judged, self.condition.threshold))


@dataclass(frozen=True)
class ClaimOverRuns:
    """One claim over the runs of a group: its verdicts, counted, the most frequent first, and its quantities by name.

    Where the claim was tested in some runs, the quantities are those of these runs alone: what a run measured on a
    stand-in for data says nothing of the rest. `reason` is what all runs with the most frequent verdict give as theirs.
    """

    id: str
    statement: str
    verdicts: Mapping[str, int]
    quantities: Mapping[str, Quantity]
    reason: str | None

    @property
    def tested(self) -> int:
        """In how many runs the claim was tested."""
        return sum(self.verdicts.get(verdict, 0) for verdict in _TESTED)

    def verdict(self) -> str:
        """The verdicts in words, such as `reproduced 4/5, not testable here 1`."""
        others = [(word, count) for word, count in sorted(self.verdicts.items()) if word not in _TESTED]
        if not self.tested and len(others) == 1:
            return others[0][0]
        words = [f"reproduced {self.verdicts.get('reproduced', 0)}/{self.tested}"] if self.tested else []
        return ", ".join(words + [f"{word} {count}" for word, count in others])


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed. `failures` are seeds and reasons; `notes` say what is not pooled."""

    chapter: str
    preset: str
    overrides: Mapping[str, Any]
    parameters: Mapping[str, Any]
    runs: int
    failures: tuple[tuple[int, str], ...]
    claims: Mapping[str, ClaimOverRuns]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """What tells it from other groups."""
        given = {**self.overrides, **self.parameters}
        more = f" {json.dumps(given, sort_keys=True)}" if given else ""
        return f"{self.chapter}, {self.preset}{more}"

    @property
    def size(self) -> str:
        """How many runs it has, in words."""
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        return runs + (f", {len(self.failures)} failed" if self.failures else "")


@dataclass(frozen=True)
class Summary:
    """All groups, and a row for every measurement of every run."""

    groups: tuple[Group, ...]
    rows: tuple[tuple[Any, ...], ...]


class _Entry(NamedTuple):
    """A claim in one run. `kind` is all that must be the same for two runs to be pooled."""

    kind: tuple[str, bool, tuple[Condition, ...]]
    seed: int
    verdict: str
    reason: str | None
    measured: tuple[Measured, ...]


@dataclass
class _Pool:
    """A group while records arrive; of each run it keeps the numbers alone."""

    what: tuple[str, str, Mapping[str, Any], Mapping[str, Any]]  # as the fields of Group begin
    runs: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    entries: dict[str, list[_Entry]] = field(default_factory=dict)
    seeds: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def summarize(records: Iterable[RunRecord]) -> Summary:
    """Pool the records, one at a time.

    Runs that state a claim otherwise than most of their group do, or judge it otherwise, are not pooled but noted.
    """
    pools: dict[str, _Pool] = {}
    rows: list[tuple[Any, ...]] = []
    for record in records:
        overrides, parameters = (json.dumps(given, sort_keys=True) for given in (record.overrides, record.parameters))
        key = json.dumps([record.chapter, record.preset, overrides, parameters])
        if key not in pools:
            pools[key] = _Pool((record.chapter, record.preset, dict(record.overrides), dict(record.parameters)))
        head = (record.chapter, record.preset, record.seed, overrides, parameters, record.status)
        found = [head + row for row in _add(pools[key], record)]
        rows += found or [(*head, *[""] * (len(_COLUMNS) - len(head) - 1), record.reason)]
    return Summary(tuple(sorted(map(_group, pools.values()), key=lambda group: group.name)), tuple(rows))


def _add(pool: _Pool, record: RunRecord) -> Iterable[tuple[Any, ...]]:
    """Enter a record; its rows."""
    pool.runs += 1
    if record.status == "failed":
        pool.failures.append((record.seed, record.reason or ""))
        return []
    try:
        read = [(str(claim["id"]), _entry(record.seed, claim)) for claim in (record.claims or {}).get("claims", ())]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        pool.notes.append(f"the claims of seed {record.seed} cannot be read, so they are not pooled: {error!r}")
        return []
    if record.seed in pool.seeds:
        pool.notes.append(f"seed {record.seed} is there more than once; the first run with it is pooled")
    else:
        pool.seeds.add(record.seed)
        for name, entry in read:
            pool.entries.setdefault(name, []).append(entry)
    return [row for name, entry in read for row in _rows(name, entry)]


def _entry(seed: int, claim: Mapping[str, Any]) -> _Entry:
    conditions, measured = [], []
    for found in claim["measurements"]:
        condition = Condition(str(found["quantity"]), str(found.get("unit") or ""), found["relation"],
                              found["threshold"], found.get("judged_on", "value"))  # fmt: skip
        run = Measured(seed, found["value"], found.get("low"), found.get("high"), found.get("n"), bool(found["met"]))
        if not all(math.isfinite(x) for x in (run.value, run.low, run.high, condition.threshold) if x is not None):
            raise ValueError(f"{condition.quantity!r} is not finite")
        if condition.relation not in _RELATIONS or condition.judged_on not in ("value", "low", "high"):
            raise ValueError(f"{condition.quantity!r} has an unknown condition")
        conditions.append(condition)
        measured.append(run)
    kind = (str(claim["statement"]), claim["verdict"] in _TESTED, tuple(conditions))
    return _Entry(kind, seed, str(claim["verdict"]), claim.get("reason"), tuple(measured))


def _rows(id: str, entry: _Entry) -> Iterable[tuple[Any, ...]]:
    for condition, run in zip(entry.kind[2], entry.measured, strict=True):
        yield (id, entry.verdict, condition.quantity, run.value, run.low, run.high, run.n, *condition[1:], run.met,
               entry.reason)  # fmt: skip
    if not entry.measured:
        yield (id, entry.verdict, *[""] * 10, entry.reason)


def _group(pool: _Pool) -> Group:
    claims, notes = {}, [*pool.notes]
    missing: dict[str, list[str]] = {}
    for name, entries in pool.entries.items():
        claims[name], apart = _claim(name, entries)
        notes += apart
        if without := pool.seeds - {entry.seed for entry in entries}:
            missing.setdefault(_listed(without), []).append(repr(name))
    notes += [f"missing in {seeds}: {', '.join(names)}" for seeds, names in missing.items()]
    return Group(*pool.what, pool.runs, tuple(sorted(pool.failures)), claims, tuple(dict.fromkeys(notes)))


def _claim(name: str, entries: Sequence[_Entry]) -> tuple[ClaimOverRuns, list[str]]:
    """The claim as most of the runs that tested it have it, and what of the others is not pooled."""
    sizes = Counter(entry.kind for entry in entries)
    # Tested before untested; among untested, the one with the most conditions, since a run may have measured but some.
    main = max(sizes, key=lambda kind: (kind[1], 0 if kind[1] else len(kind[2]), sizes[kind]))
    statement, tested, conditions = main
    pooled, apart = list[_Entry](), dict[str, list[int]]()
    for entry in sorted(entries, key=lambda entry: entry.seed):
        stated, was_tested, held_to = entry.kind
        if entry.kind == main or (stated == statement and not was_tested and set(held_to) <= set(conditions)):
            pooled.append(entry)
        elif stated != statement:
            apart.setdefault(f"it is stated as {stated!r}", []).append(entry.seed)
        else:
            held = "; ".join(f"{condition.quantity} {condition}" for condition in held_to) or "nothing"
            apart.setdefault(f"its conditions are {held}", []).append(entry.seed)
    notes = [f"claim {name!r} of {_listed(seeds)} is not pooled: {what}" for what, seeds in apart.items()]
    runs: dict[Condition, list[Measured]] = {condition: [] for condition in conditions}
    for entry in pooled:
        if entry.kind[1] == tested:
            for condition, run in zip(entry.kind[2], entry.measured, strict=True):
                runs[condition].append(run)
    quantities = {condition.quantity: Quantity(condition, tuple(found)) for condition, found in runs.items()}
    counts = dict(sorted(Counter(entry.verdict for entry in pooled).items(), key=lambda item: (-item[1], item[0])))
    reasons = {entry.reason for entry in pooled if entry.verdict == next(iter(counts))}
    return ClaimOverRuns(name, statement, counts, quantities, reasons.pop() if len(reasons) == 1 else None), notes


def _listed(seeds: Iterable[int]) -> str:
    numbers = sorted(set(seeds))
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _scaled(values: Sequence[float]) -> tuple[int, list[float]]:
    """The values divided by a power of two that keeps their squares and sums within floating point; exact."""
    scale = max(math.frexp(value)[1] for value in values)
    if abs(scale) < 400:
        return 0, [*values]
    return scale, [math.ldexp(value, -scale) for value in values]


def number(value: float | int) -> str:
    """A number to four significant digits; whole numbers, and those of more digits before the point, whole.

    >>> number(0.123456), number(12345.6), number(7.0), number(-2.5e-6), number(3e9)
    ('0.1235', '12346', '7', '-2.5e-06', '3e+09')
    """
    whole = abs(value) < 1e7 and (value == round(value) or abs(value) >= 1e4)
    return str(round(value)) if whole else f"{value:.4g}"


def value_text(quantity: Quantity) -> str:
    """Mean and interval with the unit."""
    ends, unit = quantity.interval(), f" {quantity.condition.unit}" if quantity.condition.unit else ""
    return number(quantity.mean()) + (f" [{number(ends[0])}, {number(ends[1])}]" if ends else "") + unit


def to_text(summary: Summary) -> str:
    """A table a group, for a terminal."""
    parts = []
    for group in summary.groups:
        rows = [row for claim in group.claims.values() for row in table_rows(claim)]
        table = align(HEADER, rows) if rows else "no claims"
        failed = [f"seed {seed} failed: {reason}" for seed, reason in group.failures]
        parts.append("\n".join([f"{group.name}: {group.size}", table, *failed, *(f"note: {x}" for x in group.notes)]))
    return "\n\n".join(parts) if parts else "no runs"


def table_rows(claim: ClaimOverRuns) -> Iterable[tuple[str, ...]]:
    """The claim under `HEADER`, a row a quantity."""
    head = (claim.id, claim.verdict())
    if not claim.quantities:
        yield (*head, "", "", "", "")
    for quantity in claim.quantities.values():
        yield (*head, quantity.condition.quantity, value_text(quantity), str(quantity.condition), quantity.met)
        head = ("", "")


def to_csv(summary: Summary) -> str:
    """A row a measurement of a run, with full precision; a run without claims has a row that is otherwise empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(summary.rows)
    return text.getvalue()


def to_json(summary: Summary) -> str:
    """The groups, with what every run measured."""
    groups = []
    for group in summary.groups:
        claims = [{**vars(c), "quantities": [_plain(q) for q in c.quantities.values()]} for c in group.claims.values()]
        failures = [{"seed": seed, "reason": reason} for seed, reason in group.failures]
        groups.append({**vars(group), "failures": failures, "claims": claims})
    return json.dumps(groups, indent=1, allow_nan=False)


def _plain(quantity: Quantity) -> dict[str, Any]:
    return {**quantity.condition._asdict(), "runs": [run._asdict() for run in quantity.runs],
            "mean": quantity.mean(), "interval": quantity.interval()}  # fmt: skip


def to_results(summary: Summary, hardware: str, date: str) -> dict[str, Any]:
    """The evidence that the book shows beside the stored run, for `book/results/<slug>.json`.

    The value of a quantity is its mean over the runs, the interval that of the mean, and the verdict says whether these
    meet the conditions; a single run stands as it is. Refusal unless there is one group, of runs with the same claims.
    """
    if len(summary.groups) != 1:
        names = "; ".join(group.name for group in summary.groups) or "none"
        raise Refusal(f"the evidence for a chapter comes from runs that differ in the seed alone; here are: {names}")
    (group,) = summary.groups
    whole = group.runs - len(group.failures)
    if not whole or not group.claims:
        raise Refusal(f"{group.name}: evidence takes a run with claims; here are {group.size}, and no claims")
    if group.notes:
        raise Refusal(f"{group.name}: the runs do not state the same claims: {group.notes[0]}")
    claims = [_evidence(claim) for claim in group.claims.values()]
    return {"runs": whole, "preset": group.preset, "hardware": hardware, "date": date, "claims": claims}


def _evidence(claim: ClaimOverRuns) -> dict[str, Any]:
    measurements = []
    for quantity in claim.quantities.values():
        low, high = quantity.interval() or (None, None)
        n: int | None = len(quantity.runs)
        if n == 1:
            low, high, n = quantity.runs[0][2:5]
        condition = quantity.condition._asdict()
        measurements.append({
            "quantity": condition.pop("quantity"), "value": quantity.mean(), "low": low, "high": high, "n": n,
            **condition, "met": quantity.holds(),
        })  # fmt: skip
    verdict, reason = next(iter(claim.verdicts)), claim.reason
    if claim.tested:
        verdict = _TESTED[0] if all(found["met"] for found in measurements) else _TESTED[1]
    if claim.tested > 1:
        reason = f"Reproduced in {claim.verdicts.get('reproduced', 0)} of {claim.tested} runs, each judged alone."
    return {"id": claim.id, "statement": claim.statement, "verdict": verdict, "reason": reason,
            "measurements": measurements}  # fmt: skip
