"""Layers whose weights are zero-sum by construction, and the way from a plain model to them and back."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from .constraint import LAYOUTS, init_gain, project
from .formats import FORMATS, format_of
from .memory import Stored, store
from .rounding import round_zero_sum


class ZeroSumLayer(nn.Module):
    """What the linear and the convolutional layer share: free parameters `weight`, of which the layer uses P(weight).

    Layout "none" is a plain layer (quantised in training, if `fmt` is an integer format); layout "wot" is also plain,
    but keeps seven of each eight integers in [-64, 63], as in-place ECC needs (Guan et al., NeurIPS 2019).
    """

    weight: nn.Parameter
    layout: str
    block: int
    fmt: str

    def configure(self, layout: str, block: int, fmt: str) -> None:
        """Set how the weight is constrained and stored; ValueError where the three do not fit the weight."""
        format_of(fmt)
        if layout == "wot":
            if fmt != "int8":
                raise ValueError(f"fmt was {fmt!r}; layout='wot' makes room for in-place ECC, so it must be 'int8'")
            if self.weight.numel() % 8:
                raise ValueError(f"weight has {self.weight.numel()} entries; layout='wot' needs a multiple of 8")
        elif layout not in LAYOUTS:
            raise ValueError(f"layout was {layout!r}; it must be one of {(*LAYOUTS, 'wot')}")
        else:
            init_gain(self.weight.shape, layout, block, self.weight.device)  # refuses what cannot be cut into blocks
        self.layout, self.block, self.fmt = layout, block, fmt

    @torch.no_grad()
    def keep_variance(self) -> None:
        """Scale a fresh, independent initial weight so that P leaves its variance as it was."""
        if self.layout in ("rows", "tile"):
            self.weight.mul_(init_gain(self.weight.shape, self.layout, self.block, self.weight.device))

    def constrained(self) -> Float[Tensor, "*shape"]:
        """The zero-sum weight w = P(weight), before it is rounded to what the memory holds; differentiable."""
        return self.weight if self.layout == "wot" else project(self.weight, self.layout, self.block)

    def effective(self) -> Float[Tensor, "*shape"]:
        """The weight that the layer multiplies with: for integer formats the rounded one; its gradient passes to w."""
        w = self.constrained()
        if FORMATS[self.fmt].kind == "float":
            return w
        n, scale = self._rounded(w.detach())
        # The bracket is exactly 0, so the value is the stored one to the bit, while the gradient is that of w.
        return n.to(w.dtype) * scale + (w - w.detach())

    def codes(self) -> tuple[Int64[Tensor, "*shape"], float]:
        """The stored integers n and the scale s of an integer format: the layer computes with n * s."""
        if FORMATS[self.fmt].kind == "float":
            raise ValueError(
                f"fmt was {self.fmt!r}; only an integer format has codes with a scale, see export for floats"
            )
        n, scale = self._rounded(self.constrained().detach())
        return n, float(scale)

    @torch.no_grad()
    def throttle(self) -> None:
        """Clip the weight itself to what layout "wot" can store; to be called after an optimiser's step."""
        if self.layout == "wot":
            self.weight.copy_(_wot_clip(self.weight / (scale := self._scale(self.weight))) * scale)

    def stored(self, fmt: str | None = None) -> Stored:
        """The weight in memory, in the layer's own format or another."""
        layer = self if fmt is None or fmt == self.fmt else requantise(self, fmt)
        assert isinstance(layer, ZeroSumLayer)
        layout, block = (layer.layout, layer.block) if layer.layout in ("rows", "tile") else ("none", 0)
        with torch.no_grad():
            w = layer.constrained().float()
            if FORMATS[layer.fmt].kind == "float":
                return store(w, layer.fmt, layout, block)
            n, scale = layer.codes()
            return store(w, layer.fmt, layout, block, n=n, unit=scale)

    def extra_repr(self) -> str:
        """The layer's line in a printed model."""
        return f"{super().extra_repr()}, layout={self.layout!r}, block={self.block}, fmt={self.fmt!r}"

    def _scale(self, w: Tensor) -> Tensor:
        # One step below the largest integer is left free, because rounding to zero sums may need it.
        return (w.abs().amax() / (FORMATS[self.fmt].qmax - 1)).clamp(min=torch.finfo(w.dtype).tiny)

    def _rounded(self, w: Tensor) -> tuple[Tensor, Tensor]:
        scale = self._scale(w)
        if self.layout == "wot":
            return _wot_clip(round_zero_sum(w / scale, "none", 0)), scale
        return round_zero_sum(w / scale, self.layout, self.block), scale


