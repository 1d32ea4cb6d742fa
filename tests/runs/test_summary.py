from __future__ import annotations

import csv
import io
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from scipy import stats

from nips26lib.runs import Refusal
from nips26lib.runs.record import RunRecord
from nips26lib.runs.summary import summarize, to_csv, to_json, to_results, to_text

GAIN = {"quantity": "gain", "unit": "dB", "relation": ">=", "threshold": 1.0, "judged_on": "value", "n": 5}


def claim(value: float, id: str = "C1", **changes: Any) -> dict[str, Any]:
    met = value >= 1.0
    found = {**GAIN, "value": value, "low": value - 1, "high": value + 1, "met": met}
    verdict = "reproduced" if met else "not reproduced"
    return {"id": id, "statement": "It gains.", "verdict": verdict, "reason": None, "measurements": [found]} | changes


def record(seed: int, *claims: dict[str, Any], **changes: Any) -> RunRecord:
    content: dict[str, Any] = {
        "chapter": "tiny", "preset": "smoke", "seed": seed, "overrides": {}, "parameters": {}, "identity": "0",
        "status": "succeeded", "reason": None, "attempts": 1, "started": "2026-01-02T03:04:05+00:00",
        "wall_seconds": 1.0, "peak_memory_bytes": 1, "versions": {}, "device": "cpu", "threads": 1, "revision": None,
        "platform": "Linux", "data": [], "claims": {"claims": list(claims)},
    }  # fmt: skip
    return RunRecord(**(content | changes))


def failed(seed: int, reason: str = "it stopped") -> RunRecord:
    return record(seed, status="failed", reason=reason, claims=None)


VALUES = [0.5, 1.5, 2.5, 4.0, 1.25]


def five() -> Iterator[RunRecord]:
    return (record(seed, claim(value)) for seed, value in enumerate(VALUES))


def test_runs_are_pooled_over_seeds() -> None:
    (group,) = summarize([*five(), failed(9)]).groups
    assert (group.chapter, group.preset, group.runs, group.failures) == ("tiny", "smoke", 6, [(9, "it stopped")])
    pooled = group.claims["C1"]
    quantity = pooled.quantities["gain"]
    assert pooled.verdict() == "reproduced 4/5" and quantity.met == 4
    assert (quantity.values, quantity.seeds) == (VALUES, [0, 1, 2, 3, 4])
    expected = stats.t.interval(0.95, 4, loc=1.95, scale=stats.sem(VALUES))
    assert quantity.mean() == pytest.approx(1.95) and quantity.interval() == pytest.approx(expected)


def test_what_differs_in_more_than_the_seed_is_apart() -> None:
    changes: list[dict[str, Any]] = [{}, {"preset": "laptop"}, {"overrides": {"rate": 1}}, {"parameters": {"x": 1}},
                                     {"chapter": "other"}]  # fmt: skip
    summary = summarize(record(seed, claim(2.0), **change) for change in changes for seed in (0, 1))
    assert [group.runs for group in summary.groups] == [2] * 5
    assert len({group.name for group in summary.groups}) == 5


def test_another_condition_or_statement_is_noted_and_not_pooled() -> None:
    other = claim(9.0)
    other["measurements"][0]["threshold"] = 5.0
    (group,) = summarize([record(0, claim(2.0)), record(1, other), record(2, claim(9.0, statement="It loses."))]).groups
    assert group.claims["C1"].quantities["gain"].values == [2.0]
    assert [note.partition(" ")[2].partition(" ")[0] for note in group.notes] == ["1", "2"]
    assert "another condition" in group.notes[0] and "otherwise" in group.notes[1]
    assert "note: " in to_text(summarize([record(0, claim(2.0)), record(1, other)]))


@pytest.mark.parametrize(("values", "judged_on", "holds"), [
    ([2.0, 2.1, 2.2], "value", True), ([2.0, 2.1, 2.2], "low", True), ([0.0, 2.0, 4.0], "value", True),
    ([0.0, 2.0, 4.0], "low", False), ([0.0, 0.5, 1.0], "value", False), ([0.0, 0.5, 1.0], "high", True),
])  # fmt: skip
def test_pooled_values_are_judged_as_the_condition_says(values: list[float], judged_on: str, holds: bool) -> None:
    claims = [claim(value) for value in values]
    for each in claims:
        each["measurements"][0]["judged_on"] = judged_on
    (group,) = summarize(record(seed, each) for seed, each in enumerate(claims)).groups
    assert group.claims["C1"].quantities["gain"].holds() is holds


