"""Estimates with intervals, for samples whose members are independent repetitions: seeds, runs, test images.

Every function takes one-dimensional samples (arrays, lists or tensors on any device) and returns an `Interval`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

Sample = Any  # what numpy.asarray takes, or a tensor


class Interval(NamedTuple):
    """An estimate, the ends of its confidence interval, and the number of repetitions that it rests on."""

    value: float
    low: float
    high: float
    n: int


def mean_interval(x: Sample, level: float = 0.95) -> Interval:
    """The mean of a sample with Student's t interval; exact for normal data.

    Raises ValueError for fewer than two members, members that are not finite, or a level outside (0, 1).

    >>> interval = mean_interval([1.0, 2.0, 3.0])
    >>> f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
    '2.00 [-0.48, 4.48]'
    """
    sample, level = _sample(x, "x"), _level(level)
    mean = float(sample.mean())
    reach = float(stats.t.ppf((1 + level) / 2, sample.size - 1) * sample.std(ddof=1) / math.sqrt(sample.size))
    return Interval(mean, mean - reach, mean + reach, sample.size)


def paired_difference(a: Sample, b: Sample, level: float = 0.95) -> Interval:
    """The mean of a − b over pairs (same seed, same data), with Student's t interval of the differences.

    >>> paired_difference([2.0, 3.0, 4.0], [1.0, 2.0, 3.0])
    Interval(value=1.0, low=1.0, high=1.0, n=3)
    """
    left, right = _pairs(a, b, "a", "b")
    return mean_interval(left - right, level)


def bootstrap_interval(
    x: Sample,
    statistic: Callable[..., Any] = np.mean,
    level: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Interval:
    """A statistic (from a 1-D array to a number) of a sample with its BCa bootstrap interval (Efron 1987).

    Where BCa is not defined, because dropping a member never changes the statistic, the percentile interval stands in.
    Below some ten members a bootstrap interval is too narrow; for a mean prefer `mean_interval`.
    Raises ValueError as `mean_interval` does, and for a statistic that is not finite.

    >>> bootstrap_interval([3.0, 3.0, 3.0], np.median)
    Interval(value=3.0, low=3.0, high=3.0, n=3)
    """
    sample = _sample(x, "x")
    return _bootstrap((sample,), statistic, level, resamples, seed)


def ratio_interval(a: Sample, b: Sample, level: float = 0.95, resamples: int = 9999, seed: int = 0) -> Interval:
    """mean(a) / mean(b) over pairs, with a bootstrap interval that draws whole pairs.

    Raises ValueError as `paired_difference` does, and unless all of ``b`` is positive.

    >>> ratio_interval([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    Interval(value=0.5, low=0.5, high=0.5, n=3)
    """
    left, right = _pairs(a, b, "a", "b")
    if right.min() <= 0:
        raise ValueError(f"b held {right.min():g}; a ratio's denominators must be positive")
    return _bootstrap((left, right), lambda above, below: above.mean() / below.mean(), level, resamples, seed)


def binomial_interval(k: int, n: int, level: float = 0.95) -> Interval:
    """The share k / n with its exact interval (Clopper and Pearson 1934).

    >>> interval = binomial_interval(0, 10)
    >>> interval.low, round(interval.high, 4)
    (0.0, 0.3085)
    """
    if int(k) != k or int(n) != n or n < 1 or not 0 <= k <= n:
        raise ValueError(f"k was {k} and n was {n}; they must be whole numbers with 0 <= k <= n and n >= 1")
    ends = stats.binomtest(int(k), int(n)).proportion_ci(_level(level), method="exact")
    return Interval(k / n, float(ends.low), float(ends.high), int(n))


def slope_interval(x: Sample, y: Sample, level: float = 0.95) -> Interval:
    """The least-squares slope of y over x with Student's t interval; exact for normal errors.

    Raises ValueError for fewer than three points, or for ``x`` without two different values.

    >>> slope_interval([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, 7.0])
    Interval(value=2.0, low=2.0, high=2.0, n=4)
    """
    across, up = _pairs(x, y, "x", "y", smallest=3)
    if np.ptp(across) == 0:
        raise ValueError(f"x held {across[0]:g} throughout; a slope needs two different values")
    fit = stats.linregress(across, up)
    reach = float(stats.t.ppf((1 + _level(level)) / 2, across.size - 2) * fit.stderr)
    slope = float(fit.slope)
    return Interval(slope, slope - reach, slope + reach, across.size)


def interquartile_mean(x: Sample) -> float:
    """The mean of the middle half: a quarter of the sample is cut at either end, members in part where need be.

    >>> interquartile_mean([-100.0, 1.0, 3.0, 100.0])
    2.0
    """
    sample = np.sort(_sample(x, "x", smallest=1))
    cut = sample.size / 4
    # Each member fills one unit of a line of length n; what of it lies between n/4 and 3n/4 is its weight.
    start = np.arange(sample.size)
    weight = np.clip(np.minimum(start + 1, sample.size - cut) - np.maximum(start, cut), 0, None)
    return float(weight @ sample / weight.sum())


def _bootstrap(
    samples: tuple[np.ndarray, ...], statistic: Callable[..., Any], level: float, resamples: int, seed: int
) -> Interval:
    level = _level(level)
    if resamples < 100:
        raise ValueError(f"resamples was {resamples}; it must be at least 100")
    value = float(statistic(*samples))
    n = samples[0].size
    # The jackknife shows whether the statistic varies at all; SciPy warns and returns NaN where it does not.
    jackknife = [float(statistic(*(np.delete(sample, i) for sample in samples))) for i in range(n)]
    if not np.isfinite([value, *jackknife]).all():
        raise ValueError("statistic was not finite on the sample, or on the sample without one member")
    method = "BCa" if np.ptp(jackknife) > 1e-12 * max(map(abs, jackknife)) else "percentile"
    ends = stats.bootstrap(
        samples,
        statistic,
        n_resamples=resamples,
        vectorized=False,
        paired=len(samples) > 1,
        confidence_level=level,
        method=method,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    # A strongly biased statistic, or the last bit of a constant one, can leave the estimate outside: widen to it.
    return Interval(value, min(value, float(ends.low)), max(value, float(ends.high)), n)


def _sample(x: Sample, name: str, smallest: int = 2) -> np.ndarray:
    if hasattr(x, "detach"):  # a tensor: NumPy cannot read those that have a gradient, or lie on a GPU
        x = x.detach().double().cpu()
    try:
        sample = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} was {x!r}; it must be a one-dimensional sample of numbers") from None
    if sample.ndim != 1:
        raise ValueError(f"{name} had shape {sample.shape}; it must be a one-dimensional sample of numbers")
    if sample.size < smallest:
        raise ValueError(f"{name} had length {sample.size}; it must be at least {smallest}")
    if not np.isfinite(sample).all():
        where = int(np.flatnonzero(~np.isfinite(sample))[0])
        raise ValueError(f"{name} held {sample[where]} at index {where}; all members must be finite")
    return sample


def _pairs(a: Sample, b: Sample, first: str, second: str, smallest: int = 2) -> tuple[np.ndarray, np.ndarray]:
    left, right = _sample(a, first, smallest), _sample(b, second, smallest)
    if left.size != right.size:
        raise ValueError(f"{first} had length {left.size} and {second} had length {right.size}; they must be pairs")
    return left, right


def _level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level was {level}; it must be between 0 and 1")
    return level