class ZeroSumLinear(ZeroSumLayer, nn.Linear):  # type: ignore[misc]
    """`nn.Linear` with a zero-sum weight (out, in), rounded in training to the integers of `fmt`.

    >>> n, scale = ZeroSumLinear(16, 8).codes()
    >>> n.view(8, 2, 8).sum(-1).unique().tolist(), n.view(8, 2, 8).sum(0).unique().tolist()
    ([0], [0])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        layout: str = "tile",
        block: int = 8,
        fmt: str = "int8",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.configure(layout, block, fmt)
        self.keep_variance()

    def forward(self, input: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        """The affine map of `input` with the effective weight."""
        return F.linear(input, self.effective(), self.bias)


class ZeroSumConv2d(ZeroSumLayer, nn.Conv2d):  # type: ignore[misc]
    """`nn.Conv2d` with a zero-sum weight, seen as the matrix (out, in / groups * height * width)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
        *,
        layout: str = "tile",
        block: int = 8,
        fmt: str = "int8",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.configure(layout, block, fmt)
        self.keep_variance()

    def forward(self, input: Float[Tensor, "... inputs height width"]) -> Float[Tensor, "... outputs high wide"]:
        """The convolution of `input` with the effective weight."""
        return self._conv_forward(input, self.effective(), self.bias)


def convert(
    model: nn.Module,
    layout: str = "tile",
    block: int = 8,
    fmt: str = "int8",
    *,
    skip: Collection[str] = (),
    rescale: bool = True,
) -> nn.Module:
    """A copy of `model` in which every `nn.Linear` and `nn.Conv2d` is a zero-sum layer; train it, then `export` it.

    Args:
        skip: names of layers (as in `model.named_modules()`) to leave as they are.
        rescale: make up for the variance that P takes from a freshly initialised weight; False for a trained model,
            which then starts from the zero-sum weights nearest to its own.

    Raises:
        ValueError: a layer that cannot be cut into blocks, that shares its weight with another, that is a subclass
            whose forward is not known, or that is zero-sum already. Name it in `skip`, or see `requantise`.

    >>> convert(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), block=4)[0].extra_repr()
    "in_features=8, out_features=8, bias=True, layout='tile', block=4, fmt='int8'"
    """
    owners = Counter(id(p) for m in model.modules() for p in m.parameters(recurse=False))
    shared = {name for name, m in model.named_modules() if owners[id(getattr(m, "weight", None))] > 1}
    unknown = set(skip) - {name for name, _ in model.named_modules()}
    if unknown:
        raise ValueError(f"skip names {sorted(unknown)}; it must name modules of the model")

    def to_zero_sum(name: str, module: nn.Module) -> nn.Module:
        if name in skip or not isinstance(module, nn.Linear | nn.Conv2d):
            return module
        if name in shared:
            raise ValueError(
                f"layer {name!r} shares its weight with another layer; it must own it, or be named in skip"
            )
        if isinstance(module, ZeroSumLayer):
            raise ValueError(f"layer {name!r} is zero-sum already; it must be plain (requantise changes the format)")
        try:
            converted = _zero_sum_like(module, layout, block, fmt)
        except ValueError as error:
            raise ValueError(f"layer {name!r}: {error}") from error
        _take_parameters(converted, module, module.weight)
        if rescale:
            converted.keep_variance()
        return converted

    return _replace(copy.deepcopy(model), to_zero_sum)


def requantise(model: nn.Module, fmt: str, layout: str | None = None) -> nn.Module:
    """A copy of a converted model that stores its weights in the format `fmt`; the free parameters stay as they are.

    `layout` changes the layout as well: from "none" to "wot", say, to train on with room for in-place ECC.
    """
    model = copy.deepcopy(model)
    for layer in zero_sum_layers(model).values():
        layer.configure(layout or layer.layout, layer.block, fmt)
    return model


