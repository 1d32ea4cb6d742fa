from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from nips26lib.blocks.stats import mean_interval
from nips26lib.chapter import presets
from nips26lib.chapter.claims import MIME, Claim, Claims, Condition, read_claims
from nips26lib.chapter.presets import Preset, start

GAIN = Condition("accuracy gained", ">=", 0.0, judged_on="low", unit="points")
COST = Condition("time, ours / theirs", "<", 2.0)
GOOD = Claim("good", "It is better & cheaper.", (GAIN, COST))
SCALE = Claim("scale", "It scales.", (Condition("accuracy", ">", 0.9),), tested_at=("gpu",))
HEARSAY = Claim("hearsay", "It works in practice.", untestable="No one can say what practice is.")


@pytest.fixture(autouse=True)
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Begin a run; without a word, at the laptop preset."""
    monkeypatch.setattr(presets, "_current", None)

    def begin(preset: str = "laptop", static: bool = False) -> None:
        monkeypatch.setenv("NIPS26_STATIC", "1" if static else "")
        start("tiny", {"smoke": Preset(), "laptop": Preset(), "gpu": Preset()}, preset, 7, {})

    monkeypatch.setenv("NIPS26_DEVICE", "cpu")
    begin()
    return begin


def verdict(claims: Claims, id: str = "good") -> dict[str, Any]:
    return {claim["id"]: claim for claim in claims.verdicts()["claims"]}[id]


@pytest.mark.parametrize(
    ("relation", "below", "at", "above"),
    [
        (">=", False, True, True),
        (">", False, False, True),
        ("<=", True, True, False),
        ("<", True, False, False),
        ("==", False, True, False),
    ],
)
def test_relations(relation: Any, below: bool, at: bool, above: bool) -> None:
    condition = Condition("x", relation, 0.5)
    assert (condition.met_by(0.4), condition.met_by(0.5), condition.met_by(0.6)) == (below, at, above)


def test_the_judged_end_counts() -> None:
    for judged_on, met in (("low", False), ("value", True), ("high", True)):
        assert Condition("x", ">=", 0.0, judged_on).met_by(1.0, low=-1.0, high=3.0) is met  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="condition 'x' is judged on its low, which was None"):
        Condition("x", ">=", 0.0, "low").met_by(1.0)


def test_a_claim_is_reproduced_when_all_its_conditions_are_met() -> None:
    claims = Claims([GOOD])
    claims.measure("good", "accuracy gained", 1.5, low=0.5, high=2.5, n=3)
    claims.measure("good", "time, ours / theirs", 1.0)
    claims.explain("good", "This is not shown.")
    assert verdict(claims)["verdict"] == "reproduced"
    assert verdict(claims)["reason"] is None


def test_a_claim_is_not_reproduced_when_one_condition_fails() -> None:
    claims = Claims([GOOD])
    claims.measure("good", "accuracy gained", 1.5, low=-0.5, high=2.5, n=3)  # the value is fine, its low end is not
    claims.measure("good", "time, ours / theirs", 1.0)
    assert verdict(claims)["verdict"] == "not reproduced"
    assert verdict(claims)["reason"] is None
    claims.explain("good", "Too few\n    seeds.")
    assert verdict(claims)["reason"] == "Too few seeds."
    assert [measurement["met"] for measurement in verdict(claims)["measurements"]] == [False, True]


def test_a_preset_that_does_not_test_a_claim_says_which_does() -> None:
    claims = Claims([SCALE])
    assert verdict(claims, "scale")["verdict"] == "not testable at this preset"
    assert verdict(claims, "scale")["reason"] == "Preset 'gpu' tests it."
    assert verdict(claims, "scale")["measurements"] == []
    claims.measure("scale", "accuracy", 0.95)
    claims.explain("scale", "Why it fails elsewhere.")
    assert verdict(claims, "scale")["verdict"] == "not testable at this preset"
    assert verdict(claims, "scale")["measurements"][0]["value"] == 0.95
    assert "elsewhere" not in verdict(claims, "scale")["reason"]


def test_every_preset_that_tests_a_claim_is_named(run: Callable[..., None]) -> None:
    run("smoke")
    assert verdict(Claims([GOOD]))["reason"] == "Preset 'laptop' or 'gpu' tests it."


def test_what_no_preset_tests_gives_its_reason() -> None:
    claims = Claims([HEARSAY])
    assert verdict(claims, "hearsay")["verdict"] == "not testable here"
    claims.explain("hearsay", "We asked.")
    assert verdict(claims, "hearsay")["reason"] == "No one can say what practice is. We asked."


def test_what_a_testing_preset_leaves_unmeasured_is_an_error() -> None:
    claims = Claims([GOOD])
    claims.measure("good", "time, ours / theirs", 1.0)
    for display in (claims.verdicts, claims._repr_mimebundle_, claims.__str__):
        with pytest.raises(ValueError, match="claim 'good': 'accuracy gained' must be measured at preset 'laptop'"):
            display()


def test_the_stored_data() -> None:
    claims = Claims([GOOD])
    claims.measure("good", "accuracy gained", torch.tensor(1.5), np.float32(0.5), 2.5, n=np.int64(3))
    claims.measure("good", "time, ours / theirs", 1)
    bundle = claims._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain", "application/vnd.nips26.claims+json"}
    assert json.loads(json.dumps(bundle[MIME], allow_nan=False)) == {
        "chapter": "tiny",
        "preset": "laptop",
        "seed": 7,
        "device": "cpu",
        "claims": [
            {
                "id": "good",
                "statement": "It is better & cheaper.",
                "tested_at": ["laptop", "gpu"],
                "verdict": "reproduced",
                "reason": None,
                "measurements": [
                    {
                        "quantity": "accuracy gained",
                        "value": 1.5,
                        "low": 0.5,
                        "high": 2.5,
                        "unit": "points",
                        "n": 3,
                        "relation": ">=",
                        "threshold": 0.0,
                        "judged_on": "low",
                        "met": True,
                    },
                    {
                        "quantity": "time, ours / theirs",
                        "value": 1.0,
                        "low": None,
                        "high": None,
                        "unit": "",
                        "n": None,
                        "relation": "<",
                        "threshold": 2.0,
                        "judged_on": "value",
                        "met": True,
                    },
                ],
            }
        ],
    }


def test_an_interval_of_the_statistics_fits() -> None:
    claims = Claims([Claim("good", "It is better.", (GAIN,))])
    claims.measure("good", "accuracy gained", *mean_interval([1.0, 2.0, 3.0]))
    assert verdict(claims)["measurements"][0]["n"] == 3


def test_read_claims_finds_the_last_table_of_a_notebook() -> None:
    def cell(*tables: Any) -> dict[str, Any]:
        return {"cell_type": "code", "outputs": [{"data": {MIME: table, "text/plain": "x"}} for table in tables]}

    other = {"outputs": [{"output_type": "stream", "text": "hello"}, {"data": {"text/html": "<b>"}}]}
    first, second = {"chapter": "first"}, {"chapter": "second"}
    assert read_claims({"cells": [{"cell_type": "markdown"}, other]}) is None
    assert read_claims({"cells": [other, cell(first), other]}) == first
    assert read_claims({"cells": [cell(first), cell(second), cell()]}) == second
    assert read_claims({}) is None


def test_a_live_notebook_may_measure_again_and_a_stored_one_not(run: Callable[..., None]) -> None:
    claims = Claims([SCALE])
    claims.measure("scale", "accuracy", 0.5)
    claims.measure("scale", "accuracy", 0.6)
    assert verdict(claims, "scale")["measurements"][0]["value"] == 0.6
    run(static=True)
    claims = Claims([SCALE])
    claims.measure("scale", "accuracy", 0.5)
    with pytest.raises(ValueError, match="claim 'scale', 'accuracy' was measured before; measure it once"):
        claims.measure("scale", "accuracy", 0.6)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("better", "accuracy gained", 1.0), "id was 'better'; it must be one of 'good', 'hearsay'"),
        (
            ("good", "accuracy", 1.0),
            "claim 'good' has no quantity 'accuracy'; its quantities are 'accuracy gained', 'time, ours / theirs'",
        ),
        (("hearsay", "accuracy", 1.0), "claim 'hearsay' has no quantity 'accuracy'; its quantities are none"),
        (("good", COST.quantity, NAN), "claim 'good', 'time, ours / theirs': value was nan; it must be finite"),
        (("good", COST.quantity, 1.0, -INF, 2.0), "'time, ours / theirs': low was -inf; it must be finite"),
        (("good", COST.quantity, 1.0, 0.0, NAN), "'time, ours / theirs': high was nan; it must be finite"),
        (("good", COST.quantity, 3.0, 0.0, 2.0), "value was 3.0 and the interval [0.0, 2.0]; it must hold the value"),
        (("good", COST.quantity, 1.0, 2.0, 0.0), "value was 1.0 and the interval [2.0, 0.0]; it must hold the value"),
        (("good", COST.quantity, 1.0, 0.0), "low was 0.0 and high was None; give both or neither"),
        (("good", COST.quantity, 1.0, None, 2.0), "low was None and high was 2.0; give both or neither"),
        (
            ("good", "accuracy gained", 1.0),
            "claim 'good', 'accuracy gained' is judged on the low end of its interval; give low and high",
        ),
        (("good", COST.quantity, 1.0, None, None, 0), "'time, ours / theirs': n was 0; it must be at least 1"),
    ],
)
def test_measurements_that_make_no_sense_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    claims = Claims([GOOD, HEARSAY])
    with pytest.raises(ValueError, match=re.escape(message)):
        claims.measure(*arguments)


def test_explanations_that_make_no_sense_are_refused() -> None:
    claims = Claims([GOOD])
    with pytest.raises(ValueError, match="id was 'better'; it must be one of 'good'"):
        claims.explain("better", "Because.")
    with pytest.raises(ValueError, match="claim 'good': text was ' '; it must say what we think"):
        claims.explain("good", " ")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Condition(" ", ">", 0.0), "quantity was ' '; it must say what is measured"),
        (lambda: Condition("x", ">", NAN), "condition 'x': threshold was nan; it must be finite"),
        (lambda: Claim("", "It works.", (COST,)), "claim '' says 'It works.'; it must have an id and a statement"),
        (lambda: Claim("a", " ", (COST,)), "claim 'a' says ' '; it must have an id and a statement"),
        (lambda: Claim("a", "It works."), "claim 'a' has no conditions; it must have one, or say why it is untestable"),
        (lambda: Claim("a", "It works.", (COST,), ()), "claim 'a' is tested at no preset; it must name one"),
        (lambda: Claim("a", "It works.", untestable=" "), "claim 'a': untestable was ' '; it must say why"),
        (lambda: Claim("a", "It works.", (COST, COST)), "claim 'a' has 'time, ours / theirs' in two conditions"),
        (lambda: Claims([GOOD, GOOD]), "claims hold 'good' twice; each id must be there once"),
    ],
)
def test_claims_that_make_no_sense_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("relation", "condition 'x': relation was '!='; it must be one of '>=', '<=', '>', '<', '=='"),
        ("judged_on", "condition 'x': judged_on was '!='; it must be one of 'value', 'low', 'high'"),
    ],
)
def test_words_that_a_condition_does_not_know_are_refused(field: str, message: str) -> None:
    # Past the checked annotations of these tests, which a reader's notebook does not have.
    condition = Condition("x", ">", 0.0)
    object.__setattr__(condition, field, "!=")
    with pytest.raises(ValueError, match=re.escape(message)):
        condition.__post_init__()


def test_claims_need_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_current", None)
    with pytest.raises(RuntimeError, match=r"no run has begun; call start\(...\) before Claims\(...\)"):
        Claims([GOOD])
