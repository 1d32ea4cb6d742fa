"""Zero-sum layers: the gradient, the exact sums, the size, and the way to a plain model and back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nips26lib.papers.zerosum import nets
from nips26lib.papers.zerosum.constraint import project, residuals
from nips26lib.papers.zerosum.formats import FORMATS, decode
from nips26lib.papers.zerosum.layers import (
    ZeroSumConv2d,
    ZeroSumLinear,
    convert,
    deploy,
    export,
    load,
    requantise,
    zero_sum_layers,
)
from nips26lib.papers.zerosum.memory import flip, store

LAYOUTS = [("rows", 16), ("rows", 5), ("tile", 8), ("tile", 3)]
BUILDERS = {
    "mlp": (nets.digits_mlp, (1, 8, 8)),
    "cnn": (nets.mnist_cnn, (1, 28, 28)),
    "vit": (nets.vit_tiny, (1, 8, 8)),
}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


# --- gradient and variance -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", ["fp32", "int8", "int4"])
@pytest.mark.parametrize(("layout", "block"), LAYOUTS)
def test_gradient_reaching_v_is_p_of_the_gradient_wrt_w(layout, block, fmt):
    layer = ZeroSumLinear(20, 12, layout=layout, block=block, fmt=fmt)
    x = torch.randn(7, 20)
    w = layer.effective().detach().requires_grad_()
    target = torch.randn(7, 12)
    F.mse_loss(F.linear(x, w, layer.bias.detach()), target).backward()
    F.mse_loss(layer(x), target).backward()
    torch.testing.assert_close(layer.weight.grad, project(w.grad, layout, block), atol=1e-6, rtol=1e-5)
    assert not torch.allclose(layer.weight.grad, w.grad, atol=1e-4)  # P is not the identity here


def test_convolution_gradient_is_p_of_the_gradient_wrt_w():
    layer = ZeroSumConv2d(3, 8, 3, layout="tile", block=4, fmt="int8")
    x = torch.randn(2, 3, 6, 6)
    w = layer.effective().detach().requires_grad_()
    F.conv2d(x, w, layer.bias.detach()).square().sum().backward()
    layer(x).square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, project(w.grad, "tile", 4), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("layout", "block"), LAYOUTS)
def test_conversion_keeps_the_variance_of_a_fresh_weight(layout, block):
    plain = nn.Linear(512, 513)
    layer = convert(plain, layout, block, "fp32")
    assert (layer.constrained().std() / plain.weight.std()).item() == pytest.approx(1, abs=0.01)


def test_without_rescaling_the_weight_is_the_nearest_zero_sum_one():
    plain = nn.Linear(16, 16)
    layer = convert(plain, "tile", 8, "fp32", rescale=False)
    torch.testing.assert_close(layer.constrained(), project(plain.weight, "tile", 8))
    torch.testing.assert_close(layer.weight, plain.weight)


# --- exact sums, size -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize(("layout", "block"), LAYOUTS)
def test_exported_blocks_sum_to_exactly_zero(layout, block, fmt):
    model = convert(nets.mnist_cnn(), layout, block, "fp32")
    for stored in export(model, fmt).values():
        n, erased = decode(stored.codes, stored.unit, fmt)
        assert not erased.any()
        assert n.dtype == torch.int64
        sums = residuals(n.reshape(stored.shape), layout, block)
        assert all((part == 0).all() for part in (sums if isinstance(sums, tuple) else (sums,)))
        assert n.abs().max() > 1  # not the trivial zero weight


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("kind", BUILDERS)
def test_stored_size_is_the_plain_models_to_the_byte(kind, fmt):
    plain = BUILDERS[kind][0]()
    bits = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "int4": 4}[fmt]
    weights = {f"{n}.weight": m.weight for n, m in plain.named_modules() if type(m) in (nn.Linear, nn.Conv2d)}
    for layout, block in (("none", 0), ("rows", 16), ("tile", 8)):
        memory = export(convert(plain, layout, block, "fp32"), fmt)
        assert list(memory) == list(weights)
        for name, stored in memory.items():
            assert stored.nbytes == store(weights[name].detach(), fmt).nbytes == -(-weights[name].numel() * bits // 8)


# --- there and back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", ["int8", "int4"])
@pytest.mark.parametrize("layout", ["none", "rows", "tile"])
@pytest.mark.parametrize("kind", BUILDERS)
def test_deploy_reproduces_the_logits_to_the_bit(kind, layout, fmt):
    build, image = BUILDERS[kind]
    model = convert(build(), layout, 8, fmt)
    plain = deploy(model)
    assert not zero_sum_layers(plain)
    assert {type(m) for m in plain.modules() if isinstance(m, nn.Linear | nn.Conv2d)} <= {nn.Linear, nn.Conv2d}
    x = torch.randn(5, *image)
    assert torch.equal(plain(x), model(x))


@pytest.mark.parametrize(("fmt", "tolerance"), [("fp32", 1e-5), ("fp16", 1e-2), ("bf16", 1e-1)])
def test_deploy_in_a_float_format_is_off_by_its_rounding(fmt, tolerance):
    model = convert(nets.digits_mlp(), "tile", 8, "fp32")
    x = torch.randn(5, 1, 8, 8)
    torch.testing.assert_close(deploy(model, fmt)(x), model(x), atol=tolerance, rtol=0)


@pytest.mark.parametrize("fmt", FORMATS)
def test_deploy_and_load_write_the_exported_values(fmt):
    model = convert(nets.digits_mlp(), "tile", 8, "fp32")
    plain, memory = deploy(model, fmt), export(model, fmt)
    for name, stored in memory.items():
        assert torch.equal(plain.get_parameter(name), stored.values())
    struck = memory["1.weight"] = flip(memory["1.weight"], torch.tensor([3]))
    before = plain.get_parameter("1.weight").detach().clone()
    load(plain, memory)
    assert torch.equal(plain.get_parameter("1.weight"), struck.values())
    assert (plain.get_parameter("1.weight") != before).sum() == 1


def test_codes_times_scale_is_the_effective_weight():
    layer = ZeroSumLinear(16, 8, layout="tile", block=4, fmt="int4")
    n, scale = layer.codes()
    assert torch.equal(n.float() * scale, layer.effective())
    assert n.abs().max() <= 7
    assert (layer.effective() - layer.constrained()).abs().max() < 2 * scale


def test_plain_layout_without_rounding_changes_nothing():
    plain = nets.vit_tiny()
    x = torch.randn(3, 1, 8, 8)
    assert torch.equal(convert(plain, "none", 0, "fp32")(x), plain(x))


def test_requantise_shares_nothing_and_keeps_the_parameters():
    model = convert(nets.digits_mlp(), "tile", 8, "fp32")
    other = requantise(model, "int8")
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b) and a.data_ptr() != b.data_ptr()
    assert {layer.fmt for layer in zero_sum_layers(model).values()} == {"fp32"}
    assert {layer.fmt for layer in zero_sum_layers(other).values()} == {"int8"}
    assert {layer.layout for layer in zero_sum_layers(requantise(model, "int8", "wot")).values()} == {"wot"}
    assert torch.equal(export(model, "int8")["3.weight"].codes, export(other)["3.weight"].codes)


def test_conversion_copies_options_and_draws_no_random_number():
    plain = nn.Sequential(
        nn.Conv2d(4, 8, (3, 5), stride=(2, 1), padding=1, dilation=2, groups=2, bias=False, padding_mode="circular"),
        nn.Flatten(),
    ).eval()
    plain[0].weight.requires_grad_(False)
    state = torch.random.get_rng_state()
    model = convert(plain, "none", 0, "fp32")
    plain_again = deploy(model)
    assert torch.equal(torch.random.get_rng_state(), state)
    x = torch.randn(2, 4, 12, 12)
    for other in (model, plain_again):
        assert torch.equal(other(x), plain(x))
        assert not other.training and not other[0].training and not other[0].weight.requires_grad
    assert model[0].weight.data_ptr() != plain[0].weight.data_ptr()


def test_a_layer_used_twice_stays_one():
    layer = nn.Linear(8, 8)
    model = convert(nn.Sequential(layer, nn.ReLU(), layer), "tile", 4, "int8")
    assert model[0] is model[2] and isinstance(model[0], ZeroSumLinear)
    assert list(export(model)) == ["0.weight"]
    assert (plain := deploy(model))[0] is plain[2]


def test_convert_a_single_layer_and_skip():
    assert isinstance(convert(nn.Linear(8, 8)), ZeroSumLinear)
    model = convert(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1)), skip=["1"])
    assert isinstance(model[0], ZeroSumLinear) and type(model[1]) is nn.Linear


# --- room for in-place ECC ------------------------------------------------------------------------------------------


def test_wot_keeps_seven_of_eight_small_and_throttles_the_weight():
    layer = ZeroSumLinear(16, 8, layout="wot", fmt="int8")
    n, scale = layer.codes()
    assert n.view(-1, 8)[:, :7].min() >= -64 and n.view(-1, 8)[:, :7].max() <= 63
    assert n.view(-1, 8)[:, 7].abs().max() > 64
    assert torch.equal(layer.effective(), n.float() * scale)
    assert layer.stored().layout == "none" and torch.equal(layer.stored().values(), layer.effective())
    layer.throttle()
    sevens = layer.weight.detach().view(-1, 8)[:, :7] / scale
    assert sevens.min() >= -64.001 and sevens.max() <= 63.001


# --- refusals -------------------------------------------------------------------------------------------------------


class _Scaled(nn.Linear):
    def forward(self, input):
        return 2 * super().forward(input)


def _tied() -> nn.Module:
    model = nn.Sequential(nn.Embedding(8, 8), nn.Linear(8, 8))
    model[1].weight = model[0].weight
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: convert(nn.Sequential(nn.Linear(8, 1))), "layer '0': .*layout='rows'"),
        (lambda: convert(nn.Sequential(nn.Linear(8, 8)), layout="columns"), "layout was 'columns'; it must be one of"),
        (lambda: convert(nn.Sequential(nn.Linear(8, 8)), fmt="int7"), "fmt was 'int7'; it must be one of"),
        (lambda: convert(nn.Sequential(nn.Linear(8, 8)), block=1), "block was 1; it must be at least 2"),
        (lambda: convert(nn.Sequential(nn.Linear(8, 8)), layout="wot", fmt="int4"), "must be 'int8'"),
        (lambda: convert(nn.Sequential(nn.Linear(3, 3)), layout="wot"), "has 9 entries.* multiple of 8"),
        (lambda: convert(nn.Sequential(_Scaled(8, 8))), "layer '0': it is a _Scaled"),
        (lambda: convert(_tied()), "layer '1' shares its weight"),
        (lambda: convert(convert(nn.Sequential(nn.Linear(8, 8)))), "zero-sum already"),
        (lambda: convert(nn.Sequential(nn.Linear(8, 8)), skip=["7"]), r"skip names \['7'\]"),
        (lambda: ZeroSumLinear(8, 8, fmt="fp16").codes(), "only an integer format has codes"),
        (lambda: load(nn.Linear(4, 4), {"weight": store(torch.zeros(2, 2), "fp32")}), r"shape \(2, 2\).*\(4, 4\)"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_diverged_weight_is_refused_and_not_rounded():
    layer = ZeroSumLinear(8, 8)
    with torch.no_grad():
        layer.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        layer(torch.zeros(1, 8))


def test_zero_weight_stays_zero():
    layer = ZeroSumLinear(8, 8)
    nn.init.zeros_(layer.weight)
    assert (layer.effective() == 0).all()
    assert (export(layer)["weight"].values() == 0).all()
