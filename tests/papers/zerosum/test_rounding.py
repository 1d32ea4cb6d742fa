from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from nips26lib.papers.zerosum.constraint import project, residuals
from nips26lib.papers.zerosum.rounding import round_zero_sum


def draw(shape: tuple[int, ...], seed: int, scale: float = 3.0) -> torch.Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_rows_find_the_nearest_zero_sum_integers(size: int) -> None:
    moves = np.array(list(product((-1, 0, 1, 2), repeat=size)))
    for seed in range(200):
        x = project(draw((size,), seed), "rows", size)
        candidates = np.floor(x.numpy()) + moves
        candidates = candidates[candidates.sum(1) == 0]
        least = ((candidates - x.numpy()) ** 2).sum(1).min()
        n = round_zero_sum(x, "rows", size)
        assert n.sum() == 0
        assert (n - x).square().sum().item() == pytest.approx(least)
        assert (n - x).abs().max() < 1


def least_cost(x: np.ndarray) -> float:
    """The least squared distance from x to an integer tile with zero sums: a transportation problem.

    Cell = floor(x) - 1 plus three steps of one; the steps' costs rise, so the relaxed program takes them in order,
    and its constraint matrix (rows and columns of a grid) is totally unimodular, so its optimum is integral.
    """
    side, base = len(x), np.floor(x) - 1
    costs = np.stack([(base + k + 1 - x) ** 2 - (base + k - x) ** 2 for k in range(3)], axis=-1)
    rows = np.kron(np.eye(side), np.ones(side))
    columns = np.kron(np.ones(side), np.eye(side))
    equal = np.repeat(np.vstack([rows, columns]), 3, axis=1)
    answer = linprog(costs.ravel(), A_eq=equal, b_eq=-np.concatenate([base.sum(1), base.sum(0)]), bounds=(0, 1))
    assert answer.success
    return float(answer.fun + ((base - x) ** 2).sum())


def test_tiles_come_near_the_optimum_of_the_transportation_problem() -> None:
    ratios = []
    for seed in range(100):
        x = project(draw((4, 4), seed), "tile", 4)
        n = round_zero_sum(x, "tile", 4)
        ratios.append((n - x).square().sum().item() / least_cost(x.numpy()))
    assert min(ratios) > 1 - 1e-9
    assert max(ratios) <= 1.5
    assert np.mean(ratios) < 1.05


@given(
    st.sampled_from(["rows", "tile"]),
    st.tuples(st.integers(2, 20), st.integers(2, 20)),
    st.integers(2, 9),
    st.integers(0, 2**31),
)
@settings(deadline=None, max_examples=80)
def test_all_sums_are_zero_and_zero_sum_integers_stay(
    layout: str, shape: tuple[int, int], block: int, seed: int
) -> None:
    x = project(draw(shape, seed, scale=30), layout, block)
    n = round_zero_sum(x, layout, block)
    sums = residuals(n, layout, block)
    assert not any(s.any() for s in (sums if isinstance(sums, tuple) else (sums,)))
    assert (n - x).abs().max() < 2
    assert torch.equal(round_zero_sum(n.double(), layout, block), n)


def test_no_entry_of_an_8_by_8_tile_moves_by_two() -> None:
    x = project(draw((320, 320), 0, scale=40), "tile", 8)
    n = round_zero_sum(x, "tile", 8)
    assert (n - x).abs().max() < 1.5


@pytest.mark.parametrize("layout", ["rows", "tile"])
def test_a_weight_off_the_constraint_is_rounded_to_zero_sums_all_the_same(layout: str) -> None:
    n = round_zero_sum(draw((16, 16), 3) + 1000, layout, 8)
    sums = residuals(n, layout, 8)
    assert not any(s.any() for s in (sums if isinstance(sums, tuple) else (sums,)))


def test_large_float32_grids_are_exact() -> None:
    x = project(torch.rand(64, 64, generator=torch.Generator().manual_seed(0)) * 2**25 - 2**24, "tile", 8)
    rows, columns = residuals(round_zero_sum(x, "tile", 8), "tile", 8)
    assert not rows.any() and not columns.any()


def test_without_a_layout_halves_round_to_even() -> None:
    assert round_zero_sum(torch.tensor([0.5, 1.5, -0.7]), "none", 8).tolist() == [0, 2, -1]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="x held NaN or infinity"):
        round_zero_sum(torch.tensor([[1.0, bad], [0.0, 0.0]]), "tile", 2)


@pytest.mark.parametrize("layout", ["none", "rows", "tile"])
def test_the_result_lies_on_the_device_of_the_input(layout: str) -> None:
    assert round_zero_sum(torch.empty(10, 9, device="meta"), layout, 8).is_meta
    torch.set_default_device("meta")
    try:
        n = round_zero_sum(torch.tensor([[0.4, -0.4], [-0.4, 0.4]], device="cpu"), layout, 2)
    finally:
        torch.set_default_device(None)
    assert n.tolist() == [[0, 0], [0, 0]]
