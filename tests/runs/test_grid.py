from __future__ import annotations

from collections.abc import Callable

import pytest

from nips26lib.runs import Refusal
from nips26lib.runs.grid import make_plans, parse_axis
from tests.tinybook import TinyBook


@pytest.mark.parametrize(("text", "values"), [
    ("seed=0:4", (0, 1, 2, 3, 4)), ("seed=3:3", (3,)), ("shift=-2:0", (-2, -1, 0)), ("seed=7", (7,)),
    ("rate=1e-3,0.1", (0.001, 0.1)), ("name=a,'b,c'", ("a", "b,c")), ("widths=[4, 8],[16]", ([4, 8], [16])),
    ("overrides={rate: 1, seeds: 2},{}", ({"rate": 1, "seeds": 2}, {})), ("flag=true,false", (True, False)),
])  # fmt: skip
def test_values_are_told_apart(text: str, values: tuple[object, ...]) -> None:
    assert parse_axis(text) == (text.partition("=")[0], values)


@pytest.mark.parametrize(("text", "why"), [
    ("seed", "form name=value"), ("seed=", "form name=value"), ("=1", "form name=value"), ("seed=4:2", "ends before"),
    ("seed=0:10000000", "at most 100,000 runs"), ("widths=[4,8", "not YAML"), ("a b=1", "form name=value"),
])  # fmt: skip
def test_what_is_no_axis_is_refused(text: str, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        parse_axis(text)


def test_the_product_has_every_combination_once(book: TinyBook) -> None:
    plans = make_plans(book.catalogue.chapter("tiny"), "smoke", [("seed", [3, 5]), ("rate", [0.1, 0.2, 0.3])])
    assert [(plan.seed, plan.overrides["rate"]) for plan in plans] == [
        (3, 0.1), (3, 0.2), (3, 0.3), (5, 0.1), (5, 0.2), (5, 0.3),
    ]  # fmt: skip
    assert len({plan.directory for plan in plans}) == 6 and {plan.preset for plan in plans} == {"smoke"}


def test_without_axes_it_is_one_run(book: TinyBook) -> None:
    (plan,) = make_plans(book.catalogue.chapter("tiny"), None, [])
    assert (plan.preset, plan.seed, plan.overrides) == ("smoke", 0, {})


def test_presets_can_be_an_axis_too(book: TinyBook) -> None:
    plans = make_plans(book.catalogue.chapter("tiny"), None, [("preset", ["smoke", "laptop"])])
    assert [(plan.preset, plan.threads) for plan in plans] == [("smoke", 1), ("laptop", 2)]


@pytest.mark.parametrize(("axes", "why"), [
    ([("seed", [1, 1])], "are the same"), ([("seed", [1]), ("seed", [2])], "'seed' is given twice"),
    ([("seed", range(400)), ("rate", [0.0] * 400)], "160,000 runs"), ([("sedes", [1])], "no parameter 'sedes'"),
    ([("seed", [1, "x"])], "'seed' is 'x'"), ([("rate", [0.5, "fast"])], "'rate' was 'fast'"),
])  # fmt: skip
def test_every_run_is_checked_before_the_first(
    book: TinyBook, axes: list[tuple[str, list[object]]], why: str, no_kernel: Callable[[], None]
) -> None:
    with pytest.raises(Refusal, match=why):
        make_plans(book.catalogue.chapter("tiny"), "smoke", axes)
    no_kernel()


def test_a_gpu_is_asked_for_only_where_the_run_will_be(book: TinyBook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIPS26_DEVICE", "cpu")
    chapter = book.catalogue.chapter("tiny")
    with pytest.raises(Refusal, match="needs a GPU"):
        make_plans(chapter, "gpu", [])
    (plan,) = make_plans(chapter, "gpu", [], elsewhere=True)
    assert (plan.needs_gpu, plan.device) == (True, "")
