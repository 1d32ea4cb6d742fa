from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
import torch

from nips26lib.chapter import presets
from nips26lib.chapter.presets import Preset, choose_device, current_run, no_front_end, resolve, start


@dataclass(frozen=True)
class Settings(Preset):
    steps: int = 10
    rate: float = 0.1
    shuffle: bool = False
    model: str = "mlp"
    widths: tuple[int, ...] = (8, 8)
    formats: tuple[str, ...] = ("int8",)
    box: tuple[int, float] = (1, 0.5)
    limit: float | None = None
    size: int | float = 1
    kind: Literal["row", "tile"] = "row"


PRESETS = {"smoke": Settings(), "laptop": Settings(steps=100, threads=2), "gpu": Settings(needs_gpu=True)}


@pytest.fixture(autouse=True)
def no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_current", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


def pretend_cuda(monkeypatch: pytest.MonkeyPatch, devices: int = 1) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)


def test_resolve_takes_the_named_preset_and_leaves_it_unchanged() -> None:
    assert resolve(PRESETS, "laptop", {}) == Settings(steps=100, threads=2)
    assert resolve(PRESETS, "laptop", {"steps": 7}).steps == 7
    assert PRESETS["laptop"].steps == 100


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("steps", 3, 3),
        ("rate", 0.5, 0.5),
        ("rate", 2, 2.0),
        ("shuffle", True, True),
        ("model", "vit", "vit"),
        ("widths", [4], (4,)),
        ("widths", (), ()),
        ("formats", ["fp32", "int4"], ("fp32", "int4")),
        ("box", [2, 3], (2, 3.0)),
        ("limit", None, None),
        ("limit", 4, 4.0),
        ("size", 3, 3),
        ("size", 0.5, 0.5),
        ("kind", "tile", "tile"),
    ],
)
def test_values_of_the_right_type_pass(name: str, given: object, kept: object) -> None:
    value = getattr(resolve(PRESETS, "smoke", {name: given}), name)
    assert value == kept
    assert type(value) is type(kept)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("steps", 1.5, "override 'steps' was 1.5 (float); it must be int"),
        ("steps", True, "override 'steps' was True (bool); it must be int"),
        ("steps", "3", "override 'steps' was '3' (str); it must be int"),
        ("rate", "0.1", "override 'rate' was '0.1' (str); it must be float"),
        ("rate", True, "override 'rate' was True (bool); it must be float"),
        ("rate", float("nan"), "override 'rate' was nan (float); it must be float"),
        ("shuffle", 1, "override 'shuffle' was 1 (int); it must be bool"),
        ("model", None, "override 'model' was None (NoneType); it must be str"),
        ("widths", 4, "override 'widths' was 4 (int); it must be tuple[int, ...]"),
        ("widths", "88", "override 'widths' was '88' (str); it must be tuple[int, ...]"),
        ("widths", [4, 0.5], "override 'widths' was [4, 0.5] (list); it must be tuple[int, ...]"),
        ("widths", [True], "override 'widths' was [True] (list); it must be tuple[int, ...]"),
        ("formats", "int8", "override 'formats' was 'int8' (str); it must be tuple[str, ...]"),
        ("formats", ["int8", 4], "override 'formats' was ['int8', 4] (list); it must be tuple[str, ...]"),
        ("box", [1], "override 'box' was [1] (list); it must be tuple[int, float]"),
        ("box", [0.5, 0.5], "override 'box' was [0.5, 0.5] (list); it must be tuple[int, float]"),
        ("limit", "none", "override 'limit' was 'none' (str); it must be float | None"),
        ("kind", "column", "override 'kind' was 'column' (str); it must be typing.Literal['row', 'tile']"),
    ],
)
def test_values_of_another_type_are_refused(name: str, given: object, message: str) -> None:
    with pytest.raises(TypeError) as refusal:
        resolve(PRESETS, "smoke", {name: given})
    assert str(refusal.value) == message


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="preset was 'huge'; it must be one of 'smoke', 'laptop', 'gpu'"):
        resolve(PRESETS, "huge", {})
    with pytest.raises(
        ValueError, match=r"override 'step' is not a setting .* 'needs_gpu', 'threads', 'steps', 'rate'"
    ):
        resolve(PRESETS, "smoke", {"step": 3})


def test_start_seeds_every_generator() -> None:
    def drawn(seed: int) -> tuple[float, float, float]:
        start("tiny", PRESETS, "smoke", seed, {})
        return random.random(), np.random.random(), torch.rand(()).item()

    first = drawn(3)
    assert drawn(3) == first
    assert all(left != right for left, right in zip(drawn(4), first, strict=True))


