"""What the chapter's three explorables draw: one function of the slider values each."""

from __future__ import annotations

import html
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nips26lib.chapter.figures import INK, PALETTE

from .constraint import project
from .decoder import tile_steps
from .formats import grid_unit
from .memory import store
from .pictures import COLOURS, DASHES
from .study import CONTENDERS, Protected, Siege, Trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What can happen to the tile, in the order in which it gets harder.
STORIES = (
    "one flip", "two flips in one row", "two flips apart", "three flips", "ambiguous pair", "silent rectangle",
)  # fmt: skip


@lru_cache(maxsize=1)
def _patient() -> Tensor:
    """A clean 8 x 8 int8 tile that looks like trained weights."""
    weights = project(torch.randn(8, 8, generator=torch.Generator().manual_seed(5)), "tile", 8)
    from .rounding import round_zero_sum

    return round_zero_sum(weights * 24, "tile", 8)


def _flips(tile: Tensor, story: str, bit: int) -> list[tuple[int, int]]:
    """The cells of which the story flips that bit. Where directions matter, the first cells with the right bits."""
    if story == "one flip":
        return [(2, 5)]
    if story == "two flips in one row":
        return [(2, 1), (2, 6)]
    if story == "two flips apart":
        return [(1, 2), (5, 6)]
    if story == "three flips":
        return [(0, 3), (4, 1), (6, 6)]
    clear = (tile & 1 << bit) == 0
    for i, k in itertools.combinations(range(len(tile)), 2):
        for j, col in itertools.permutations(range(len(tile)), 2):
            if story == "silent rectangle" and clear[i, j] and clear[k, col] and not (clear[i, col] or clear[k, j]):
                return [(i, j), (i, col), (k, j), (k, col)]
            # A pair that rises while the mirrored corners look as if they had risen: the decoder must guess.
            if story == "ambiguous pair" and clear[i, j] and clear[k, col] and not (clear[i, col] or clear[k, j]):
                return [(i, j), (k, col)]
    raise ValueError(f"story was {story!r}; no cells of the tile have the bits that it needs at bit {bit}")


def _after_flips(tile: Tensor, cells: list[tuple[int, int]], bit: int) -> Tensor:
    hit = tile.clone()
    for i, j in cells:
        code = int(tile[i, j]) & 255 ^ 1 << bit
        hit[i, j] = code - 256 if code > 127 else code
    return hit


def doctor(story: str, bit: int, step: int) -> str:
    """An 8 x 8 tile before and after `step` moves of the decoder, once `story` has flipped bit `bit`; as SVG."""
    clean = _patient()
    cells = _flips(clean, story, bit)
    hit = _after_flips(clean, cells, bit)
    limit = int(clean.abs().max())
    moves = tile_steps(hit, hit.abs() > limit, limit, sigma=24.0)
    now, note = (hit, "no move yet") if step == 0 else moves[min(step, len(moves)) - 1][:2]
    marks = {(i, j): "wrong" for i, j in (now != clean).nonzero().tolist()}
    marks |= {(i, j): "fixed" for i, j in ((now == clean) & (hit != clean)).nonzero().tolist()}
    wrong = int((now != clean).sum())
    verdict = f"{wrong} wrong weight{'s' if wrong > 1 else ''}" if wrong else "all weights right"
    return _tiles_svg(
        [
            (
                f"After the fault\n{len(cells)} weight{'s' if len(cells) > 1 else ''} hit",
                hit,
                dict.fromkeys(cells, "hit"),
            ),
            (f"{note.split(':')[0].capitalize()}\n{verdict}", now, marks),
        ]
    )


def _tiles_svg(panels: Sequence[tuple[str, Tensor, Mapping[tuple[int, int], str]]], side: int = 26) -> str:
    """What `pictures.tiles` draws, written directly: a thousand times faster, for a grid of many frames."""
    colours = {"hit": PALETTE[1], "wrong": PALETTE[1], "fixed": PALETTE[2]}
    parts, width = [], 0.0
    for title, tile, marks in panels:
        rows, columns = tile.shape
        x0, y0 = width + 2, 40
        for line, words in enumerate(title.split("\n")):
            parts.append(
                f'<text x="{x0}" y="{14 + 17 * line}" font-size="12" text-anchor="start">{html.escape(words)}</text>'
            )
        for i in range(rows):
            for j in range(columns):
                mark = marks.get((i, j))
                fill = f'fill="{colours[mark]}" fill-opacity="0.28"' if mark else 'fill="none"'
                x, y = x0 + j * side, y0 + i * side
                parts.append(
                    f'<rect x="{x}" y="{y}" width="{side}" height="{side}" {fill} stroke="{INK}" stroke-opacity="0.3"/>'
                )
                weight = ' font-weight="700"' if mark else ""
                parts.append(f'<text x="{x + side / 2}" y="{y + side / 2 + 4}"{weight}>{int(tile[i, j])}</text>')
        sums: list[tuple[float, float, int]] = [
            (x0 + (columns + 0.75) * side, y0 + (i + 0.5) * side + 4, total)
            for i, total in enumerate(tile.sum(1).tolist())
        ]
        sums += [
            (x0 + (j + 0.5) * side, y0 + (rows + 0.6) * side + 4, total) for j, total in enumerate(tile.sum(0).tolist())
        ]
        for right, below, total in sums:
            if total:  # in the ink of the text: the palette's orange would be too faint for letters
                box = f'x="{right - side / 2 + 1}" y="{below - 14}" width="{side - 2}" height="20" rx="3"'
                parts.append(f'<rect {box} fill="{PALETTE[1]}" fill-opacity="0.28"/>')
            style = ' font-weight="700"' if total else ""
            parts.append(f'<text x="{right}" y="{below}"{style}>{f"{total:+d}" if total else 0}</text>')
        width += (columns + 2.2) * side
    height = 40 + (max(tile.shape[0] for _, tile, _ in panels) + 1.1) * side
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * 0.75:g}pt" height="{height * 0.75:g}pt" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="10" '
        f'text-anchor="middle" fill="{INK}">{"".join(parts)}</svg>'
    )


