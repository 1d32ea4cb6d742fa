"""Training and testing the chapter's networks: the same steps for every arm, the same numbers for the same seed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from nips26lib.data.images import Split

from .layers import ZeroSumLayer, zero_sum_layers


def train(
    net: nn.Module,
    data: Split,
    *,
    epochs: int,
    lr: float,
    batch: int,
    seed: int,
    penalty: float = 0.0,
    weight_decay: float = 0.01,
    augment: bool = False,
) -> nn.Module:
    """Train `net` in place by AdamW with a one-cycle learning rate up to `lr`, and return it.

    Every call takes epochs * floor(n / batch) steps, whatever the net. `seed` orders the images (and places the crops
    of `augment`: 4 pixels each way, mirrored half the time); it draws on the CPU, so the order is the same everywhere.

    Args:
        penalty: weight of `clustering_penalty` in the loss.

    Raises:
        ValueError: a negative number of epochs, a batch that is not within 1 .. n, a learning rate that is not
            positive, a negative penalty, or a loss that became NaN or infinite.
    """
    n = len(data.train_y)
    if epochs < 0:
        raise ValueError(f"epochs is {epochs}; it must be at least 0")
    if not 1 <= batch <= n:
        raise ValueError(f"batch is {batch}; it must be from 1 to the number of training images, {n}")
    if not 0 < lr < float("inf"):
        raise ValueError(f"lr is {lr}; it must be a positive number")
    if not 0 <= penalty < float("inf"):
        raise ValueError(f"penalty is {penalty}; it must be at least 0")
    steps = epochs * (n // batch)
    if steps == 0:
        return net
    device = next(net.parameters()).device
    data = data.to(device)
    optimiser = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=lr, total_steps=steps, pct_start=0.1, cycle_momentum=False
    )
    throttled = [layer for layer in zero_sum_layers(net).values() if layer.layout == "wot"]
    generator = torch.Generator().manual_seed(seed)
    net.train()
    for _ in range(epochs):
        order = torch.randperm(n, generator=generator)
        for chosen in order[: n // batch * batch].view(-1, batch).to(device):
            x = data.train_x[chosen]
            loss = F.cross_entropy(net(_augmented(x, generator) if augment else x), data.train_y[chosen])
            if penalty:
                loss = loss + penalty * clustering_penalty(net)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            for layer in throttled:
                layer.throttle()
    if not torch.isfinite(loss.detach()):
        raise ValueError(f"lr is {lr}, with which the loss became {loss.item()}; it must be small enough to train")
    return net


@torch.no_grad()
def accuracy(
    net: nn.Module, x: Float[Tensor, "n channels height width"], y: Int64[Tensor, " n"], batch: int = 1024
) -> float:
    """The share of images of which the true class has the strictly largest logit.

    Strictly, because faults bring NaN and infinity: `argmax` would call such a row class 0, or the class of its NaN,
    and score it as right now and then. A row with a NaN has no largest logit, so it counts as wrong.

    >>> broken = nn.Linear(2, 2)
    >>> _ = nn.init.constant_(broken.weight, float("nan"))
    >>> accuracy(nn.Sequential(nn.Flatten(), broken), torch.ones(4, 1, 1, 2), torch.zeros(4, dtype=torch.int64))
    0.0
    """
    was_training = getattr(net, "training", False)
    if was_training:
        net.eval()
    correct = 0
    for images, classes in zip(x.split(batch), y.split(batch), strict=True):
        logits = net(images)
        own = logits.gather(1, classes[:, None])
        others = logits.scatter(1, classes[:, None], -torch.inf)
        correct += int((own > others).all(dim=1).sum())
    if was_training:
        net.train()
    return correct / len(y)


def clustering_penalty(net: nn.Module) -> Float[Tensor, ""]:
    """How far a layer's weights lie from two points: squared distances of each sign's weights to their mean.

    Summed over all linear and convolutional layers; differentiable. It hardens against bit flips by training alone.
    Source: He et al., "Defending and Harnessing the Bit-Flip based Adversarial Weight Attack", CVPR 2020.

    >>> layer = nn.Linear(4, 1)
    >>> _ = layer.weight.data.copy_(torch.tensor([[1.0, 3.0, -2.0, -2.0]]))
    >>> clustering_penalty(layer).item()
    2.0
    """
    total = torch.zeros((), device=next(net.parameters()).device)
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            w = module.constrained() if isinstance(module, ZeroSumLayer) else module.weight
            for side in (w > 0, w <= 0):
                mean = (w * side).sum() / side.sum().clamp(min=1)
                total = total + ((w - mean).square() * side).sum()
    return total


def _augmented(x: Tensor, generator: torch.Generator) -> Tensor:
    """Every image of the batch moved by up to 4 pixels each way, and half of them mirrored."""
    batch, _, height, width = x.shape
    down, right, mirror = (torch.randint(high, (batch, 1), generator=generator).to(x.device) for high in (9, 9, 2))
    rows = torch.arange(height, device=x.device) + down
    columns = torch.arange(width, device=x.device)
    columns = torch.where(mirror == 1, columns.flip(0), columns) + right
    # (batch, height, width, channels), because indices that are apart come first in the result
    moved = F.pad(x, (4, 4, 4, 4))[
        torch.arange(batch, device=x.device)[:, None, None], :, rows[:, :, None], columns[:, None, :]
    ]
    return moved.permute(0, 3, 1, 2)
