"""The chapter's experiments: who is trained, who defends, what is done to the memory, and what is left afterwards.

Every function returns plain rows (frozen dataclasses), one a measurement, so that a notebook can tabulate them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from nips26lib.data.images import Split, cifar10, digits, mnist5k

from .attacks import LOSSES, Attack, bit_flip_attack, strike
from .decoder import popcount
from .defences import Defence, Guard, Nothing, Radar, ZeroSum
from .ecc import SECDED, InPlaceECC
from .formats import FORMATS
from .layers import convert, deploy, export, load, requantise
from .memory import Stored, flip_random
from .nets import digits_mlp, mnist_cnn, resnet20, vit_small, vit_tiny
from .presets import ZeroSumPreset
from .train import accuracy, train

Watch = Callable[[Iterable, str], Iterable]


def _unwatched(items: Iterable, description: str) -> Iterable:
    return items


@dataclass(frozen=True)
class Recipe:
    """A network, its data, and how it is trained: the same for every arm, tuned on seeds below 100."""

    make: Callable[[], nn.Module]
    data: Callable[[ZeroSumPreset], Split]
    lr: float
    tuning_lr: float
    batch: int
    augment: bool = False


NETS = {
    "digits-mlp": Recipe(digits_mlp, lambda settings: digits(), 8e-3, 1e-3, 64),
    "mnist-cnn": Recipe(mnist_cnn, lambda settings: mnist5k(), 8e-3, 1e-3, 128),
    "digits-vit": Recipe(vit_tiny, lambda settings: digits(), 4e-3, 5e-4, 64),
    "cifar10-resnet20": Recipe(resnet20, lambda settings: cifar10(settings.cifar_path), 1e-2, 1e-3, 256, augment=True),
    "cifar10-vit": Recipe(vit_small, lambda settings: cifar10(settings.cifar_path), 1e-3, 1e-4, 256, augment=True),
}

#: How the weights of an arm are laid out, and the weight of the clustering penalty in its training.
ARMS = {
    "plain": ("none", 0.0),
    "rows": ("rows", 0.0),
    "tile": ("tile", 0.0),
    "wot": ("wot", 0.0),
    "clustered": ("none", 1e-3),
}


@dataclass(frozen=True)
class Contender:
    """A defence, the arm whose weights it protects, and the number formats that it can protect."""

    name: str
    arm: str
    defence: Defence
    formats: tuple[str, ...] = tuple(name for name in FORMATS if name != "fp8")


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("none", "plain", Nothing()),
        Contender("guard", "plain", Guard("zero")),
        Contender("clamp", "plain", Guard("clamp")),
        Contender("clustering", "clustered", Nothing(), ("int8",)),
        Contender("RADAR", "plain", Radar(group=16), ("int8",)),
        Contender("SECDED", "plain", SECDED()),
        Contender("in-place ECC", "wot", InPlaceECC(), ("int8",)),
        Contender("rows", "rows", ZeroSum()),
        Contender("tile", "tile", ZeroSum()),
    )
}


def family(fmt: str) -> str:
    """The format in which the network was trained that is stored as `fmt`: all floats share one training."""
    return fmt if FORMATS[fmt].kind == "int" else "fp32"


@dataclass(frozen=True)
class Trained:
    """Every trained network of a run, by (net, arm, family of formats, seed), with the data of each net."""

    models: Mapping[tuple[str, str, str, int], nn.Module]
    data: Mapping[str, Split]
    seeds: tuple[int, ...]

    def protect(self, net: str, contender: Contender, fmt: str, seed: int) -> Protected:
        """The network of the contender's arm, its memory written by the contender's defence."""
        model = self.models[net, contender.arm, family(fmt), seed]
        plain = export(model, fmt)
        memory = {name: contender.defence.protect(stored) for name, stored in plain.items()}
        clean = {name: stored.values() for name, stored in plain.items()}
        return Protected(deploy(model, fmt).eval(), memory, contender.defence, clean, self.data[net])


@dataclass(frozen=True)
class Protected:
    """A plain network beside the memory that holds its weights, and the defence that reads that memory."""

    net: nn.Module
    memory: Mapping[str, Stored]
    defence: Defence
    clean: Mapping[str, Tensor]
    data: Split

    @cached_property
    def size(self) -> float:
        """The Euclidean norm of all clean weights together."""
        return math.sqrt(sum(float(w.double().square().sum()) for w in self.clean.values()))

    def faulty(self, ber: float, seed: int, memory: Mapping[str, Stored] | None = None) -> dict[str, Stored]:
        """The memory after random faults; for one seed every defence of the same weights meets the same data faults."""
        memory = self.memory if memory is None else memory
        return {name: flip_random(s, ber, seed=seed * 1009 + place) for place, (name, s) in enumerate(memory.items())}

    def outcome(self, memory: Mapping[str, Stored], with_accuracy: bool = True) -> Outcome:
        """What is left when the defence has read this memory."""
        read = {name: self.defence.recover(stored)[0] for name, stored in memory.items()}
        squares, wrong, count = 0.0, 0, 0
        for name, stored in read.items():
            difference = stored.values().double() - self.clean[name].double()
            squares += float(difference.square().sum())
            wrong += int((difference != 0).sum())  # NaN differs from 0, too
            count += difference.numel()
        error = math.sqrt(squares) / self.size if math.isfinite(squares) else math.inf
        score = math.nan
        if with_accuracy:
            load(self.net, read)
            score = accuracy(self.net, self.data.test_x, self.data.test_y)
        return Outcome(error, wrong / count, score)


@dataclass(frozen=True)
class Outcome:
    """`error` = |w' - w| / |w| over all weights (infinite where w' is), `wrong` share of weights, test `accuracy`."""

    error: float
    wrong: float
    accuracy: float


def train_all(
    settings: ZeroSumPreset, seeds: Sequence[int], device: torch.device, watch: Watch = _unwatched
) -> Trained:
    """Train every net in every arm: in float first, then fine-tuned in each integer format the preset asks for.

    All arms of a net take the same number of steps from the same initial draw at the same learning rates.
    """
    families = list(dict.fromkeys(family(fmt) for fmt in settings.formats))
    data = {net: NETS[net].data(settings).to(device) for net in settings.nets}
    models: dict[tuple[str, str, str, int], nn.Module] = {}
    jobs = [(net, arm, seed) for net in settings.nets for seed in seeds for arm in ("plain", "rows", "tile")]
    for net, arm, seed in watch(jobs, "training in float"):
        models[net, arm, "fp32", seed] = _train(settings, net, arm, seed, data[net], device)
    tuned = [(net, arm, fmt, seed) for net, arm, seed in jobs for fmt in families if fmt != "fp32"]
    if "int8" in families:
        tuned += [(net, arm, "int8", seed) for net in settings.nets for seed in seeds for arm in ("wot", "clustered")]
    for net, arm, fmt, seed in watch(tuned, "fine-tuning in integers"):
        start = models[net, arm if arm in ("rows", "tile") else "plain", "fp32", seed]
        models[net, arm, fmt, seed] = _tune(settings, net, arm, fmt, seed, start, data[net])
    for model in models.values():
        model.eval()
    return Trained(models, data, tuple(seeds))


def _train(settings: ZeroSumPreset, net: str, arm: str, seed: int, data: Split, device: torch.device) -> nn.Module:
    recipe = NETS[net]
    torch.manual_seed(seed)
    block = settings.row_block if arm == "rows" else settings.block
    model = convert(recipe.make(), ARMS[arm][0], block, "fp32").to(device)
    return train(
        model, data, epochs=settings.epochs, lr=recipe.lr, batch=recipe.batch, seed=seed, augment=recipe.augment
    )


def _tune(settings: ZeroSumPreset, net: str, arm: str, fmt: str, seed: int, start: nn.Module, data: Split) -> nn.Module:
    recipe, (layout, penalty) = NETS[net], ARMS[arm]
    model = requantise(start, fmt, layout=layout)
    return train(
        model, data, epochs=settings.tuning_epochs, lr=recipe.tuning_lr, batch=recipe.batch, seed=seed + 1,
        penalty=penalty, augment=recipe.augment,
    )  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One measurement: who defended what, against which threat of which level, and what was left."""

    net: str
    fmt: str
    seed: int
    contender: str
    threat: str
    level: float
    error: float
    wrong: float
    accuracy: float


