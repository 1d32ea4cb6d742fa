"""The benchmark functions against their formulas, their known minima, and automatic and numerical differentiation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from nips26lib.papers.sgd_decay.functions import NAMES, TestFunction, benchmark, radial, section


def points(fn: TestFunction, count: int, reach: float = 1.0, seed: int = 0) -> Tensor:
    low, high = fn.box
    unit = torch.rand(count, fn.d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (low + high) / 2 + reach * (high - low) * (unit - 0.5)


class Analytic(torch.autograd.Function):
    """f, with the library's gradient as its derivative: what gradcheck compares with finite differences."""

    @staticmethod
    def forward(ctx, x, fn):
        ctx.save_for_backward(x)
        ctx.fn = fn
        return fn.f(x)

    @staticmethod
    def backward(ctx, above):
        (x,) = ctx.saved_tensors
        return above.unsqueeze(-1) * ctx.fn.grad(x), None


def bowl() -> TestFunction:
    return radial(lambda r: r**2 / 2 + 1 - torch.cos(r), lambda r: r + torch.sin(r), 3, (-4.0, 4.0), 2.0)


ALL = [pytest.param(benchmark(name, d), id=f"{name}-{d}") for name in NAMES for d in (1, 2, 5)]


@pytest.mark.parametrize("fn", [*ALL, pytest.param(bowl(), id="radial")])
@pytest.mark.parametrize("reach", [1.0, 1.5])  # half of the wider points lie behind the wall
def test_gradient_agrees_with_finite_differences_and_autograd(fn: TestFunction, reach: float) -> None:
    x = points(fn, 6, reach).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: Analytic.apply(x, fn), x, eps=1e-6, atol=1e-5)
    (automatic,) = torch.autograd.grad(fn.f(x).sum(), x)
    torch.testing.assert_close(fn.grad(x.detach()), automatic, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fn", ALL)
def test_minimum_is_zero_at_the_known_place(fn: TestFunction) -> None:
    assert abs(fn.f(fn.x_star).item()) < 1e-10
    assert fn.grad(fn.x_star).abs().max() < 1e-10
    assert fn.f(points(fn, 10_000, 1.2)).min() > -1e-10


@pytest.mark.parametrize("fn", ALL)
def test_smoothness_bounds_the_slope_of_the_gradient(fn: TestFunction) -> None:
    x = points(fn, 2000)
    step = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    step *= 1e-4 / step.norm(dim=-1, keepdim=True)
    inside = ((x + step).clamp(*fn.box) == x + step).all(-1)
    bend = ((fn.grad(x + step) - fn.grad(x)).norm(dim=-1) / 1e-4)[inside]
    assert bend.max() <= fn.L * (1 + 1e-6)
    if math.isfinite(fn.L):
        assert bend.max() > fn.L / 10  # a bound that says something


def test_values_by_their_formulas() -> None:
    x = torch.tensor([0.3, -1.7, 2.2], dtype=torch.float64)
    cos, sin, pi = math.cos, math.sin, math.pi
    v = x.tolist()
    w = [1 + (t - 1) / 4 for t in v]
    expected = {
        "rastrigin": sum(t * t + 10 * (1 - cos(2 * pi * t)) for t in v),
        "ackley": -20 * math.exp(-0.2 * math.sqrt(sum(t * t for t in v) / 3))
        - math.exp(sum(cos(2 * pi * t) for t in v) / 3) + 20 + math.e,
        "griewank": sum(t * t for t in v) / 4000 - math.prod(cos(t / math.sqrt(i)) for i, t in enumerate(v, 1)) + 1,
        "levy": sin(pi * w[0]) ** 2 + sum((t - 1) ** 2 * (1 + 10 * sin(pi * t + 1) ** 2) for t in w[:-1])
        + (w[-1] - 1) ** 2 * (1 + sin(2 * pi * w[-1]) ** 2),
        "styblinski_tang": sum(t**4 - 16 * t**2 + 5 * t for t in v) / 2 + 39.16616570377142 * 3,
    }  # fmt: skip
    assert {name: benchmark(name, 3).f(x).item() for name in NAMES} == pytest.approx(expected, rel=1e-12)


def test_griewank_gradient_where_a_cosine_is_zero() -> None:
    x = torch.tensor([math.pi / 2, 0.4, 1.0], dtype=torch.float64)
    others = math.cos(0.4 / math.sqrt(2)) * math.cos(1 / math.sqrt(3))
    assert benchmark("griewank", 3).grad(x)[0].item() == pytest.approx(math.pi / 2 / 2000 + others, rel=1e-12)


def test_ackley_grows_beyond_its_box() -> None:
    fn = benchmark("ackley", 2)
    assert fn.f(torch.tensor([1e4, 0.0])) > 1e7
    assert fn.grad(torch.tensor([1e4, 0.0], dtype=torch.float64))[0].item() == pytest.approx(2 * (1e4 - 32.768))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batches_dtype_and_device_follow_the_input(name: str, dtype: torch.dtype) -> None:
    fn = benchmark(name, 4)
    x = points(fn, 6).to(dtype)
    values, slopes = fn.f(x), fn.grad(x)
    assert values.shape == (6,) and slopes.shape == (6, 4) and values.dtype == slopes.dtype == dtype
    assert torch.equal(fn.f(x.view(2, 3, 4)), values.view(2, 3))
    assert torch.equal(fn.grad(x.view(2, 3, 4)), slopes.view(2, 3, 4))
    on_meta = torch.empty(6, 4, device="meta", dtype=dtype)
    assert fn.f(on_meta).is_meta and fn.grad(on_meta).is_meta
    torch.set_default_device("meta")
    try:
        assert fn.grad(x).device.type == "cpu" and torch.equal(fn.f(x), values)
    finally:
        torch.set_default_device(None)


def test_nan_stays_nan() -> None:
    for name in NAMES:
        fn = benchmark(name, 2)
        x = torch.tensor([[math.nan, 0.0]])
        assert fn.f(x).isnan().all() and fn.grad(x)[0, 0].isnan()


def test_section_of_a_separable_function() -> None:
    phi = section(benchmark("rastrigin", 5, A=1.0), 2)
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)
    torch.testing.assert_close(phi(x), x**2 + 1 - torch.cos(2 * math.pi * x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: benchmark("foo", 2),
            "name was 'foo'; it must be one of rastrigin, ackley, griewank, levy, styblinski",
        ),
        (lambda: benchmark("levy", 0), "d was 0"),
        (lambda: benchmark("rastrigin", 2, A=-1.0), "A was -1"),
        (lambda: benchmark("rastrigin", 2, A=math.nan), "A was nan"),
        (lambda: benchmark("rastrigin", 2, B=1.0), "parameters held 'B'; 'rastrigin' takes A"),
        (lambda: benchmark("levy", 2, A=1.0), "parameters held 'A'; 'levy' takes none"),
        (lambda: radial(torch.square, torch.abs, 0, (-1.0, 1.0), 1.0), "d was 0"),
        (lambda: section(benchmark("levy", 2), 2), "coordinate was 2; it must be from 0 to 1"),
    ],
)
def test_refusals(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()
