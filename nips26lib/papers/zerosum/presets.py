"""How large the chapter's experiments are, per preset."""

from __future__ import annotations

from dataclasses import dataclass

from nips26lib.chapter.presets import Preset

FLOATS = ("fp32", "fp16", "bf16")


@dataclass(frozen=True)
class ZeroSumPreset(Preset):
    """Sizes of the experiments.

    `nets` name entries of `study.NETS`. Networks are trained in float for `epochs`, then fine-tuned for
    `tuning_epochs` in each integer format. Every fault rate is drawn `draws` times per trained network. Seeds count
    from `first_seed`: those from 1000 upwards judge the claims and are never used for tuning.
    """

    nets: tuple[str, ...] = ("digits-mlp",)
    formats: tuple[str, ...] = ("fp32", "int8")
    seeds: int = 2
    first_seed: int = 1000
    block: int = 8
    row_block: int = 16
    epochs: int = 8
    tuning_epochs: int = 4
    rates: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    draws: int = 2
    rounds: int = 10
    round_rate: float = 2e-4
    attacked_nets: tuple[str, ...] = ("digits-mlp",)
    attack_flips: int = 12
    attack_images: int = 64
    cifar_path: str = ""


PRESETS = {
    "smoke": ZeroSumPreset(),
    "laptop": ZeroSumPreset(
        nets=("digits-mlp", "mnist-cnn", "digits-vit"),
        formats=("fp32", "fp16", "bf16", "int8", "int4"),
        seeds=3,
        epochs=30,
        tuning_epochs=10,
        rates=(1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2),
        draws=2,
        rounds=50,
        attack_flips=120,
        attack_images=256,
    ),
    "gpu": ZeroSumPreset(
        needs_gpu=True,
        threads=8,
        nets=("cifar10-resnet20", "cifar10-vit"),
        formats=("fp32", "fp16", "bf16", "int8", "int4"),
        seeds=5,
        epochs=60,
        tuning_epochs=15,
        rates=(1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2),
        draws=4,
        rounds=50,
        attacked_nets=("cifar10-resnet20",),
        attack_flips=120,
        attack_images=256,
    ),
}
