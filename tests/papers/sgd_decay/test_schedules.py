"""Schedules: ends, direction, length, and the closed forms; the dictionary between rates and temperatures."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nips26lib.papers.sgd_decay.schedules import KINDS, eta_for, schedule, temperature

DECAYING = [kind for kind in KINDS if kind not in ("fixed", "step")]


@given(st.sampled_from(DECAYING), st.integers(1, 300), st.floats(1e-6, 1e3), st.floats(2e-3, 1.0), st.floats(0.2, 3.0))
@settings(deadline=None, max_examples=150)
def test_starts_and_ends_where_told_and_never_rises(kind: str, K: int, eta0: float, ratio: float, power: float) -> None:
    etas = schedule(kind, K, eta0, eta0 * ratio, power=power)
    assert etas.shape == (K,) and etas.dtype == torch.float64
    assert etas[0].item() == pytest.approx(eta0)
    if K > 1:
        assert etas[-1].item() == pytest.approx(eta0 * ratio, rel=1e-9)
    assert (etas.diff() <= 1e-12 * eta0).all()


def test_closed_forms() -> None:
    K, s = 5, torch.arange(5, dtype=torch.float64) / 4
    torch.testing.assert_close(schedule("geometric", K, 1.0, 1e-4), 10.0 ** (-4 * s))
    torch.testing.assert_close(schedule("polynomial", K, 1.0, 0.2), 1 / (1 + 4 * s))
    torch.testing.assert_close(schedule("polynomial", K, 1.0, 0.25, power=0.5), 1 / (1 + 15 * s).sqrt())
    torch.testing.assert_close(schedule("cosine", K, 1.0, 0.5), 0.75 + 0.25 * torch.cos(math.pi * s))
    torch.testing.assert_close(schedule("logarithmic", K, 1.0, 0.5), math.log(2) / torch.log(2 + 2 * s))
    assert schedule("fixed", 3, 0.1).tolist() == [0.1] * 3
    assert schedule("step", 6, 27.0).tolist() == pytest.approx([27, 27, 9, 9, 3, 1])


def test_sum_of_a_geometric_schedule() -> None:
    K, ratio = 1000, 1e-2
    step = ratio ** (1 / (K - 1))
    assert schedule("geometric", K, 0.3, 0.3 * ratio).sum().item() == pytest.approx(0.3 * (1 - step**K) / (1 - step))


@given(st.floats(1e-9, 1e3), st.floats(1e-3, 1e3))
def test_temperature_and_rate_undo_each_other(eta: float, sigma: float) -> None:
    assert eta_for(temperature(eta, sigma), sigma) == pytest.approx(eta)
    assert temperature(torch.tensor([eta], dtype=torch.float64), sigma)[0].item() == temperature(eta, sigma)


def test_without_noise_the_temperature_is_zero() -> None:
    assert temperature(0.1, 0.0) == 0


def test_device() -> None:
    for kind in KINDS:
        assert schedule(kind, 9, 1.0, None if kind in ("fixed", "step") else 0.1, device="meta").is_meta


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: schedule("linear", 3, 1.0), "kind was 'linear'; it must be one of fixed, geometric"),
        (lambda: schedule("fixed", 0, 1.0), "K was 0"),
        (lambda: schedule("fixed", 3, 0.0), "eta0 was 0.0; it must be above 0"),
        (lambda: schedule("fixed", 3, math.inf), "eta0 was inf"),
        (lambda: schedule("fixed", 3, 1.0, 0.5), "eta1 was 0.5; it must be None"),
        (lambda: schedule("geometric", 3, 1.0), "eta1 was None"),
        (lambda: schedule("geometric", 3, 1.0, -0.1), "eta1 was -0.1"),
        (lambda: schedule("geometric", 3, 1.0, math.nan), "eta1 was nan"),
        (lambda: schedule("geometric", 3, 1.0, 2.0), "eta1 was 2.0; it must be at most eta0"),
        (lambda: schedule("logarithmic", 3, 1.0, 1e-4), "eta1 was 0.0001"),
        (lambda: schedule("step", 3, 1.0, factor=1.0), "factor was 1.0"),
        (lambda: schedule("step", 3, 1.0, drops=(1.0,)), "drops was"),
        (lambda: schedule("polynomial", 3, 1.0, 0.1, power=0.0), "power was 0.0"),
        (lambda: temperature(-0.1, 1.0), "eta was -0.1"),
        (lambda: temperature(torch.tensor([0.1, math.nan]), 1.0), "eta was tensor"),
        (lambda: temperature(0.1, -1.0), "sigma was -1.0"),
        (lambda: eta_for(0.0, 1.0), "T was 0.0"),
        (lambda: eta_for(1.0, 0.0), "sigma was 0"),
    ],
)
def test_refusals(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()
