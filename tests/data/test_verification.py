from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nips26lib.data import verification as v
from nips26lib.data.archives import DataCorrupt
from tests.data.real import mirror


@mirror
def test_every_dense_network_is_read() -> None:
    shapes = {}
    for name in v.network_names():
        if "TinyTaxiNet" in name:
            with pytest.raises(DataCorrupt, match=r"has the operation (Transpose|Conv)"):
                v.relu_network(name)
            continue
        network = v.relu_network(name)
        widths = (network.weights[0].shape[1], *(len(weights) for weights in network.weights))
        assert [weights.shape[1] for weights in network.weights] == list(widths[:-1])
        assert network(np.zeros((3, widths[0]))).shape == (3, widths[-1])
        shapes[name] = widths
    acas = [widths for name, widths in shapes.items() if name.startswith("acasxu")]
    assert acas == [(5, 50, 50, 50, 50, 50, 50, 5)] * 45  # Katz et al. 2017
    assert shapes["rl_benchmarks/cartpole.onnx"] == (4, 64, 64, 2)
    assert shapes["rl_benchmarks/dubinsrejoin.onnx"][0] == 8 and shapes["safenlp/medical_perturbations_0.onnx"] == (
        30,
        128,
        2,
    )


@mirror
def test_property_1_is_the_published_one() -> None:
    found = v.verification_property("acasxu/vnnlib/prop_1.vnnlib")
    # ρ ≥ 55947.691, v_own ≥ 1145, v_int ≤ 60, normalised by the networks' means and ranges.
    assert found.low[0] == pytest.approx(
        [(55947.691 - 19791.091) / 60261, -0.5, -0.5, (1145 - 650) / 1100, -0.5], abs=1e-6
    )
    assert found.high[0, 4] == pytest.approx((60 - 600) / 1200) and len(found.bad) == 1
    (A, b), = found.bad  # fmt: skip
    assert A.tolist() == [[-1, 0, 0, 0, 0]] and b == pytest.approx([-(1500 - 7.5188840201005975) / 373.94992])


@mirror
def test_published_verdicts_hold_where_sampling_can_tell() -> None:
    """A sample that is bad refutes "unsat"; for several "sat" a bad output is found among samples of the box."""
    verdicts = v.published_verdicts("alpha-beta-CROWN, ACAS Xu")
    assert len(verdicts) == 187 and {each.answer for each in verdicts} <= {"sat", "unsat", "timeout"}
    found = 0
    for verdict in verdicts[:186:3]:  # the last is of a network for trying out, which is not among ours
        network = v.relu_network(f"acasxu/onnx/{verdict.network}")
        wanted = v.verification_property(f"acasxu/vnnlib/{verdict.property}")
        bad = bool(wanted.violated(network(wanted.sample(4000))).any())
        assert not (bad and verdict.answer == "unsat"), verdict
        found += bad
    assert found >= 5
    for name in v._RESULTS:
        assert v.published_verdicts(name)


@mirror
def test_every_property_is_read() -> None:
    from nips26lib.data.registry import load_registry

    names = [name.removeprefix("flow-reach/") for name in load_registry() if name.endswith(".vnnlib")]
    assert len(names) > 80
    for name in names:
        found = v.verification_property(name)
        assert (found.low <= found.high).all() and found.bad and all(A.any() for A, _ in found.bad)
        assert len(found.low) == (2 if name.endswith("prop_6.vnnlib") else 1)


def test_a_small_property_by_hand() -> None:
    text = """(declare-const X_0 Real) ; an input
    (declare-const Y_0 Real) (declare-const Y_1 Real)
    (assert (>= X_0 -1)) (assert (<= X_0 2.5))
    (assert (or (and (<= Y_0 Y_1) (>= Y_1 3)) (and (<= 1 Y_0))))"""
    found = v.read_vnnlib(text, "x")
    assert (found.low.tolist(), found.high.tolist()) == ([[-1.0]], [[2.5]]) and len(found.bad) == 2
    y = np.array([[0.0, 4.0], [0.0, 2.0], [1.5, 0.0], [0.5, 0.0], [5.0, 4.0]])
    assert found.violated(y).tolist() == [True, False, True, False, True]


@pytest.mark.parametrize("text", [
    "(assert (<= X_0 1)", "(declare-const X_0 Real) (assert (<= X_0 1))", "(assert (not (<= Y_0 1)))", ")",
    "(declare-const X_0 Real) (declare-const Y_0 Real) (assert (or (<= X_0 1) (<= Y_0 1)))",
])  # fmt: skip
def test_what_is_no_property_is_refused(text: str) -> None:
    with pytest.raises(DataCorrupt, match="is no VNN-LIB property"):
        v.read_vnnlib(text, "x")


@pytest.mark.parametrize("raw", [b"", b"\x00\x01", b"\x3a\xff\xff\xff\xff\x7f", b"\x3a\x00", b"\xff" * 12])
def test_what_is_no_network_is_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(raw)
    with pytest.raises(DataCorrupt, match="is no ONNX network"):
        v.read_onnx(tmp_path / "x.onnx", "x")


def test_the_stand_ins() -> None:
    network = v.relu_network_stand_in()
    assert len(network.weights) == 7 and network(np.zeros(5)).shape == (5,)
    found = v.property_stand_in(network)
    assert not found.violated(network(found.sample(2000, seed=1))).any()
    assert v.property_stand_in(network, margin=-2.0).violated(network(found.sample(2000, seed=1))).any()
    # By hand: one hidden unit, y = 2 relu(3 (x − 1) + 1) − 1.
    one = np.ones(1, np.float32)
    weights = (np.full((1, 1), 3, np.float32), np.full((1, 1), 2, np.float32))
    tiny = v.ReluNetwork("tiny", one, weights, (one, -one))
    assert tiny(np.array([[1.0], [0.0], [2.0]])).ravel().tolist() == [1.0, -1.0, 7.0]
    with pytest.raises(ValueError, match="widths is"):
        v.relu_network_stand_in(widths=(3,))
    with pytest.raises(ValueError, match="name is 'X'"):
        v.published_verdicts("X")
