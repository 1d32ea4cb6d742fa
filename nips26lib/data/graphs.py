"""Graphs whose nodes are to be classified, with the ten public splits of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from nips26lib.data.archives import DataCorrupt, read_npz
from nips26lib.data.fetch import fetch
from nips26lib.data.tables import require

GRAPHS = ("actor", "chameleon", "chameleon_filtered", "citeseer", "cora", "cornell", "minesweeper", "squirrel",
          "squirrel_filtered", "texas", "wisconsin")  # fmt: skip


@dataclass(frozen=True)
class NodeGraph:
    """An undirected graph: each edge once, as a pair of nodes; splits as one mask a row.

    Masks of one split share no node; not every node need be in one.
    """

    name: str
    features: Float[Tensor, "nodes features"]
    labels: Int64[Tensor, " nodes"]
    edges: Int64[Tensor, "edges 2"]
    train: Bool[Tensor, "splits nodes"]
    validation: Bool[Tensor, "splits nodes"]
    test: Bool[Tensor, "splits nodes"]

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.labels.max()) + 1


def node_graph(name: str) -> NodeGraph:
    """One of `GRAPHS`, with 10 splits of its nodes.

    Cora and Citeseer (MIT) by Yang, Cohen and Salakhutdinov, with the splits of Geom-GCN; the others (MIT) from
    Platonov
    et al., arXiv 2302.11640. Features are float32; in "minesweeper" and "actor" they are indicators too.
    """
    if name not in GRAPHS:
        raise ValueError(f"name is {name!r}; it must be one of {', '.join(GRAPHS)}")
    file = f"prat/{name}.npz"
    arrays = read_npz(fetch(file))
    require(arrays, file, node_features=2, node_labels=1, edges=2, train_masks=2, val_masks=2, test_masks=2)
    graph = NodeGraph(
        name,
        torch.from_numpy(arrays["node_features"].astype(np.float32)),
        torch.from_numpy(arrays["node_labels"].astype(np.int64)),
        torch.from_numpy(arrays["edges"].astype(np.int64)),
        *(torch.from_numpy(arrays[f"{part}_masks"].astype(bool)) for part in ("train", "val", "test")),
    )
    nodes = len(graph.labels)
    if (
        len(graph.features) != nodes
        or graph.edges.shape[1] != 2
        or not 0 <= int(graph.edges.min()) <= int(graph.edges.max()) < nodes
    ):
        raise DataCorrupt(f"{file}: features, labels and edges do not belong to one graph of {nodes} nodes")
    return graph


def node_graph_stand_in(
    name: str = "cora", seed: int = 0, nodes: int = 600, features: int = 120, classes: int = 5, homophily: float = 0.8
) -> NodeGraph:
    """A block model: an edge joins two nodes of one class with probability `homophily`; a class raises the chance of
    its own words among binary features. Ten splits of 48, 32 and 20 % of the nodes.
    """
    if not 0 <= homophily <= 1:
        raise ValueError(f"homophily is {homophily}; it must be from 0 to 1")
    if nodes < 5 * classes or classes < 2 or features < classes:
        raise ValueError(
            f"nodes is {nodes}, features {features}, classes {classes}; each class needs five nodes and a word"
        )
    draw = np.random.default_rng(seed)
    labels = np.arange(nodes) % classes
    own = np.arange(features)[None, :] % classes == labels[:, None]
    words = (draw.random((nodes, features)) < np.where(own, 0.15, 0.03)).astype(np.float32)
    first = draw.integers(0, nodes, 4 * nodes)
    same = draw.random(4 * nodes) < homophily
    step = np.where(same, 0, draw.integers(1, classes, 4 * nodes))
    second = draw.integers(0, nodes // classes, 4 * nodes) * classes + (labels[first] + step) % classes
    pairs = np.sort(np.stack([first, second], 1), axis=1)
    edges = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    masks = np.zeros((3, 10, nodes), dtype=bool)
    ends = (round(0.48 * nodes), round(0.8 * nodes))
    for split in range(10):
        for part, members in enumerate(np.split(draw.permutation(nodes), ends)):
            masks[part, split, members] = True
    return NodeGraph(f"{name} (stand-in)", torch.from_numpy(words), torch.from_numpy(labels), torch.from_numpy(edges),
                     *map(torch.from_numpy, masks))  # fmt: skip
