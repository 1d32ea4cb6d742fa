from __future__ import annotations

import csv
import io
import json
import random
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
    assert (group.chapter, group.preset, group.runs, group.failures) == ("tiny", "smoke", 6, ((9, "it stopped"),))
    pooled = group.claims["C1"]
    quantity = pooled.quantities["gain"]
    assert pooled.verdict() == "reproduced 4/5" and quantity.met == "4/5"
    assert [(run.seed, run.value) for run in quantity.runs] == list(enumerate(VALUES))
    expected = stats.t.interval(0.95, 4, loc=1.95, scale=stats.sem(VALUES))
    assert quantity.mean() == pytest.approx(1.95) and quantity.interval() == pytest.approx(expected)


def test_what_differs_in_more_than_the_seed_is_apart() -> None:
    changes: list[dict[str, Any]] = [{}, {"preset": "laptop"}, {"overrides": {"rate": 1}}, {"parameters": {"x": 1}},
                                     {"chapter": "other"}]  # fmt: skip
    summary = summarize(record(seed, claim(2.0), **change) for change in changes for seed in (0, 1))
    assert [group.runs for group in summary.groups] == [2] * 5
    assert len({group.name for group in summary.groups}) == 5


def test_runs_come_in_any_order() -> None:
    runs = [*five(), failed(9), failed(8)]
    assert summarize(runs).groups == summarize(reversed(runs)).groups


def harder(value: float) -> dict[str, Any]:
    other = claim(value)
    other["measurements"][0]["threshold"] = 5.0
    return other


@pytest.mark.parametrize(("odd", "words"), [
    (harder(9.0), "claim 'C1' of seeds 0, 7 is not pooled: its conditions are gain >= 5 dB"),
    (claim(9.0, statement="It loses."), "claim 'C1' of seeds 0, 7 is not pooled: it is stated as 'It loses.'"),
    (claim(9.0, "C2"), "missing in seeds 0, 7: 'C1'"),
])  # fmt: skip
def test_what_most_runs_state_is_pooled_and_the_rest_noted(odd: dict[str, Any], words: str) -> None:
    summary = summarize([record(0, odd), *(record(seed, claim(2.0)) for seed in (1, 2, 3)), record(7, odd)])
    (group,) = summary.groups
    assert group.claims["C1"].quantities["gain"].values == [2.0] * 3
    assert group.claims["C1"].verdict() == "reproduced 3/3" and group.claims["C1"].statement == "It gains."
    assert words in group.notes and f"note: {words}" in to_text(summary)
    assert len(to_csv(summary).splitlines()) == 6, "the rows of all runs, pooled or not"


def test_what_a_stand_in_measured_is_not_pooled_with_real_data() -> None:
    stand_in = claim(50.0, verdict="not testable here", reason="It needs the real data.")
    (group,) = summarize(
        [record(0, stand_in), record(1, claim(2.0)), record(2, claim(0.5)), record(3, stand_in)]
    ).groups
    pooled = group.claims["C1"]
    assert pooled.quantities["gain"].values == [2.0, 0.5] and group.notes == ()
    assert pooled.verdict() == "reproduced 1/2, not testable here 2"
    (alone,) = summarize([record(0, stand_in), record(3, claim(1.0, verdict="not testable here"))]).groups
    assert alone.claims["C1"].verdict() == "not testable here"
    assert alone.claims["C1"].quantities["gain"].values == [50.0, 1.0]


def test_a_seed_counts_once() -> None:
    (group,) = summarize([record(3, claim(2.0)), record(3, claim(4.0)), failed(3), record(4, claim(3.0))]).groups
    assert group.claims["C1"].quantities["gain"].values == [2.0, 3.0] and group.runs == 4
    assert group.notes == ("seed 3 is there more than once; the first run with it is pooled",)


@pytest.mark.parametrize("spoil", [
    {"measurements": None}, {"measurements": [{}]}, {"measurements": [{**GAIN, "value": float("nan"), "met": True}]},
    {"measurements": [{**GAIN, "value": 10**400, "met": True}]},
    {"measurements": [{**GAIN, "value": "1", "met": True}]},
    {"measurements": [{**GAIN, "value": 1.0, "met": True, "relation": "!="}]},
    {"measurements": [{**GAIN, "value": 1.0, "met": True, "judged_on": "n"}]},
])  # fmt: skip
def test_claims_that_cannot_be_read_are_noted_and_stop_no_other(spoil: dict[str, Any]) -> None:
    summary = summarize([record(0, claim(2.0)), record(1, claim(2.0) | spoil)])
    (group,) = summary.groups
    assert group.claims["C1"].quantities["gain"].values == [2.0]
    (note,) = group.notes
    assert note.startswith("the claims of seed 1 cannot be read, so they are not pooled: ")
    assert to_json(summary) and to_csv(summary).count("\n") == 3


