"""Explorables: one call in a chapter, alive with a kernel, and still a working figure in a page without one."""

from __future__ import annotations

import html
import inspect
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nips26lib.chapter.figures import figure_svg
from nips26lib.chapter.player import asset, inline_picture, player_html

if TYPE_CHECKING:
    import ipywidgets
    from matplotlib.figure import Figure

_MOST_FRAMES = 200
_MOST_CONTROLS = 3
_SHORTEST_ALT = 20
_IDS = "f"  # every frame's ids begin alike, so that frames share their text and pack well


@dataclass(frozen=True)
class Slider:
    """A number to move: over ``values`` in a page; with a kernel over ``live_range`` (low, high, step) if given.

    ``values`` rise strictly; ``default`` is one of them; ``format`` writes a value for the reader, unit included.
    Raises ValueError for values that do not rise or read alike, a default not among them or outside ``live_range``.

    >>> Slider((0.1, 0.2, 0.4), 0.2, "Noise", format="{:.0%}").texts
    ('10%', '20%', '40%')
    """

    values: Sequence[float | int]
    default: float | int
    label: str
    format: str = "{:g}"
    live_range: tuple[float | int, float | int, float | int] | None = None

    def __post_init__(self) -> None:
        values = tuple(value.item() if hasattr(value, "item") else value for value in self.values)
        object.__setattr__(self, "values", values)
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            raise ValueError(f"Slider {self.label!r}: values were {values}; all must be numbers")
        if not all(math.isfinite(value) for value in values):
            raise ValueError(f"Slider {self.label!r}: values were {values}; all must be finite")
        if len(values) < 2 or any(left >= right for left, right in itertools.pairwise(values)):
            raise ValueError(f"Slider {self.label!r}: values were {values}; there must be two or more, rising strictly")
        _check_default(self)
        if len(set(self.texts)) < len(values):
            raise ValueError(
                f"Slider {self.label!r}: format {self.format!r} writes its values as {', '.join(self.texts)}; "
                "each value must read differently"
            )
        if self.live_range is not None:
            low, high, step = self.live_range
            if not (all(map(math.isfinite, self.live_range)) and low <= self.default <= high and 0 < step < high - low):
                raise ValueError(
                    f"Slider {self.label!r}: live_range was {self.live_range}; it must be (low, high, step) with "
                    f"low <= {self.default:g} (the default) <= high and 0 < step < high - low"
                )

    @property
    def texts(self) -> tuple[str, ...]:
        """Each value as the reader sees it."""
        return tuple(self.format.format(value) for value in self.values)


@dataclass(frozen=True)
class Choice:
    """A word to pick out of ``values``. Raises ValueError for fewer than two, doubles, or a default not among them."""

    values: Sequence[str]
    default: str
    label: str

    def __post_init__(self) -> None:
        if isinstance(self.values, str):
            raise ValueError(f"Choice {self.label!r}: values was {self.values!r}; it must be a sequence of words")
        object.__setattr__(self, "values", tuple(self.values))
        if len(self.values) < 2 or len(set(self.values)) < len(self.values):
            raise ValueError(f"Choice {self.label!r}: values were {self.values}; they must be two or more and differ")
        _check_default(self)

    @property
    def texts(self) -> tuple[str, ...]:
        """Each value as the reader sees it."""
        return tuple(self.values)


Control = Slider | Choice


def explorable(
    draw: Callable[..., Figure | str],
    controls: Mapping[str, Control],
    *,
    title: str,
    alt: str,
    caption: str | None = None,
) -> None:
    """Display a figure that the reader can change.

    ``draw(**values)`` returns a matplotlib figure (or the text of an SVG element, sized in points); ``controls`` names
    one to three of its parameters. All points of their grid (200 at most) are drawn at once and go into the output,
    where they work with no kernel and no network. In a live notebook the same output computes anew for each value. The
    environment variable NIPS26_STATIC=1 leaves the live half out. Raises ValueError for controls that do not fit
    ``draw``, an ``alt`` shorter than 20 characters, or an output above 600 KB.
    """
    from IPython.display import display

    display(output(draw, controls, title=title, alt=alt, caption=caption), raw=True)


