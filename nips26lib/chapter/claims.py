"""Claims of a paper: conditions stated before the run, what this run measured, and the verdict.

How a table of claims looks is the matter of `nips26lib.chapter.claims_table`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, SupportsFloat, SupportsInt

from nips26lib.chapter.claims_table import conditions_html, conditions_text, verdicts_html, verdicts_text
from nips26lib.chapter.evidence import read_evidence
from nips26lib.chapter.obtaining import obtained_real
from nips26lib.chapter.presets import current_run

MIME = "application/vnd.nips26.claims+json"

_RELATIONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}
_ENDS = ("value", "low", "high")

Relation = Literal[">=", "<=", ">", "<", "=="]
End = Literal["value", "low", "high"]


@dataclass(frozen=True)
class Condition:
    """What a quantity must be. ``judged_on`` says whether its value or an end of its interval is held against that.

    >>> Condition("accuracy gained", ">=", 0.0, judged_on="low", unit="points").met_by(1.2, low=-0.1, high=2.5)
    False
    """

    quantity: str
    relation: Relation
    threshold: float | int
    judged_on: End = "value"
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.quantity.strip():
            raise ValueError(f"quantity was {self.quantity!r}; it must say what is measured")
        if self.relation not in _RELATIONS:
            raise ValueError(
                f"condition {self.quantity!r}: relation was {self.relation!r}; it must be one of {_listed(_RELATIONS)}"
            )
        if self.judged_on not in _ENDS:
            raise ValueError(
                f"condition {self.quantity!r}: judged_on was {self.judged_on!r}; it must be one of {_listed(_ENDS)}"
            )
        if not math.isfinite(self.threshold):
            raise ValueError(f"condition {self.quantity!r}: threshold was {self.threshold}; it must be finite")

    def met_by(self, value: float, low: float | None = None, high: float | None = None) -> bool:
        """Whether a measurement meets the condition. Raises ValueError where the end it is judged on is missing."""
        judged = {"value": value, "low": low, "high": high}[self.judged_on]
        if judged is None:
            raise ValueError(f"condition {self.quantity!r} is judged on its {self.judged_on}, which was None; give it")
        return bool(_RELATIONS[self.relation](judged, self.threshold))


@dataclass(frozen=True)
class Claim:
    """One claim of a paper in our words, with all that must hold for it, and the presets that can test it.

    ``untestable`` is the reason why no preset can; ``needs_data`` names data sets, as `obtain` calls them, in whose
    stead a stand-in tests nothing.
    """

    id: str
    statement: str
    conditions: tuple[Condition, ...] = ()
    tested_at: tuple[str, ...] = ("laptop", "gpu")
    untestable: str | None = None
    needs_data: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.id.strip() or not self.statement.strip():
            raise ValueError(f"claim {self.id!r} says {self.statement!r}; it must have an id and a statement")
        if not self.conditions and self.untestable is None:
            raise ValueError(f"claim {self.id!r} has no conditions; it must have one, or say why it is untestable")
        if not self.tested_at and self.untestable is None:
            raise ValueError(f"claim {self.id!r} is tested at no preset; it must name one, or say why it is untestable")
        if self.untestable is not None and not self.untestable.strip():
            raise ValueError(f"claim {self.id!r}: untestable was {self.untestable!r}; it must say why")
        quantities = [condition.quantity for condition in self.conditions]
        for quantity in quantities:
            if quantities.count(quantity) > 1:
                raise ValueError(f"claim {self.id!r} has {quantity!r} in two conditions; each must be another quantity")


@dataclass(frozen=True)
class Measurement:
    """What a run found for a condition's quantity: a value, perhaps its interval, and over how many it was taken."""

    value: float
    low: float | None
    high: float | None
    n: int | None


