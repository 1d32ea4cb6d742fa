"""Learning orthogonal multi-index models: how a two-layer network finds k directions in d dimensions, order by order.

After Zhou, Xu, Du and Fazel, arXiv 2609.10879. Only the abstract could be read: the parametrization is our
reconstruction, and the flow is plain gradient flow. `Target` and `init_weights` set the problem, `gradient_flow`
trains,
`two_stage_ode` and `logistic_mass` predict, `symmetrized_loss` gives the comparison network.
"""

from __future__ import annotations

from nips26lib.papers.multi_index.activation import Activation, hermite, hermite_coefs
from nips26lib.papers.multi_index.contrast import Fit, layer_wise, lazy_fit, ridge_losses
from nips26lib.papers.multi_index.flow import Flow, first_time, gradient_flow, largest_step
from nips26lib.papers.multi_index.gradient import flow_gradient, sample_gradient
from nips26lib.papers.multi_index.symmetry import (
    random_isometry,
    symmetrized_gradient,
    symmetrized_kernel,
    symmetrized_loss,
)
from nips26lib.papers.multi_index.target import (
    Shares,
    Target,
    axis_target,
    init_weights,
    mass_shares,
    network,
    order_residuals,
    polar,
    population_loss,
)
from nips26lib.papers.multi_index.theory import (
    TwoStage,
    logistic_mass,
    mean_half_time,
    two_stage_ode,
    winner_takes_all,
)

__all__ = [
    "Activation",
    "Fit",
    "Flow",
    "Shares",
    "Target",
    "TwoStage",
    "axis_target",
    "first_time",
    "flow_gradient",
    "gradient_flow",
    "hermite",
    "hermite_coefs",
    "init_weights",
    "largest_step",
    "layer_wise",
    "lazy_fit",
    "logistic_mass",
    "mass_shares",
    "mean_half_time",
    "network",
    "order_residuals",
    "polar",
    "population_loss",
    "random_isometry",
    "ridge_losses",
    "sample_gradient",
    "symmetrized_gradient",
    "symmetrized_kernel",
    "symmetrized_loss",
    "two_stage_ode",
    "winner_takes_all",
]
