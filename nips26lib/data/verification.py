"""Benchmarks of network verification: feed-forward ReLU networks, properties of their outputs, published verdicts.

A property names a box of inputs and a set of bad outputs, as a union of intersections of half-spaces; it is safe
("unsat") when no input of the box has a bad output.
"""

from __future__ import annotations

import csv
import itertools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nips26lib.data.archives import DataCorrupt
from nips26lib.data.fetch import fetch
from nips26lib.data.registry import load_registry

ROOT = "flow-reach"
_RESULTS = {
    "alpha-beta-CROWN, ACAS Xu": "results2025/alpha_beta_crown_acasxu_2023.csv",
    "NNV, ACAS Xu": "results2025/nnv_acasxu_2023.csv",
    "alpha-beta-CROWN, RL benchmarks": "results2022/alpha_beta_crown_rl_benchmarks.csv",
    "alpha-beta-CROWN, reach probability": "results2022/alpha_beta_crown_reach_prob_density.csv",
}


@dataclass(frozen=True)
class ReluNetwork:
    """y = W_L relu(… relu(W_1 (x − shift) + b_1) …) + b_L, in float32; `weights[i]` is (out, in)."""

    name: str
    shift: np.ndarray
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Outputs (…, out) of inputs (…, in)."""
        z = np.asarray(x, dtype=np.float32) - self.shift
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            z = np.maximum(z @ W.T + b, 0)
        y: np.ndarray = z @ self.weights[-1].T + self.biases[-1]
        return y


@dataclass(frozen=True)
class Property:
    """Inputs of one of the boxes low ≤ x ≤ high, (boxes, inputs) each; an output y is bad if A y ≤ b, row by row,
    for one
    (A, b) of `bad`.
    """

    name: str
    low: np.ndarray
    high: np.ndarray
    bad: tuple[tuple[np.ndarray, np.ndarray], ...]

    def sample(self, count: int, seed: int = 0) -> np.ndarray:
        """Inputs (count, inputs), uniform in a random box."""
        draw = np.random.default_rng(seed)
        box = draw.integers(len(self.low), size=count)
        return draw.uniform(self.low[box], self.high[box])

    def violated(self, y: np.ndarray) -> np.ndarray:
        """Which outputs (…, out) are bad."""
        return np.any([np.all(y @ A.T <= b, axis=-1) for A, b in self.bad], axis=0)


@dataclass(frozen=True)
class Verdict:
    """What a verifier said of a network and a property: "unsat" (safe), "sat" (a bad output exists), "timeout", …"""

    network: str
    property: str
    answer: str
    seconds: float


def network_names() -> list[str]:
    """The networks that `relu_network` reads, as names in the registry below `flow-reach/`."""
    return [
        name.removeprefix(f"{ROOT}/") for name in load_registry() if name.startswith(ROOT) and name.endswith(".onnx")
    ]


def relu_network(name: str) -> ReluNetwork:
    """A network of dense layers, such as "acasxu/onnx/ACASXU_1_1.onnx"; ACAS Xu by Katz et al., arXiv 1702.01135.

    Licences differ by folder, see the registry. DataCorrupt for a file with other operations (the one of TinyTaxiNet
    begins with a convolution).
    """
    file = f"{ROOT}/{name}"
    return read_onnx(fetch(file), file)


def verification_property(name: str) -> Property:
    """A property, such as "acasxu/vnnlib/prop_1.vnnlib"."""
    file = f"{ROOT}/{name}"
    return read_vnnlib(fetch(file).read_text(encoding="utf-8"), file)


def published_verdicts(name: str) -> list[Verdict]:
    """What a verifier said in a competition; `name` is one of "alpha-beta-CROWN, ACAS Xu", "NNV, ACAS Xu", ….

    Names of networks and properties are those of the files in the registry.
    """
    if name not in _RESULTS:
        raise ValueError(f"name is {name!r}; it must be one of {', '.join(map(repr, _RESULTS))}")
    file = f"{ROOT}/{_RESULTS[name]}"
    found = []
    with open(fetch(file), encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.reader(stream), 1):
            try:
                network = re.sub(r"ACASXU_run2a_(\d_\d)_batch_2000", r"ACASXU_\1", Path(row[1]).name)
                found.append(Verdict(network, Path(row[2]).name, row[4], float(row[5])))
            except (IndexError, ValueError) as error:
                raise DataCorrupt(f"{file}, line {number}, is no verdict: {error}") from error
    return found


def relu_network_stand_in(seed: int = 0, widths: tuple[int, ...] = (5, 50, 50, 50, 50, 50, 50, 5)) -> ReluNetwork:
    """Random weights of He's scale in the shape of an ACAS Xu network."""
    if len(widths) < 2 or min(widths) < 1:
        raise ValueError(f"widths is {widths}; it must hold two positive numbers at least")
    draw = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(widths))
    weights = tuple((draw.standard_normal((b, a)) * np.sqrt(2 / a)).astype(np.float32) for a, b in pairs)
    biases = tuple((0.1 * draw.standard_normal(b)).astype(np.float32) for _, b in pairs)
    return ReluNetwork("stand-in", np.zeros(widths[0], np.float32), weights, biases)


