from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from nips26lib.blocks.stats import (
    Interval,
    binomial_interval,
    bootstrap_interval,
    interquartile_mean,
    mean_interval,
    paired_difference,
    ratio_interval,
    slope_interval,
)

# 97.5 % quantiles of Student's t from printed tables.
T2, T3 = 4.302653, 3.182446


def coverage(interval: Callable[[int], Interval], truth: float, trials: int) -> float:
    """The share of intervals, one a seed, that hold the truth."""
    found = [interval(seed) for seed in range(trials)]
    return float(np.mean([one.low <= truth <= one.high for one in found]))


def test_mean_interval_by_hand() -> None:
    # Standard deviation 1, so the standard error is 1 / sqrt(3), with 2 degrees of freedom.
    assert mean_interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2 - T2 / math.sqrt(3), 2 + T2 / math.sqrt(3), 3))


def test_mean_interval_agrees_with_scipy_at_any_level() -> None:
    sample = np.random.default_rng(0).exponential(size=12)
    for level in (0.5, 0.9, 0.99):
        ends = stats.ttest_1samp(sample, 0).confidence_interval(level)
        assert mean_interval(sample, level)[1:3] == pytest.approx((ends.low, ends.high))


def test_mean_interval_covers_as_often_as_it_says() -> None:
    share = coverage(lambda seed: mean_interval(np.random.default_rng(seed).normal(3, 2, size=5)), 3, trials=4000)
    assert share == pytest.approx(0.95, abs=3 * math.sqrt(0.95 * 0.05 / 4000))


def test_tensors_are_samples() -> None:
    sample = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert mean_interval(sample) == mean_interval([1.0, 2.0, 3.0])
    assert mean_interval(torch.tensor([1, 2, 3])) == mean_interval([1, 2, 3])
    assert mean_interval(sample.bfloat16()) == mean_interval([1.0, 2.0, 3.0])


def test_paired_difference_by_hand() -> None:
    # The differences are 1, 2, 3 whatever the pairs have in common.
    interval = paired_difference([101.0, 2.0, 53.0], [100.0, 0.0, 50.0])
    assert interval == pytest.approx((2.0, 2 - T2 / math.sqrt(3), 2 + T2 / math.sqrt(3), 3))


def test_slope_interval_by_hand() -> None:
    # Sxx = 5, Sxy = 4.5, residuals 0.1, 0.2, -0.7, 0.4: the slope is 0.9 with standard error sqrt(0.35 / 5).
    reach = T2 * math.sqrt(0.35 / 5)
    assert slope_interval([0, 1, 2, 3], [1, 2, 2, 4]) == pytest.approx((0.9, 0.9 - reach, 0.9 + reach, 4))


def test_slope_interval_covers_as_often_as_it_says() -> None:
    x = np.array([0.0, 1.0, 2.0, 4.0, 8.0])

    def noisy(seed: int) -> Interval:
        return slope_interval(x, 5 - 0.7 * x + np.random.default_rng(seed).normal(size=5), level=0.8)

    assert coverage(noisy, -0.7, trials=2000) == pytest.approx(0.8, abs=3 * math.sqrt(0.8 * 0.2 / 2000))


def test_binomial_interval_in_closed_form() -> None:
    for n in (1, 10, 597):
        edge = 0.025 ** (1 / n)  # P(no success) = (1 - p)^n
        assert binomial_interval(0, n) == pytest.approx((0.0, 0.0, 1 - edge, n))
        assert binomial_interval(n, n) == pytest.approx((1.0, edge, 1.0, n))
    ends = binomial_interval(7, 20, level=0.9)
    assert ends[1:3] == pytest.approx((stats.beta.ppf(0.05, 7, 14), stats.beta.ppf(0.95, 8, 13)))


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.97])
def test_binomial_interval_never_covers_less_than_it_says(share: float) -> None:
    n = 25
    holds = [low <= share <= high for _, low, high, _ in (binomial_interval(k, n) for k in range(n + 1))]
    assert stats.binom.pmf(np.arange(n + 1), n, share) @ np.array(holds) >= 0.95


def test_bootstrap_of_a_mean_nears_the_normal_interval() -> None:
    sample = np.random.default_rng(0).normal(size=400)
    reach = 1.959964 * sample.std() / 20
    interval = bootstrap_interval(sample)
    assert interval.value == pytest.approx(sample.mean())
    assert interval[1:3] == pytest.approx((sample.mean() - reach, sample.mean() + reach), abs=0.05 * reach)
    assert interval.n == 400


def test_bootstrap_covers_about_as_often_as_it_says() -> None:
    # An exponential's median is log 2.
    def median(seed: int) -> Interval:
        return bootstrap_interval(np.random.default_rng(seed).exponential(size=40), np.median, 0.9, resamples=300)

    assert coverage(median, math.log(2), trials=200) == pytest.approx(0.9, abs=0.07)


