"""SGD whose learning rate decays against any fixed one, on functions with many wrong wells: a rate is a temperature.

The paper itself could not be read: this is a reconstruction from its abstract, on annealing and weak Poincaré
inequalities. `benchmark`, `schedule` and `sgd` run the contest; `Landscape1D` with `fokker_planck`, `sgd_law` and
`queries_to_eps` computes it exactly in one dimension.
"""

from . import contest, exact, exercises, explorables
from .claims import CLAIMS
from .descent import NOISES, Trajectory, sgd, uniform_start
from .diffusion import fokker_planck, fokker_planck_steps
from .functions import NAMES, TestFunction, benchmark, radial, section
from .landscape import Landscape1D, Spectral, grid_for
from .law import sgd_law, total_variation
from .poincare import (
    WeakPoincare,
    entropy_path,
    relative_entropy,
    squared_gradient,
    variance,
    weak_poincare,
    weak_poincare_margin,
)
from .presets import PRESETS, SgdDecayPreset
from .queries import FAMILIES, Queries, queries_to_eps
from .schedules import KINDS, eta_for, schedule, temperature
from .wells import Wells, find_wells, freezing_temperature, kramers_rate

__all__ = [
    "CLAIMS",
    "FAMILIES",
    "KINDS",
    "NAMES",
    "NOISES",
    "PRESETS",
    "Landscape1D",
    "Queries",
    "SgdDecayPreset",
    "Spectral",
    "TestFunction",
    "Trajectory",
    "WeakPoincare",
    "Wells",
    "benchmark",
    "contest",
    "entropy_path",
    "eta_for",
    "exact",
    "exercises",
    "explorables",
    "find_wells",
    "fokker_planck",
    "fokker_planck_steps",
    "freezing_temperature",
    "grid_for",
    "kramers_rate",
    "queries_to_eps",
    "radial",
    "relative_entropy",
    "schedule",
    "section",
    "sgd",
    "sgd_law",
    "squared_gradient",
    "temperature",
    "total_variation",
    "uniform_start",
    "variance",
    "weak_poincare",
    "weak_poincare_margin",
]
