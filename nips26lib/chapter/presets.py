"""Presets, overrides, and the start of a chapter: seeds, device, determinism, figure style."""

from __future__ import annotations

import math
import os
import random
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

# PyTorch and NumPy are imported where they are used: reading a preset or a stored table must not wait for them.
if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Preset:
    """What every chapter's preset states; a chapter subclasses it and adds fields of its own.

    ``needs_gpu`` refuses a machine without CUDA; ``threads`` is how many CPU threads PyTorch may use, fixed because
    the order of a sum, and with it the last bit of a result, depends on it.

    >>> Preset(threads=2)
    Preset(needs_gpu=False, threads=2)
    """

    needs_gpu: bool = False
    threads: int = 1


P = TypeVar("P", bound=Preset)


@dataclass(frozen=True)
class Run(Generic[P]):
    """One execution of a chapter. ``static`` is true where no live front end listens (``NIPS26_STATIC=1``)."""

    chapter: str
    preset: str
    seed: int
    settings: P
    device: torch.device
    static: bool

    def _repr_markdown_(self) -> str:
        rows = [f"| `{field.name}` | `{getattr(self.settings, field.name)!r}` |" for field in fields(self.settings)]
        head = f"Preset `{self.preset}`, seed {self.seed}, on `{self.device}`"
        return "\n".join([head, "", "| setting | value |", "|:--|:--|", *rows])


_current: Run[Any] | None = None


def current_run() -> Run[Any] | None:
    """The run that `start` began last in this process, or None before the first."""
    return _current


def no_front_end() -> bool:
    """Whether nobody watches this process (``NIPS26_STATIC=1``): its outputs are stored or thrown away."""
    return os.environ.get("NIPS26_STATIC", "") not in ("", "0")


def resolve(presets: Mapping[str, P], preset: str, overrides: Mapping[str, object]) -> P:
    """The preset of that name with the overrides in place, each checked against its field's annotation.

    Raises ValueError for an unknown preset or override (listing the known ones), TypeError for a value of the wrong
    type. An int passes for a float, a list for a tuple, and a bool for neither.

    >>> resolve({"smoke": Preset(), "laptop": Preset(threads=2)}, "smoke", {"threads": 4})
    Preset(needs_gpu=False, threads=4)
    """
    if preset not in presets:
        raise ValueError(f"preset was {preset!r}; it must be one of {_listed(presets)}")
    if not isinstance(overrides, Mapping):
        raise TypeError(f"overrides was {overrides!r}; it must be a dict from the names of settings to their values")
    settings = presets[preset]
    annotations = typing.get_type_hints(type(settings))
    known = [field.name for field in fields(settings)]
    values: dict[str, Any] = {}
    for name, value in overrides.items():
        if name not in known:
            raise ValueError(f"override {name!r} is not a setting of this chapter; the settings are {_listed(known)}")
        try:
            values[name] = _conform(value, annotations[name])
        except TypeError:
            raise TypeError(
                f"override {name!r} was {value!r} ({type(value).__name__}); it must be {_spelled(annotations[name])}"
            ) from None
    return replace(settings, **values)


def choose_device(presets: Mapping[str, Preset], preset: str, settings: Preset) -> torch.device:
    """The device to run on: ``NIPS26_DEVICE`` if set, else CUDA, else MPS, else the CPU.

    Raises ValueError when that device is not there, or is no GPU where the settings need one.
    """
    import torch

    wanted = os.environ.get("NIPS26_DEVICE", "")
    device = _named_device(wanted) if wanted else _best_device()
    if settings.needs_gpu and device.type != "cuda":
        reason = "this machine has none" if not torch.cuda.is_available() else f"NIPS26_DEVICE was {wanted!r}"
        free = [name for name, other in presets.items() if not other.needs_gpu]
        instead = "laptop" if "laptop" in free else free[-1] if free else None
        advice = f"use preset={instead!r}" if instead else "run it on a machine with an NVIDIA GPU"
        raise ValueError(f"preset {preset!r} needs a GPU (CUDA) and {reason}; {advice}")
    return device


