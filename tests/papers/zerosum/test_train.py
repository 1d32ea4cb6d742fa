"""Training: determinism, equal steps, and a measure of accuracy that faults cannot fool."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nips26lib.data.images import Split, digits
from nips26lib.papers.zerosum import nets
from nips26lib.papers.zerosum.layers import ZeroSumLinear, convert, zero_sum_layers
from nips26lib.papers.zerosum.train import _augmented, accuracy, clustering_penalty, train

SHORT = {"epochs": 1, "lr": 3e-3, "batch": 200, "seed": 5}


@pytest.fixture
def data() -> Split:
    return digits(0)


def _trained(data: Split, layout: str = "tile", fmt: str = "int8", **options) -> nn.Module:
    torch.manual_seed(1)
    return train(convert(nets.digits_mlp(), layout, 8, fmt), data, **(SHORT | options))


def test_the_same_seed_gives_the_same_weights_to_the_bit(data):
    first, second = _trained(data), _trained(data)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    other = _trained(data, seed=6)
    assert not torch.equal(first[1].weight, other[1].weight)


def test_training_leaves_the_global_generator_alone(data):
    net = convert(nets.digits_mlp(), "none", 0, "fp32")
    state = torch.random.get_rng_state()
    train(net, data, **SHORT)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("layout", "fmt"), [("none", "fp32"), ("none", "int8"), ("rows", "int4"), ("tile", "int8"), ("wot", "int8")]
)
def test_every_arm_takes_the_same_steps(data, layout, fmt):
    torch.manual_seed(0)
    net = convert(nets.digits_mlp(), layout, 8, fmt)
    calls = []
    net[1].register_forward_hook(lambda module, inputs, output: calls.append(inputs[0].clone()))
    train(net, data, epochs=2, lr=1e-3, batch=250, seed=3)
    assert len(calls) == 2 * (1200 // 250)
    assert {len(x) for x in calls} == {250}
    # The images and their order depend on the seed alone: the pixels are those of an untouched generator.
    order = torch.randperm(1200, generator=torch.Generator().manual_seed(3))
    assert torch.equal(calls[0], data.train_x[order[:250]].flatten(1))


def test_training_learns_and_keeps_the_constraint(data):
    net = _trained(data, epochs=6, batch=64)
    assert accuracy(net, data.test_x, data.test_y) > 0.85
    for layer in zero_sum_layers(net).values():
        w = layer.effective()
        assert layer.codes()[0].sum() == 0
        assert w.sum(0).abs().max() < 1e-4


def test_wot_weights_stay_within_their_room(data):
    net = _trained(data, layout="wot", epochs=3)
    for layer in zero_sum_layers(net).values():
        n = (layer.weight.detach() / layer.codes()[1]).view(-1, 8)
        # After the last throttling the scale moves by no step, so half a unit of rounding is all.
        assert n[:, :7].min() > -65 and n[:, :7].max() < 64


def test_zero_epochs_is_the_identity(data):
    net = convert(nets.digits_mlp())
    before = [p.detach().clone() for p in net.parameters()]
    train(net, data, epochs=0, lr=1e-3, batch=64, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), before, strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": -1}, "epochs is -1; it must be at least 0"),
        ({"batch": 0}, "batch is 0; it must be from 1 to .* 1200"),
        ({"batch": 1201}, "batch is 1201"),
        ({"lr": float("nan")}, "lr is nan; it must be a positive number"),
        ({"penalty": -1.0}, "penalty is -1.0"),
        ({"lr": 1e30, "epochs": 1}, "NaN or infinity|the loss became"),
    ],
)
def test_refusals(data, options, message):
    with pytest.raises(ValueError, match=message):
        _trained(data, **options)


# --- accuracy -------------------------------------------------------------------------------------------------------


class _Table(nn.Module):
    """Answers with given logits, in order, whatever the images show."""

    def __init__(self, logits: list[list[float]]) -> None:
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, x):
        return self.logits[x.flatten().long()]


def _accuracy_of(logits: list[list[float]], classes: list[int], batch: int = 2) -> float:
    images = torch.arange(len(logits)).float().view(-1, 1, 1, 1)
    return accuracy(_Table(logits), images, torch.tensor(classes), batch)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("row", "label", "right"),
    [
        ([2.0, 1.0, 0.0], 0, True),
        ([2.0, 1.0, 0.0], 1, False),
        ([NAN, NAN, NAN], 0, False),
        ([NAN, 1.0, 0.0], 0, False),  # argmax calls NaN the largest
        ([5.0, 1.0, NAN], 0, False),
        ([INF, 1.0, 0.0], 0, True),
        ([INF, INF, 0.0], 0, False),
        ([-INF, -INF, -INF], 0, False),
        ([0.0, 0.0, 0.0], 0, False),
        ([-INF, 0.0, -INF], 1, True),
    ],
)
def test_accuracy_of_one_row(row, label, right):
    assert _accuracy_of([row], [label]) == float(right)


def test_accuracy_counts_over_batches():
    logits = [[1.0, 0.0], [0.0, 1.0], [NAN, 0.0], [1.0, 0.0], [1.0, 0.0]]
    assert _accuracy_of(logits, [0, 1, 0, 0, 1]) == 3 / 5


def test_accuracy_leaves_the_mode_alone():
    net = nn.Sequential(nn.Flatten(), nn.Dropout(1.0), nn.Linear(2, 2))
    with torch.no_grad():
        net[2].weight.copy_(torch.eye(2))
        net[2].bias.zero_()
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).view(2, 1, 1, 2)
    assert accuracy(net, x, torch.tensor([0, 1])) == 1.0  # dropout is off while it is measured
    assert net.training and net[1].training


# --- clustering and augmentation --------------------------------------------------------------------------------------


def test_clustering_penalty_by_hand():
    net = nn.Sequential(nn.Linear(3, 1), nn.ReLU(), nn.Conv2d(1, 1, (1, 2)))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 2.0, -5.0]]))
        net[2].weight.copy_(torch.tensor([-1.0, -4.0]).view(1, 1, 1, 2))
    # positive: 0.5² + 0.5²; a single negative: 0; second layer: 1.5² + 1.5², nothing positive
    assert clustering_penalty(net).item() == pytest.approx(0.5 + 4.5)
    clustering_penalty(net).backward()
    torch.testing.assert_close(net[0].weight.grad, torch.tensor([[-1.0, 1.0, 0.0]]))


def test_clustering_penalty_sees_the_constrained_weight():
    layer = ZeroSumLinear(2, 2, layout="tile", block=2, fmt="fp32")
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, 1.0], [1.0, 3.0]]))  # P of it: two entries +1, two entries -1
    assert clustering_penalty(layer).item() == pytest.approx(0.0, abs=1e-12)


def test_penalty_clusters(data):
    free, clustered = (_trained(data, "none", "fp32", epochs=4, penalty=penalty) for penalty in (0.0, 1e-1))
    assert clustering_penalty(clustered) < 0.5 * clustering_penalty(free)


def test_augmentation_moves_and_mirrors_whole_images():
    x = torch.arange(1.0, 65.0).view(1, 1, 8, 8).repeat(40, 2, 1, 1)
    moved = _augmented(x, torch.Generator().manual_seed(0))
    assert moved.shape == x.shape
    padded = torch.nn.functional.pad(x[0], (4, 4, 4, 4))
    crops = {(i, j, False): padded[:, i : i + 8, j : j + 8] for i in range(9) for j in range(9)}
    crops |= {(i, j, True): crop.flip(-1) for (i, j, _), crop in crops.items()}
    found = [[place for place, crop in crops.items() if torch.equal(image, crop)] for image in moved]
    assert [len(places) for places in found] == [1] * 40
    places = {places[0] for places in found}
    assert len(places) > 25  # of 162
    assert {mirror for *_, mirror in places} == {False, True}