def test_start_returns_and_remembers_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert current_run() is None
    run = start("tiny", PRESETS, "laptop", 5, {"rate": 1})
    assert current_run() is run
    assert (run.chapter, run.preset, run.seed, run.static) == ("tiny", "laptop", 5, False)
    assert run.settings == Settings(steps=100, threads=2, rate=1.0)
    assert run.device == torch.device("cpu")
    assert torch.get_num_threads() == 2
    assert torch.are_deterministic_algorithms_enabled()
    assert "| `rate` | `1.0` |" in run._repr_markdown_()
    monkeypatch.setenv("NIPS26_STATIC", "1")
    assert start("tiny", PRESETS, "smoke", 0, {}).static


@pytest.mark.parametrize(("value", "static"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_no_front_end(monkeypatch: pytest.MonkeyPatch, value: str, static: bool) -> None:
    monkeypatch.setenv("NIPS26_STATIC", value)
    assert no_front_end() is static


def test_the_environment_replaces_the_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIPS26_PRESET", "smoke")
    assert start("tiny", PRESETS, "laptop", 0, {}).preset == "smoke"
    monkeypatch.setenv("NIPS26_PRESET", "")
    assert start("tiny", PRESETS, "laptop", 0, {}).preset == "laptop"
    monkeypatch.setenv("NIPS26_PRESET", "huge")
    with pytest.raises(ValueError, match="preset was 'huge'"):
        start("tiny", PRESETS, "laptop", 0, {})


def test_start_refuses_what_is_no_seed_and_no_thread_count() -> None:
    with pytest.raises(ValueError, match=r"seed was -1; it must be from 0 to 2\*\*32 - 1"):
        start("tiny", PRESETS, "smoke", -1, {})
    with pytest.raises(ValueError, match="seed was 4294967296"):
        start("tiny", PRESETS, "smoke", 2**32, {})
    with pytest.raises(TypeError, match=r"seed was True \(bool\); it must be an int"):
        start("tiny", PRESETS, "smoke", True, {})
    with pytest.raises(ValueError, match="setting 'threads' was 0; it must be at least 1"):
        start("tiny", PRESETS, "smoke", 0, {"threads": 0})
    assert current_run() is None


def test_a_preset_that_needs_a_gpu_is_refused_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError) as refusal:
        start("tiny", PRESETS, "gpu", 0, {})
    assert str(refusal.value) == ("preset 'gpu' needs a GPU (CUDA) and this machine has none; use preset='laptop'")
    with pytest.raises(ValueError, match="use preset='smoke'"):
        choose_device({"smoke": Preset(), "gpu": Preset(needs_gpu=True)}, "gpu", Preset(needs_gpu=True))
    with pytest.raises(ValueError, match="run it on a machine with an NVIDIA GPU"):
        choose_device({"gpu": Preset(needs_gpu=True)}, "gpu", Preset(needs_gpu=True))
    pretend_cuda(monkeypatch)
    monkeypatch.setenv("NIPS26_DEVICE", "cpu")
    with pytest.raises(ValueError, match=r"needs a GPU .* and NIPS26_DEVICE was 'cpu'"):
        choose_device(PRESETS, "gpu", PRESETS["gpu"])


def test_the_best_device_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_device(PRESETS, "smoke", Settings()).type == "cpu"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device(PRESETS, "smoke", Settings()).type == "mps"
    pretend_cuda(monkeypatch)
    assert choose_device(PRESETS, "smoke", Settings()).type == "cuda"
    assert choose_device(PRESETS, "gpu", PRESETS["gpu"]).type == "cuda"


def test_the_environment_names_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cuda(monkeypatch, devices=2)
    for name in ("cpu", "cuda", "cuda:1"):
        monkeypatch.setenv("NIPS26_DEVICE", name)
        assert str(choose_device(PRESETS, "smoke", Settings())) == name
    for name in ("cuda:2", "mps"):
        monkeypatch.setenv("NIPS26_DEVICE", name)
        with pytest.raises(ValueError, match=f"NIPS26_DEVICE was '{name}', which this machine does not have"):
            choose_device(PRESETS, "smoke", Settings())
    for name in ("gpu", "meta", "cuda:x"):
        monkeypatch.setenv("NIPS26_DEVICE", name)
        with pytest.raises(ValueError, match=f"NIPS26_DEVICE was '{name}'; it must be 'cpu', 'cuda'"):
            choose_device(PRESETS, "smoke", Settings())
