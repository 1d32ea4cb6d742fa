"""The benchmark functions: many wrong wells, and the minimum 0 at a known place.

Every function takes points (…, d) and gives values (…), every gradient (…, d); dtype and device follow the points. A
function that is bounded, or whose curvature grows without end, is held at the edge of its box and gets a quadratic wall
outside. Without the wall the law proportional to exp(−f/T) need not exist, and a step could be as long as one likes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Function = Callable[[Tensor], Tensor]

#: λ of the wall λ·dist(x, box)².
WALL = 1.0
#: The minimizer of (x⁴ − 16x² + 5x)/2, the least real root of its derivative, and the value there.
_STYBLINSKI_X = -2.903534027771177
_STYBLINSKI_F = -39.16616570377142


@dataclass(frozen=True)
class TestFunction:
    """f and its gradient in d dimensions, the minimizer, the box that starts are drawn from, and the smoothness L.

    `L` bounds the curvature inside of the box; it is infinite where the gradient jumps (Ackley's, at its minimum).
    """

    __test__ = False  # the name is the field's; pytest is not to collect it

    name: str
    f: Function
    grad: Function
    d: int
    x_star: Float[Tensor, " d"]
    box: tuple[float, float]
    L: float


def benchmark(name: str, d: int, **parameters: float) -> TestFunction:
    """One of `NAMES` in `d` dimensions; `A` is the height of the bumps of "rastrigin" (10 in the literature).

    Ackley, Levy and Styblinski-Tang have a wall around their box; Griewank's box is the inner ±10, where its cosines
    matter. Raises ValueError for an unknown name or parameter, d < 1, or an A that is not positive.

    >>> fn = benchmark("rastrigin", 3, A=1.0)
    >>> fn.f(torch.zeros(3)), fn.f(torch.full((2, 3), 0.5))
    (tensor(0.), tensor([6.7500, 6.7500]))
    """
    if name not in _MAKERS:
        raise ValueError(f"name was {name!r}; it must be one of {', '.join(NAMES)}")
    _dimension(d)
    known = ("A",) if name == "rastrigin" else ()
    unknown = [parameter for parameter in parameters if parameter not in known]
    if unknown:
        raise ValueError(f"parameters held {unknown[0]!r}; {name!r} takes {', '.join(known) or 'none'}")
    return _MAKERS[name](d, **parameters)


def radial(phi: Function, slope: Function, d: int, box: tuple[float, float], L: float) -> TestFunction:
    """f(x) = φ(|x|), from φ and its derivative, both functions of r ≥ 0; φ must have its minimum 0 at 0.

    The radius of a point drawn from exp(−f/T) has the density r^{d−1} exp(−φ(r)/T): `Landscape1D(phi, grid, radial=d)`.
    """
    _dimension(d)

    def f(x: Tensor) -> Tensor:
        return phi(x.norm(dim=-1))

    def grad(x: Tensor) -> Tensor:
        r = x.norm(dim=-1, keepdim=True)
        return slope(r) * x / torch.where(r == 0, 1, r)  # at 0 the direction is 0/1

    return TestFunction("radial", f, grad, d, torch.zeros(d, dtype=torch.float64), box, L)


def section(fn: TestFunction, coordinate: int = 0) -> Function:
    """φ(x) = f with all other coordinates at the minimizer: a function of (n,) points of one dimension.

    For a separable f it says all; for another, only what is met along that line. Raises ValueError for no coordinate.
    """
    if not 0 <= coordinate < fn.d:
        raise ValueError(f"coordinate was {coordinate}; it must be from 0 to {fn.d - 1}")
    here = torch.zeros(fn.d, dtype=torch.bool, device=fn.x_star.device)
    here[coordinate] = True

    def phi(x: Tensor) -> Tensor:
        return fn.f(torch.where(here.to(x.device), x.unsqueeze(-1), fn.x_star.to(x)))

    return phi


def _rastrigin(d: int, A: float = 10.0) -> TestFunction:
    if not 0 < A < math.inf:
        raise ValueError(f"A was {A}; it must be above 0 and finite")

    def f(x: Tensor) -> Tensor:
        return torch.cos(2 * math.pi * x).mul_(-A).add_(A).add_(x.square()).sum(-1)

    def grad(x: Tensor) -> Tensor:
        return torch.sin(2 * math.pi * x).mul_(2 * math.pi * A).add_(x, alpha=2)

    L = 2 + 4 * math.pi**2 * A
    return TestFunction(f"Rastrigin, A = {A:g}", f, grad, d, _at(0.0, d), (-5.12, 5.12), L)


def _ackley(d: int) -> TestFunction:
    def f(x: Tensor) -> Tensor:
        root, wave = x.square().mean(-1).sqrt(), torch.cos(2 * math.pi * x).mean(-1)
        return -20 * torch.exp(-0.2 * root) - torch.exp(wave) + 20 + math.e

    def grad(x: Tensor) -> Tensor:
        root = torch.linalg.vector_norm(x, dim=-1, keepdim=True).mul_(1 / math.sqrt(d))
        angle = 2 * math.pi * x
        wave = torch.cos(angle).sum(-1, keepdim=True).mul_(1 / d).exp_().mul_(2 * math.pi / d)
        # Not differentiable at the minimum, the tip of a cone; the mean of all slopes there, 0, is taken.
        cone = torch.exp(-0.2 * root).mul_(4 / d).div_(root.clamp_min_(1e-30))
        return torch.sin(angle).mul_(wave).add_(cone * x)

    return _walled("Ackley", f, grad, d, _at(0.0, d), (-32.768, 32.768), math.inf)


def _griewank(d: int) -> TestFunction:
    root = _Constant([math.sqrt(i) for i in range(1, d + 1)])

    def f(x: Tensor) -> Tensor:
        return x.square().sum(-1) / 4000 - torch.cos(x / root(x)).prod(-1) + 1

    def grad(x: Tensor) -> Tensor:
        angle = x / root(x)
        factors = torch.cos(angle)
        # The product of the other factors, those before times those after: a division would fail where a cosine is 0.
        before, after = torch.ones_like(factors), torch.ones_like(factors)
        before[..., 1:] = factors[..., :-1].cumprod(-1)
        after[..., :-1] = factors[..., 1:].flip(-1).cumprod(-1).flip(-1)
        return torch.sin(angle).div_(root(x)).mul_(before).mul_(after).add_(x, alpha=1 / 2000)

    # A product of cosines with slopes 1/√i bends by at most |(1/√i)_i|² = Σ 1/i.
    L = 1 / 2000 + sum(1 / i for i in range(1, d + 1))
    return TestFunction("Griewank", f, grad, d, _at(0.0, d), (-10.0, 10.0), L)


def _levy(d: int) -> TestFunction:
    box = (-10.0, 10.0)
    # With u = w − 1 and 2 sin² a = 1 − cos 2a: f = (1 − cos 2πu_1)/2 + Σ u² (a − b cos(ωu + p)). The last term differs.
    a, b = _Constant([6.0] * (d - 1) + [1.5]), _Constant([5.0] * (d - 1) + [0.5])
    omega, p = _Constant([2 * math.pi] * (d - 1) + [4 * math.pi]), _Constant([2.0] * (d - 1) + [0.0])
    steep = _Constant([10 * math.pi] * (d - 1) + [2 * math.pi])  # bω

    def f(x: Tensor) -> Tensor:
        u = (x - 1) / 4
        waves = torch.addcmul(a(x), b(x), torch.cos(torch.addcmul(p(x), omega(x), u)), value=-1)
        return (u.square() * waves).sum(-1) + (1 - torch.cos(2 * math.pi * u[..., 0])) / 2

    def grad(x: Tensor) -> Tensor:
        u = (x - 1).mul_(0.25)
        angle = torch.addcmul(p(x), omega(x), u)
        waves = torch.cos(angle).mul_(b(x)).sub_(a(x))
        slope = angle.sin_().mul_(steep(x)).mul_(u).sub_(waves, alpha=2).mul_(u)
        slope[..., 0].add_(torch.sin(2 * math.pi * u[..., 0]), alpha=math.pi)
        return slope.mul_(0.25)

    # The second derivative of u² (1 + 10 sin²) at the edge of the box bounds all others.
    reach = max(abs(edge - 1) / 4 for edge in box)
    L = (22 + 40 * math.pi * reach + 20 * math.pi**2 * reach**2 + 2 * math.pi**2) / 16
    return _walled("Levy", f, grad, d, _at(1.0, d), box, L)


def _styblinski_tang(d: int) -> TestFunction:
    def f(x: Tensor) -> Tensor:
        return (x * (x * (x.square() - 16) + 5) / 2 - _STYBLINSKI_F).sum(-1)

    def grad(x: Tensor) -> Tensor:
        return x.square().mul_(2).sub_(16).mul_(x).add_(2.5)

    box = (-5.0, 5.0)
    return _walled("Styblinski-Tang", f, grad, d, _at(_STYBLINSKI_X, d), box, 6 * box[1] ** 2 - 16)


_MAKERS: dict[str, Callable[..., TestFunction]] = {
    "rastrigin": _rastrigin,
    "ackley": _ackley,
    "griewank": _griewank,
    "levy": _levy,
    "styblinski_tang": _styblinski_tang,
}
NAMES = tuple(_MAKERS)


class _Constant:
    """A vector, made once for each dtype and device that it meets."""

    def __init__(self, values: list[float]) -> None:
        self.values = values
        self.made: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def __call__(self, x: Tensor) -> Tensor:
        key = (x.dtype, x.device)
        if key not in self.made:
            with torch.inference_mode(
                False
            ):  # kept, and a tensor made in inference mode could not take part in autograd
                self.made[key] = torch.tensor(self.values, dtype=x.dtype, device=x.device)
        return self.made[key]


def _walled(
    name: str, f: Function, grad: Function, d: int, x_star: Tensor, box: tuple[float, float], L: float
) -> TestFunction:
    def walled(x: Tensor) -> Tensor:
        inside = x.clamp(*box)
        return f(inside) + WALL * (x - inside).square().sum(-1)

    def walled_grad(x: Tensor) -> Tensor:
        inside = x.clamp(*box)
        if x.device.type == "cpu" and torch.equal(inside, x):  # nearly always; elsewhere the question costs more
            return grad(x)
        over = (x - inside).mul_(2 * WALL)
        return torch.where(over == 0, grad(inside), over)

    return TestFunction(name, walled, walled_grad, d, x_star, box, max(L, 2 * WALL))


def _at(value: float, d: int) -> Tensor:
    return torch.full((d,), value, dtype=torch.float64)


def _dimension(d: int) -> None:
    if int(d) != d or d < 1:
        raise ValueError(f"d was {d}; it must be a whole number of at least 1")
