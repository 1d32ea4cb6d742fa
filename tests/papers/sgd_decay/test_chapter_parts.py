"""The chapter's presets, claims, checker, explorables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from nips26lib.chapter.presets import resolve
from nips26lib.papers.sgd_decay import CLAIMS, PRESETS, contest, exact, exercises, explorables, pictures, schedule


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("name", PRESETS)
def test_presets_hold_what_the_chapter_asks_of_them(name: str) -> None:
    settings = resolve(PRESETS, name, {})
    assert settings.judged_budget in settings.budgets
    assert 1.0 in settings.louder
    assert len(settings.exponents) >= 4 and list(settings.exponents) == sorted(settings.exponents)
    assert settings.settings % 2 == 0 and int(settings.exact_settings**0.5) ** 2 == settings.exact_settings
    if name != "smoke":
        assert {8, 16} <= set(settings.dims)


def test_every_claim_of_the_abstract_is_there() -> None:
    assert [claim.id for claim in CLAIMS] == [
        "fewer-queries", "by-sgd", "benchmarks", "discretization", "weak-poincare", "robust", "first",
    ]  # fmt: skip


def right(T0: float, T1: float, sigma: float, K: int) -> Tensor:
    return schedule("geometric", K, 2 * T0 / sigma**2, 2 * T1 / sigma**2)


def raises(T0: float, T1: float, sigma: float, K: int) -> Tensor:
    raise RuntimeError("boom")


WRONG: dict[str, tuple[Callable[..., object], str]] = {
    "the start": (lambda T0, T1, sigma, K: torch.ones(K), "the temperatures ησ²/2 run from"),
    "temperatures for rates": (lambda T0, T1, sigma, K: schedule("geometric", K, T0, T1), "they must run from 0.6"),
    "a line": (lambda T0, T1, sigma, K: torch.linspace(2 * T0 / sigma**2, 2 * T1 / sigma**2, K), "the ratio of one"),
    "too short": (lambda T0, T1, sigma, K: right(T0, T1, sigma, K)[1:], "a tensor of shape (400,)"),
    "a list": (lambda T0, T1, sigma, K: [1.0] * K, "a tensor of shape (400,)"),
    "negative": (lambda T0, T1, sigma, K: -right(T0, T1, sigma, K), "must be positive and finite"),
    "raises": (raises, "raised RuntimeError: boom"),
}


def test_the_checker_takes_a_right_answer() -> None:
    assert exercises.check_cooling(right).startswith("Correct.")


@pytest.mark.parametrize(("answer", "message"), WRONG.values(), ids=WRONG)
def test_the_checker_says_what_is_wrong(answer: Callable[..., Tensor], message: str) -> None:
    told = exercises.check_cooling(answer)
    assert told.startswith("Not yet") and message in told


@pytest.mark.parametrize("kind", explorables.SCHEDULES)
def test_cooling_draws_a_law_at_every_moment(kind: str) -> None:
    queries, T, laws = explorables._cooled(1.0, 0.02, 0.001, kind, 1000, 301)
    assert queries[0] == 1 and queries[-1] == 1000
    np.testing.assert_allclose(laws.sum(1), 1)
    hot, cold = 1.0, 0.05  # ησ²/2 for the two rates
    wanted = {"fixed, hot": (hot, hot), "fixed, cold": (cold, cold)}.get(kind, (hot, cold))
    assert T[0] == pytest.approx(wanted[0], rel=0.02) and T[-1] == pytest.approx(wanted[1], rel=0.3)
    assert isinstance(explorables.cooling(points=301)(kind, 1000, 0.5), Figure)


def test_a_cold_run_stays_where_it_started_and_a_cooled_one_does_not() -> None:
    land = exact.bumpy(1.0, 301)
    first, last = land.basin()
    inside = {
        kind: explorables._cooled(1.0, 0.02, 0.001, kind, 20_000, 301)[2][-1, first : last + 1].sum()
        for kind in ("fixed, cold", "geometric")
    }
    assert inside["fixed, cold"] < 0.01
    assert inside["geometric"] > 0.8


def test_the_race_reads_off_the_curves_and_goes_on_where_they_end() -> None:
    found = exact.curves(1.0, 301, (3.0, 4.5, 6.0, 7.5), 16)
    draw = explorables.budget_race(found, 301)

    def title(eps: float, d: int, iterate: str = "last") -> str:
        axes = draw(eps, d, iterate).axes[0]
        return axes.get_title("left") + axes.get_title("center")  # where it stands is the style's business

    for eps, ratio in zip(found.fixed.eps, found.ratio, strict=True):
        assert f"fixed needs {ratio:,.0f} times as many" in title(float(eps) * 4, 4)
    beyond = float(found.fixed.eps[-1]) * 0.8
    line, power = found.exponential, found.polynomial
    wanted = np.exp(line.intercept + line.slope / beyond - power.intercept + power.slope * np.log(beyond))
    assert f"fixed needs {wanted:,.0f} times as many" in title(beyond, 1)
    assert title(1.0, 16) != title(1.0, 16, "best (estimate)")


def test_the_bars_are_those_of_the_inequality() -> None:
    figure = explorables.weak_inequality(1.0, 301)(0.2)
    widths = [patch.get_width() for patch in figure.axes[1].patches]
    land = exact.bumpy(1.0, 301)
    assert widths[0] == pytest.approx(0.2 / land.poincare(0.2).gap)
    assert widths[1] == pytest.approx(0.2 / land.poincare(0.2, land.basin()).gap)
    assert 0 < widths[2] < 0.05


def figures() -> dict[str, Callable[[], Figure]]:
    small = {"seed": 3, "chains": 4, "settings": 4}
    pairs = [contest.contest("Rastrigin, A = 1", 2, K, **small)[0] for K in (20, 80)]
    found = exact.curves(1.0, 301, (3.0, 4.5, 6.0), 16)
    one = contest.contest("Levy", 2, 20, **small)[0]
    best = [contest.contest("Rastrigin, A = 1", d, 20, by_best=True, **small)[0] for d in (1, 2)]
    return {
        "landscape": lambda: pictures.landscape(exact.bumpy(1.0, 301), (1.0, 0.3, 0.1)),
        "query curves": lambda: pictures.query_curves([found]),
        "race": lambda: pictures.race(pairs, found),
        "benchmarks": lambda: pictures.benchmark_dots([pairs[0], one]),
        "loudness": lambda: pictures.loudness({1.0: [pairs[0], one], 3.0: [pairs[1], one]}),
        "tracking": lambda: pictures.tracking(exact.tracking(281, 3)),
        "inequality": lambda: pictures.inequality(exact.inequality(301, np.geomspace(0.2, 0.1, 3), 3, 1)),
        "lags": lambda: pictures.lags([("slow", exact.lag(301, 100.0, 1.5, 0.05, steps=50))]),
        "best iterates": lambda: pictures.best_iterates(best, best),
        "degrees": lambda: pictures.degrees([exact.degree(A, 301, (0.6, 0.4, 0.3), 4) for A in (0.5, 1.0)]),
    }


def test_every_axis_of_every_figure_is_labelled() -> None:
    for name, draw in figures().items():
        axes = draw().axes
        assert all(ax.get_xlabel() for ax in axes[-1:]), name
        assert axes[0].get_ylabel() or name == "benchmarks", name


def test_the_table_of_ratios_says_every_ratio() -> None:
    cells = contest.robustness(("geometric", "step"), ("gaussian",), ("box",), 2, 20, seed=1, chains=4, settings=4)
    figure = pictures.robustness(cells, {"gaussian": "Gaussian"}, {"box": "from the box"})
    told = {text.get_text() for text in figure.axes[0].texts}
    assert told == {f"{cell.contest.ratio.value:.2f}" for cell in cells}
