from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nips26lib.papers.zerosum.constraint import blocks_of, init_gain, project, residuals

SHAPES = [
    ("rows", (6, 7), 8),
    ("rows", (5, 3), 2),
    ("tile", (16, 24), 8),
    ("tile", (10, 9), 8),
    ("tile", (4, 2, 3, 3), 4),
]
cuts = st.tuples(
    st.sampled_from(["rows", "tile"]),
    st.tuples(st.integers(2, 20), st.integers(2, 20)),
    st.integers(2, 9),
    st.integers(0, 2**31),
)


def weight(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def matrix(layout: str, shape: tuple[int, ...], block: int) -> torch.Tensor:
    """The projection as a matrix on flattened weights, column by column."""
    size = torch.Size(shape).numel()
    return torch.stack([project(e.reshape(shape), layout, block).flatten() for e in torch.eye(size).double()], dim=1)


@pytest.mark.parametrize("layout, shape, block", SHAPES)
def test_projection_is_symmetric_and_idempotent(layout: str, shape: tuple[int, ...], block: int) -> None:
    p = matrix(layout, shape, block)
    torch.testing.assert_close(p, p.T)
    torch.testing.assert_close(p @ p, p)
    blocks = blocks_of(shape, layout, block)
    if layout == "rows":
        rank = sum(int(m.sum()) - 1 for m in blocks.mask)
    else:
        rank = sum((int(m.any(1).sum()) - 1) * (int(m.any(0).sum()) - 1) for m in blocks.mask)
    assert round(p.trace().item(), 9) == rank  # a projector's trace is its rank: the degrees of freedom left


@given(cuts)
@settings(deadline=None, max_examples=60)
def test_every_block_of_a_projected_weight_sums_to_zero(cut: tuple[str, tuple[int, int], int, int]) -> None:
    layout, shape, block, seed = cut
    blocks = blocks_of(shape, layout, block)
    cells = blocks.gather(project(weight(shape, seed), layout, block))
    for axis in blocks.axes:
        torch.testing.assert_close(cells.sum(axis), torch.zeros_like(cells.sum(axis)))


@given(cuts)
@settings(deadline=None, max_examples=60)
def test_blocks_cover_every_weight_once_and_scatter_undoes_gather(cut: tuple[str, tuple[int, int], int, int]) -> None:
    layout, shape, block, seed = cut
    blocks, w = blocks_of(shape, layout, block), weight(shape, seed)
    assert sorted(blocks.index[blocks.mask].tolist()) == list(range(w.numel()))
    assert torch.equal(blocks.gather(w)[blocks.mask], w.flatten()[blocks.index[blocks.mask]])
    assert not blocks.gather(w)[~blocks.mask].any()
    assert torch.equal(blocks.scatter(blocks.gather(w)), w)
    sides = [blocks.mask.any(axis).sum(-1) for axis in blocks.axes[::-1]] if layout == "tile" else [blocks.mask.sum(-1)]
    assert all(int(side.min()) >= 2 for side in sides)
    assert all(int(side.max()) <= max(block, 3) for side in sides)  # 3 only where 2 does not divide


def test_a_side_that_the_block_does_not_divide_is_cut_evenly() -> None:
    mask = blocks_of((10, 9), "tile", 8).mask
    assert mask.any(2).sum(1).tolist() == [5, 5, 5, 5]
    assert mask.any(1).sum(1).tolist() == [5, 4, 5, 4]


def test_the_gradient_that_reaches_the_free_parameters_is_the_projected_gradient() -> None:
    for layout, shape, block in SHAPES:
        v = weight(shape).requires_grad_()
        target = weight(shape, 1)
        (project(v, layout, block) - target).pow(3).sum().backward()
        gradient = 3 * (project(v.detach(), layout, block) - target).pow(2)
        torch.testing.assert_close(v.grad, project(gradient, layout, block))


def test_the_projection_of_a_rank_one_tile_centres_its_factors() -> None:
    a, b = weight((8,), 1), weight((8,), 2)
    torch.testing.assert_close(project(torch.outer(a, b), "tile", 8), torch.outer(a - a.mean(), b - b.mean()))


@pytest.mark.parametrize("layout, shape, block", SHAPES)
def test_the_gain_restores_the_variance_of_every_entry(layout: str, shape: tuple[int, ...], block: int) -> None:
    # Var (P v)_i = sum_j P_ij^2 = P_ii for independent v of variance 1.
    variance = matrix(layout, shape, block).diagonal().reshape(shape)
    gain = init_gain(shape, layout, block).double()
    torch.testing.assert_close(gain.square() * variance, torch.ones(shape).double(), rtol=1e-6, atol=0)


def test_layout_none_changes_nothing() -> None:
    w = weight((3, 1))
    assert torch.equal(project(w, "none", 8), w)
    assert torch.equal(init_gain((3, 1), "none", 8), torch.ones(3, 1))


def test_one_wrong_weight_shows_in_its_row_and_its_column() -> None:
    n = torch.zeros(16, 16, dtype=torch.int64)
    n[9, 3] = 64
    rows, columns = residuals(n, "tile", 8)
    assert rows.nonzero().tolist() == [[2, 1]] and rows[2, 1] == 64  # tile 2 is the lower left one
    assert columns.nonzero().tolist() == [[2, 3]] and columns[2, 3] == 64
    assert residuals(n, "rows", 16).tolist() == [0] * 9 + [64] + [0] * 6


@pytest.mark.parametrize(
    "shape, layout, block, word",
    [
        ((4, 4), "square", 8, "layout"),
        ((4, 4), "none", 8, "layout"),
        ((4, 4), "tile", 1, "block"),
        ((1, 8), "tile", 8, "rows"),
        ((8, 1), "tile", 8, "rows"),
        ((64,), "tile", 8, "rows"),
        ((0, 4), "tile", 8, "shape"),
        ((1,), "rows", 8, "shape"),
    ],
)
def test_what_cannot_be_cut_is_refused(shape: tuple[int, ...], layout: str, block: int, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        blocks_of(shape, layout, block)


@pytest.mark.parametrize("layout, shape, block", SHAPES)
def test_results_lie_on_the_device_of_the_input(layout: str, shape: tuple[int, ...], block: int) -> None:
    on_meta = torch.empty(shape, device="meta")
    assert project(on_meta, layout, block).is_meta
    torch.set_default_device("meta")
    try:
        inside = project(torch.ones(shape, device="cpu"), layout, block)
        assert inside.device.type == "cpu" and inside.abs().max() < 1e-6
        assert init_gain(shape, layout, block, device="cpu").device.type == "cpu"
    finally:
        torch.set_default_device(None)


def test_blocks_first_cut_in_inference_mode_serve_in_training() -> None:
    with torch.inference_mode():
        project(torch.ones(11, 13), "tile", 5)
    v = torch.ones(11, 13, requires_grad=True)
    project(v, "tile", 5).sum().backward()
    assert v.grad is not None and v.grad.abs().max() < 1e-6
