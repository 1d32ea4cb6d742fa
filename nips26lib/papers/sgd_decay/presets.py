"""How large the chapter's experiments are, per preset."""

from __future__ import annotations

from dataclasses import dataclass

from nips26lib.chapter.presets import Preset


@dataclass(frozen=True)
class SgdDecayPreset(Preset):
    """Sizes of the experiments.

    Without sampling: grids of `points`, Rastrigin's bumps of heights `bumps`, accuracies ε = b/(2·exponent), and
    `exact_settings` learning rates (or pairs) a family. By real SGD: `dims` and `budgets` of the race, of which the
    claim is judged at `judged_budget`; `chains` independent repetitions; `settings` learning rates (or pairs) a family.
    Chapter seed s tunes on seed s and judges on seed 1000 + s.
    """

    points: int = 301
    bumps: tuple[float, ...] = (1.0,)
    exponents: tuple[float, ...] = (3.0, 4.5, 6.0, 7.5)
    exact_settings: int = 16
    temperatures: int = 12
    functions: int = 200
    halvings: int = 3
    dims: tuple[int, ...] = (4, 8)
    budgets: tuple[int, ...] = (500, 2000)
    judged_budget: int = 2000
    chains: int = 16
    settings: int = 4
    benchmark_dim: int = 4
    louder: tuple[float, ...] = (1.0,)
    repeats: int = 1
    shapes: tuple[str, ...] = ("geometric", "cosine")
    noises: tuple[str, ...] = ("gaussian", "rademacher")
    starts: tuple[str, ...] = ("box", "well")
    best_dims: tuple[int, ...] = (1, 2, 4)
    heights: tuple[float, ...] = (0.5, 1.0, 2.0)


PRESETS = {
    "smoke": SgdDecayPreset(),
    "laptop": SgdDecayPreset(
        points=701,
        bumps=(0.5, 1.0),
        exponents=(3.0, 4.5, 6.0, 7.5, 9.0, 10.5, 12.0, 13.5, 15.0, 16.5),
        exact_settings=64,
        halvings=4,
        dims=(8, 16),
        budgets=(2_000, 20_000, 200_000),
        judged_budget=20_000,
        chains=64,
        settings=10,
        benchmark_dim=10,
        louder=(1.0, 2.0, 4.0),
        repeats=5,
        shapes=("geometric", "polynomial", "cosine", "step", "logarithmic"),
        noises=("gaussian", "rademacher", "student_t5"),
        best_dims=(1, 2, 4, 8),
        heights=(0.5, 1.0, 2.0, 4.0, 7.0, 10.0),
    ),
    "gpu": SgdDecayPreset(
        needs_gpu=True,
        threads=8,
        points=1401,
        bumps=(0.5, 1.0, 2.0),
        exponents=(3.0, 4.5, 6.0, 7.5, 9.0, 10.5, 12.0, 13.5, 15.0, 16.5),
        exact_settings=144,
        halvings=5,
        dims=(8, 16, 32, 64),
        budgets=(2_000, 20_000, 200_000, 2_000_000),
        judged_budget=20_000,
        chains=1024,
        settings=10,
        benchmark_dim=10,
        louder=(1.0, 2.0, 4.0),
        repeats=5,
        shapes=("geometric", "polynomial", "cosine", "step", "logarithmic"),
        noises=("gaussian", "rademacher", "student_t5"),
        best_dims=(1, 2, 4, 8, 16),
        heights=(0.5, 1.0, 2.0, 4.0, 7.0, 10.0),
    ),
}
