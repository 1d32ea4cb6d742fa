from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from nips26lib.papers.multi_index import Activation, hermite, hermite_coefs

RHO = torch.linspace(-0.99, 0.99, 41, dtype=torch.float64)


def test_the_first_coefficients_of_the_absolute_value() -> None:
    known = {0: 2 / math.pi, 2: 1 / math.pi, 4: 1 / (12 * math.pi), 6: 1 / (40 * math.pi)}
    assert Activation().coefs(6) == pytest.approx(known, rel=1e-14)
    by_quadrature = hermite_coefs(np.abs, 6)
    for order, value in known.items():
        assert by_quadrature[order] ** 2 == pytest.approx(value, abs=4e-3), "a kink: quadrature converges slowly"
    assert max(abs(by_quadrature[order]) for order in (1, 3, 5)) < 1e-12


def test_hermite_polynomials_are_orthonormal() -> None:
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    values = torch.stack([hermite(order, torch.from_numpy(points)) for order in range(9)])
    gram = values * torch.from_numpy(weights / weights.sum()) @ values.T
    assert torch.allclose(gram, torch.eye(9, dtype=torch.float64), atol=1e-12)


def test_coefficients_of_polynomials_are_exact() -> None:
    found = hermite_coefs(lambda z: 3 - 2 * (z**2 - 1) / math.sqrt(2) + 0.5 * (z**4 - 6 * z**2 + 3) / math.sqrt(24), 6)
    assert found == pytest.approx([3, 0, -2, 0, 0.5, 0, 0], abs=1e-12)


def test_mehler() -> None:
    """E h_ℓ(x) h_m(ρx + √(1−ρ²) y) = δ ρ^ℓ, in two dimensions."""
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    x, y = (torch.from_numpy(axis) for axis in np.meshgrid(points, points))
    w = torch.from_numpy(np.outer(weights, weights) / weights.sum() ** 2)
    for rho in (-0.7, 0.3, 0.9):
        for a in range(5):
            for b in range(5):
                found = float((w * hermite(a, x) * hermite(b, rho * x + math.sqrt(1 - rho**2) * y)).sum())
                assert found == pytest.approx(rho**a if a == b else 0, abs=1e-10)


def test_the_kernel_is_its_series_and_the_slope_its_derivative() -> None:
    for activation, largest in ((Activation(), 400), (Activation({0: 1.0, 2: 0.5, 4: 0.25}), 4)):
        series = sum(value * RHO**order for order, value in activation.coefs(largest).items())
        assert torch.allclose(activation.kernel(RHO), torch.as_tensor(series), atol=1e-6)
        rho = RHO.clone().requires_grad_()
        (derivative,) = torch.autograd.grad(activation.kernel(rho).sum(), rho)
        assert torch.allclose(activation.slope(RHO), derivative, atol=1e-9)
    ends = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    assert (
        Activation().kernel(ends).tolist() == pytest.approx([1, 1]) and torch.isfinite(Activation().slope(ends)).all()
    )


def test_the_kernel_is_the_mean_of_the_product() -> None:
    x = torch.randn(2, 400_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for activation in (Activation(), Activation({0: 0.6, 2: 0.3, 4: 0.1})):
        product = activation(x[0]) * activation(0.6 * x[0] + 0.8 * x[1])
        standard_error = float(product.std()) / math.sqrt(product.numel())
        assert float(product.mean()) == pytest.approx(
            float(activation.kernel(torch.tensor(0.6, dtype=torch.float64))), abs=4 * standard_error
        )


def test_the_derivative() -> None:
    z = torch.linspace(-2, 2, 10, dtype=torch.float64, requires_grad=True)
    for activation in (Activation(), Activation({0: 0.6, 2: 0.3, 4: 0.1})):
        (derivative,) = torch.autograd.grad(activation(z).sum(), z)
        assert torch.allclose(activation.derivative(z.detach()), derivative)


@pytest.mark.parametrize(("terms", "why"), [
    ({1: 1.0}, "order 1; the activation must be even"), ({2: -1.0}, "must be finite and not negative"),
    ({0: math.inf}, "must be finite"), ({0: 0.0}, "must be above 0"), ({}, "must be above 0"),
])  # fmt: skip
def test_what_is_no_activation_is_refused(terms: dict[int, float], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Activation(terms)
