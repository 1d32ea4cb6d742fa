from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nips26lib.data import graphs
from nips26lib.data.archives import DataCorrupt
from nips26lib.data.graphs import GRAPHS, NodeGraph, node_graph, node_graph_stand_in
from tests.data.real import mirror

# Nodes, undirected edges, classes, as published with the data (Yang et al. 2016; Platonov et al. 2023, table 1).
SIZES = {"cora": (2708, 5278, 7), "citeseer": (3327, 4552, 6), "minesweeper": (10_000, 39_402, 2),
         "squirrel_filtered": (2223, 46_998, 5), "chameleon_filtered": (890, 8854, 5)}  # fmt: skip


def assert_keeps_the_contract(graph: NodeGraph) -> None:
    nodes = len(graph.labels)
    assert graph.features.shape[0] == nodes and graph.features.dtype == torch.float32
    assert graph.train.shape == graph.validation.shape == graph.test.shape == (10, nodes)
    assert not (graph.train & graph.validation).any() and not (graph.train & graph.test).any()
    assert not (graph.validation & graph.test).any() and bool((graph.train.sum(1) > graph.test.sum(1) / 2).all())
    assert (graph.edges[:, 0] != graph.edges[:, 1]).all() and int(graph.edges.max()) < nodes
    pairs = {tuple(sorted(pair)) for pair in graph.edges.tolist()}
    assert len(pairs) == len(graph.edges), "each edge once"
    assert set(graph.labels.tolist()) == set(range(graph.classes))


@mirror
@pytest.mark.parametrize("name", ["cora", "citeseer", "texas", "minesweeper"])
def test_the_real_graphs_keep_the_contract(name: str) -> None:
    assert_keeps_the_contract(node_graph(name))


@mirror
@pytest.mark.parametrize("name", GRAPHS)
def test_the_real_sizes(name: str) -> None:
    graph = node_graph(name)
    if name in SIZES:
        assert (len(graph.labels), len(graph.edges), graph.classes) == SIZES[name]


def homophily(graph: NodeGraph) -> float:
    return float((graph.labels[graph.edges[:, 0]] == graph.labels[graph.edges[:, 1]]).float().mean())


def test_the_stand_in() -> None:
    for wanted in (0.2, 0.8):
        graph = node_graph_stand_in(homophily=wanted)
        assert_keeps_the_contract(graph)
        assert homophily(graph) == pytest.approx(wanted, abs=0.05)
    again, other = node_graph_stand_in(seed=1), node_graph_stand_in(seed=2)
    assert torch.equal(again.edges, node_graph_stand_in(seed=1).edges) and not torch.equal(again.edges, other.edges)
    own = (graph.features.numpy() * (np.arange(120)[None] % 5 == graph.labels.numpy()[:, None])).sum()
    assert own / graph.features.sum() > 0.5, "a class shows in its words"


def test_what_is_wrong_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="name is 'karate'; it must be one of actor"):
        node_graph("karate")
    with pytest.raises(ValueError, match=r"homophily is 1\.5"):
        node_graph_stand_in(homophily=1.5)
    with pytest.raises(ValueError, match="nodes is 3"):
        node_graph_stand_in(nodes=3)
    path = tmp_path / "x.npz"
    good = {"node_features": np.zeros((3, 2)), "node_labels": np.zeros(3), "edges": np.zeros((1, 2), int),
            **{f"{part}_masks": np.zeros((10, 3), bool) for part in ("train", "val", "test")}}  # fmt: skip
    monkeypatch.setattr(graphs, "fetch", lambda name: path)
    for change, why in (
        ({"edges": np.array([[0, 3]])}, "do not belong to one graph of 3 nodes"),
        ({"edges": np.zeros(2, int)}, "'edges' has 1 dimensions; it must have 2"),
        ({"node_features": np.full((3, 2), np.nan)}, "'node_features' holds numbers that are not finite"),
    ):
        np.savez(path, **(good | change))  # type: ignore[arg-type]
        with pytest.raises(DataCorrupt, match=why):
            node_graph("cora")
    np.savez(path, node_features=np.zeros((3, 2)))
    with pytest.raises(DataCorrupt, match="no array 'node_labels'; it holds node_features"):
        node_graph("cora")
