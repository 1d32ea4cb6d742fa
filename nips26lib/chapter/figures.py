"""One figure style for the whole book, and figures as outputs that carry their alternative text."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: Colours of data, in the order of use. Told apart with any colour vision; 3:1 or more on white, on #121212,
#: and on the grounds of the site.
PALETTE = ("#0068b9", "#f95522", "#09a166", "#8e65ff", "#7f605e", "#b07ab7")

#: The colour of axes and text. The site swaps exactly this hex for the colour of its own text, so that a figure
#: follows the theme; nothing else may be drawn in it.
INK = "#1b1d21"

_SHORTEST_ALT = 20
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LARGEST_SVG = 200_000  # bytes; a larger drawing is cheaper as a picture


def use_style() -> None:
    """Make the book's style matplotlib's default in this process."""
    import matplotlib

    matplotlib.rcParams.update(style())


def style() -> dict[str, object]:
    """The book's matplotlib settings: what matplotlib inks in black is in `INK`, the ground is transparent."""
    import matplotlib
    from cycler import cycler

    inked = {key: INK for key, value in matplotlib.rcParamsDefault.items() if value in ("black", "k")}
    return inked | {
        "axes.axisbelow": True,
        "axes.facecolor": "none",
        "axes.grid": True,
        "axes.prop_cycle": cycler(color=PALETTE),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "figure.constrained_layout.use": True,
        "figure.facecolor": "none",
        "figure.figsize": (6.4, 3.6),
        "font.size": 10,
        "grid.alpha": 0.15,
        "grid.color": INK,
        "legend.facecolor": "none",
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "savefig.facecolor": "auto",
        "svg.fonttype": "path",
    }


def figure_svg(fig: Figure, ids: str | None = None) -> str:
    """The figure as one SVG element: text as paths, no date, same bytes for the same picture.

    ``ids`` begins every id inside; by default it is a digest of the picture, so that a page can hold many.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    buffer = io.StringIO()
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "nips26"}):
        if isinstance(
            fig.get_layout_engine(), PlaceHolderLayoutEngine | None
        ):  # what savefig would draw twice, the first time only for the layout
            FigureCanvasSVG(fig).print_svg(buffer, metadata=metadata)
        else:
            fig.savefig(buffer, format="svg", metadata=metadata)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    # A style sheet inside an SVG that is part of a page would hold for the whole page.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = svg.replace("<svg", '<svg style="stroke-linejoin:round;stroke-linecap:butt"', 1)
    svg = re.sub(r"<g id=\"[^\"]*\"", "<g", svg)
    # A hundredth of a point is below what a screen shows, and a third of the bytes.
    svg = re.sub(r"(?<=\s)(d|x|y|points)=\"[^\"]*\"", lambda found: _rounded(found[0]), svg)
    svg = re.sub(r">\s+<", "><", svg).strip()
    prefix = ids if ids is not None else "g" + hashlib.sha256(svg.encode()).hexdigest()[:8]
    names = {name: f"{prefix}-{number}" for number, name in enumerate(re.findall(r"(?<=\s)id=\"([^\"]*)\"", svg))}
    return re.sub(
        r"((?<=\sid=\")|(?<=href=\"#)|(?<=url\(#))([^\")]+)", lambda found: names.get(found[0], found[0]), svg
    )


def decades(*axes: Axis) -> None:
    """Label logarithmic axes at powers of ten, in plain text such as 10³, with no ticks between.

    Matplotlib's own labels are mathematics, whose typesetting takes most of the time that a small figure takes.

    >>> import matplotlib.figure
    >>> ax = matplotlib.figure.Figure().subplots()
    >>> ax.set(yscale="log", ylim=(0.05, 2000)) and decades(ax.yaxis)
    >>> [ax.yaxis.get_major_formatter()(value, 0) for value in (0.1, 1.0, 1000.0)]
    ['0.1', '1', '10³']
    """
    from matplotlib.ticker import FuncFormatter, NullLocator

    def power(value: float, _: object = None) -> str:
        exponent = round(math.log10(value))
        return f"{value:g}" if -2 <= exponent <= 1 else "10" + str(exponent).translate(_RAISED)

    for axis in axes:
        axis.set_major_formatter(FuncFormatter(power))
        axis.set_minor_locator(NullLocator())


def figure_png(fig: Figure, dpi: float | int = 144) -> bytes:
    """The figure as a PNG on white (a picture cannot follow the theme), same bytes for the same picture."""
    buffer = io.BytesIO()
    fig.savefig(
        buffer, format="png", dpi=dpi, facecolor="white", metadata={"Software": None}, pil_kwargs={"optimize": True}
    )
    return buffer.getvalue()


def show_figure(
    fig: Figure, alt: str, name: str | None = None, caption: str | None = None, raster: bool | None = None
) -> None:
    """Display the figure with its alternative text, and close it.

    ``alt`` says in words what the picture shows; ``name`` is how `chapters.yml` refers to it. SVG where that is small
    and PNG where not, unless ``raster`` says which. Raises ValueError for an ``alt`` too short to say anything.
    """
    import matplotlib.pyplot as plt
    from IPython.display import display

    alt = " ".join(alt.split())
    if len(alt) < _SHORTEST_ALT:
        raise ValueError(f"alt was {alt!r}; it must say what the figure shows, in {_SHORTEST_ALT} characters or more")
    if name is not None and not re.fullmatch(r"[a-z0-9]+([-_][a-z0-9]+)*", name):
        raise ValueError(f"name was {name!r}; it must be lower-case words or digits joined by '-' or '_'")
    kind, data = "svg+xml", b"" if raster else figure_svg(fig).encode()
    if raster or (raster is None and len(data) > _LARGEST_SVG):
        kind, data = "png", figure_png(fig)
    width, height = (round(96 * inches) for inches in fig.get_size_inches())
    picture = (
        f'<img alt="{html.escape(alt)}" width="{width}" height="{height}" '
        f'style="background:#fff;max-width:100%;height:auto" '
        f'src="data:image/{kind};base64,{base64.b64encode(data).decode()}"/>'
    )
    named = f' data-name="{name}"' if name else ""
    below = f"<figcaption>{html.escape(caption, quote=False)}</figcaption>" if caption else ""
    plt.close(fig)
    display(
        {
            "text/html": f'<figure class="nips26-figure"{named}>{picture}{below}</figure>',
            "text/plain": f"[figure] {alt}",
        },
        raw=True,
    )


def _rounded(attribute: str) -> str:
    def shorter(found: re.Match[str]) -> str:
        text = f"{float(found[0]):.2f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text

    return re.sub(r"-?\d+\.\d+(e-?\d+)?", shorter, " ".join(attribute.split())).replace(' "', '"')
