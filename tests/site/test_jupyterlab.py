"""Explorables with a kernel behind them: a real JupyterLab, a real browser, a reader's moves."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import nbformat
import pytest
import yaml

from nips26lib.chapter.explore import frame
from nips26lib.chapter.figures import style
from nips26lib.chapter.player import inline_picture, unpack
from tests.site import lab as jupyter
from tests.site.browser import Watched, launch, requires_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, requires_chromium, pytest.mark.timeout(600)]

ALT = "A straight line through the origin; it rises with the slope."
DRAW = """
import matplotlib.pyplot as plt

def line(slope, dashes):
    if slope < 0:
        raise ValueError(f"the slope was {slope:g}")
    figure, axes = plt.subplots(figsize=(4, 3))
    axes.plot([0, 1], [0, slope], dashes)
    axes.set(xlabel="time [s]", ylabel="height [m]", ylim=(0, 4), title=f"slope {slope:g}")
    return figure
"""
EXPLORE = f"""
from nips26lib.chapter import Choice, Slider, explorable
from nips26lib.chapter.figures import use_style

use_style()
explorable(
    line,
    {{
        "slope": Slider((0.5, 1.0, 2.0), 1.0, "Slope", format="{{:.2f}} m/s", live_range=(-1, 4, 0.01)),
        "dashes": Choice(("-", "--"), "-", "Line"),
    }},
    title="A line",
    alt="{ALT}",
)
"""
# The grid (2) and the first live picture (1) are drawn at once; what a move asks for waits for a file.
SLOW = f"""
import time
from pathlib import Path

def slow(slope):
    with open("drawn.txt", "a") as drawn:
        print(slope, file=drawn)
    while len(Path("drawn.txt").read_text().split()) > 5 and not Path("go.txt").exists():
        time.sleep(0.05)
    return line(slope, "-")