def test_a_single_run_has_no_interval() -> None:
    summary = summarize([record(0, claim(2.0))])
    quantity = summary.groups[0].claims["C1"].quantities["gain"]
    assert quantity.interval() is None and quantity.holds()
    assert "2 dB" in to_text(summary) and "[" not in to_text(summary)


def test_the_table_for_a_terminal() -> None:
    untested = {"id": "C2", "statement": "It scales.", "verdict": "not testable at this preset", "measurements": []}
    text = to_text(summarize([*(record(n, claim(v), untested) for n, v in enumerate(VALUES)), failed(7, "no luck")]))
    lines = text.splitlines()
    assert lines[0] == "tiny, smoke: 6 runs, 1 failed"
    row = next(line for line in lines if line.startswith("C1"))
    assert "reproduced 4/5" in row and "gain" in row and "1.95 [" in row and ">= 1 dB" in row and row.endswith("4/5")
    assert any(line.startswith("C2") and "not testable at this preset" in line for line in lines)
    assert lines[-1] == "seed 7 failed: no luck"
    assert to_text(summarize([])) == "no runs"


def test_the_table_for_a_spreadsheet_has_every_value_in_full() -> None:
    value = 1 / 3
    text = to_csv(summarize([record(0, claim(value), overrides={"rate": 0.1}), failed(1)]))
    first, second = csv.DictReader(io.StringIO(text))
    assert (first["chapter"], first["seed"], first["claim"], first["quantity"]) == ("tiny", "0", "C1", "gain")
    assert float(first["value"]) == value and json.loads(first["overrides"]) == {"rate": 0.1}
    assert (first["relation"], first["threshold"], first["unit"], first["met"]) == (">=", "1.0", "dB", "False")
    assert (second["seed"], second["status"], second["claim"]) == ("1", "failed", "")


def test_json_reads_back() -> None:
    (group,) = json.loads(to_json(summarize([*five(), failed(9)])))
    (found,) = group["claims"]
    assert found["verdicts"] == {"reproduced": 4, "not reproduced": 1} and found["quantities"][0]["values"] == VALUES
    assert group["failures"] == [{"seed": 9, "reason": "it stopped"}] and group["runs"] == 6


def test_evidence_for_the_book() -> None:
    results = to_results(summarize(five()), "a slide rule", "2026-01-02")
    assert (results["runs"], results["hardware"], results["date"]) == (5, "a slide rule", "2026-01-02")
    (found,) = results["claims"]
    (measured,) = found["measurements"]
    assert found["verdict"] == "reproduced" and "4 of 5 runs" in found["reason"]
    assert measured["value"] == pytest.approx(1.95) and measured["n"] == 5 and measured["met"] is True
    assert measured["low"] < 1.95 < measured["high"]
    worse = to_results(summarize(record(n, claim(v)) for n, v in enumerate([0.1, 0.2, 1.1])), "x", "y")
    assert worse["claims"][0]["verdict"] == "not reproduced"


@pytest.mark.parametrize("records", [
    [], [record(0, claim(2.0))], [record(0, claim(2.0)), failed(1)], [record(0), record(1)],
    [record(0, claim(2.0)), record(1, claim(2.0, statement="It loses."))],
    [record(0, claim(2.0)), record(1, claim(2.0)), record(0, claim(2.0), preset="laptop")],
])  # fmt: skip
def test_what_is_no_evidence_is_refused(records: list[RunRecord]) -> None:
    with pytest.raises(Refusal):
        to_results(summarize(records), "x", "y")


def test_a_thousand_runs_are_pooled_one_at_a_time() -> None:
    draw = random.Random(0)
    values = [draw.uniform(0, 2) for _ in range(1000)]
    alive: list[int] = []

    def records() -> Iterator[RunRecord]:
        for seed, value in enumerate(values):
            alive.append(seed)
            yield record(seed, claim(value))

    (group,) = summarize(records()).groups
    assert group.claims["C1"].verdict() == f"reproduced {sum(value >= 1 for value in values)}/1000"
    low, high = group.claims["C1"].quantities["gain"].interval() or (0.0, 0.0)
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 999, loc=sum(values) / 1000, scale=stats.sem(values)))


def test_pooling_loads_nothing_heavy() -> None:
    script = "import sys, nips26lib.runs.summary, nips26lib.runs.report; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "matplotlib", "scipy", "numpy", "pandas"} & set(loaded)