@pytest.mark.parametrize("values", [
    [1e200, -1e200, 3e200], [1e-200, 2e-200, 4e-200], [5e-324, 5e-324], [0.0, 0.0], [0.1] * 7, [1, 2, 4],
    [-3.0, 1e-9, 1e9],
])  # fmt: skip
def test_extremes_of_floating_point(values: list[float]) -> None:
    (group,) = summarize(record(seed, claim(value)) for seed, value in enumerate(values)).groups
    quantity = group.claims["C1"].quantities["gain"]
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    assert quantity.mean() == pytest.approx(float(mean), rel=1e-14, abs=0.0)
    low, high = quantity.interval() or (0.0, 0.0)
    # The scale is taken out, so that SciPy has numbers that it can square.
    largest = max(map(abs, exact)) or Fraction(1)
    unit = [float(value / largest) for value in exact]
    ends = [float(mean / largest)] * 2
    if len(set(values)) > 1:
        ends = list(stats.t.interval(0.95, len(unit) - 1, loc=ends[0], scale=stats.sem(unit)))
    assert [float(Fraction(end) / largest) for end in (low, high)] == pytest.approx(ends, rel=1e-12)


def test_an_interval_beyond_floating_point_is_none() -> None:
    summary = summarize([record(0, claim(1.5e308)), record(1, claim(-1.5e308))])
    quantity = summary.groups[0].claims["C1"].quantities["gain"]
    assert quantity.interval() is None and quantity.mean() == 0.0 and not quantity.holds()
    assert json.loads(to_json(summary))


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
    assert (second["seed"], second["status"], second["claim"], second["reason"]) == ("1", "failed", "", "it stopped")


def test_json_reads_back() -> None:
    (group,) = json.loads(to_json(summarize([*five(), failed(9)])))
    (found,) = group["claims"]
    (measured,) = found["quantities"]
    assert found["verdicts"] == {"reproduced": 4, "not reproduced": 1} and measured["mean"] == pytest.approx(1.95)
    assert [(run["seed"], run["value"], run["met"]) for run in measured["runs"]] == [
        (seed, value, value >= 1) for seed, value in enumerate(VALUES)
    ]
    assert {name: measured[name] for name in ("quantity", "unit", "relation", "threshold", "judged_on")} == {
        name: GAIN[name] for name in ("quantity", "unit", "relation", "threshold", "judged_on")
    }
    assert group["failures"] == [{"seed": 9, "reason": "it stopped"}] and group["runs"] == 6


def test_evidence_for_the_book() -> None:
    results = to_results(summarize(five()), "a slide rule", "2026-01-02")
    assert (results["runs"], results["hardware"], results["date"]) == (5, "a slide rule", "2026-01-02")
    (found,) = results["claims"]
    (measured,) = found["measurements"]
    assert found["verdict"] == "reproduced" and "4 of 5 runs" in found["reason"]
    assert measured["value"] == pytest.approx(1.95) and measured["n"] == 5 and measured["met"] is True
    assert measured["low"] < 1.95 < measured["high"]
    alone = to_results(summarize([record(0, claim(2.0)), failed(1)]), "x", "y")
    kept = {"value": 2.0, "low": 1.0, "high": 3.0, "n": 5, "met": True}
    assert alone["runs"] == 1 and {name: alone["claims"][0]["measurements"][0][name] for name in kept} == kept
    worse = to_results(summarize(record(n, claim(v)) for n, v in enumerate([0.1, 0.2, 1.1])), "x", "y")
    assert worse["claims"][0]["verdict"] == "not reproduced"