def dial(trained: Trained, net: str, draws: int = 2) -> Callable[..., Figure]:
    """The drawing function of the format dial, for one trained network of the run."""
    names = ("none", "guard", "SECDED", "rows", "tile")

    @cache
    def protected(name: str, fmt: str, coarser: int) -> Protected:
        seed = trained.seeds[0]
        one = trained.protect(net, CONTENDERS[name], fmt, seed)
        if not coarser or name not in ("rows", "tile") or fmt in ("int8", "int4"):
            return one
        memory = {}
        for key, stored in one.memory.items():
            weights = one.clean[key]
            unit = grid_unit(weights, fmt) * 2**coarser
            memory[key] = store(weights, fmt, stored.layout, stored.block, unit=unit)
        return replace(one, memory=memory)

    def draw(fmt: str, rate: float, coarser: int) -> Figure:
        import matplotlib.pyplot as plt

        fig, axes = plt.subplots(1, 2, figsize=(7.6, 2.7), sharey=True)
        for place, name in enumerate(reversed(names)):
            one = protected(name, fmt, coarser)
            outcomes = [one.outcome(one.faulty(rate, 7000 + draw)) for draw in range(draws)]
            error = sum(o.error for o in outcomes) / draws
            score = sum(o.accuracy for o in outcomes) / draws
            shown = min(max(error, 1e-6), 10.0)
            style = {"color": COLOURS[name], "alpha": 0.85}
            axes[0].barh(place, shown, left=0, **style)
            text = f"{error:.2g}" if error < 1e3 else "more than 1000"
            axes[0].text(max(shown, 1.2e-6) * 1.3, place, text, va="center", fontsize=9, color=INK)
            axes[1].barh(place, score, **style)
            axes[1].text(score + 0.02, place, f"{score:.3f}", va="center", fontsize=9, color=INK)
        axes[0].set(
            xscale="log", xlim=(1e-6, 3e3), xlabel="weight error |w' - w| / |w|", title=f"{fmt}, fault rate {rate:g}"
        )
        axes[0].set_yticks(range(len(names)), names[::-1])
        axes[1].set(xlim=(0, 1.2), xlabel="test accuracy", title="")
        axes[1].set_xticks([0, 0.25, 0.5, 0.75, 1])
        for ax in axes:
            ax.grid(False, axis="y")
        return fig

    return draw


def budget(sieges: Sequence[Siege], net: str) -> tuple[list[str], Callable[..., Figure]]:
    """The attacks that can be chosen, and the drawing function of the attacker's budget."""
    of: dict[str, Siege] = {}
    for siege in sieges:
        if siege.net == net:
            of.setdefault(siege.assault.name, siege)  # the first seed's
    left_out = ("clustering, blind", "in-place ECC, blind", "rows, pair", "SECDED, triple", "RADAR, blind")
    shown = [name for name in of if name not in left_out]

    def draw(attack: str, flips: int) -> Figure:
        import matplotlib.pyplot as plt

        siege = of[attack]
        fig, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.0), width_ratios=(5, 4))
        for name in shown:
            left.plot(of[name].flips, of[name].accuracy, color=INK, alpha=0.12, lw=1)
        name = siege.assault.contender
        left.plot(siege.flips, siege.accuracy, color=COLOURS[name], linestyle=DASHES.get(name, "-"))
        left.plot([flips], [siege.at(flips)], "o", color=COLOURS[name], ms=8)
        left.set(
            xlabel="flipped bits",
            ylabel="test accuracy",
            ylim=(0, 1.02),
            title=f"{attack}: {siege.at(flips):.3f} after {flips}",
        )
        hits = Counter(_plane(siege, flip.layer, flip.position) for flip in siege.attack.within(flips))
        labels = [*map(str, range(8)), "check"]
        right.yaxis.get_major_locator().set_params(integer=True)
        right.bar(labels, [hits[label] for label in labels], color=PALETTE[1], alpha=0.85)
        right.set(xlabel="bit (7 is the sign; check: a check bit)", ylabel="bits flipped", title="where it struck")
        right.set_ylim(0, max(4, max(hits.values(), default=0) * 1.15))
        right.grid(False, axis="x")
        return fig

    return shown, draw


def _plane(siege: Siege, layer: str, position: int) -> str:
    return str(position % 8) if position < siege.data_bits[layer] else "check"
