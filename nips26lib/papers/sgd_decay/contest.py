"""The contest by real SGD: the best fixed learning rate against the best decaying one, at the same budget of queries.

Both families are tuned over equally many settings on one seed, and the best setting of each is run again on another:
the smallest of ten means flatters whoever it belongs to. Every chain is an independent repetition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from nips26lib.blocks.stats import Interval, mean_interval, ratio_interval

from .descent import sgd, uniform_start
from .functions import TestFunction, benchmark
from .schedules import schedule

#: Chapter seed s tunes on seed s (of those below 100) and judges on seed 1000 + s.
TUNING, JUDGING = 100, 1000
#: How η_1 relates to η_0 where a rate decays.
DECAYS = (10.0, 100.0)

Watch = Callable[[Iterable, str], Iterable]


def _unwatched(items: Iterable, description: str) -> Iterable:
    return items


@dataclass(frozen=True)
class Problem:
    """A function to minimize, the noise of its gradients, and the learning rate around which both grids are laid.

    `centre` is about the best fixed rate at 20,000 queries, found on seeds below 100 by a search over five decades.
    """

    name: str
    sigma: float
    centre: float
    parameters: dict[str, float] = field(default_factory=dict)

    def function(self, d: int) -> TestFunction:
        """The function in `d` dimensions."""
        return benchmark(self.name, d, **self.parameters)


PROBLEMS = {
    "Rastrigin, A = 1": Problem("rastrigin", 10.0, 5.5e-3, {"A": 1.0}),
    "Ackley": Problem("ackley", 1.0, 0.2),
    "Griewank": Problem("griewank", 1.0, 0.05),
    "Levy": Problem("levy", 1.0, 0.2),
    "Styblinski-Tang": Problem("styblinski_tang", 30.0, 7.5e-3),
    "Rastrigin, A = 10": Problem("rastrigin", 30.0, 4e-3, {"A": 10.0}),
}


@dataclass(frozen=True)
class Setting:
    """One entry of a tuning grid: a kind of schedule from `eta0` to `eta1` (the same for a fixed rate)."""

    kind: str
    eta0: float
    eta1: float

    def etas(self, K: int) -> Float[Tensor, " K"]:
        """The learning rates of a run of K queries."""
        if self.kind == "fixed":
            return schedule("fixed", K, self.eta0)
        if self.kind == "step":  # three drops to the same end
            return schedule("step", K, self.eta0, factor=(self.eta0 / self.eta1) ** (1 / 3))
        return schedule(self.kind, K, self.eta0, self.eta1)


def grid(problem: Problem, kind: str, settings: int) -> list[Setting]:
    """`settings` entries around the problem's centre: that many fixed rates, or half as many η_0 with two ends each.

    Fixed rates run from a third to three times the centre, η_0 from 1.5 to 12 times. Raises ValueError for a number of
    settings that is odd or below 4.

    >>> [f"{s.eta0:.3g} to {s.eta1:.2g}" for s in grid(Problem("levy", 1.0, 0.2), "geometric", 4)]
    ['0.3 to 0.03', '0.3 to 0.003', '2.4 to 0.24', '2.4 to 0.024']
    """
    if settings < 4 or settings % 2:
        raise ValueError(f"settings was {settings}; it must be an even number of at least 4")
    if kind == "fixed":
        rates = problem.centre * torch.logspace(-1, 1, settings, base=3.0, dtype=torch.float64)
        return [Setting("fixed", rate, rate) for rate in rates.tolist()]
    low, high = math.log(1.5 * problem.centre), math.log(12 * problem.centre)
    starts = torch.linspace(low, high, settings // 2, dtype=torch.float64).exp().tolist()
    return [Setting(kind, start, start / decay) for start in starts for decay in DECAYS]


@dataclass(frozen=True)
class Result:
    """The best setting of a family, and f at the end of every judging chain (inf where one left the finite numbers).

    `tuned` is the mean by which the setting was chosen; `best` the lowest f on the way, where it was asked for.
    """

    setting: Setting
    tuned: float
    f: Float[Tensor, " B"]
    best: Float[Tensor, " B"] | None = None

    @property
    def mean(self) -> Interval:
        """The mean over the chains with Student's interval; all of it infinite if one left the finite numbers."""
        if not bool(torch.isfinite(self.f).all()):
            return Interval(math.inf, math.inf, math.inf, len(self.f))
        return mean_interval(self.f)