def output(
    draw: Callable[..., Figure | str],
    controls: Mapping[str, Control],
    *,
    title: str,
    alt: str,
    caption: str | None = None,
) -> dict[str, Any]:
    """What `explorable` displays: its data by media type.

    With a live front end this holds a widget too: a reader's front end shows that while the kernel lives, and whatever
    shows the saved notebook falls back on the HTML.
    """
    title, alt = " ".join(title.split()), " ".join(alt.split())
    _check(draw, controls, title, alt)
    frames = []
    places = places_for(draw, controls)
    for values in grid(controls):
        try:
            frames.append(frame(draw, values, places))
        except Exception as error:
            error.add_note(f"explorable {title!r} was drawing {values}")
            raise
    described = [
        {
            "kind": "slider" if isinstance(control, Slider) else "choice",
            "label": control.label,
            "texts": list(control.texts),
            "start": list(control.values).index(control.default),
        }
        for control in controls.values()
    ]
    bundle: dict[str, Any] = {
        "text/html": player_html(frames, described, title=title, alt=alt, caption=caption),
        "text/plain": f"[explorable] {title}: {alt}",
    }
    if _front_end_is_live():
        widget = _live(draw, controls, title, alt, caption)
        bundle = (widget._repr_mimebundle_() or {}) | bundle
    return bundle


def grid(controls: Mapping[str, Control]) -> Iterator[dict[str, Any]]:
    """The values at each point of the controls' grid, the last control running fastest.

    >>> list(grid({"bits": Slider((4, 8), 8, "Bits"), "code": Choice(("ECC", "tile"), "ECC", "Code")}))[1]
    {'bits': 4, 'code': 'tile'}
    """
    for point in itertools.product(*(control.values for control in controls.values())):
        yield dict(zip(controls, point, strict=True))


#: Where the axes of a figure lie, by its size in inches and the number of its axes.
Places = dict[tuple[float, float, int], list[tuple[float, float, float, float]]]


def frame(draw: Callable[..., Figure | str], values: Mapping[str, Any], places: Places | None = None) -> str:
    """One frame: the SVG of ``draw(**values)``, the figure closed; its axes lie where ``places`` says, if it does.

    Raises TypeError when ``draw`` returns no picture.
    """
    drawn = draw(**values)
    if isinstance(drawn, str) and drawn.startswith("<svg "):
        return drawn
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    if not isinstance(drawn, Figure):
        raise TypeError(
            f"draw returned {type(drawn).__name__}; it must return a matplotlib Figure or the text of an SVG"
        )
    try:
        boxes = (places or {}).get(_kind(drawn))
        if boxes is not None:
            drawn.set_layout_engine("none")
            for axes, (left, bottom, right, top) in zip(drawn.axes, boxes, strict=True):
                axes.set_position((left, bottom, right - left, top - bottom))
        return figure_svg(drawn, ids=_IDS)
    finally:
        plt.close(drawn)


def places_for(draw: Callable[..., Figure | str], controls: Mapping[str, Control]) -> Places:
    """Room enough for the labels of the default frame and of the first and the last.

    With one place for all frames the axes stand still while the reader moves a slider, and to lay out every frame
    takes most of the time that a grid takes.
    """
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    points = list(grid(controls))
    places: Places = {}
    samples = [points[0], {name: control.default for name, control in controls.items()}, points[-1]]
    for values in (sample for number, sample in enumerate(samples) if sample not in samples[:number]):
        try:
            drawn = draw(**values)
        except Exception:  # the frame itself will say what it was drawing
            return {}
        if not isinstance(drawn, Figure):
            return {}
        if drawn.get_layout_engine() is not None:
            drawn.draw_without_rendering()
            boxes = [axes.get_position() for axes in drawn.axes]
            before = places.get(_kind(drawn), [(0.0, 0.0, 1.0, 1.0)] * len(boxes))
            places[_kind(drawn)] = [
                (max(x0, box.x0), max(y0, box.y0), min(x1, box.x1), min(y1, box.y1))
                for (x0, y0, x1, y1), box in zip(before, boxes, strict=True)
            ]
        plt.close(drawn)
    return places


def _kind(figure: Figure) -> tuple[float, float, int]:
    width, height = figure.get_size_inches()
    return float(width), float(height), len(figure.axes)


def _check_default(control: Control) -> None:
    if control.default not in control.values:
        listed = ", ".join(repr(value) for value in control.values)
        raise ValueError(
            f"{type(control).__name__} {control.label!r}: default was {control.default!r}; it must be one of {listed}"
        )


