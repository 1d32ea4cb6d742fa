from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from nips26lib.chapter import figures
from nips26lib.chapter.figures import INK, PALETTE, figure_png, figure_svg, show_figure, style

ALT = "Two lines that cross in the middle, one rising and one falling"
# The grounds that a figure may stand on: white paper, a common dark theme, and those of the site.
GROUNDS = ("#ffffff", "#121212", "#fdfcf9", "#14171c")


def linear(colour: str) -> np.ndarray:
    """Linear sRGB of a hex colour, after IEC 61966-2-1."""
    encoded = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    """WCAG 2 contrast ratio."""
    lights = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (first, second))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


# Colour vision without one kind of cone: Machado, Oliveira and Fernandes (2009), severity 1.
VISIONS = {
    "full": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def oklab(light: np.ndarray) -> np.ndarray:
    """Linear sRGB to OKLab, where distances are about as large as they look."""
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    opponents = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return opponents @ np.cbrt(cones @ light)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: outputs.append(data))
    return outputs


def crossing() -> Figure:
    with plt.rc_context(style()):
        figure, axes = plt.subplots()
        axes.plot([0, 1], [0, 1 / 3], marker="o", label="up")
        axes.plot([0, 1], [1 / 3, 0], label="down")
        axes.set_xlabel("dose (g)")
        axes.set_xlim(0, 0.9)  # so that something is clipped, and the drawing holds references to ids
        axes.legend()
    return figure


def test_contrast_is_computed_as_wcag_has_it() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#ffffff", "#767676") == pytest.approx(4.54, abs=0.005)  # the grey that just passes AA


@pytest.mark.parametrize("ground", GROUNDS)
def test_every_colour_stands_out_from_the_ground(ground: str) -> None:
    assert min(contrast(colour, ground) for colour in PALETTE) >= 3


def test_ink_is_legible_on_white() -> None:
    assert contrast(INK, "#ffffff") >= 7
    assert INK not in PALETTE


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_told_apart_with_any_colour_vision(vision: str) -> None:
    seen = [oklab(np.clip(np.array(VISIONS[vision]) @ linear(colour), 0, 1)) for colour in PALETTE]
    gaps = [np.linalg.norm(seen[i] - seen[j]) for i in range(len(seen)) for j in range(i)]
    assert min(gaps) >= 0.1  # just noticeable is about 0.02


def test_the_style_is_all_known_to_matplotlib_and_inks_in_one_colour() -> None:
    with plt.rc_context(style()):
        assert plt.rcParams["text.color"] == plt.rcParams["axes.edgecolor"] == plt.rcParams["xtick.color"] == INK
        assert plt.rcParams["axes.prop_cycle"].by_key()["color"] == list(PALETTE)


def test_svg_has_the_same_bytes_each_time_and_no_date() -> None:
    first, second = figure_svg(crossing()), figure_svg(crossing())
    assert first == second
    assert figure_png(crossing()) == figure_png(crossing())
    assert "metadata" not in first
    assert "dc:date" not in first


def test_svg_is_one_element_with_text_as_paths_in_ink() -> None:
    svg = figure_svg(crossing())
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    tags = {element.tag.partition("}")[2] for element in root.iter()}
    assert "text" not in tags
    assert "style" not in tags
    assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) == {INK, *PALETTE[:2]}
    assert "black" not in svg


def test_ids_are_those_that_are_referred_to_and_begin_as_asked() -> None:
    svg = figure_svg(crossing(), ids="one")
    ids = re.findall(r"\sid=\"([^\"]*)\"", svg)
    assert ids
    assert len(set(ids)) == len(ids)
    assert all(name.startswith("one-") for name in ids)
    assert set(re.findall(r"href=\"#([^\"]*)\"|url\(#([^)]*)\)", svg)) <= {(name, "") for name in ids} | {
        ("", name) for name in ids
    }