def test_evidence_is_what_the_site_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "book" / "_ext"))
    from nips26_site.reproducibility import table
    from nips26_site.stored import sweep_evidence

    from nips26lib.runs.catalogue import ChapterRecord, Paper

    untested = claim(50.0, "C2", verdict="not testable here", reason="It needs the real data.")
    other = claim(50.0, "C2", verdict="not testable at this preset", reason="Another reason.")
    runs = [record(0, claim(2.0), untested), record(1, claim(1.5), untested), record(2, claim(1.75), other)]
    (tmp_path / "results").mkdir()
    results = json.dumps(to_results(summarize(runs), "a slide rule", "2026-01-02"))
    (tmp_path / "results" / "tiny.json").write_text(results)
    chapter = ChapterRecord(
        slug="tiny", part="part", title="Tiny", question="Why?", module="tiny", picture="falling",
        paper=Paper(None, (), None, (), "Known from its abstract only."), data=(), claims=("C1", "C2"), budget={},
        notebook=tmp_path / "part" / "tiny.ipynb",
    )  # fmt: skip
    found = sweep_evidence(tmp_path, chapter)
    assert found is not None and found.source == "3 runs on a slide rule, 2026-01-02" and found.order == ("C1", "C2")
    shown = table({"Sweep": found})
    assert "1.75 dB [" in shown and "n = 3" in shown and "Reproduced in 3 of 3 runs" in shown
    assert "not testable here" in shown and "It needs the real data." in shown


@pytest.mark.parametrize("records", [
    [], [failed(0)], [record(0), record(1)],
    [record(0, claim(2.0)), record(1, claim(2.0, statement="It loses."))],
    [record(0, claim(2.0)), record(1, claim(2.0)), record(0, claim(2.0), preset="laptop")],
    [record(0, claim(2.0)), record(0, claim(2.0))],
])  # fmt: skip
def test_what_is_no_evidence_is_refused(records: list[RunRecord]) -> None:
    with pytest.raises(Refusal):
        to_results(summarize(records), "x", "y")


def test_a_thousand_runs_are_pooled_one_at_a_time() -> None:
    draw = random.Random(0)
    values = [draw.uniform(0, 2) for _ in range(1000)]
    alive: weakref.WeakSet[RunRecord] = weakref.WeakSet()
    most = 0

    def records() -> Iterator[RunRecord]:
        nonlocal most
        for seed, value in enumerate(values):
            if seed % 100 == 7:
                yield failed(seed)
                continue
            one = Tracked(**vars(record(seed, claim(value))))
            alive.add(one)
            most = max(most, len(alive))
            yield one
            del one

    (group,) = summarize(records()).groups
    assert most <= 2, "the records before are let go"
    kept = [value for seed, value in enumerate(values) if seed % 100 != 7]
    pooled = group.claims["C1"]
    assert (group.runs, len(group.failures)) == (1000, 10)
    assert pooled.verdict() == f"reproduced {sum(value >= 1 for value in kept)}/990"
    low, high = pooled.quantities["gain"].interval() or (0.0, 0.0)
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 989, loc=sum(kept) / 990, scale=stats.sem(kept)))


class Tracked(RunRecord):
    __hash__ = object.__hash__


words = st.text("abz-_<& ,|é✓", min_size=1, max_size=60).map(str.strip).filter(bool)


@given(
    st.lists(st.tuples(words, words, words, st.floats(-1e12, 1e12)), min_size=1, max_size=4, unique_by=lambda c: c[0])
)
def test_the_table_for_a_terminal_cuts_nothing(found: list[tuple[str, str, str, float]]) -> None:
    claims = []
    for id, quantity, unit, value in found:
        claims.append(claim(value, id))
        claims[-1]["measurements"][0] |= {"quantity": quantity, "unit": unit}
    reason = found[0][1]
    odd = [{**one, "statement": found[0][2]} for one in claims]
    text = to_text(summarize([record(0, *claims), record(1, *claims), failed(2, reason), record(9, *odd)]))
    for id, quantity, unit, value in found:
        row = next(line for line in text.splitlines() if line.startswith(f"{id}  ") and quantity in line)
        assert f" {unit}" in row and float(re.findall(r"(\S+) \[", row)[-1]) == pytest.approx(value, rel=1e-3, abs=0)
        assert f"claim {id!r} of seed 9 is not pooled: it is stated as {found[0][2]!r}" in text
    assert f"seed 2 failed: {reason}" in text


def test_pooling_loads_nothing_heavy() -> None:
    script = "import sys, nips26lib.runs.summary, nips26lib.runs.report; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "matplotlib", "scipy", "numpy", "pandas"} & set(loaded)