def zero_sum_layers(model: nn.Module) -> dict[str, ZeroSumLayer]:
    """The zero-sum layers of a model by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, ZeroSumLayer)}


def export(model: nn.Module, fmt: str | None = None) -> dict[str, Stored]:
    """What the memory holds: for every zero-sum layer, the name of its weight and the stored tensor.

    `fmt` chooses another format than the layers' own; a model trained in fp32 can be exported to any.

    >>> memory = export(convert(nn.Sequential(nn.Linear(8, 8))))
    >>> list(memory), memory["0.weight"].nbytes
    (['0.weight'], 64)
    """
    return {f"{name}.weight".lstrip("."): layer.stored(fmt) for name, layer in zero_sum_layers(model).items()}


def deploy(model: nn.Module, fmt: str | None = None) -> nn.Module:
    """A copy of a converted model made of plain layers again, holding the weights that `export` stores."""

    def to_plain(name: str, module: nn.Module) -> nn.Module:
        if not isinstance(module, ZeroSumLinear | ZeroSumConv2d):
            return module
        plain = _plain_like(module)
        _take_parameters(plain, module, module.stored(fmt).values().to(module.weight.dtype))
        return plain

    return _replace(copy.deepcopy(model), to_plain)


@torch.no_grad()
def load(net: nn.Module, stored: Mapping[str, Stored]) -> None:
    """Write what the memory holds, faults and all, into the weights of a plain net from `deploy`, in place."""
    for name, memory in stored.items():
        weight = net.get_parameter(name)
        if tuple(weight.shape) != memory.shape:
            raise ValueError(
                f"stored[{name!r}] has shape {memory.shape}; it must be that of the weight, {tuple(weight.shape)}"
            )
        weight.copy_(memory.values())


def _replace(model: nn.Module, swap: Callable[[str, nn.Module], nn.Module]) -> nn.Module:
    """Put swap(name, module) in the place of every module; one that occurs twice stays one."""
    done: dict[int, nn.Module] = {}

    def visit(name: str, module: nn.Module) -> nn.Module:
        if id(module) not in done:
            done[id(module)] = new = swap(name, module)
            for child_name, child in module._modules.items() if new is module else ():
                if child is not None:
                    setattr(module, child_name, visit(f"{name}.{child_name}".lstrip("."), child))
        return done[id(module)]

    return visit("", model)


# The new layers are made without memory, on the meta device: so they draw no random numbers.
def _zero_sum_like(layer: nn.Linear | nn.Conv2d, layout: str, block: int, fmt: str) -> ZeroSumLinear | ZeroSumConv2d:
    if type(layer) is nn.Linear:
        return ZeroSumLinear(
            layer.in_features, layer.out_features, layer.bias is not None,
            layout=layout, block=block, fmt=fmt, device="meta",
        )  # fmt: skip
    if type(layer) is nn.Conv2d:
        return ZeroSumConv2d(*_convolution(layer), layout=layout, block=block, fmt=fmt, device="meta")
    raise ValueError(f"it is a {type(layer).__name__}; it must be exactly nn.Linear or nn.Conv2d, or be named in skip")


def _plain_like(layer: ZeroSumLinear | ZeroSumConv2d) -> nn.Linear | nn.Conv2d:
    if isinstance(layer, ZeroSumLinear):
        return nn.Linear(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
    return nn.Conv2d(*_convolution(layer), device="meta")  # type: ignore[misc]


def _convolution(layer: nn.Conv2d) -> tuple:
    return (
        layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding, layer.dilation,
        layer.groups, layer.bias is not None, layer.padding_mode,
    )  # fmt: skip


def _take_parameters(new: nn.Linear | nn.Conv2d, old: nn.Linear | nn.Conv2d, weight: Tensor) -> None:
    new.weight = nn.Parameter(weight.detach().clone(), requires_grad=old.weight.requires_grad)
    if old.bias is not None:
        new.bias = old.bias
    new.train(old.training)


def _wot_clip(n: Tensor) -> Tensor:
    from .ecc import wot_clip  # only this layout needs the ECC module

    return wot_clip(n)
