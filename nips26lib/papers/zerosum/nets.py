"""The networks of the chapter, small ones for a laptop and CIFAR-sized ones for a GPU.

All their large weights sit in `nn.Linear` and `nn.Conv2d`, so that `convert` reaches every one of them;
that is why attention below is written with four linear layers and not with `nn.MultiheadAttention`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def digits_mlp() -> nn.Module:
    """A 64-128-128-10 perceptron for 8 x 8 images (25,856 weights).

    >>> digits_mlp()(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def mnist_cnn() -> nn.Module:
    """Two convolutions and two linear layers for 28 x 28 images (26,760 weights).

    >>> mnist_cnn()(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 7 * 7, 32), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip


def vit_tiny() -> nn.Module:
    """A vision transformer for 8 x 8 images: 16 overlapping patches, width 64, two blocks (67,200 weights).

    >>> vit_tiny()(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    return VisionTransformer(
        image=8, channels=1, patch=4, stride=2, width=64, depth=2, heads=4, expansion=2, classes=10
    )


def vit_small(classes: int = 10) -> nn.Module:
    """A vision transformer for 32 x 32 colour images: 64 patches, width 256, six blocks (4.7 million weights)."""
    return VisionTransformer(
        image=32, channels=3, patch=4, stride=4, width=256, depth=6, heads=8, expansion=4, classes=classes
    )


def resnet20(classes: int = 10) -> nn.Module:
    """ResNet-20 for 32 x 32 colour images (268,336 weights); He et al., "Deep Residual Learning", 2016, section 4.2."""
    blocks: list[nn.Module] = []
    width = 16
    for channels in (16, 32, 64):
        for _ in range(3):
            blocks.append(ResidualBlock(width, channels))
            width = channels
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes),
    )  # fmt: skip


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut; one that widens halves the image; the shortcut has no weight."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.stride = 1 if inputs == outputs else 2
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=self.stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)

    def forward(self, x: Float[Tensor, "batch inputs height width"]) -> Float[Tensor, "batch outputs high wide"]:
        """The block's features, half the size of `x` where it widens."""
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        missing = y.shape[1] - x.shape[1]
        return F.relu(y + F.pad(shortcut, (0, 0, 0, 0, missing // 2, missing - missing // 2)))


class Attention(nn.Module):
    """Multi-head self-attention with separate linear layers for query, key, value and output."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.output = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """Every token's mixture of all tokens' values."""
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.output(mixed.transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Attention and a two-layer perceptron, each normalised first and added to its input."""

    def __init__(self, width: int, heads: int, expansion: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, expansion * width), nn.GELU(), nn.Linear(expansion * width, width))

    def forward(self, x: Float[Tensor, "batch tokens width"]) -> Float[Tensor, "batch tokens width"]:
        """The block's tokens."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Patches, embedded linearly, through transformer blocks; the mean token is classified.

    Patches of `patch` x `patch` pixels start every `stride` pixels; where they overlap, the image is padded with zeros.
    Source: Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021, with mean pooling instead of a class token.
    """

    def __init__(
        self,
        *,
        image: int,
        channels: int,
        patch: int,
        stride: int,
        width: int,
        depth: int,
        heads: int,
        expansion: int,
        classes: int,
    ) -> None:
        super().__init__()
        self.patch, self.stride, self.padding = patch, stride, (patch - stride) // 2
        self.embed = nn.Linear(channels * patch**2, width)
        # As large as an embedded patch, or it takes long until the network sees where a patch lies.
        self.position = nn.Parameter(0.5 * torch.randn((image // stride) ** 2, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads, expansion) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch classes"]:
        """The logits of a batch of images."""
        patches = F.unfold(x, self.patch, stride=self.stride, padding=self.padding).transpose(1, 2)
        tokens = self.blocks(self.embed(patches) + self.position)
        return self.head(self.norm(tokens).mean(dim=1))