def test_bootstrap_repeats_itself_and_depends_on_its_seed() -> None:
    sample = np.random.default_rng(1).normal(size=15)
    first, again, other = (bootstrap_interval(sample, resamples=500, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_bootstrap_takes_statistics_that_do_not_change_when_a_member_goes() -> None:
    assert bootstrap_interval([1, 1, 1, 2], np.median, resamples=500) == Interval(1.0, 1.0, 2.0, 4)
    assert bootstrap_interval([4.0, 4.0], np.mean) == Interval(4.0, 4.0, 4.0, 2)


def test_bootstrap_of_an_interquartile_mean() -> None:
    sample = np.random.default_rng(2).standard_cauchy(size=60)
    interval = bootstrap_interval(sample, interquartile_mean, resamples=500)
    assert interval.value == interquartile_mean(sample)
    assert -1 < interval.low < interval.value < interval.high < 1  # where a Cauchy's mean would be anywhere


def test_ratio_keeps_pairs_together() -> None:
    below = np.random.default_rng(0).uniform(1, 100, size=8)
    ratio = ratio_interval(0.3 * below, below, resamples=500)
    assert ratio[:3] == pytest.approx((0.3, 0.3, 0.3))
    assert ratio.low <= ratio.value <= ratio.high


def test_ratio_is_one_of_means_and_scales() -> None:
    above, below = np.random.default_rng(0).uniform(1, 3, size=(2, 10))
    ratio = ratio_interval(above, below, resamples=500)
    assert ratio.value == pytest.approx(above.mean() / below.mean())
    assert ratio_interval(5 * above, below, resamples=500)[:3] == pytest.approx([5 * end for end in ratio[:3]])


def test_ratio_covers_about_as_often_as_it_says() -> None:
    def pairs(seed: int) -> Interval:
        common, own = np.random.default_rng(seed).uniform(0.5, 1.5, size=(2, 25))
        return ratio_interval(common * own + 1, common, level=0.9, resamples=300)

    assert coverage(pairs, 2.0, trials=200) == pytest.approx(0.9, abs=0.07)


def test_interquartile_mean_cuts_a_quarter_at_either_end() -> None:
    assert interquartile_mean([7.0]) == 7.0
    assert interquartile_mean([0, 0, 2, 10, 100]) == pytest.approx((0.75 * 0 + 2 + 0.75 * 10) / 2.5)
    assert interquartile_mean([3, 1, 100]) == pytest.approx((0.25 * 1 + 3 + 0.25 * 100) / 1.5)
    sample = np.random.default_rng(0).normal(size=40)
    assert interquartile_mean(sample) == pytest.approx(stats.trim_mean(sample, 0.25))


@given(arrays.arrays(float, st.integers(1, 12), elements=st.floats(-1e3, 1e3)), st.floats(-10, 10), st.floats(-10, 10))
def test_interquartile_mean_follows_shift_and_scale_and_stays_inside(x: Any, scale: float, shift: float) -> None:
    middle = interquartile_mean(x)
    assert np.sort(x)[x.size // 4] - 1e-9 <= middle <= np.sort(x)[-1 - x.size // 4] + 1e-9
    assert interquartile_mean(scale * x + shift) == pytest.approx(scale * middle + shift, abs=1e-8)
    assert interquartile_mean(x[::-1]) == middle


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mean_interval([1.0]), ValueError, "x had length 1; it must be at least 2"),
        (lambda: mean_interval([1.0, NAN]), ValueError, "x held nan at index 1; all members must be finite"),
        (lambda: mean_interval([[1.0, 2.0]]), ValueError, "x had shape (1, 2); it must be a one-dimensional sample"),
        (lambda: mean_interval(["a", "b"]), TypeError, "x was ['a', 'b']; it must be a one-dimensional sample"),
        (lambda: mean_interval([1.0, 2.0], 1.0), ValueError, "level was 1.0; it must be between 0 and 1"),
        (lambda: mean_interval([1.0, 2.0], NAN), ValueError, "level was nan; it must be between 0 and 1"),
        (lambda: paired_difference([1, 2], [1, 2, 3]), ValueError, "a had length 2 and b had length 3; they must"),
        (lambda: paired_difference([1, 2], [1, INF]), ValueError, "b held inf at index 1; all members must be finite"),
        (lambda: ratio_interval([1, 2], [1, 0]), ValueError, "b held 0; a ratio's denominators must be positive"),
        (lambda: ratio_interval([1, 2], [1, 2], 2.0), ValueError, "level was 2.0; it must be between 0 and 1"),
        (lambda: slope_interval([1, 2], [1, 2]), ValueError, "x had length 2; it must be at least 3"),
        (lambda: slope_interval([1, 1, 1], [1, 2, 3]), ValueError, "x held 1 throughout; a slope needs two different"),
        (lambda: slope_interval([1, 2, 3], [1, 2, 3], 0.0), ValueError, "level was 0.0; it must be between 0 and 1"),
        (lambda: binomial_interval(3, 2), ValueError, "k was 3 and n was 2; they must be whole numbers with 0 <= k"),
        (lambda: binomial_interval(-1, 2), ValueError, "k was -1 and n was 2"),
        (lambda: binomial_interval(0, 0), ValueError, "k was 0 and n was 0"),
        (lambda: binomial_interval(1, 2, 1.5), ValueError, "level was 1.5; it must be between 0 and 1"),
        (lambda: bootstrap_interval([1, 2], resamples=9), ValueError, "resamples was 9; it must be at least 100"),
        (lambda: bootstrap_interval([1, 2], level=-1.0), ValueError, "level was -1.0; it must be between 0 and 1"),
        (lambda: bootstrap_interval([1, 2], lambda x: NAN), ValueError, "statistic was not finite on the sample"),
        (lambda: interquartile_mean([]), ValueError, "x had length 0; it must be at least 1"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()
