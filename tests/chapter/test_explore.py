"""Explorables: what they refuse, and that their frames are what `draw` draws."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from nips26lib.chapter import explore
from nips26lib.chapter.explore import Choice, Slider, explorable, frame, grid, output, places_for
from nips26lib.chapter.figures import INK, figure_svg, style
from nips26lib.chapter.player import inline_picture, pack, player_html, unpack

ALT = "A wave over time; its height grows with the amplitude."


def wave(amplitude: float, shape: str = "sine") -> Figure:
    figure, axes = plt.subplots(figsize=(4, 3))
    time = np.linspace(0, 1, 40)
    axes.plot(time, amplitude * (np.sin if shape == "sine" else np.cos)(6 * time))
    axes.set(xlabel="time [s]", ylabel="height [m]", ylim=(-3, 3))
    return figure


@pytest.fixture(autouse=True)
def book_style():
    """The book's style, for these tests only: in it, what the figure inks is in `INK`."""
    with plt.rc_context(style()):
        yield


@pytest.fixture
def controls() -> dict[str, Slider | Choice]:
    return {
        "amplitude": Slider((0.5, 1.0, 2.0), 1.0, "Amplitude", format="{:.1f} m"),
        "shape": Choice(("sine", "cosine"), "cosine", "Shape"),
    }


def payload(document: str) -> dict[str, object]:
    (data,) = re.findall(
        r"<script type=\"application/gzip\+base64\" class=\"nips26-frames\">([^<]+)</script>", document
    )
    return json.loads(gzip.decompress(base64.b64decode(data)))


def test_frames_are_exactly_what_draw_draws_at_every_point(controls):
    document = output(wave, controls, title="Wave", alt=ALT)["text/html"]
    _, frames = unpack(document)
    points = [(amplitude, shape) for amplitude in (0.5, 1.0, 2.0) for shape in ("sine", "cosine")]
    places = places_for(wave, controls)
    assert len(frames) == len(points)
    for (amplitude, shape), packed in zip(points, frames, strict=True):
        assert packed == frame(wave, {"amplitude": amplitude, "shape": shape}, places)
    assert len(set(frames)) == len(points)


def test_axes_stand_still_and_leave_room_for_the_longest_labels():
    def draw(power: int) -> Figure:
        figure, axes = plt.subplots()
        axes.plot([0, 10**power])
        axes.set_ylabel("y")
        drawn.append(figure)
        return figure

    drawn: list[Figure] = []
    with plt.rc_context(style() | {"axes.formatter.limits": (-9, 9)}):
        controls = {"power": Slider((0, 3, 8), 3, "Power")}
        ((boxes),) = places_for(draw, controls).values()
        (widest,) = (figure for figure in [draw(8)])
        widest.draw_without_rendering()
        box = widest.axes[0].get_position()
        assert boxes[0][0] == pytest.approx(box.x0)  # the labels of 10^8 are the widest
        drawn.clear()
        output(draw, controls, title="Power", alt=ALT)
        ends = {figure.axes[0].get_position().bounds for figure in drawn[3:]}
    assert len(ends) == 1
    assert next(iter(ends))[0] == pytest.approx(box.x0)
    plt.close("all")


def test_the_picture_without_scripts_is_the_default_frame(controls):
    document = output(wave, controls, title="Wave", alt=ALT)["text/html"]
    figure = re.search(r"<figure>.*?</figure>", document)[0]
    assert html.unescape(re.search(r'alt="([^"]*)"', figure)[1]) == ALT
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", figure)[1]).decode()
    assert picture == unpack(document)[1][3]  # 1.0 m and cosine: row 1, column 1 of 3 x 2


def test_the_player_says_what_each_control_is(controls):
    described = payload(output(wave, controls, title="Wave", alt=ALT)["text/html"])["controls"]
    assert described == [
        {"kind": "slider", "label": "Amplitude", "texts": ["0.5 m", "1.0 m", "2.0 m"], "start": 1},
        {"kind": "choice", "label": "Shape", "texts": ["sine", "cosine"], "start": 1},
    ]