def line_up(fmt: str) -> list[Contender]:
    """The contenders that can protect weights of this format."""
    return [contender for contender in CONTENDERS.values() if fmt in contender.formats]


def stored_bytes(trained: Trained, settings: ZeroSumPreset, name: str) -> int:
    """The bytes that the contender's memory takes, summed over the preset's nets and formats."""
    contender, seed = CONTENDERS[name], trained.seeds[0]
    return sum(
        stored.nbytes
        for net in settings.nets for fmt in settings.formats
        for stored in trained.protect(net, contender, fmt, seed).memory.values()
    )  # fmt: skip


def clean_rows(trained: Trained, settings: ZeroSumPreset, watch: Watch = _unwatched) -> list[Row]:
    """Test accuracy of every contender's network without any fault."""
    rows = []
    for net, fmt, seed, contender in watch(_cells(trained, settings, settings.formats), "clean accuracy"):
        protected = trained.protect(net, contender, fmt, seed)
        rows.append(_row(net, fmt, seed, contender, "clean", 0.0, protected.outcome(protected.memory)))
    return rows


def random_faults(trained: Trained, settings: ZeroSumPreset, watch: Watch = _unwatched) -> list[Row]:
    """Random faults at each of the preset's rates, `draws` times; the mean outcome is a row.

    The error is averaged over the draws as it is (an infinite one makes the mean infinite).
    """
    rows = []
    for net, fmt, seed, contender in watch(_cells(trained, settings, settings.formats), "random faults"):
        protected = trained.protect(net, contender, fmt, seed)
        for level, rate in enumerate(settings.rates):
            draws = range(settings.draws)
            outcomes = [protected.outcome(protected.faulty(rate, (seed * 100 + level) * 100 + draw)) for draw in draws]
            rows.append(_row(net, fmt, seed, contender, "random", rate, _mean(outcomes)))
    return rows