def start(chapter: str, presets: Mapping[str, P], preset: str, seed: int, overrides: Mapping[str, object]) -> Run[P]:
    """Begin a chapter: resolve its settings, seed every generator, pick the device, set the figure style.

    ``NIPS26_PRESET`` in the environment replaces ``preset``; ``NIPS26_THREADS`` caps the threads, where several runs
    share a machine. Raises what `resolve` and `choose_device` raise, and
    ValueError or TypeError for a seed that is no int from 0 to 2**32 - 1.
    """
    import numpy as np
    import torch

    from nips26lib.chapter.figures import use_style
    from nips26lib.chapter.obtaining import forget_obtained

    global _current
    preset = os.environ.get("NIPS26_PRESET", "") or preset
    settings = resolve(presets, preset, overrides)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed was {seed!r} ({type(seed).__name__}); it must be an int from 0 to 2**32 - 1")
    if not 0 <= seed < 2**32:  # NumPy takes no other
        raise ValueError(f"seed was {seed}; it must be from 0 to 2**32 - 1")
    if settings.threads < 1:
        raise ValueError(f"setting 'threads' was {settings.threads}; it must be at least 1")
    device = choose_device(presets, preset, settings)

    torch.set_num_threads(min(settings.threads, thread_cap()))
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    use_style()
    forget_obtained()
    run = Run(chapter, preset, seed, settings, device, static=no_front_end())
    _current = run
    return run


def thread_cap() -> int:
    """How many threads a run may take at most: ``NIPS26_THREADS``, else as many as its preset says."""
    text = os.environ.get("NIPS26_THREADS", "")
    if not text:
        return 2**16
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"NIPS26_THREADS was {text!r}; it must be a whole number from 1")
    return int(text)


def _best_device() -> torch.device:
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def _named_device(name: str) -> torch.device:
    import torch

    device: torch.device | None
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"NIPS26_DEVICE was {name!r}; it must be 'cpu', 'cuda', 'cuda:<index>' or 'mps'")
    if device.type == "cuda":
        there = (device.index or 0) < torch.cuda.device_count()
    else:
        there = device.type == "cpu" or torch.backends.mps.is_available()
    if not there:
        raise ValueError(f"NIPS26_DEVICE was {name!r}, which this machine does not have; unset it, or use 'cpu'")
    return device


def _listed(names: typing.Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _spelled(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not typing.get_args(annotation) else str(annotation)


def _conform(value: object, annotation: Any) -> object:
    """The value as the annotation has it, or TypeError."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return _first_match(value, arguments)
    if origin is typing.Literal:
        for allowed in arguments:  # `True in (1, 2)` holds in Python, so the type must match too
            if value == allowed and type(value) is type(allowed):
                return value
        raise TypeError
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError
        if arguments[-1] is Ellipsis:
            arguments = (arguments[0],) * len(value)
        if len(arguments) != len(value):
            raise TypeError
        return tuple(_conform(element, kind) for element, kind in zip(value, arguments, strict=True))
    if annotation is None or annotation is types.NoneType:
        if value is None:
            return None
        raise TypeError
    if annotation is float and isinstance(value, int | float) and not isinstance(value, bool):
        if math.isnan(value):
            raise TypeError
        return float(value)
    if isinstance(value, bool) and annotation is not bool:
        raise TypeError
    if not isinstance(value, origin or annotation):
        raise TypeError
    return value


def _first_match(value: object, annotations: tuple[Any, ...]) -> object:
    # An exact type first: 3 stays an int for `float | int`.
    for annotation in sorted(annotations, key=lambda kind: type(value) is not kind):
        try:
            return _conform(value, annotation)
        except TypeError:
            continue
    raise TypeError
