"""Error-correcting codes on the bits of a memory word: single errors corrected, double errors detected (SEC-DED).

Both codes follow M. Y. Hsiao (1970): the columns of the parity-check matrix H have odd weight and are all distinct. One
flipped bit gives a syndrome equal to its own column; two give an even one, which equals no column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import ClassVar

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from .decoder import RecoveryReport
from .defences import Defence
from .memory import Stored

UNCORRECTABLE = -1


def _odd_columns(rows: int, weight: int) -> list[int]:
    return [sum(1 << row for row in chosen) for chosen in combinations(range(rows), weight)]


@cache
def _columns_72_64() -> tuple[int, ...]:
    """Column of H for each bit of a word, as an integer whose bit r is row r: 64 data bits, then 8 check bits."""
    three = iter(_odd_columns(8, 3))
    # Eight rotations of one pattern of weight 5 keep the rows of H equally heavy, as Hsiao asks.
    five = [sum(1 << (row + turn) % 8 for row in range(5)) for turn in range(8)]
    data = [five[bit // 8] if bit % 8 == 0 else next(three) for bit in range(64)]
    return (*data, *(1 << row for row in range(8)))


@cache
def _columns_64_57() -> tuple[int, ...]:
    """Column of H for each bit of eight bytes: all 64 odd columns of height 7; bit 6 of byte i < 7 is check bit i."""
    heavier = iter(column for weight in (3, 5, 7) for column in _odd_columns(7, weight))
    return tuple(1 << bit // 8 if bit % 8 == 6 and bit < 56 else next(heavier) for bit in range(64))


@dataclass(frozen=True)
class SyndromeDecoder:
    """Syndrome decoding of many words at once: a word is a row of bytes, `columns` the columns of H, bit by bit.

    A syndrome is a sum over GF(2) of columns, so it is the exclusive or of one table entry a byte. Check bits that are
    kept beside the word, and stand for the last columns, are that sum themselves.
    """

    columns: tuple[int, ...]

    def syndromes(self, words: Int64[Tensor, "words bytes"]) -> Int64[Tensor, " words"]:
        table, _ = _tables(self.columns, words.device)
        total = table[0][words[:, 0]]
        for entries, byte in zip(table[1:], words.T[1:], strict=False):
            total ^= entries[byte]
        return total

    def locate(self, syndromes: Int64[Tensor, " words"]) -> tuple[Int64[Tensor, " faulty"], Int64[Tensor, " faulty"]]:
        """Which words are faulty, and the bit of each that a single flip would explain (or UNCORRECTABLE)."""
        (faulty,) = syndromes.nonzero(as_tuple=True)
        return faulty, _tables(self.columns, syndromes.device)[1][syndromes[faulty]]


@cache
def _tables(columns: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Partial syndrome by (byte of the word, its value), and by syndrome the bit that explains it."""
    column = torch.tensor(columns, device=device).view(-1, 8)
    table = torch.zeros(len(column), 256, dtype=torch.int64, device=device)
    value = torch.arange(256, device=device)
    for bit in range(8):
        table ^= column[:, bit : bit + 1] * (value >> bit & 1)
    bit_of = torch.full((1 << max(columns).bit_length(),), UNCORRECTABLE, device=device)
    bit_of[column.flatten()] = torch.arange(len(columns), device=device)
    return table, bit_of


def _matrix(columns: tuple[int, ...], device: torch.device | str = "cpu") -> Tensor:
    rows = torch.arange(max(columns).bit_length(), device=device)
    return torch.tensor(columns, device=device) >> rows[:, None] & 1