def property_stand_in(network: ReluNetwork, seed: int = 0, width: float = 0.2, margin: float = 0.5) -> Property:
    """A box of random centre, and as bad: the first output above its largest of 1,000 samples of the box by
    `margin` spreads.
    """
    draw = np.random.default_rng(seed)
    centre = draw.uniform(-0.4, 0.4, len(network.shift))
    low, high = centre - width / 2, centre + width / 2
    y = network(draw.uniform(low, high, (1000, len(low))))[:, 0]
    A = np.zeros((1, network.weights[-1].shape[0]))
    A[0, 0] = -1
    return Property("stand-in", low[None], high[None], ((A, -np.array([y.max() + margin * y.std()])),))


def read_vnnlib(text: str, where: str) -> Property:
    """Parse a VNN-LIB specification of linear constraints on X_i (a box) and Y_i (and, or, <=, >=)."""
    tokens = re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", text))
    try:
        commands = _nested(tokens)
        sizes = {kind: sum(1 for command in commands if command[0] == "declare-const" and command[1][0] == kind)
                 for kind in "XY"}  # fmt: skip
        boxes = [(np.full(sizes["X"], -np.inf), np.full(sizes["X"], np.inf))]
        cases: list[list[tuple[np.ndarray, float]]] = [[]]
        for command in commands:
            if command[0] != "assert":
                continue
            options = [_linear(case, sizes) for case in _cases(command[1])]
            about = {bool(row[: sizes["X"]].any()) for case in options for row, _ in case}
            if about == {True}:
                boxes = [_tightened(box, case) for box in boxes for case in options]
            elif about == {False}:
                outputs = [[(row[sizes["X"] :], bound) for row, bound in case] for case in options]
                cases = [old + new for old in cases for new in outputs]
            else:
                raise ValueError("inputs and outputs stand in one disjunction")
        low, high = (np.array(ends) for ends in zip(*boxes, strict=True))
        if not np.isfinite(low).all() or not np.isfinite(high).all() or not (low <= high).all():
            raise ValueError("an input has no bounds, or bounds that leave nothing")
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise DataCorrupt(f"{where} is no VNN-LIB property of the kind read here: {error}") from error
    bad = tuple((np.array([row for row, _ in case]), np.array([bound for _, bound in case])) for case in cases)
    return Property(Path(where).name, low, high, bad)


def _nested(tokens: list[str]) -> list:
    stack: list[list] = [[]]
    for token in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise ValueError("parentheses do not match")
    return stack[0]


def _cases(term: list) -> list[list]:
    """A formula as a union of conjunctions of comparisons."""
    if term[0] == "or":
        return [case for part in term[1:] for case in _cases(part)]
    if term[0] == "and":
        found: list[list] = [[]]
        for part in term[1:]:
            found = [old + new for old in found for new in _cases(part)]
        return found
    if term[0] not in ("<=", ">="):
        raise ValueError(f"the operation {term[0]!r} is not known")
    return [[term]]