def test_the_player_names_no_other_origin(controls):
    document = output(wave, controls, title="Wave", alt=ALT)["text/html"]
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", document)[1]).decode()
    assert not re.search(r"(src|href)=\"(?!data:|#)|@import|url\((?!#)|https?://(?!www\.w3\.org/)", document + picture)


def test_equal_frames_and_equal_pieces_are_packed_once():
    first, second = '<svg width="72pt" height="72pt"><g/>a</svg>', '<svg width="72pt" height="72pt"><g/>b</svg>'
    slider = {"kind": "slider", "label": "n", "texts": ["1", "2", "3"], "start": 0}
    data = json.loads(gzip.decompress(base64.b64decode(pack([first, second, first], [slider], ALT))))
    assert data["points"] == [0, 1, 0]
    assert data["pieces"] == ['<svg width="72pt" height="72pt">', "<g/>", "a</svg>", "b</svg>"]
    assert data["frames"] == [[0, 3], [0, 2, 3, 1]]


def test_the_same_frames_make_the_same_bytes(controls):
    assert output(wave, controls, title="Wave", alt=ALT) == output(wave, controls, title="Wave", alt=ALT)


def test_title_alt_and_caption_are_text_not_markup(controls):
    document = output(
        lambda amplitude: wave(amplitude),
        {"amplitude": controls["amplitude"]},
        title="a < b & </script>",
        alt='The "wave" where x < y & <b>no</b>.',
        caption="k < 3 </div>",
    )["text/html"]
    assert "a &lt; b &amp; &lt;/script&gt;" in document
    assert "k &lt; 3 &lt;/div&gt;" in document
    assert 'alt="The &quot;wave&quot; where x &lt; y &amp; &lt;b&gt;no&lt;/b&gt;."' in document


def test_figures_are_closed(controls):
    plt.close("all")
    output(wave, controls, title="Wave", alt=ALT)
    assert plt.get_fignums() == []


def test_the_output_has_html_and_text_and_no_widget_without_a_kernel(controls):
    bundle = output(wave, controls, title="Wave", alt=ALT)
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/plain"] == f"[explorable] Wave: {ALT}"


@pytest.fixture
def kernel(monkeypatch):
    """As if a kernel were there: ipywidgets then makes widgets that talk to nobody."""
    monkeypatch.delenv("NIPS26_STATIC", raising=False)
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: type("Shell", (), {"kernel": None})())


def live_widget(draw, controls):
    return explore._live(draw, controls, "Wave", ALT, None)


def test_with_a_kernel_one_output_holds_widget_and_player(controls, kernel):
    bundle = output(wave, controls, title="Wave", alt=ALT)
    assert set(bundle) == {"text/html", "text/plain", "application/vnd.jupyter.widget-view+json"}
    assert len(unpack(bundle["text/html"])[1]) == 6
    assert bundle["text/plain"] == f"[explorable] Wave: {ALT}"


def test_static_leaves_the_widget_out_even_with_a_kernel(controls, kernel, monkeypatch):
    monkeypatch.setenv("NIPS26_STATIC", "1")
    assert set(output(wave, controls, title="Wave", alt=ALT)) == {"text/html", "text/plain"}


def widgets_of(box):
    for child in getattr(box, "children", ()):
        yield child
        yield from widgets_of(child)


def test_the_live_half_computes_for_values_off_the_grid():
    slider = Slider((0.5, 1.0), 0.5, "Amplitude", format="{:.2f} m", live_range=(0.1, 1.0, 0.1))
    seen = []

    def draw(amplitude):
        seen.append(amplitude)
        return wave(amplitude)

    box = live_widget(draw, {"amplitude": slider})
    control = next(widget for widget in widgets_of(box) if type(widget).__name__ == "FloatSlider")
    (picture,) = (widget for widget in widgets_of(box) if "<svg" in str(getattr(widget, "value", "")))
    control.value = 0.1 + 0.2
    assert seen == [0.5, 0.3]  # not 0.30000000000000004
    figure = wave(0.3)
    svg = figure_svg(figure, ids="f")
    plt.close(figure)
    assert picture.value == inline_picture(svg, f"live-{picture.model_id}-", f"{ALT} (Amplitude: 0.30 m)")
    assert INK in svg and INK not in picture.value
    assert picture.value.count("currentColor") == svg.count(INK)
    assert any(getattr(widget, "value", None) == "0.30 m" for widget in widgets_of(box))