explorable(slow, {{"slope": Slider((0, 50), 0, "Slope", live_range=(0, 100, 1))}}, title="Slow", alt="{ALT}")
"""


def write_notebook(file: Path, *cells: str) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell).strip()) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(notebook, file)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[jupyter.Lab]:
    folder, home = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("home")
    with jupyter.jupyterlab(folder, home, NIPS26_PRESET="smoke") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as started:
        yield started


@pytest.fixture
def page(browser: Browser, lab: jupyter.Lab) -> Iterator[Page]:
    with Watched(browser, origin=lab.origin, viewport={"width": 1280, "height": 1000}) as watched:
        yield watched.page


def expected(page: Page, **values: Any) -> str:
    """The picture of a fresh computation outside the notebook, as this browser writes it."""
    scope: dict[str, Any] = {}
    exec(DRAW, scope)
    with plt.rc_context(style()):
        svg = frame(scope["line"], values)
    markup = inline_picture(svg, "live-", f"{ALT} (Slope: {values['slope']:.2f} m/s, Line: {values['dashes']})")
    return page.evaluate(
        "markup => new DOMParser().parseFromString(markup, 'text/html').querySelector('.nips26-picture').outerHTML",
        markup,
    )


def test_moving_the_controls_computes_anew(page, lab):
    write_notebook(lab.folder / "line.ipynb", DRAW, EXPLORE)
    jupyter.open_notebook(page, lab, "line.ipynb")
    jupyter.run_all_cells(page)
    assert jupyter.failures(page) == []
    (live,) = jupyter.live_explorables(page)
    assert page.locator(".nips26-explorable").count() == 0  # the static half is not shown beside the live one
    assert jupyter.picture(live) == expected(page, slope=1.0, dashes="-")

    jupyter.move_slider(page, live.locator(".widget-slider").first, 0.87)
    readout = live.get_by_text(re.compile(r"^\d\.\d\d m/s$"))
    page.wait_for_function("node => parseFloat(node.textContent) > 3", arg=readout.element_handle())
    slope = float(readout.inner_text().removesuffix(" m/s"))
    assert slope not in (0.5, 1.0, 2.0)  # the grid of the static half
    live.locator(f'svg[aria-label*="Slope: {slope:.2f} m/s"]').wait_for()
    assert jupyter.picture(live) == expected(page, slope=slope, dashes="-")

    live.locator("select").select_option(label="--")
    live.locator('svg[aria-label*="Line: --"]').wait_for()
    assert jupyter.picture(live) == expected(page, slope=slope, dashes="--")

    jupyter.move_slider(page, live.locator(".widget-slider").first, 0)
    alert = live.get_by_role("alert")
    alert.wait_for()
    page.wait_for_function("node => node.textContent.includes('-1.00')", arg=live.element_handle())
    assert re.search(r"No figure for Slope: -\d.*ValueError: the slope was -", alert.inner_text())
    jupyter.move_slider(page, live.locator(".widget-slider").first, 0.5)
    live.locator('svg[aria-label*="Line: --"]').wait_for()
    assert alert.count() == 0


def test_the_saved_notebook_holds_the_static_half(page, lab):
    write_notebook(lab.folder / "saved.ipynb", DRAW, EXPLORE)
    jupyter.open_notebook(page, lab, "saved.ipynb")
    jupyter.run_all_cells(page)
    before = (lab.folder / "saved.ipynb").stat().st_mtime_ns
    page.keyboard.press("ControlOrMeta+s")
    page.locator(".jp-Notebook").wait_for()
    for _ in range(100):
        if (lab.folder / "saved.ipynb").stat().st_mtime_ns != before:
            break
        page.wait_for_timeout(100)
    notebook = nbformat.read(lab.folder / "saved.ipynb", as_version=4)
    (shown,) = notebook.cells[1].outputs
    assert "application/vnd.jupyter.widget-view+json" in shown.data
    assert len(unpack(shown.data["text/html"])[1]) == 6


def test_a_fast_hand_queues_no_stale_pictures(page, lab):
    write_notebook(lab.folder / "slow.ipynb", DRAW, EXPLORE, SLOW)
    jupyter.open_notebook(page, lab, "slow.ipynb")
    jupyter.run_all_cells(page)
    live = jupyter.live_explorables(page)[1]
    slider = live.locator(".widget-slider")
    jupyter.move_slider(page, slider, 0.9, steps=40)  # the kernel is busy with the first step all the while
    jupyter.move_slider(page, slider, 0.6, steps=20)
    (lab.folder / "go.txt").touch()
    live.locator('svg[aria-label$="(Slope: 60)"]').wait_for()
    drawn = [int(value) for value in (lab.folder / "drawn.txt").read_text(encoding="utf-8").split()]
    assert drawn[:5] == [0, 50, 0, 50, 0]  # for the layout, for the grid, and the first live one
    assert drawn[-1] == 60
    assert len(drawn) <= 5 + 3  # the step that was being drawn, and hardly more than the last one


def static_notebook(lab: jupyter.Lab, name: str) -> Path:
    """A notebook with the stored outputs of a run without front end, as the book stores its chapters."""
    file = lab.folder / name
    write_notebook(file, DRAW, EXPLORE)
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", str(file)]
    subprocess.run(command, check=True, env=lab.environment | {"NIPS26_STATIC": "1"}, capture_output=True)
    return file


def test_a_stored_chapter_that_is_not_trusted_shows_its_default_picture(page, lab):
    static_notebook(lab, "stored.ipynb")
    jupyter.open_notebook(page, lab, "stored.ipynb")
    image = page.get_by_role("img", name=ALT)
    image.wait_for()
    assert image.evaluate("node => node.complete && node.naturalWidth > 0")
    assert page.locator(".jp-OutputArea-output").last.inner_text().strip() == "A line"


def test_a_stored_chapter_that_is_trusted_plays_without_running_a_cell(page, lab):
    file = static_notebook(lab, "trusted.ipynb")
    subprocess.run(
        [sys.executable, "-m", "jupyter", "trust", str(file)], check=True, env=lab.environment, capture_output=True
    )
    jupyter.open_notebook(page, lab, "trusted.ipynb")
    player = page.locator(".nips26-explorable")
    player.locator("svg").wait_for()
    before = player.locator(".nips26-picture").inner_html()
    player.get_by_role("slider", name="Slope").press("End")
    assert player.locator("output").inner_text() == "2.00 m/s"
    assert player.locator(".nips26-picture").inner_html() != before


def chapters() -> list[Path]:
    record = yaml.safe_load((jupyter.ROOT / "book/chapters.yml").read_text(encoding="utf-8"))
    files = [jupyter.ROOT / "book" / chapter["part"] / f"{chapter['slug']}.ipynb" for chapter in record["chapters"]]
    return [file for file in files if file.exists()]


@pytest.mark.parametrize("chapter", [pytest.param(file, id=file.stem) for file in chapters()])
def test_each_chapter_explores_with_a_kernel(page, lab, chapter):
    (lab.folder / chapter.name).write_bytes(chapter.read_bytes())
    jupyter.open_notebook(page, lab, chapter.name)
    jupyter.run_all_cells(page, seconds=300)
    assert jupyter.failures(page) == []
    explorables = jupyter.live_explorables(page)
    assert explorables
    for live in explorables:
        before = jupyter.picture(live)
        jupyter.change(page, live)
        assert jupyter.picture(live) != before