def to_bytes(codes: Int64[Tensor, " weights"], code_bits: int) -> Int64[Tensor, " bytes"]:
    """The stream of bytes that holds the codes, low bits first; a half-filled last byte is padded with zeros.

    >>> to_bytes(torch.tensor([0x1234, 0x5678]), 16).tolist() == [0x34, 0x12, 0x78, 0x56]
    True
    """
    if code_bits == 8:
        return codes
    if code_bits < 8:
        share = 8 // code_bits
        codes = torch.nn.functional.pad(codes, (0, -len(codes) % share)).view(-1, share)
        return (codes << code_bits * torch.arange(share, device=codes.device)).sum(1)
    return (codes[:, None] >> 8 * torch.arange(code_bits // 8, device=codes.device) & 255).flatten()


def from_bytes(stream: Int64[Tensor, " bytes"], code_bits: int, weights: int) -> Int64[Tensor, " weights"]:
    """The first `weights` codes in a stream of bytes: the inverse of `to_bytes`.

    >>> from_bytes(torch.tensor([0x21, 0x03]), 4, 3).tolist()
    [1, 2, 3]
    """
    if code_bits == 8:
        return stream[:weights]
    if code_bits < 8:
        shifts = code_bits * torch.arange(8 // code_bits, device=stream.device)
        codes = (stream[:, None] >> shifts & (1 << code_bits) - 1).flatten()
    else:
        codes = (stream.view(-1, code_bits // 8) << 8 * torch.arange(code_bits // 8, device=stream.device)).sum(1)
    return codes[:weights]


@dataclass(frozen=True)
class SECDED(Defence):
    """(72,64) Hsiao code: eight check bits beside each 64 bits of any format, the code of ECC memory.

    A double error is reported and left as it is: the network goes on with it. Data bits that count most never carry one
    of the eight heavy columns of H, which stand at bit 0 of each byte. The tail of the last word is zeros that exist
    only in the arithmetic, so a syndrome that names one of them proves a multiple error.

    >>> from nips26lib.papers.zerosum.memory import flip, store
    >>> secded = SECDED()
    >>> stored = secded.protect(store(torch.tensor([1.0, 2.0]), "fp32"))
    >>> fixed, report = secded.recover(flip(stored, torch.tensor([62])))
    >>> fixed.values().tolist(), report.corrected, stored.n_check_bits
    ([1.0, 2.0], 1, 8)
    """

    name: ClassVar[str] = "SECDED"

    @staticmethod
    def parity_check_matrix() -> Int64[Tensor, "8 72"]:
        """H: columns 0 to 63 are the data bits (56 of weight 3, 8 of weight 5), the last eight the check bits."""
        return _matrix(_columns_72_64())

    @staticmethod
    def columns(device: torch.device | str = "cpu") -> Int64[Tensor, " columns"]:
        """The columns of H as integers, bit r being row r."""
        return torch.tensor(_columns_72_64(), device=device)

    @staticmethod
    def aliases(stored: Stored, positions: Int64[Tensor, " bits"]) -> Int64[Tensor, "bits 3"]:
        """For each data bit, the three check bits that make the decoder itself flip it (positions as in `flip`).

        Raises:
            ValueError: one of the positions is no data bit, or its column of H has weight 5.
        """
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < stored.n_data_bits:
            raise ValueError(f"positions must lie among the data bits, 0 .. {stored.n_data_bits - 1}")
        member = _matrix(_columns_72_64(), positions.device).T[positions % 64].bool()
        if (member.sum(1) != 3).any():
            raise ValueError("positions held a bit 0 of a byte, which takes five check bits; it must hold others")
        rows = member.nonzero()[:, 1].view(-1, 3)
        return stored.n_data_bits + positions[:, None] // 64 * 8 + rows

    def protect(self, stored: Stored) -> Stored:
        check = SyndromeDecoder(_columns_72_64()).syndromes(_words(stored))
        return replace(stored, check=check, check_bits=8, check_safe=False)

    def recover(self, stored: Stored) -> tuple[Stored, RecoveryReport]:
        words, check, decoder = _words(stored), stored.check, SyndromeDecoder(_columns_72_64())
        if stored.check_bits != 8 or len(check) != len(words):
            raise ValueError(
                f"stored had {len(check)} check words of {stored.check_bits} bits; "
                f"it must have {len(words)} of 8: call protect first"
            )
        faulty, bit = decoder.locate(decoder.syndromes(words) ^ check)
        bit = bit.masked_fill((bit < 64) & (64 * faulty + bit >= stored.n_data_bits), UNCORRECTABLE)
        fixed = _flip_back(words, faulty, bit.masked_fill(bit >= 64, UNCORRECTABLE))
        codes = from_bytes(fixed.flatten(), stored.code_bits, len(stored.codes))
        check = _flip_back(check[:, None], faulty, bit - 64).flatten()
        return replace(stored, codes=codes, check=check), _report(len(words), bit)


def _words(stored: Stored) -> Tensor:
    stream = to_bytes(stored.codes, stored.code_bits)
    return (torch.nn.functional.pad(stream, (0, -len(stream) % 8)) if len(stream) % 8 else stream).view(-1, 8)


def _flip_back(words: Tensor, faulty: Tensor, bit: Tensor) -> Tensor:
    """Flip `bit` of each faulty word of bytes, where it is not negative; the input is left alone."""
    known = bit >= 0
    faulty, bit = faulty[known], bit[known]
    words = words.clone()
    words[faulty, bit // 8] ^= 1 << bit % 8
    return words


def _report(words: int, bit: Tensor) -> RecoveryReport:
    corrected = int((bit >= 0).sum())
    return RecoveryReport(blocks=words, flagged=len(bit), corrected=corrected, uncorrectable=len(bit) - corrected)


@dataclass(frozen=True)
class InPlaceECC(Defence):
    """(64,57) code without extra memory (Guan et al., NeurIPS 2019, arXiv 1910.14479), for int8 weights only.

    A weight in [-64, 63] has bit 6 equal to its sign bit. Seven of each eight weights are trained into that range, and
    their bits 6 hold the check bits; `recover` puts the sign back in their place. Protected memory holds no weights
    that a network could use, so read it through `recover`.

    >>> from nips26lib.papers.zerosum.memory import flip, store
    >>> ecc = InPlaceECC()
    >>> stored = ecc.protect(store(torch.arange(-60.0, 68.0, 16.0), "int8", unit=1.0))
    >>> fixed, report = ecc.recover(flip(stored, torch.tensor([15])))
    >>> fixed.values().tolist(), report.corrected, stored.n_check_bits
    ([-60.0, -44.0, -28.0, -12.0, 4.0, 20.0, 36.0, 52.0], 1, 0)
    """

    name: ClassVar[str] = "in-place ECC"

    @staticmethod
    def parity_check_matrix() -> Int64[Tensor, "7 64"]:
        """H: bit k of byte i is column 8 i + k; bits 6 of bytes 0 to 6 are the check bits."""
        return _matrix(_columns_64_57())

    def protect(self, stored: Stored) -> Stored:
        """Hide the check bits.

        Raises:
            ValueError: a format other than int8, a number of weights that is no multiple of 8, or a weight outside
                [-64, 63] among the first seven of eight.
        """
        words = self._words(stored)
        small = words[:, :7]
        wide = int(((small >> 6 & 1) != small >> 7).sum())
        if wide:
            raise ValueError(
                f"stored had {wide} weights outside [-64, 63] among the first seven of each eight; "
                "in-place ECC must have none: train with wot_clip"
            )
        return replace(stored, codes=self._embed(words).flatten())

    def recover(self, stored: Stored) -> tuple[Stored, RecoveryReport]:
        repaired, report = self.scrub(stored)
        words = repaired.codes.view(-1, 8)
        plain = words.clone()
        plain[:, :7] = _set_bit_6(words[:, :7], words[:, :7] >> 7)
        return replace(repaired, codes=plain.flatten()), report

    def scrub(self, stored: Stored) -> tuple[Stored, RecoveryReport]:
        words, decoder = self._words(stored), SyndromeDecoder(_columns_64_57())
        faulty, bit = decoder.locate(decoder.syndromes(words))
        return replace(stored, codes=_flip_back(words, faulty, bit).flatten()), _report(len(words), bit)

    @staticmethod
    def _embed(words: Tensor) -> Tensor:
        empty = words.clone()
        empty[:, :7] = _set_bit_6(words[:, :7], torch.zeros_like(words[:, :7]))
        check = SyndromeDecoder(_columns_64_57()).syndromes(empty)
        empty[:, :7] |= (check[:, None] >> torch.arange(7, device=words.device) & 1) << 6
        return empty

    @staticmethod
    def _words(stored: Stored) -> Tensor:
        if stored.fmt != "int8":
            raise ValueError(f"stored had format {stored.fmt!r}; in-place ECC must have 'int8'")
        if len(stored.codes) % 8:
            raise ValueError(f"stored had {len(stored.codes)} weights; in-place ECC must have a multiple of 8")
        return stored.codes.view(-1, 8)


def _set_bit_6(codes: Tensor, bit: Tensor) -> Tensor:
    return codes & ~(1 << 6) | bit << 6


def wot_clip(n: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """Clip the first seven of each eight weights to [-64, 63], in grid steps: what in-place ECC needs of training.

    The weights are counted through the flattened tensor; any shape and dtype.

    >>> wot_clip(torch.tensor([100, -100, 0, 0, 0, 0, 0, 100])).tolist()
    [63, -64, 0, 0, 0, 0, 0, 100]
    """
    free = torch.arange(n.numel(), device=n.device).view(n.shape) % 8 == 7
    return torch.where(free, n, n.clamp(-64, 63))