@pytest.mark.parametrize(
    ("control", "kind"),
    [
        (Slider((1, 2), 1, "n"), "SelectionSlider"),
        (Slider((1, 2), 1, "n", live_range=(1, 9, 1)), "IntSlider"),
        (Slider((1.0, 2.0), 1.0, "x", live_range=(1, 9, 1)), "FloatSlider"),
        (Choice(("a", "b"), "b", "c"), "Dropdown"),
    ],
)
def test_each_control_gets_its_widget_at_its_default(control, kind):
    widget, _ = explore._widget(control)
    assert type(widget).__name__ == kind
    assert widget.value == control.default
    assert widget.description == control.label


def test_an_error_in_draw_is_told_and_the_next_value_draws_again():
    def draw(amplitude):
        if amplitude == 2:
            raise ZeroDivisionError("no <wave> at 2")
        return wave(amplitude)

    box = live_widget(draw, {"amplitude": Slider((1, 2, 3), 1, "Amplitude")})
    control = next(widget for widget in widgets_of(box) if hasattr(widget, "options"))
    (picture,) = (widget for widget in widgets_of(box) if "<svg" in str(getattr(widget, "value", "")))
    control.value = 2
    assert picture.value == ('<p role="alert">No figure for Amplitude: 2. ZeroDivisionError: no &lt;wave&gt; at 2</p>')
    control.value = 3
    assert picture.value.count("<svg") == 1


def test_an_error_on_the_grid_names_the_values():
    def draw(amplitude):
        return wave(1 / amplitude)

    with pytest.raises(ZeroDivisionError) as caught:
        output(draw, {"amplitude": Slider((0, 1), 1, "Amplitude")}, title="Wave", alt=ALT)
    assert "explorable 'Wave' was drawing {'amplitude': 0}" in caught.value.__notes__


@pytest.mark.parametrize(("wrong", "kind"), [([1], "list"), ("a wave", "str"), (None, "NoneType")])
def test_draw_must_return_a_picture(wrong, kind):
    with pytest.raises(
        TypeError, match=f"draw returned {kind}; it must return a matplotlib Figure or the text of an SVG"
    ):
        output(lambda n: wrong, {"n": Slider((0, 1), 1, "n")}, title="Wave", alt=ALT)


def test_draw_may_write_its_svg_itself():
    def draw(n):
        return f'<svg width="72pt" height="36pt" viewBox="0 0 72 36"><circle cx="{n}" cy="9" r="3" fill="{INK}"/></svg>'

    document = output(draw, {"n": Slider((1, 2), 1, "n")}, title="Dot", alt=ALT)["text/html"]
    assert unpack(document)[1] == [draw(1), draw(2)]


def test_explorable_displays_its_output(controls, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append((data, raw)))
    assert explorable(wave, controls, title="Wave", alt=ALT) is None
    assert shown == [(output(wave, controls, title="Wave", alt=ALT), True)]