def cumulative_faults(
    trained: Trained, settings: ZeroSumPreset, formats: Sequence[str], watch: Watch = _unwatched
) -> list[Row]:
    """Rounds of random faults; after each the defence scrubs the memory, and the next round strikes what it left.

    `level` of a row counts the rounds. Accuracy is measured after the last round only (NaN before).
    """
    rows = []
    for net, fmt, seed, contender in watch(_cells(trained, settings, formats), "cumulative faults"):
        protected = trained.protect(net, contender, fmt, seed)
        memory = dict(protected.memory)
        for number in range(1, settings.rounds + 1):
            struck = protected.faulty(settings.round_rate, seed * 1000 + number, memory)
            memory = {name: protected.defence.scrub(stored)[0] for name, stored in struck.items()}
            outcome = protected.outcome(memory, with_accuracy=number == settings.rounds)
            rows.append(_row(net, fmt, seed, contender, "cumulative", float(number), outcome))
    return rows


def _cells(trained: Trained, settings: ZeroSumPreset, formats: Sequence[str]) -> list[tuple[str, str, int, Contender]]:
    return [
        (net, fmt, seed, contender)
        for net in settings.nets for fmt in formats for seed in trained.seeds for contender in line_up(fmt)
    ]  # fmt: skip


def _row(net: str, fmt: str, seed: int, contender: Contender, threat: str, level: float, outcome: Outcome) -> Row:
    return Row(net, fmt, seed, contender.name, threat, level, outcome.error, outcome.wrong, outcome.accuracy)


def _mean(outcomes: Sequence[Outcome]) -> Outcome:
    count = len(outcomes)
    return Outcome(
        sum(one.error for one in outcomes) / count,
        sum(one.wrong for one in outcomes) / count,
        sum(one.accuracy for one in outcomes) / count,
    )


def dense_faults(
    trained: Trained, settings: ZeroSumPreset, net: str, formats: Sequence[str], rates: Sequence[float]
) -> list[Row]:
    """Weight error over that of the range guard, for rates up to what no decoder can bear."""
    rows = []
    for fmt in formats:
        for seed in trained.seeds:
            guard = _errors(trained.protect(net, CONTENDERS["guard"], fmt, seed), seed, rates, settings.draws)
            for contender in line_up(fmt):
                errors = _errors(trained.protect(net, contender, fmt, seed), seed, rates, settings.draws)
                for rate, error, reference in zip(rates, errors, guard, strict=True):
                    ratio = Outcome(error / reference, math.nan, math.nan)
                    rows.append(_row(net, fmt, seed, contender, "dense", rate, ratio))
    return rows


