"""What a memory controller can do about faulty weights: one `Defence` a method, all with the same three verbs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from .decoder import RecoveryReport
from .decoder import recover as recover_codes
from .formats import decode, encode, native
from .memory import Stored, require_zero_sum


class Defence(ABC):
    """`protect` writes memory, `recover` reads it, `scrub` repairs it in place.

    `recover` returns what the network gets to compute with. `scrub` returns what lies in memory after the repair, still
    protected, so that the next round of faults can strike it. Only a code that hides its check bits in the weights
    (in-place ECC) tells the two apart.
    """

    name: ClassVar[str]

    def protect(self, stored: Stored) -> Stored:
        """Memory prepared for this defence; ValueError where it cannot protect such weights."""
        return stored

    @abstractmethod
    def recover(self, stored: Stored) -> tuple[Stored, RecoveryReport]:
        """Weights as well as they can be recovered from faulty memory, and what was seen on the way."""

    def scrub(self, stored: Stored) -> tuple[Stored, RecoveryReport]:
        """Repaired memory, still protected, and what was seen on the way."""
        return self.recover(stored)


@dataclass(frozen=True)
class Nothing(Defence):
    """No defence: faulty weights are used as they are."""

    name: ClassVar[str] = "none"

    def recover(self, stored: Stored) -> tuple[Stored, RecoveryReport]:
        return stored, RecoveryReport(blocks=len(stored.codes), flagged=0, corrected=0, uncorrectable=0)


@dataclass(frozen=True)
class Guard(Defence):
    """Range guard: a weight that is not finite, or larger than any clean one, is set to zero or clamped.

    `grid=True` takes a weight off the tensor's grid for faulty too, and sets it to zero. NaN always becomes zero.
    The report counts weights; none of them is `corrected`, since the guard does not know the true value.

    >>> from nips26lib.papers.zerosum.memory import flip, store
    >>> stored = store(torch.tensor([1.0, -0.5]), "fp32")
    >>> faulty = flip(stored, torch.tensor([30]))  # the top exponent bit makes 1.0 infinite
    >>> [Guard(mode).recover(faulty)[0].values().tolist() for mode in ("zero", "clamp")]
    [[0.0, -0.5], [1.0, -0.5]]
    """

    mode: str = "zero"
    grid: bool = False
    name: ClassVar[str] = "guard"

    def __post_init__(self) -> None:
        if self.mode not in ("zero", "clamp"):
            raise ValueError(f"mode was {self.mode!r}; it must be 'zero' or 'clamp'")

    def protect(self, stored: Stored) -> Stored:
        if self.grid:
            _unit(stored, "Guard(grid=True)")
        return stored

    def recover(self, stored: Stored) -> tuple[Stored, RecoveryReport]:
        weights = stored.values().flatten()
        bad = ~(weights.abs() <= stored.limit)  # in this form NaN is bad too
        repaired = torch.zeros_like(stored.codes)
        if self.mode == "clamp":
            clamped = torch.nan_to_num(weights, nan=0.0).clamp(-stored.limit, stored.limit)
            repaired = _codes_of(clamped, stored)
        if self.grid:
            off_grid = decode(stored.codes, _unit(stored, "Guard(grid=True)"), stored.fmt)[1] & ~bad
            repaired = repaired.masked_fill(off_grid, 0)
            bad = bad | off_grid
        found = int(bad.sum())
        return (
            replace(stored, codes=torch.where(bad, repaired, stored.codes)),
            RecoveryReport(blocks=len(stored.codes), flagged=found, corrected=0, uncorrectable=found),
        )


def _unit(stored: Stored, who: str) -> float:
    if stored.unit is None:
        raise ValueError(f"stored lay on no grid (its unit was None); {who} must have one")
    return stored.unit


def _codes_of(weights: Tensor, stored: Stored) -> Tensor:
    if stored.unit is None:
        return native(weights, stored.fmt)
    return encode((weights / stored.unit).round().long(), stored.unit, stored.fmt)


@dataclass(frozen=True)
class ZeroSum(Defence):
    """The paper's defence: the weights of a block sum to zero, and `decoder.recover` uses that.

    `ber` is the bit error rate that the decoder expects; it weighs "few flipped bits" against "a small weight".
    """

    ber: float = 1e-3
    name: ClassVar[str] = "zero-sum"

    def __post_init__(self) -> None:
        if not 0.0 < self.ber < 0.5:
            raise ValueError(f"ber was {self.ber}; it must lie in (0, 0.5)")

    def protect(self, stored: Stored) -> Stored:
        self._require_layout(stored)
        n, erased = decode(stored.codes, _unit(stored, self.name), stored.fmt, limit=_steps(stored))
        if erased.any():
            raise ValueError(f"stored held {int(erased.sum())} codes off its grid or out of range; it must be clean")
        require_zero_sum(n.reshape(stored.shape), stored.layout, stored.block)
        return stored

    def recover(self, stored: Stored) -> tuple[Stored, RecoveryReport]:
        self._require_layout(stored)
        codes, report = recover_codes(
            stored.codes,
            layout=stored.layout,
            block=stored.block,
            fmt=stored.fmt,
            unit=_unit(stored, self.name),
            limit=_steps(stored),
            shape=stored.shape,
            ber=self.ber,
        )
        return replace(stored, codes=codes), report

    @staticmethod
    def _require_layout(stored: Stored) -> None:
        if stored.layout == "none":
            raise ValueError("stored had layout 'none'; zero-sum recovery must have 'rows' or 'tile'")


def _steps(stored: Stored) -> int:
    """The largest clean |weight| in grid steps."""
    return round(stored.limit / stored.unit) if stored.unit else 0


@dataclass(frozen=True)
class Radar(Defence):
    """RADAR (Li et al., DATE 2021, arXiv 2101.08254): a 2-bit checksum a group; a group that fails it is set to zero.

    The checksum is bits 7 and 8 of the sum of the group's int8 weights, so it sees the top bit of a weight and little
    below. As in the paper the signatures lie in safe memory; its secret key (signs in the sum) is left out.
    `interleave=True` puts weights that are far apart in one group, as the paper does.

    >>> from nips26lib.papers.zerosum.memory import flip, store
    >>> radar = Radar(group=2)
    >>> stored = radar.protect(store(torch.tensor([3.0, 5.0, 7.0, 9.0]), "int8", unit=1.0))
    >>> radar.recover(flip(stored, torch.tensor([7])))[0].values().tolist()  # groups are {0, 2} and {1, 3}
    [0.0, 5.0, 0.0, 9.0]
    """

    group: int = 16
    interleave: bool = True
    name: ClassVar[str] = "RADAR"

    def __post_init__(self) -> None:
        if self.group < 2:
            raise ValueError(f"group was {self.group}; it must be at least 2")

    def groups(
        self, weights: int, device: torch.device | str = "cpu"
    ) -> tuple[Int64[Tensor, "groups size"], Bool[Tensor, "groups size"]]:
        """Index of the weights in each group, and which of these places are real (the last group may be short).

        >>> Radar(group=2).groups(3)[0].tolist()
        [[0, 2], [1, 0]]
        """
        count = -(-weights // self.group)
        index = torch.arange(count * self.group, device=device)
        index = index.reshape(self.group, count).T if self.interleave else index.reshape(count, self.group)
        real = index < weights
        return torch.where(real, index, 0), real

    def _signatures(self, stored: Stored) -> tuple[Tensor, Tensor, Tensor]:
        if stored.fmt != "int8":
            raise ValueError(f"stored had format {stored.fmt!r}; RADAR must have 'int8'")
        index, real = self.groups(len(stored.codes), stored.codes.device)
        weights = stored.codes - 256 * (stored.codes >> 7)  # two's complement
        total = torch.where(real, weights[index], 0).sum(1)
        return (total >> 7) & 3, index, real

    def protect(self, stored: Stored) -> Stored:
        signatures, _, _ = self._signatures(stored)
        return replace(stored, check=signatures, check_bits=2, check_safe=True)

    def recover(self, stored: Stored) -> tuple[Stored, RecoveryReport]:
        signatures, index, real = self._signatures(stored)
        if stored.check.shape != signatures.shape:
            raise ValueError(
                f"stored had {len(stored.check)} signatures; it must have {len(signatures)}: call protect first"
            )
        failed = signatures != stored.check
        codes = stored.codes.clone()
        codes[index[failed][real[failed]]] = 0
        # A group of zeros has the checksum 0: kept as it was, it would fail again at every scrub.
        repaired = replace(stored, codes=codes, check=stored.check.masked_fill(failed, 0))
        found = int(failed.sum())
        return repaired, RecoveryReport(blocks=len(failed), flagged=found, corrected=0, uncorrectable=found)