def _linear(case: list, sizes: dict[str, int]) -> list[tuple[np.ndarray, float]]:
    """Comparisons as rows a with a·(X, Y) ≤ b."""
    rows = []
    for relation, left, right in case:
        row, bound = np.zeros(sizes["X"] + sizes["Y"]), 0.0
        for term, sign in ((left, 1.0), (right, -1.0)):
            named = re.fullmatch(r"([XY])_(\d+)", term)
            if named:
                row[int(named[2]) + (sizes["X"] if named[1] == "Y" else 0)] += sign
            else:
                bound -= sign * float(term)
        flip = 1.0 if relation == "<=" else -1.0
        rows.append((flip * row, flip * bound))
    return rows


def _tightened(
    box: tuple[np.ndarray, np.ndarray], case: list[tuple[np.ndarray, float]]
) -> tuple[np.ndarray, np.ndarray]:
    low, high = box[0].copy(), box[1].copy()
    for row, bound in case:
        (used,) = np.flatnonzero(row)
        if row[used] > 0:
            high[used] = min(high[used], bound / row[used])
        else:
            low[used] = max(low[used], bound / row[used])
    return low, high


def read_onnx(path: Path, where: str) -> ReluNetwork:
    """Read a network of Sub, Flatten, Gemm, MatMul, Add and Relu from an ONNX file, which is protocol-buffer wire
    format.
    """
    try:
        (graph,) = (value for number, value in _fields(path.read_bytes()) if number == 7)
        nodes, tensors = [], {}
        for number, value in _fields(graph):
            if number == 1:
                nodes.append(list(_fields(value)))
            elif number == 5:
                name, array = _tensor(value)
                tensors[name] = array
        return _network(nodes, tensors, where)
    except (ValueError, IndexError, KeyError, TypeError, struct.error) as error:
        if isinstance(error, DataCorrupt):
            raise
        raise DataCorrupt(f"{where} is no ONNX network of the kind read here: {error}") from error


def _network(nodes: list, tensors: dict[str, np.ndarray], where: str) -> ReluNetwork:
    weights: list[np.ndarray] = []
    biases: list[np.ndarray] = []
    shift = None
    for node in nodes:
        operation = next(value for number, value in node if number == 4).decode()
        known = [tensors[value.decode()] for number, value in node if number == 1 and value.decode() in tensors]
        if operation in ("Gemm", "MatMul"):
            attributes = {
                dict(_fields(value))[1].decode(): dict(_fields(value)) for number, value in node if number == 5
            }
            transposed = bool(attributes.get("transB", {}).get(3, 0))
            weights.append(known[0] if transposed else known[0].T)
            biases.append(known[1] if len(known) > 1 else np.zeros(len(weights[-1]), np.float32))
        elif operation == "Add" and weights:
            biases[-1] = biases[-1] + known[0].reshape(-1)
        elif operation == "Sub" and not weights:
            shift = known[0].reshape(-1)
        elif operation not in ("Flatten", "Relu"):
            raise DataCorrupt(f"{where} has the operation {operation}; only dense ReLU networks are read")
    if shift is None:
        shift = np.zeros(weights[0].shape[1], np.float32)
    return ReluNetwork(Path(where).name, shift, tuple(weights), tuple(biases))


def _tensor(raw: bytes) -> tuple[str, np.ndarray]:
    fields = list(_fields(raw))
    shape = [value for number, value in fields if number == 1]
    name = next(value for number, value in fields if number == 8).decode()
    kind = next(value for number, value in fields if number == 2)
    content = next((value for number, value in fields if number == 9), b"")
    dtype = {1: "<f4", 6: "<i4", 7: "<i8", 11: "<f8"}[kind]
    return name, np.frombuffer(content, dtype).reshape(shape).copy()


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values of a message."""
    place = 0
    while place < len(raw):
        key, place = _varint(raw, place)
        wire = key & 7
        value: int | bytes

        if wire == 0:
            value, place = _varint(raw, place)
        elif wire in (1, 2, 5):
            size = 8 if wire == 1 else 4
            if wire == 2:
                size, place = _varint(raw, place)
            value, place = raw[place : place + size], place + size
            if place > len(raw):
                raise ValueError("a field ends beyond the file")
        else:
            raise ValueError(f"wire type {wire} is not known")
        yield key >> 3, value


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = raw[place]
        result |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return result, place
        if shift > 63:
            raise ValueError("a number has more than 64 bits")