@dataclass(frozen=True)
class Contest:
    """Both families on one problem: same budget K, same starts, same noise."""

    problem: str
    d: int
    K: int
    fixed: Result
    decay: Result

    @property
    def ratio(self) -> Interval:
        """How many times f is larger at a fixed rate: the ratio of means with a bootstrap interval over chains.

        Infinite where a chain of the fixed rate left the finite numbers, 0 where one of decay did, 1 if both.
        """
        lost = [math.isinf(family.mean.value) for family in (self.fixed, self.decay)]
        if any(lost):
            value = 1.0 if all(lost) else math.inf if lost[0] else 0.0
            return Interval(value, value, value, len(self.fixed.f))
        return ratio_interval(self.fixed.f, self.decay.f)

    @property
    def decided(self) -> bool:
        """Whether decay is better and the two intervals are disjoint."""
        return self.decay.mean.high < self.fixed.mean.low


def contest(
    name: str,
    d: int,
    K: int,
    *,
    seed: int,
    chains: int = 64,
    settings: int = 10,
    kinds: Sequence[str] = ("geometric",),
    start: str = "box",
    noise: str = "gaussian",
    louder: float = 1.0,
    by_best: bool = False,
    device: torch.device | str = "cpu",
) -> list[Contest]:
    """Tune on seed `seed` mod 100, judge on 1000 + `seed`: a contest for every kind of decaying schedule in `kinds`.

    Starts are uniform in the function's box, or all at the wrong well at 1.9 (`start` = "well"). `louder` multiplies σ
    and divides all learning rates by as much squared, so that temperatures stay. `by_best` tunes and judges by the
    lowest f on the way. Raises ValueError for an unknown problem, and as `sgd` and `grid` do.
    """
    if name not in PROBLEMS:
        raise ValueError(f"name was {name!r}; it must be one of {', '.join(PROBLEMS)}")
    if start not in ("box", "well"):
        raise ValueError(f"start was {start!r}; it must be 'box' or 'well'")
    problem = PROBLEMS[name]
    problem = replace(problem, sigma=problem.sigma * louder, centre=problem.centre / louder**2)
    fn = problem.function(d)
    families = [grid(problem, kind, settings) for kind in ("fixed", *kinds)]

    def run(entries: Sequence[Setting], seed: int) -> tuple[Tensor, Tensor | None]:
        generator = torch.Generator(device=device).manual_seed(seed)
        x0 = uniform_start(fn, chains, generator) if start == "box" else torch.full((chains, d), 1.9, device=device)
        etas = torch.stack([entry.etas(K) for entry in entries]).to(device)
        path = sgd(fn, x0.to(torch.float64), etas, problem.sigma, generator, noise=noise, best=by_best)
        return path.f_last.cpu(), None if path.best is None else path.best.cpu()

    last, lowest = run([entry for family in families for entry in family], seed % TUNING)
    means = (lowest if lowest is not None else last).mean(1).split([len(family) for family in families])
    winners = [family[int(mean.argmin())] for family, mean in zip(families, means, strict=True)]
    last, lowest = run(winners, JUDGING + seed)
    results = [
        Result(winner, float(mean.min()), last[i], None if lowest is None else lowest[i])
        for i, (winner, mean) in enumerate(zip(winners, means, strict=True))
    ]
    return [Contest(name, d, K, results[0], result) for result in results[1:]]