def _check(draw: Callable[..., Figure | str], controls: Mapping[str, Control], title: str, alt: str) -> None:
    if not 1 <= len(controls) <= _MOST_CONTROLS:
        raise ValueError(f"controls held {len(controls)}; there must be 1 to {_MOST_CONTROLS}")
    points = math.prod(len(control.values) for control in controls.values())
    if points > _MOST_FRAMES:
        raise ValueError(f"controls span {points} points; they must span {_MOST_FRAMES} at most, so take fewer values")
    if not title:
        raise ValueError("title was empty; it must say what the reader can explore")
    if len(alt) < _SHORTEST_ALT:
        raise ValueError(f"alt was {alt!r}; it must say what the figure shows, in {_SHORTEST_ALT} characters or more")
    parameters = inspect.signature(draw).parameters
    try:
        inspect.signature(draw).bind(**controls)
    except TypeError as error:
        raise ValueError(
            f"controls were {', '.join(controls)}; they must fit draw({', '.join(parameters)}): {error}"
        ) from None


def _front_end_is_live() -> bool:
    from IPython.core.getipython import get_ipython

    return os.environ.get("NIPS26_STATIC") != "1" and hasattr(get_ipython(), "kernel")


def _live(
    draw: Callable[..., Figure | str], controls: Mapping[str, Control], title: str, alt: str, caption: str | None
) -> ipywidgets.Widget:
    """The widgets that draw anew for each value.

    A widget's front end sends one change at a time and, while the kernel draws, keeps only the latest; so a drag of the
    slider queues nothing stale.
    """
    import ipywidgets

    picture = ipywidgets.HTML()
    inputs: dict[str, Any] = {}
    rows = []
    for name, control in controls.items():
        inputs[name], shown = _widget(control)
        rows.append(shown)

    def redraw(_: object = None) -> None:
        values = {name: _value(controls[name], inputs[name].value) for name in controls}
        told = ", ".join(f"{controls[name].label}: {_text(controls[name], value)}" for name, value in values.items())
        try:
            picture.value = inline_picture(frame(draw, values), f"live-{picture.model_id}-", f"{alt} ({told})")
        except Exception as error:  # a value that the chapter did not foresee must not end the exploration
            message = f"No figure for {told}. {type(error).__name__}: {error}"
            picture.value = f'<p role="alert">{html.escape(message, quote=False)}</p>'

    for widget in inputs.values():
        widget.observe(redraw, "value")
    redraw()
    heading = ipywidgets.HTML(
        f'<style>{asset("player.css")}</style><p class="nips26-title">{html.escape(title, quote=False)}</p>'
    )
    below = [ipywidgets.HTML(html.escape(caption, quote=False))] if caption else []
    return ipywidgets.VBox([heading, *rows, picture, *below]).add_class("nips26-live")


def _widget(control: Control) -> tuple[Any, Any]:
    """The live widget of a control, and the row that shows it with its label and its value."""
    import ipywidgets

    look: dict[str, Any] = {
        "description": control.label,
        "style": {"description_width": "initial"},
        "layout": ipywidgets.Layout(width="32em", max_width="98%"),
    }
    if isinstance(control, Choice):
        choice = ipywidgets.Dropdown(options=control.values, value=control.default, **look)
        return choice, choice
    if control.live_range is None:
        options = list(zip(control.texts, control.values, strict=True))
        slider = ipywidgets.SelectionSlider(options=options, value=control.default, **look)
        return slider, slider
    low, high, step = control.live_range
    whole = all(isinstance(number, int) for number in (low, high, step, *control.values))
    kind = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
    slider = kind(value=control.default, min=low, max=high, step=step, readout=False, **look)
    readout = ipywidgets.Label(_text(control, control.default))
    slider.observe(lambda change: setattr(readout, "value", _text(control, _value(control, change["new"]))), "value")
    return slider, ipywidgets.HBox([slider, readout], layout=ipywidgets.Layout(flex_flow="row wrap"))


def _value(control: Control, value: Any) -> Any:
    """A widget's value without the rounding errors of a slider's steps: 0.3, not 0.30000000000000004."""
    return float(f"{value:.12g}") if isinstance(value, float) and value not in control.values else value


def _text(control: Control, value: Any) -> str:
    return control.format.format(value) if isinstance(control, Slider) else str(value)
