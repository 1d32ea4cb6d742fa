"""The zerosum kernels beside what a user would pick instead, on the same input and with the answers compared.

pytest benchmarks/bench_zerosum.py            prints times and ratios
pytest benchmarks/bench_zerosum.py --record   and writes them to benchmarks/results/zerosum.json
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor

from benchmarks.scalar_decoder import recover_tile
from nips26lib.papers.zerosum.constraint import blocks_of, project
from nips26lib.papers.zerosum.decoder import recover
from nips26lib.papers.zerosum.ecc import SECDED
from nips26lib.papers.zerosum.memory import Stored, flip_random, store
from nips26lib.papers.zerosum.rounding import round_zero_sum

OURS = "nips26lib"
BLOCK = 8


def weights(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def parametrize(*peers: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("who", [OURS, *peers])


# --- SECDED decoding --------------------------------------------------------------------------------------------------


@cache
def _secded() -> tuple[Stored, Stored]:
    stored = SECDED().protect(store(weights(400, 400), "int8"))
    return stored, flip_random(stored, 1e-4, seed=0)


def _bits(stored: Stored) -> np.ndarray:
    data = np.unpackbits(stored.codes.numpy().astype(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    check = np.unpackbits(stored.check.numpy().astype(np.uint8)[:, None], axis=1, bitorder="little")
    return np.concatenate([data, check], axis=1)


@pytest.mark.benchmark(group="SECDED decoding, 20 000 words, bit error rate 1e-4")
@parametrize("komm")
def test_secded_decoding(benchmark, who):
    clean, faulty = _secded()
    if who == OURS:
        got = _bits(benchmark(SECDED().recover, faulty)[0])
    else:
        komm = pytest.importorskip("komm")
        code = komm.BlockCode(check_matrix=SECDED.parity_check_matrix().numpy())
        decoder, received = komm.SyndromeTableDecoder(code), _bits(faulty)  # the table and the bits are not timed
        got = benchmark(decoder.decode_to_codeword, received)
    truth = _bits(clean)
    correctable = (_bits(faulty) != truth).sum(1) <= 1
    assert (got[correctable] == truth[correctable]).all()


# --- Projection -------------------------------------------------------------------------------------------------------


@cache
def _constraints(rows: int, columns: int) -> scipy.sparse.csr_matrix:
    """One row of ones a row and a column of each tile, over the flattened weight."""
    index = blocks_of((rows, columns), "tile", BLOCK).index.numpy()
    cells = np.concatenate([index.reshape(-1, BLOCK), index.transpose(0, 2, 1).reshape(-1, BLOCK)])
    sums = np.repeat(np.arange(len(cells)), BLOCK)
    return scipy.sparse.csr_matrix((np.ones(cells.size), (sums, cells.ravel())), shape=(len(cells), rows * columns))


def _dense_projector(pinv: Callable[..., object]) -> np.ndarray:
    """64 x 64 projector of a flattened tile, from the pseudo-inverse of its 16 sums."""
    sums = _constraints(BLOCK, BLOCK).toarray()
    return np.eye(BLOCK * BLOCK) - np.asarray(pinv(sums)) @ sums


@pytest.mark.benchmark(group="projection on zero-sum tiles, 256 x 256")
@parametrize("torch dense projector", "numpy dense projector", "scipy lsqr")
def test_projection(benchmark, who):
    w = weights(256, 256)
    expected = project(w, "tile", BLOCK)
    blocks = blocks_of(w.shape, "tile", BLOCK)
    if who == OURS:
        got = benchmark(project, w, "tile", BLOCK)
    elif who == "torch dense projector":
        projector = torch.tensor(_dense_projector(lambda a: torch.linalg.pinv(torch.from_numpy(a))), dtype=w.dtype)
        got = benchmark(lambda: blocks.scatter((blocks.gather(w).flatten(1) @ projector).view(-1, BLOCK, BLOCK)))
    elif who == "numpy dense projector":
        projector = _dense_projector(np.linalg.pinv).astype(np.float32)

        def apply() -> np.ndarray:
            tiles = w.numpy().reshape(32, BLOCK, 32, BLOCK).transpose(0, 2, 1, 3).reshape(-1, BLOCK * BLOCK)
            return (tiles @ projector).reshape(32, 32, BLOCK, BLOCK).transpose(0, 2, 1, 3).reshape(256, 256)

        got = torch.from_numpy(benchmark(apply))
    else:
        sums, flat = _constraints(256, 256), w.double().numpy().ravel()
        # The smallest change that takes the sums away.
        change = lambda: flat - scipy.sparse.linalg.lsqr(sums, sums @ flat, atol=1e-8, btol=1e-8)[0]  # noqa: E731
        got = torch.from_numpy(benchmark(change)).float().view(256, 256)
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


# --- Rounding ---------------------------------------------------------------------------------------------------------


def _linprog(x: Tensor) -> Tensor:
    """Best rounding down or up of all tiles: a transportation problem, whose vertices are integral."""
    sums = _constraints(*x.shape)
    down = x.floor().double().numpy().ravel()
    fraction = x.double().numpy().ravel() - down
    # (1 - fraction)^2 - fraction^2: what rounding up costs more than rounding down
    found = scipy.optimize.linprog(1 - 2 * fraction, A_eq=sums, b_eq=-(sums @ down), bounds=(0, 1), method="highs")
    return torch.from_numpy(down + found.x).round().long().view(x.shape)


@pytest.mark.benchmark(group="rounding to zero-sum tiles, 64 x 64")
@parametrize("scipy linprog (HiGHS)")
def test_rounding(benchmark, who):
    x = project(weights(64, 64).double() * 40, "tile", BLOCK)
    got = benchmark(round_zero_sum, x, "tile", BLOCK) if who == OURS else benchmark(_linprog, x)
    assert not (_constraints(64, 64) @ got.numpy().ravel()).any()
    benchmark.extra_info["squared error"] = round(float((got - x).square().sum()), 1)


# --- Recovery ---------------------------------------------------------------------------------------------------------


def _scalar(faulty: Stored, limit: int) -> Tensor:
    tiles = blocks_of(faulty.shape, "tile", BLOCK)
    n = tiles.gather((faulty.codes ^ 128) - 128).tolist()
    return tiles.scatter(torch.tensor([recover_tile(tile, limit) for tile in n])).flatten() & 255


@pytest.mark.benchmark(group="recovery of int8 tiles, 256 x 256, bit error rate 1e-3")
@parametrize("scalar Python decoder")
def test_recovery(benchmark, who):
    clean = store(weights(256, 256), "int8", "tile", BLOCK)
    faulty = flip_random(clean, 1e-3, seed=0)
    assert clean.unit is not None
    limit = round(clean.limit / clean.unit)
    if who == OURS:
        got = benchmark(recover, faulty.codes, "tile", BLOCK, "int8", clean.unit, limit, clean.shape)[0]
    else:
        got = benchmark(_scalar, faulty, limit)
    tiles = blocks_of(clean.shape, "tile", BLOCK)
    wrong = tiles.gather(faulty.codes != clean.codes).sum((1, 2))
    assert torch.equal(tiles.gather(got)[wrong <= 1], tiles.gather(clean.codes)[wrong <= 1])
    benchmark.extra_info["wrong weights before"] = int((faulty.codes != clean.codes).sum())
    benchmark.extra_info["after"] = int((got != clean.codes).sum())


# --- Fault injection --------------------------------------------------------------------------------------------------


@pytest.mark.benchmark(group="random faults in 1 000 000 int8 weights, bit error rate 1e-3")
@parametrize("numpy, a mask a bit plane")
def test_fault_injection(benchmark, who):
    stored = store(weights(1000, 1000), "int8")
    before = stored.codes.numpy().astype(np.uint8)
    if who == OURS:
        after = benchmark(flip_random, stored, 1e-3, 0).codes.numpy().astype(np.uint8)
    else:
        generator = np.random.default_rng(0)

        def inject() -> np.ndarray:
            faulty = before.copy()
            for bit in range(8):
                faulty ^= (generator.random(len(faulty), dtype=np.float32) < 1e-3).astype(np.uint8) << bit
            return faulty

        after = benchmark(inject)
    assert 7500 < np.unpackbits(before ^ after).sum() < 8500  # 8000, standard deviation 89
