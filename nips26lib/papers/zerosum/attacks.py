"""Bit-flip attacks on stored weights: progressive bit search, plain or with the defence's decoder in the loop.

Source: Rakin, He and Fan, "Bit-Flip Attack" (ICCV 2019) for the search; the adaptive moves are ours [reconstructed],
see `moves`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .defences import Defence
from .memory import Stored, flip
from .moves import MOVES, view

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Flip:
    """One physical flip: `position` counts the bits of the stored tensor `layer`, data bits first, then check bits."""

    layer: str
    position: int


@dataclass(frozen=True)
class Attack:
    """What an attack did: its moves in order, the model evaluations spent up to each, the loss after each."""

    moves: tuple[tuple[Flip, ...], ...]
    queries: tuple[int, ...]
    losses: tuple[float, ...]

    @property
    def flips(self) -> list[Flip]:
        return [flip for move in self.moves for flip in move]

    def within(self, n_flips: int) -> list[Flip]:
        """The flips of the leading moves that together need at most `n_flips`: no move is struck in part."""
        taken: list[Flip] = []
        for move in self.moves:
            if len(taken) + len(move) > n_flips:
                break
            taken.extend(move)
        return taken


def probability_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus the mean probability of the true class, in [-1, 0]; the attacker drives it up to 0.

    Cross-entropy is no good here: once one class has collapsed it grows without bound on the very same inputs, and the
    search keeps pushing where nothing is left to win.

    >>> probability_loss(torch.zeros(3, 10), torch.tensor([0, 1, 2])).item()
    -0.10000000149011612
    """
    # logits that are not numbers are a success of the attack, not an accident of arithmetic
    return -torch.nan_to_num(logits.softmax(-1).gather(-1, labels[:, None]), nan=0.0).mean()


def margin_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean of how far the best wrong class leads the true one, at most 1 an image; bounded above for the same reason.

    >>> margin_loss(torch.tensor([[5.0, 0.0], [0.0, 5.0]]), torch.tensor([0, 0])).item()  # (-5 + 1) / 2
    -2.0
    """
    own = logits.gather(-1, labels[:, None])
    rival = logits.scatter(-1, labels[:, None], -torch.inf).amax(-1, keepdim=True)
    return torch.nan_to_num((rival - own).clamp(max=1.0), nan=1.0).mean()


#: What an attacker may maximise; `study.besiege` tries both and keeps what hurts more.
LOSSES: dict[str, Loss] = {"probability": probability_loss, "margin": margin_loss}


def strike(memory: Mapping[str, Stored], flips: Sequence[Flip]) -> dict[str, Stored]:
    """The memory after these flips; the given one is not changed."""
    struck = dict(memory)
    for layer in {one.layer for one in flips}:
        positions = [one.position for one in flips if one.layer == layer]
        where = torch.tensor(positions, device=struck[layer].codes.device)
        struck[layer] = flip(struck[layer], where)
    return struck


def read(memory: Mapping[str, Stored], defence: Defence | None) -> dict[str, Tensor]:
    """The weights that the network computes with: what the defence makes of the memory."""
    return {name: _read(stored, defence) for name, stored in memory.items()}


def _read(stored: Stored, defence: Defence | None) -> Tensor:
    return (stored if defence is None else defence.recover(stored)[0]).values()


def bit_flip_attack(
    net: nn.Module,
    memory: Mapping[str, Stored],
    inputs: Tensor,
    labels: Tensor,
    n_flips: int,
    moves: Sequence[str] = ("single",),
    defence: Defence | None = None,
    candidates: int = 5,
    loss: Loss = probability_loss,
) -> Attack:
    """Search, move by move, for at most `n_flips` flips that raise the loss most.

    Each step takes the gradient of the loss in the weights the network computes with, lists the `candidates` most
    promising moves of each kind in each tensor by first-order gain, tries them all on the network, and makes the one
    with the highest rise of the loss per flip. No bit is flipped twice.

    Args:
        net: a plain network; parameters named in `memory` are replaced by what the memory holds.
        memory: the stored tensors, as `defence.protect` left them.
        inputs, labels: the attacker's data, (batch, ...) and (batch,).
        n_flips: physical flips allowed.
        moves: names out of `MOVES`.
        defence: with one, candidates are judged after recovery (decoder in the loop); None attacks blindly.

    Raises:
        ValueError: unknown move, negative budget, or a tensor that the network does not have.

    Source: Rakin, He, Fan (2019), section 3; bounded losses and adaptive moves [reconstructed].
    """
    unknown = [name for name in moves if name not in MOVES]
    if unknown or not moves:
        raise ValueError(f"moves must be one or more of {', '.join(MOVES)}; got {list(moves)!r}")
    if n_flips < 0:
        raise ValueError(f"n_flips must be 0 or more, got {n_flips}")
    parameters = dict(net.named_parameters())
    missing = [name for name in memory if name not in parameters]
    if missing:
        raise ValueError(f"memory names {missing!r}, which the network does not have; it has {list(parameters)!r}")

    state = dict(memory)
    weights = read(state, defence)
    used = {name: torch.zeros(s.n_exposed_bits, dtype=torch.bool, device=s.codes.device) for name, s in state.items()}
    done: list[tuple[Flip, ...]] = []
    queries: list[int] = []
    losses: list[float] = []
    spent = 0
    left = n_flips
    while left > 0:
        slopes, current = _gradient(net, weights, inputs, labels, loss)
        spent += 1
        best: tuple[float, str, Tensor, float] | None = None
        for name, stored in state.items():
            seen = view(stored, slopes[name].flatten(), used[name], defence)
            for kind in moves:
                for positions in MOVES[kind](seen, candidates).positions:
                    if len(positions) > left or used[name][positions].any():
                        continue
                    tried = _read(flip(stored, positions), defence)
                    value = _evaluate(net, {**weights, name: tried}, inputs, labels, loss)
                    spent += 1
                    rate = (value - current) / len(positions)
                    if best is None or rate > best[0]:
                        best = (rate, name, positions, value)
        if best is None:
            break
        _, name, positions, value = best
        state[name] = flip(state[name], positions)
        used[name][positions] = True
        weights[name] = _read(state[name], defence)
        left -= len(positions)
        done.append(tuple(Flip(name, int(position)) for position in positions))
        queries.append(spent)
        losses.append(value)
    return Attack(tuple(done), tuple(queries), tuple(losses))


def _gradient(
    net: nn.Module, weights: Mapping[str, Tensor], inputs: Tensor, labels: Tensor, loss: Loss
) -> tuple[dict[str, Tensor], float]:
    # A weight that is not a number has no slope; the attacker looks from the nearest point that has one.
    leaves = {name: torch.nan_to_num(weight).clamp(-1e6, 1e6).requires_grad_() for name, weight in weights.items()}
    value = loss(functional_call(net, leaves, (inputs,)), labels)
    slopes = torch.autograd.grad(value, list(leaves.values()))
    return {name: torch.nan_to_num(slope) for name, slope in zip(leaves, slopes, strict=True)}, float(value.detach())


@torch.no_grad()
def _evaluate(net: nn.Module, weights: Mapping[str, Tensor], inputs: Tensor, labels: Tensor, loss: Loss) -> float:
    return float(loss(functional_call(net, dict(weights), (inputs,)), labels))
