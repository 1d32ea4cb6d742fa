"""The networks: sizes as documented, and every large weight where `convert` finds it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nips26lib.papers.zerosum import nets


def n_weights(net: nn.Module) -> int:
    return sum(m.weight.numel() for m in net.modules() if type(m) in (nn.Linear, nn.Conv2d))


# (builder, image shape, weights counted by hand from the layers' shapes)
CASES = {
    "digits_mlp": (nets.digits_mlp, (1, 8, 8), 64 * 128 + 128 * 128 + 128 * 10),
    "mnist_cnn": (nets.mnist_cnn, (1, 28, 28), 8 * 25 + 16 * 8 * 9 + 32 * 16 * 49 + 32 * 10),
    "vit_tiny": (nets.vit_tiny, (1, 8, 8), 16 * 64 + 2 * (4 * 64**2 + 2 * 2 * 64**2) + 64 * 10),
    "resnet20": (nets.resnet20, (3, 32, 32), 432 + 6 * 2304 + 4608 + 5 * 9216 + 18432 + 5 * 36864 + 640),
    "vit_small": (nets.vit_small, (3, 32, 32), 48 * 256 + 6 * (4 * 256**2 + 2 * 4 * 256**2) + 2560),
}


@pytest.mark.parametrize("name", CASES)
def test_shape_and_number_of_weights(name):
    build, image, weights = CASES[name]
    net = build()
    assert net(torch.randn(2, *image)).shape == (2, 10)
    assert n_weights(net) == weights
    assert f"({weights:,} weights)" in build.__doc__ or "million" in build.__doc__


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_in_linear_or_conv_weights_is_small(name):
    net = CASES[name][0]()
    total = sum(p.numel() for p in net.parameters())
    assert n_weights(net) / total > 0.96


@pytest.mark.parametrize("name", ["resnet20", "vit_small"])
def test_number_of_classes(name):
    assert CASES[name][0](classes=100)(torch.randn(1, 3, 32, 32)).shape == (1, 100)


def test_transformer_sees_where_a_patch_lies():
    torch.manual_seed(0)
    # Patches without overlap, so that moving halves of the image only moves patches.
    net = nets.VisionTransformer(
        image=8, channels=1, patch=2, stride=2, width=16, depth=1, heads=2, expansion=2, classes=10
    )
    image = torch.randn(1, 1, 8, 8)
    swapped = torch.cat([image[..., 4:, :], image[..., :4, :]], dim=-2)
    assert not torch.allclose(net(image), net(swapped), atol=1e-4)
    with torch.no_grad():
        net.position.zero_()
    torch.testing.assert_close(net(image), net(swapped))


def test_overlapping_patches_are_those_of_the_padded_image():
    net = nets.vit_tiny()
    image = torch.randn(1, 1, 8, 8)
    padded = nn.functional.pad(image, (1, 1, 1, 1))[0, 0]
    patches = [padded[i : i + 4, j : j + 4].flatten() for i in range(0, 8, 2) for j in range(0, 8, 2)]
    seen = []
    net.embed.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    net(image)
    torch.testing.assert_close(seen[0][0], torch.stack(patches))


def test_attention_matches_torch():
    torch.manual_seed(0)
    ours, theirs = nets.Attention(16, 4), nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    x = torch.randn(3, 5, 16)
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0])


def test_residual_block_without_convolutions_is_the_padded_shortcut():
    block = nets.ResidualBlock(4, 8).eval()
    with torch.no_grad():
        block.conv2.weight.zero_()
    x = torch.rand(1, 4, 6, 6)
    y = block(x)
    assert y.shape == (1, 8, 3, 3)
    torch.testing.assert_close(y[:, 2:6], x[:, :, ::2, ::2])
    assert (y[:, :2] == 0).all() and (y[:, 6:] == 0).all()