def _errors(protected: Protected, seed: int, rates: Sequence[float], draws: int) -> list[float]:
    def error(level: int, draw: int) -> float:
        struck = protected.faulty(rates[level], (seed * 100 + level) * 100 + 50 + draw)
        return protected.outcome(struck, with_accuracy=False).error

    return [sum(error(level, draw) for draw in range(draws)) / draws for level in range(len(rates))]


def formats_accepted(trained: Trained, settings: ZeroSumPreset, name: str) -> int:
    """In how many of the preset's number formats the contender agrees to protect the first network."""
    defence, seed, net = CONTENDERS[name].defence, trained.seeds[0], settings.nets[0]
    accepted = 0
    for fmt in settings.formats:
        # int8 weights that have been trained for it, and plain weights in every other format
        arm = CONTENDERS[name].arm if fmt in CONTENDERS[name].formats else "plain"
        try:
            for stored in export(trained.models[net, arm, family(fmt), seed], fmt).values():
                defence.protect(stored)
        except ValueError:
            continue
        accepted += 1
    return accepted


@dataclass(frozen=True)
class Assault:
    """An attack on a contender: which moves, and whether the attacker has the decoder in the loop."""

    contender: str
    moves: tuple[str, ...]
    adaptive: bool

    @property
    def name(self) -> str:
        """How figures and tables call it."""
        return f"{self.contender}, {'+'.join(self.moves) if self.adaptive else 'blind'}"


#: Blind attacks run on the weights as stored and ignore the defence; adaptive ones try every move through its decoder.
ASSAULTS = (
    Assault("none", ("single",), False),
    Assault("clustering", ("single",), False),
    Assault("RADAR", ("single",), False),
    Assault("RADAR", ("pair",), True),
    Assault("SECDED", ("single",), False),
    Assault("SECDED", ("double",), True),
    Assault("SECDED", ("checkbits",), True),
    Assault("SECDED", ("triple",), True),
    Assault("in-place ECC", ("single",), False),
    Assault("rows", ("single",), False),
    Assault("rows", ("pair",), True),
    Assault("rows", ("confuse",), True),
    Assault("tile", ("single",), False),
    Assault("tile", ("rect",), True),
    Assault("tile", ("ambiguous",), True),
)


@dataclass(frozen=True)
class Siege:
    """The course of one assault: test accuracy after each number of flips, and the attack itself."""

    net: str
    seed: int
    assault: Assault
    flips: tuple[int, ...]
    accuracy: tuple[float, ...]
    wrong: tuple[int, ...]
    attack: Attack = field(repr=False)
    data_bits: Mapping[str, int] = field(repr=False)

    def at(self, flips: int) -> float:
        """Accuracy when the attacker may flip that many bits (a move is made whole or not at all)."""
        return self.accuracy[max(place for place, count in enumerate(self.flips) if count <= flips)]

    def flips_to(self, level: float) -> tuple[float, bool]:
        """Flips until accuracy first falls to `level`, and whether it did; if not, the whole budget is returned."""
        for count, score in zip(self.flips, self.accuracy, strict=True):
            if score <= level:
                return float(count), True
        return float(self.flips[-1]), False


