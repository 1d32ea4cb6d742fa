"""The simplifications that earlier analyses made, to be set beside plain training: what each takes away.

Lazy: directions stay random, masses are fitted. Layer-wise: directions first, with fixed masses and no interaction
between neurons, then masses. Kernel ridge and random features: no directions are learned, from samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nips26lib.papers.multi_index.flow import gradient_flow
from nips26lib.papers.multi_index.target import Target, polar, population_loss


@dataclass(frozen=True)
class Fit:
    """Weights of the best network of its kind, and its population loss."""

    W: Float[Tensor, "m d"]
    loss: float


def lazy_fit(U: Float[Tensor, "m d"], target: Target) -> Fit:
    """The best masses n ≥ 0 for the fixed directions `U`, by non-negative least squares on the population loss.

    ½ nᵀK n − bᵀn is a least-squares problem in a root of the Gram matrix K. Raises ValueError for a zero row of `U`.
    """
    from scipy.optimize import nnls

    _, u = polar(U)
    kernel = target.activation.kernel
    K = kernel(u @ u.T).to(torch.float64).numpy()
    b = kernel(u @ target.V.T).sum(-1).to(torch.float64).numpy()
    values, vectors = np.linalg.eigh(K)
    kept = values > values[-1] * 1e-12
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    masses, _ = nnls(root, (vectors[:, kept].T @ b) / np.sqrt(values[kept]), maxiter=30 * len(b))
    W = u * torch.from_numpy(np.sqrt(masses)).to(u)[:, None]
    alive = masses > 0
    return Fit(W[alive], float(population_loss(W[alive], target)))


def layer_wise(W0: Float[Tensor, "m d"], target: Target, t_end: float, step: float = 0.1) -> Fit:
    """Directions by the correlation loss at the initial masses, neuron by neuron; then the masses, by `lazy_fit`."""
    flow = gradient_flow(W0, target, t_end, step, loss="correlation", fixed_norms=True, marks=2)
    return lazy_fit(flow.W, target)


def ridge_losses(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    test_x: Float[Tensor, "t d"],
    test_y: Float[Tensor, " t"],
    features: int = 1024,
    strengths: tuple[float, ...] = (1e-6, 1e-4, 1e-2, 1.0),
    seed: int = 0,
) -> dict[str, float]:
    """½ mean squared error on the test sample of kernel ridge (RBF) and of ridge on random |u·x| features.

    The strength of the ridge, and for the RBF its width among 0.25, 1 and 4 over d, are chosen by 4-fold
    cross-validation on the training sample.
    """
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV

    d = x.shape[1]
    grid = {"alpha": list(strengths), "gamma": [0.25 / d, 1 / d, 4 / d]}
    rbf = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=4).fit(x.numpy(), y.numpy())
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(d, features, dtype=x.dtype, generator=generator)
    u = u / u.norm(dim=0)
    ridge = RidgeCV(alphas=[n * len(x) for n in strengths]).fit((x @ u).abs().numpy(), y.numpy())
    predicted = {
        "kernel ridge (RBF)": rbf.predict(test_x.numpy()),
        "random features": ridge.predict((test_x @ u).abs().numpy()),
    }
    return {name: float(np.mean((values - test_y.numpy()) ** 2) / 2) for name, values in predicted.items()}
