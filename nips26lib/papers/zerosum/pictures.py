"""The chapter's figures, drawn from the rows that `study` returns. Matplotlib is imported when a figure is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from nips26lib.chapter.figures import INK, PALETTE

from .study import Row, Siege

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: One colour a defence, through the whole chapter; what is only a reference is drawn in the ink of the text.
COLOURS = {
    "tile": PALETTE[0],
    "rows": PALETTE[2],
    "SECDED": PALETTE[1],
    "in-place ECC": PALETTE[3],
    "RADAR": PALETTE[4],
    "guard": PALETTE[5],
    "clamp": PALETTE[5],
    "clustering": PALETTE[4],
    "none": INK,
}
DASHES = {"clamp": "--", "clustering": ":", "none": ":"}


def tiles(panels: Sequence[tuple[str, Tensor, Mapping[tuple[int, int], str]]]) -> Figure:
    """Tiles of integers side by side, each with its row sums on the right and its column sums below.

    Args:
        panels: title, tile (rows, columns), and the cells to mark: (row, column) -> "hit", "wrong" or "fixed".
    """
    import matplotlib.pyplot as plt

    size = max(panel[1].shape[0] for panel in panels)
    scale = 0.42 if size > 5 else 0.62
    width = (size + 1.6) * scale
    fig, axes = plt.subplots(1, len(panels), figsize=(width * len(panels) + 0.4, width + 0.5), squeeze=False)
    for ax, (title, tile, marks) in zip(axes[0], panels, strict=True):
        _tile(ax, tile, marks, 8 if size > 5 else 11)
        ax.set_title(title)
    return fig


def _tile(ax: Axes, tile: Tensor, marks: Mapping[tuple[int, int], str], fontsize: int) -> None:
    from matplotlib.patches import Rectangle

    colours = {"hit": PALETTE[1], "wrong": PALETTE[1], "fixed": PALETTE[2]}
    rows, columns = tile.shape
    for i in range(rows):
        for j in range(columns):
            mark = marks.get((i, j))
            ax.add_patch(
                Rectangle((j, i), 1, 1, facecolor=colours[mark] if mark else "none", alpha=0.25 if mark else 1, lw=0)
            )
            ax.add_patch(Rectangle((j, i), 1, 1, facecolor="none", edgecolor=INK, alpha=0.25, lw=0.8))
            ax.text(j + 0.5, i + 0.5, f"{int(tile[i, j])}", ha="center", va="center", fontsize=fontsize,
                    fontweight="bold" if mark else "normal")  # fmt: skip
    for i, total in enumerate(tile.sum(1).tolist()):
        _sum(ax, columns + 0.7, i + 0.5, total, fontsize)
    for j, total in enumerate(tile.sum(0).tolist()):
        _sum(ax, j + 0.5, rows + 0.6, total, fontsize)
    ax.set(xlim=(-0.05, columns + 1.3), ylim=(rows + 1.1, -0.05), aspect="equal")
    ax.axis("off")


def _sum(ax: Axes, x: float, y: float, total: int, fontsize: int) -> None:
    style = {"color": PALETTE[1], "fontweight": "bold"} if total else {"color": INK, "alpha": 0.7}
    ax.text(x, y, f"{total:+d}" if total else "0", ha="center", va="center", fontsize=fontsize, **style)


def fault_curves(rows: Sequence[Row], net: str, names: Sequence[str]) -> Figure:
    """Weight error against fault rate, one panel a number format; mean over the seeds, and the tile code's range."""
    import matplotlib.pyplot as plt

    rows = [r for r in rows if r.net == net and r.threat == "random"]
    formats = list(dict.fromkeys(r.fmt for r in rows))
    columns = min(3, len(formats))
    height = -(-len(formats) // columns)
    fig, axes = plt.subplots(
        height, columns, figsize=(2.5 * columns + 1, 2.6 * height), sharex=True, sharey=True, squeeze=False
    )
    for ax, fmt in zip(axes.flat, formats, strict=False):
        present = [name for name in names if any(r.fmt == fmt and r.contender == name for r in rows)]
        for name in present:
            mine = [r for r in rows if r.fmt == fmt and r.contender == name]
            _curve(ax, name, [(r.level, max(r.error, 1e-5)) for r in mine])
        ax.set(xscale="log", yscale="log", ylim=(0.7e-5, 30), title=fmt)
    for ax in axes.flat[len(formats) :]:
        ax.axis("off")
    for ax in axes[:, 0]:
        ax.set_ylabel("weight error |w' - w| / |w|")
    for column in range(columns):
        lowest = max(row for row in range(height) if row * columns + column < len(formats))
        axes[lowest, column].set_xlabel("fault rate per bit")
        axes[lowest, column].xaxis.set_tick_params(labelbottom=True)
    _legend(fig, axes.flat[len(formats)] if len(formats) < axes.size else None, names, rows)
    return fig


def _curve(ax: Axes, name: str, points: Sequence[tuple[float, float]], **style: object) -> None:
    levels = sorted({level for level, _ in points})
    groups = [[value for at, value in points if at == level] for level in levels]
    colour = COLOURS[name]
    line = {"color": colour, "linestyle": DASHES.get(name, "-")} | style
    ax.plot(levels, [min(sum(g) / len(g), 1e3) for g in groups], label=name, **line)
    if len(groups[0]) > 1 and name == "tile":  # one band is legible, eight are not
        ax.fill_between(levels, [min(min(g), 1e3) for g in groups], [min(max(g), 1e3) for g in groups],
                        color=colour, alpha=0.15, lw=0)  # fmt: skip


def _legend(fig: Figure, ax: Axes | None, names: Sequence[str], rows: Sequence[Row]) -> None:
    from matplotlib.lines import Line2D

    shown = [name for name in names if any(r.contender == name for r in rows)]
    handles = [Line2D([], [], color=COLOURS[name], linestyle=DASHES.get(name, "-"), label=name) for name in shown]
    if ax is None:
        fig.legend(handles=handles, loc="outside lower center", ncols=min(4, len(shown)))
    else:
        ax.legend(handles=handles, loc="center", fontsize=10)


def cumulative_curves(rows: Sequence[Row], net: str, names: Sequence[str]) -> Figure:
    """Weight error after each round of faults and repair, one panel a number format."""
    import matplotlib.pyplot as plt

    rows = [r for r in rows if r.net == net and r.threat == "cumulative"]
    formats = list(dict.fromkeys(r.fmt for r in rows))
    fig, axes = plt.subplots(
        1, len(formats), figsize=(max(3.4 * len(formats) + 1.2, 6.4), 3.4), sharey=True, squeeze=False
    )
    for ax, fmt in zip(axes[0], formats, strict=True):
        for name in names:
            mine = [(r.level, max(r.error, 1e-4)) for r in rows if r.fmt == fmt and r.contender == name]
            if mine:
                _curve(ax, name, mine)
        ax.set(yscale="log", ylim=(0.7e-4, 30), title=fmt, xlabel="rounds of faults and repair")
    axes[0, 0].set_ylabel("weight error |w' - w| / |w|")
    _legend(fig, None, names, rows)
    return fig


def siege_curves(panels: Sequence[tuple[str, Sequence[tuple[str, str, Sequence[Siege]]]]]) -> Figure:
    """Test accuracy against flipped bits; mean over the seeds with the range as a band, labels at the curves' ends.

    Args:
        panels: title, and per curve: label, contender (for the colour), sieges of all seeds.
    """
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(panels), figsize=(4.1 * len(panels), 3.5), sharey=True, squeeze=False)
    for ax, (title, curves) in zip(axes[0], panels, strict=True):
        ends = []
        for label, contender, sieges in curves:
            scores = np.array([siege.accuracy for siege in sieges])
            flips = sieges[0].flips
            line = {"color": COLOURS[contender], "linestyle": DASHES.get(contender, "-")}
            ax.plot(flips, scores.mean(0), **line)
            if len(scores) > 1:
                ax.fill_between(flips, scores.min(0), scores.max(0), color=COLOURS[contender], alpha=0.09, lw=0)
            ends.append((float(scores[:, -1].mean()), label, COLOURS[contender]))
        ax.set(title=title, xlabel="flipped bits", ylim=(0, 1.02), xlim=(0, flips[-1] * 1.42))
        _end_labels(ax, flips[-1], ends)
        ax.set_xticks([tick for tick in range(0, flips[-1] + 1, max(4, flips[-1] // 4))])
    axes[0, 0].set_ylabel("test accuracy")
    return fig


def _end_labels(
    ax: Axes, x: float, ends: Sequence[tuple[float, str, str]], apart: float = 0.072, right: float = 1.03
) -> None:
    """Labels at the right ends of curves, moved apart where they would touch, and kept within the axes."""
    ordered = sorted(ends)
    places: list[float] = []
    for y, _, _ in ordered:
        places.append(max(y, places[-1] + apart) if places else y)
    ceiling = max(ax.get_ylim()[1] - apart / 2, 0.0)
    for rank in reversed(range(len(places))):
        places[rank] = min(places[rank], ceiling)
        ceiling = places[rank] - apart
    for (_, label, colour), height in zip(ordered, places, strict=True):
        ax.annotate(label, (x * right, height), color=colour, fontsize=9, va="center", annotation_clip=False)


def rank_map(cells: Mapping[tuple[str, str, str, float], Mapping[str, float]], names: Sequence[str]) -> Figure:
    """Rank of every defence (rows) in every cell (columns), 1 is best; cells are grouped by network and format."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap

    keys = sorted(
        cells, key=lambda key: (key[0], list(dict.fromkeys(k[1] for k in cells)).index(key[1]), key[2], key[3])
    )
    grid = np.array([[cells[key].get(name, math.nan) for key in keys] for name in names])
    fig, ax = plt.subplots(figsize=(8.2, 0.34 * len(names) + 1.7))
    shades = LinearSegmentedColormap.from_list("rank", [PALETTE[0], "#cfd8e3", PALETTE[1]])
    image = ax.imshow(grid, aspect="auto", cmap=shades, vmin=1, vmax=min(7, np.nanmax(grid)), interpolation="nearest")
    ax.set_yticks(range(len(names)), names)
    ax.grid(False)
    groups = [(key[0], key[1]) for key in keys]
    starts = [place for place, group in enumerate(groups) if place == 0 or groups[place - 1] != group]
    middles = [(start + end - 1) / 2 for start, end in zip(starts, [*starts[1:], len(keys)], strict=True)]
    ax.set_xticks(middles, [groups[start][1] for start in starts], rotation=45 if len(starts) > 6 else 0)
    for start in starts[1:]:
        ax.axvline(start - 0.5, color="white", lw=1 if groups[start][0] == groups[start - 1][0] else 4)
    nets = list(dict.fromkeys(key[0] for key in keys))
    for net in nets:
        places = [place for place, key in enumerate(keys) if key[0] == net]
        ax.text((places[0] + places[-1]) / 2, -0.75, net, ha="center", va="bottom", fontsize=10)
    fig.colorbar(image, ax=ax, label="mean rank (1 is best)", shrink=0.9)
    return fig


def harm_curves(rows: Sequence[Row], names: Sequence[str]) -> Figure:
    """Weight error over that of the range guard against the fault rate, one panel a format, labels where curves end."""
    import matplotlib.pyplot as plt

    formats = list(dict.fromkeys(r.fmt for r in rows))
    fig, axes = plt.subplots(1, len(formats), figsize=(4.1 * len(formats), 3.4), sharey=True, squeeze=False)
    for ax, fmt in zip(axes[0], formats, strict=True):
        levels = sorted({r.level for r in rows if r.fmt == fmt})
        ends = []
        for name in names:
            scores = [[r.error for r in rows if (r.fmt, r.contender, r.level) == (fmt, name, at)] for at in levels]
            if not scores[0]:
                continue
            means = np.array([sum(values) / len(values) for values in scores])
            ax.plot(levels, np.minimum(means, 9), color=COLOURS[name])
            if means[-1] <= 1.5:
                ends.append((float(means[-1]), name, COLOURS[name]))
            else:
                ax.annotate(f"{name} ↑", (levels[0], 1.42), fontsize=9, color=COLOURS[name], xytext=(4, 0),
                            textcoords="offset points", annotation_clip=False)  # fmt: skip
        ax.axhline(1, color=INK, lw=1)
        ax.set(xscale="log", xlabel="fault rate per bit", title=fmt, ylim=(0, 1.5), xlim=(levels[0], levels[-1] * 8))
        _end_labels(ax, levels[-1], ends, 0.1, 1.08)
    axes[0, 0].set_ylabel("weight error / that of a range guard")
    return fig