def besiege(
    trained: Trained,
    settings: ZeroSumPreset,
    assaults: Sequence[Assault] = ASSAULTS,
    fmt: str = "int8",
    step: int = 4,
    watch: Watch = _unwatched,
) -> list[Siege]:
    """Run every assault on every attacked net and seed, and replay it through the defence, `step` flips at a time.

    The attacker works on training images, once with each loss of `LOSSES`, and keeps the attack that leaves the
    *defended* network the worse on those images; accuracy is then that on the test images.
    """
    jobs = [(net, seed, a) for net in settings.attacked_nets for seed in trained.seeds for a in assaults]
    budget = range(0, settings.attack_flips + 1, step)
    blind: dict[tuple[str, int, str, str], Attack] = {}
    sieges = []
    for net, seed, assault in watch(jobs, "bit-flip attacks"):
        contender = CONTENDERS[assault.contender]
        protected = trained.protect(net, contender, fmt, seed)
        images = protected.data.train_x[: settings.attack_images]
        labels = protected.data.train_y[: settings.attack_images]
        attacks = []
        for name, loss in LOSSES.items():
            # Blind to the defence: one attack on an arm's weights serves every defence of that arm.
            key = (net, seed, contender.arm, name)
            if assault.adaptive or key not in blind:
                bare = export(trained.models[net, contender.arm, family(fmt), seed], fmt)
                memory, defence = (protected.memory, protected.defence) if assault.adaptive else (bare, None)
                attack = bit_flip_attack(
                    protected.net, memory, images, labels, settings.attack_flips, assault.moves, defence, loss=loss
                )
                if not assault.adaptive:
                    blind[key] = attack
            else:
                attack = blind[key]
            attacks.append(attack)
        seen = replace(protected, data=replace(protected.data, test_x=images, test_y=labels))
        left = [sum(seen.outcome(strike(seen.memory, a.within(n))).accuracy for n in budget) for a in attacks]
        sieges.append(_replay(net, seed, assault, protected, attacks[left.index(min(left))], budget))
    return sieges


def _replay(
    net: str, seed: int, assault: Assault, protected: Protected, attack: Attack, budget: Sequence[int]
) -> Siege:
    count = sum(w.numel() for w in protected.clean.values())
    scores, wrong = [], []
    for allowed in budget:
        outcome = protected.outcome(strike(protected.memory, attack.within(allowed)))
        scores.append(outcome.accuracy)
        wrong.append(round(outcome.wrong * count))
    data_bits = {name: stored.n_data_bits for name, stored in protected.memory.items()}
    return Siege(net, seed, assault, tuple(budget), tuple(scores), tuple(wrong), attack, data_bits)


def replayed(trained: Trained, siege: Siege, flips: int, fmt: str = "int8") -> tuple[Protected, dict[str, Stored]]:
    """The besieged network and what its defence reads after that many flips."""
    protected = trained.protect(siege.net, CONTENDERS[siege.assault.contender], fmt, siege.seed)
    struck = strike(protected.memory, siege.attack.within(flips))
    return protected, {name: protected.defence.recover(stored)[0] for name, stored in struck.items()}


def accuracy_after(trained: Trained, siege: Siege, flips: int) -> float:
    """Test accuracy after exactly the attack's moves that fit in that many flips."""
    protected, read = replayed(trained, siege, flips)
    load(protected.net, read)
    return accuracy(protected.net, protected.data.test_x, protected.data.test_y)


def wrong_data_bits(trained: Trained, siege: Siege, flips: int) -> int:
    """How many bits of the weights differ from the clean ones in what the defence reads after that many flips."""
    protected, read = replayed(trained, siege, flips)
    return sum(int(popcount(stored.codes ^ protected.memory[name].codes).sum()) for name, stored in read.items())


def ranks(rows: Sequence[Row]) -> dict[tuple[str, str, str, float], dict[str, float]]:
    """Per cell (net, format, threat, level) the rank of each contender: 1 is best, ties share the better rank.

    The mean of two ranks, by weight error and by accuracy lost against the contender's own clean network, both averaged
    over the seeds. Rows of threat "clean" give the reference.
    """
    clean = {(r.net, r.fmt, r.seed, r.contender): r.accuracy for r in rows if r.threat == "clean"}
    cells: dict[tuple[str, str, str, float], dict[str, list[tuple[float, float]]]] = {}
    for r in rows:
        if r.threat == "clean" or math.isnan(r.accuracy):
            continue
        lost = clean[r.net, r.fmt, r.seed, r.contender] - r.accuracy
        cell = cells.setdefault((r.net, r.fmt, r.threat, r.level), {})
        cell.setdefault(r.contender, []).append((r.error, lost))
    result = {}
    for key, cell in cells.items():
        means = {who: [sum(values) / len(values) for values in zip(*pairs, strict=True)] for who, pairs in cell.items()}
        result[key] = {
            who: sum(1 + sum(other[k] < mine[k] for other in means.values()) for k in (0, 1)) / 2
            for who, mine in means.items()
        }
    return result