def test_the_grid_runs_over_every_combination_last_control_fastest(controls):
    assert [tuple(values.values()) for values in grid(controls)] == [
        (0.5, "sine"), (0.5, "cosine"), (1.0, "sine"), (1.0, "cosine"), (2.0, "sine"), (2.0, "cosine"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Slider((1, 2), 3, "n"), r"Slider 'n': default was 3; it must be one of 1, 2"),
        (lambda: Slider((1,), 1, "n"), r"values were \(1,\); there must be two or more, rising strictly"),
        (lambda: Slider((1, 3, 2), 1, "n"), "rising strictly"),
        (lambda: Slider((1, 1), 1, "n"), "rising strictly"),
        (lambda: Slider((1, float("nan")), 1, "n"), "all must be finite"),
        (lambda: Slider((1, float("inf")), 1, "n"), "all must be finite"),
        (lambda: Slider((False, True), True, "n"), "all must be numbers"),
        (lambda: Slider((0.01, 0.012), 0.01, "n", format="{:.2f}"), "each value must read differently"),
        (lambda: Slider((1, 2), 1, "n", live_range=(2, 5, 1)), r"low <= 1 \(the default\) <= high"),
        (lambda: Slider((1, 2), 1, "n", live_range=(1, 5, 0)), "0 < step < high - low"),
        (lambda: Slider((1, 2), 1, "n", live_range=(1, float("inf"), 1)), "live_range was"),
        (lambda: Choice(("a", "b"), "c", "w"), r"Choice 'w': default was 'c'; it must be one of 'a', 'b'"),
        (lambda: Choice(("a",), "a", "w"), "two or more and differ"),
        (lambda: Choice(("a", "a"), "a", "w"), "two or more and differ"),
        (lambda: Choice("ab", "a", "w"), "a sequence of words"),
    ],
)
def test_controls_refuse_what_cannot_be_shown(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def never(**_):
    raise AssertionError("nothing may be drawn before the arguments are known to be right")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"controls": {}}, "controls held 0; there must be 1 to 3"),
        ({"controls": {name: Slider((1, 2), 1, name) for name in "abcd"}}, "controls held 4; there must be 1 to 3"),
        (
            {"controls": {"n": Slider(tuple(range(201)), 0, "n")}},
            "controls span 201 points; they must span 200 at most",
        ),
        ({"alt": "A wave."}, "alt was 'A wave.'; it must say what the figure shows, in 20 characters or more"),
        ({"alt": "A wave." + " " * 20}, "alt was 'A wave.'"),
        ({"title": " "}, "title was empty"),
    ],
)
def test_explorables_refuse_before_they_draw(change, message):
    arguments = {"controls": {"n": Slider((1, 2), 1, "n")}, "title": "Wave", "alt": ALT} | change
    with pytest.raises(ValueError, match=re.escape(message)):
        output(never, arguments.pop("controls"), **arguments)


def test_controls_must_be_parameters_of_draw(controls):
    with pytest.raises(ValueError, match=r"controls were amplitude, shape; they must fit draw\(amplitude\)"):
        output(lambda amplitude: never(), controls, title="Wave", alt=ALT)
    with pytest.raises(ValueError, match=r"they must fit draw\(amplitude, shape, phase\): missing .*'phase'"):
        output(lambda amplitude, shape, phase: never(), controls, title="Wave", alt=ALT)


def test_a_player_above_600_kb_is_refused_with_its_size_and_a_remedy():
    noise = np.random.default_rng(0).bytes(800_000).hex()  # cannot be packed below 800 KB
    frames = [f'<svg width="72pt" height="72pt">{piece}</svg>' for piece in (noise[:800], noise[800:])]
    slider = {"kind": "slider", "label": "n", "texts": ["1", "2"], "start": 0}
    with pytest.raises(
        ValueError, match=r"'Big' takes \d{4} KB of a page and must take 600 at most: give its controls "
    ):
        player_html(frames, [slider], title="Big", alt=ALT)


def test_unpack_refuses_what_holds_no_player():
    with pytest.raises(ValueError, match="document holds no explorable"):
        unpack("<p>nothing</p>")


def test_a_notebook_saved_from_a_live_session_still_has_its_player(controls, kernel):
    """nbconvert (and so nbviewer) must show the player: it has no widget."""
    nbformat = pytest.importorskip("nbformat")
    from nbconvert import HTMLExporter

    bundle = output(wave, controls, title="Wave", alt=ALT)
    cell = nbformat.v4.new_code_cell("", outputs=[nbformat.v4.new_output("display_data", data=bundle)])
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    assert unpack(body) == unpack(bundle["text/html"])
    assert explore.asset("player.js") in body
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] not in body


def test_player_assets_are_part_of_the_package():
    folder = Path(explore.__file__).parent
    assert explore.asset("player.js") == (folder / "player.js").read_text().strip()
    assert "</script" not in explore.asset("player.js") and "</style" not in explore.asset("player.css")