class Claims:
    """The claims of a chapter in the run that `start` began last; a cell that ends with it shows the verdicts."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        ids = [claim.id for claim in claims]
        for name in ids:
            if ids.count(name) > 1:
                raise ValueError(f"claims hold {name!r} twice; each id must be there once")
        run = current_run()
        if run is None:
            raise RuntimeError("no run has begun; call start(...) before Claims(...)")
        self._run = run
        self._claims = {claim.id: claim for claim in claims}
        self._measured: dict[tuple[str, str], Measurement] = {}
        self._explained: dict[str, str] = {}

    def measure(
        self,
        id: str,
        quantity: str,
        value: SupportsFloat,
        low: SupportsFloat | None = None,
        high: SupportsFloat | None = None,
        n: SupportsInt | None = None,
    ) -> None:
        """Enter what was measured: a value, the interval around it, and the number of independent repetitions.

        An interval of `nips26lib.blocks.stats` fits as ``claims.measure(id, quantity, *interval)``. Raises ValueError
        for an unknown claim or quantity, a value or an end that is not finite, an interval that does not hold the
        value, a missing interval where the verdict hangs on it, or a second measurement in a run that is stored.
        """
        claim = self._claim(id)
        what = f"claim {id!r}, {quantity!r}"
        condition = next((condition for condition in claim.conditions if condition.quantity == quantity), None)
        if condition is None:
            known = _listed(condition.quantity for condition in claim.conditions)
            raise ValueError(f"claim {id!r} has no quantity {quantity!r}; its quantities are {known or 'none'}")
        # In a live notebook a cell may be run again, and the later value holds.
        if (id, quantity) in self._measured and self._run.static:
            raise ValueError(f"{what} was measured before; measure it once")
        if (low is None) != (high is None):
            raise ValueError(f"{what}: low was {low} and high was {high}; give both or neither")
        numbers = {"value": value, "low": low, "high": high}
        found = {name: None if number is None else float(number) for name, number in numbers.items()}
        for name, number in found.items():
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{what}: {name} was {number}; it must be finite")
        middle, left, right = float(value), found["low"], found["high"]
        if left is not None and right is not None and not left <= middle <= right:
            raise ValueError(f"{what}: value was {middle} and the interval [{left}, {right}]; it must hold the value")
        if condition.judged_on != "value" and left is None:
            raise ValueError(f"{what} is judged on the {condition.judged_on} end of its interval; give low and high")
        if n is not None and int(n) < 1:
            raise ValueError(f"{what}: n was {n}; it must be at least 1")
        self._measured[id, quantity] = Measurement(middle, left, right, None if n is None else int(n))

    def explain(self, id: str, text: str) -> None:
        """Say why a claim fails or cannot be tested; shown only where that is the verdict."""
        self._claim(id)
        if not text.strip():
            raise ValueError(f"claim {id!r}: text was {text!r}; it must say what we think is the reason")
        self._explained[id] = " ".join(text.split())

    def conditions(self) -> Conditions:
        """What will be measured and how it will be judged, to be shown before anything runs."""
        return Conditions(tuple(self._claims.values()))

    def verdicts(self) -> dict[str, Any]:
        """Measurements and verdicts, as they are stored in the output.

        Raises ValueError naming what a preset that tests a claim has left unmeasured.
        """
        run = self._run
        return {
            "chapter": run.chapter,
            "preset": run.preset,
            "seed": run.seed,
            "device": str(run.device),
            "claims": [self._judged(claim) for claim in self._claims.values()],
        }

    def _judged(self, claim: Claim) -> dict[str, Any]:
        measurements = []
        missing = []
        for condition in claim.conditions:
            found = self._measured.get((claim.id, condition.quantity))
            if found is None:
                missing.append(condition.quantity)
                continue
            measurements.append(
                {
                    "quantity": condition.quantity,
                    "value": found.value,
                    "low": found.low,
                    "high": found.high,
                    "unit": condition.unit,
                    "n": found.n,
                    "relation": condition.relation,
                    "threshold": condition.threshold,
                    "judged_on": condition.judged_on,
                    "met": condition.met_by(found.value, found.low, found.high),
                }
            )
        explained = self._explained.get(claim.id)
        reason: str | None
        if claim.untestable is not None:
            verdict, reason = "not testable here", " ".join(filter(None, (claim.untestable, explained)))
        elif self._run.preset not in claim.tested_at:
            presets = " or ".join(repr(preset) for preset in claim.tested_at)
            verdict, reason = "not testable at this preset", f"Preset {presets} tests it."
        elif absent := self._absent(claim):
            verdict = "not testable here"
            reason = f"It needs the real data ({', '.join(absent)}), which could not be had: a stand-in took its place."
        elif missing:
            raise ValueError(
                f"claim {claim.id!r}: {_listed(missing)} must be measured at preset {self._run.preset!r} and was not"
            )
        elif all(measurement["met"] for measurement in measurements):
            verdict, reason = "reproduced", None
        else:
            verdict, reason = "not reproduced", explained
        return {
            "id": claim.id,
            "statement": claim.statement,
            "tested_at": list(claim.tested_at),
            "verdict": verdict,
            "reason": reason,
            "measurements": measurements,
        }

    def _absent(self, claim: Claim) -> list[str]:
        """The data that the claim needs and this run has only a stand-in of."""
        had = obtained_real()
        for name in claim.needs_data:
            if name not in had:
                raise ValueError(
                    f"claim {claim.id!r} needs the data {name!r}, which this run did not ask for; "
                    f"it obtained {_listed(had) or 'none'}"
                )
        return [name for name in claim.needs_data if not had[name]]

    def _claim(self, id: str) -> Claim:
        if id not in self._claims:
            raise ValueError(f"id was {id!r}; it must be one of {_listed(self._claims)}")
        return self._claims[id]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        table, evidence = self.verdicts(), read_evidence(self._run.chapter)
        return {"text/html": verdicts_html(table, evidence), "text/plain": verdicts_text(table), MIME: table}

    def __str__(self) -> str:
        return verdicts_text(self.verdicts())


@dataclass(frozen=True)
class Conditions:
    """Claims before the run: what will be measured, and what it must be."""

    claims: tuple[Claim, ...]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/html": conditions_html(self._rows()), "text/plain": str(self)}

    def __str__(self) -> str:
        return conditions_text(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "id": claim.id,
                "statement": claim.statement,
                "tested_at": list(claim.tested_at),
                "untestable": claim.untestable,
                "conditions": [vars(condition) for condition in claim.conditions],
            }
            for claim in self.claims
        ]


def read_claims(notebook: Mapping[str, Any]) -> dict[str, Any] | None:
    """The table of claims in the outputs of a notebook (as JSON, format 4): the last one, or None where none is."""
    tables = list(_tables(notebook))
    return tables[-1] if tables else None


def _tables(notebook: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for cell in notebook.get("cells", ()):
        for output in cell.get("outputs", ()):
            table = output.get("data", {}).get(MIME)
            if isinstance(table, Mapping):
                yield dict(table)


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