def test_two_drawings_on_one_page_share_no_id() -> None:
    other = crossing()
    other.axes[0].set_title("Another")
    first, second = (set(re.findall(r"\sid=\"([^\"]*)\"", figure_svg(figure))) for figure in (crossing(), other))
    assert not first & second


def test_coordinates_are_rounded_to_a_hundredth_of_a_point() -> None:
    figure = crossing()
    figure.set_layout_engine("none")  # a layout would depend on the resolution
    svg = figure_svg(figure)
    numbers = [number for d in re.findall(r"\sd=\"([^\"]*)\"", svg) for number in re.findall(r"-?\d+\.\d+", d)]
    assert numbers
    assert all(len(number.partition(".")[2]) <= 2 for number in numbers)
    # The line from (0, 0) to (1, 1/3) is still where matplotlib put it: in points, counted from the top.
    left, bottom = figure.axes[0].transData.transform((0, 0)) * 72 / figure.dpi
    start = re.search(rf"d=\"M ([\d.]+) ([\d.]+) L [^\"]*\" clip-path=[^>]*{PALETTE[0]}", svg)
    assert start is not None
    assert (float(start[1]), float(start[2])) == pytest.approx((left, 259.2 - bottom), abs=0.005)


def test_show_figure_displays_one_described_picture(shown: list[dict[str, Any]]) -> None:
    figure = crossing()
    show_figure(figure, f'{ALT},\n  "so" & <so>', name="crossing", caption="Up & down")
    assert not plt.fignum_exists(figure.number)
    [output] = shown
    html = output["text/html"]
    assert html.startswith('<figure class="nips26-figure" data-name="crossing"><img alt="')
    assert f'alt="{ALT}, &quot;so&quot; &amp; &lt;so&gt;"' in html
    assert html.endswith("<figcaption>Up &amp; down</figcaption></figure>")
    assert "background:#fff;max-width:100%;height:auto" in html
    assert 'width="614" height="346"' in html
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', html)
    assert data is not None
    assert base64.b64decode(data[1]).decode() == figure_svg(crossing())
    assert output["text/plain"] == f'[figure] {ALT}, "so" & <so>'


def test_pictures_are_svg_where_small_and_png_where_not(shown: list[dict[str, Any]]) -> None:
    heavy = crossing()
    heavy.axes[0].scatter(*np.random.default_rng(0).random((2, 3000)))
    plain, forced, large = "data:image/svg+xml;", "data:image/png;", "data:image/png;"
    for figure, raster, kind in ((crossing(), None, plain), (crossing(), True, forced), (heavy, None, large)):
        show_figure(figure, ALT, raster=raster)
        assert f'src="{kind}' in shown[-1]["text/html"]
    data = re.search(r"base64,([^\"]*)", shown[1]["text/html"])
    assert data is not None
    assert base64.b64decode(data[1]).startswith(b"\x89PNG")
    assert "figcaption" not in shown[0]["text/html"]
    assert "data-name" not in shown[0]["text/html"]


def test_png_stands_on_white() -> None:
    picture = Image.open(io.BytesIO(figure_png(crossing(), dpi=100))).convert("RGBA")
    assert picture.size == (640, 360)
    assert picture.getpixel((0, 0)) == (255, 255, 255, 255)


@pytest.mark.parametrize("alt", ["", "A figure.", " " * 30, "a" * 10 + "\n" * 30])
def test_a_figure_that_is_not_described_is_refused(alt: str, shown: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="it must say what the figure shows, in 20 characters or more"):
        show_figure(crossing(), alt)
    assert not shown


@pytest.mark.parametrize("name", ["", "Two Words", "../up", 'a"b'])
def test_a_name_that_is_no_slug_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="it must be lower-case words or digits joined by"):
        show_figure(crossing(), ALT, name=name)


@pytest.fixture(autouse=True)
def figures_closed() -> Any:
    yield
    plt.close("all")


def test_use_style_sets_it_for_the_process() -> None:
    with plt.rc_context():
        figures.use_style()
        assert plt.rcParams["axes.labelcolor"] == INK