def queries_to_match(contests: Sequence[Contest], d: int) -> float:
    """The budget at which decay's mean is what the best fixed rate reached with the largest budget, in `d` dimensions.

    Interpolated between the budgets, both axes logarithmic; the smallest budget if decay was there already.
    """
    mine = sorted((one for one in contests if one.d == d), key=lambda one: one.K)
    wanted = math.log(mine[-1].fixed.mean.value)
    budgets = [math.log(one.K) for one in mine]
    reached = [math.log(one.decay.mean.value) for one in mine]
    if wanted >= reached[0]:
        return float(mine[0].K)
    for (K0, f0), (K1, f1) in pairwise(zip(budgets, reached, strict=True)):
        if f1 <= wanted <= f0:
            return math.exp(K0 + (K1 - K0) * (f0 - wanted) / (f0 - f1))
    return float(mine[-1].K)


@dataclass(frozen=True)
class Cell:
    """One way in which the contest was changed, and how it ended."""

    shape: str
    noise: str
    start: str
    contest: Contest


def robustness(
    shapes: Sequence[str],
    noises: Sequence[str],
    starts: Sequence[str],
    d: int,
    K: int,
    *,
    seed: int,
    chains: int,
    settings: int,
    device: torch.device | str = "cpu",
    watch: Watch = _unwatched,
) -> list[Cell]:
    """The contest on Rastrigin-1 for every shape of schedule, law of the noise and kind of start."""
    ways = [(noise, start) for noise in noises for start in starts]
    return [
        Cell(one.decay.setting.kind, noise, start, one)
        for noise, start in watch(ways, "Changing the contest")
        for one in contest(
            "Rastrigin, A = 1", d, K, seed=seed, chains=chains, settings=settings, kinds=shapes, start=start,
            noise=noise, device=device,
        )
    ]  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """What an outside optimizer found that sees f and its gradient without noise: f, a value a seed, and its calls."""

    method: str
    problem: str
    f: Float[Tensor, " S"]
    calls: Float[Tensor, " S"]


def references(name: str, d: int, K: int, *, seed: int, repeats: int) -> list[Reference]:
    """SciPy's `dual_annealing` and `basinhopping`, with at most K calls; a value and a gradient count as one call each.

    They start where the chains do. Raises ValueError for an unknown problem.
    """
    if name not in PROBLEMS:
        raise ValueError(f"name was {name!r}; it must be one of {', '.join(PROBLEMS)}")
    fn = PROBLEMS[name].function(d)
    found = []
    for method in ("dual_annealing", "basinhopping"):
        ends = []
        for repeat in range(repeats):
            generator = torch.Generator().manual_seed(JUDGING + seed + repeat)
            ends.append(_minimize(method, fn, K, uniform_start(fn, 1, generator)[0], JUDGING + seed + repeat))
        best, calls = torch.tensor(ends, dtype=torch.float64).unbind(1)
        found.append(Reference(method, name, best, calls))
    return found


class _Spent(Exception):
    """The budget of calls is used up."""


def _minimize(method: str, fn: TestFunction, K: int, x0: Tensor, seed: int) -> tuple[float, int]:
    """The lowest value seen, and after how many calls it was first seen (to 1e-6)."""
    from scipy.optimize import basinhopping, dual_annealing

    lowest, at, calls = math.inf, 0, 0

    def count() -> None:
        nonlocal calls
        if calls >= K:
            raise _Spent
        calls += 1

    def value(x: object) -> float:
        nonlocal lowest, at
        count()
        f = float(fn.f(torch.as_tensor(x, dtype=torch.float64)))
        if f < lowest - 1e-6:
            at = calls
        lowest = min(lowest, f)
        return f

    def slope(x: object) -> object:
        count()
        return fn.grad(torch.as_tensor(x, dtype=torch.float64)).numpy()

    local = {"method": "L-BFGS-B", "jac": slope}
    try:
        if method == "dual_annealing":
            bounds = [fn.box] * fn.d
            dual_annealing(value, bounds, x0=x0.numpy(), minimizer_kwargs=local, rng=seed, maxiter=K)
        else:
            basinhopping(value, x0.numpy(), minimizer_kwargs=local, rng=seed, niter=K)
    except _Spent:
        pass
    return lowest, at
