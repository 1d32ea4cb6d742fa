"""A JupyterLab server of its own, and the moves of a reader in it."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 120_000  # milliseconds that a slow machine may take to draw the notebook's page
# Nothing asks for news, in a window over the notebook.
_SETTINGS = {"@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False}}


@dataclass(frozen=True)
class Lab:
    """A running server: where it listens, its token, the folder that it shows, and the environment of its kernels."""

    origin: str
    token: str
    folder: Path
    environment: dict[str, str]

    def url(self, notebook: str) -> str:
        # A workspace for each notebook: JupyterLab reopens what its workspace had open before.
        return f"{self.origin}/lab/workspaces/{Path(notebook).stem}/tree/{notebook}?token={self.token}"


@contextmanager
def jupyterlab(folder: Path, home: Path, **environment: str) -> Iterator[Lab]:
    """A JupyterLab on the loopback, with a home that no setting of this machine reaches; ended at the end."""
    for name, settings in _SETTINGS.items():
        file = home / ".jupyter/lab/user-settings" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON", "NIPS26"))}
    if "NIPS26_DATA" in os.environ:
        kept["NIPS26_DATA"] = os.environ["NIPS26_DATA"]
    full = kept | {"HOME": str(home), "PYTHONPATH": str(ROOT), "NIPS26_BOOK": str(ROOT)} | environment
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
        *(f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
        *(f"--ServerApp.root_dir={folder}", "--LabApp.extension_manager=readonly"),
    ]
    log = home / "lab.log"
    with log.open("w", encoding="utf-8") as out:
        server = subprocess.Popen(command, cwd=folder, env=full, stdout=out, stderr=subprocess.STDOUT)
    lab = Lab(f"http://127.0.0.1:{port}", token, folder, full)
    try:
        _wait_until_up(lab, server, log)
        yield lab
    finally:
        server.terminate()  # the server ends its kernels on the way out
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def open_notebook(page: Page, lab: Lab, notebook: str) -> None:
    """Open the notebook and wait until its cells stand and its kernel, if any, is up."""
    page.set_default_timeout(_PATIENCE)
    page.goto(lab.url(notebook))
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    page.locator("#jupyterlab-splash").wait_for(state="detached")


def run_all_cells(page: Page, *, seconds: float = 120) -> None:
    """Run all cells through the menu, and wait until each code cell with text in it has its number."""
    idle = page.get_by_text(re.compile(r"\| Idle$"))  # the status bar: only a kernel that answers is idle
    idle.wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(
        """() => [...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputPrompt')]
            .every((prompt) => /\\[\\d+\\]/.test(prompt.textContent))""",
        timeout=seconds * 1000,
    )
    idle.wait_for()


def failures(page: Page) -> list[str]:
    """What cells wrote as errors and on the standard error stream."""
    selector = '.jp-OutputArea-output:is([data-mime-type*="error"], [data-mime-type*="stderr"])'
    return page.locator(selector).all_inner_texts()


def live_explorables(page: Page) -> list[Locator]:
    """The explorables of the notebook that a kernel stands behind."""
    return page.locator(".jp-OutputArea .nips26-live").all()


def picture(explorable: Locator) -> str:
    """The markup of the picture that a live explorable shows, the names of this session's widgets left out."""
    markup = explorable.locator(".nips26-picture").evaluate("node => node.outerHTML")
    return re.sub(r"live-[0-9a-f]+-", "live-", markup)


def move_slider(page: Page, slider: Locator, fraction: float, *, steps: int = 8) -> None:
    """Drag the handle of a live slider to this fraction of its way, as a hand does."""
    _come_to_rest(page, slider)
    slider.locator(".noUi-handle").hover()
    track = slider.locator(".noUi-base").bounding_box()
    assert track is not None
    page.mouse.down()
    page.mouse.move(track["x"] + fraction * track["width"], track["y"] + track["height"] / 2, steps=steps)
    page.mouse.up()


def change(page: Page, explorable: Locator) -> None:
    """Change the first control of a live explorable, and wait until its picture tells of another value."""
    told = explorable.locator("svg").get_attribute("aria-label")
    slider, select = explorable.locator(".widget-slider"), explorable.locator("select")
    if slider.count():
        track = slider.first.locator(".noUi-base").bounding_box()
        handle = slider.first.locator(".noUi-handle").bounding_box()
        assert track is not None and handle is not None
        right = handle["x"] + handle["width"] / 2 > track["x"] + track["width"] / 2
        move_slider(page, slider.first, 0 if right else 1)
    else:
        other = select.first.locator("option:not(:checked)").first.inner_text()
        select.first.select_option(label=other)
    page.wait_for_function(
        """([node, told]) => {
            const svg = node.querySelector('svg');
            return svg ? svg.getAttribute('aria-label') !== told : node.querySelector('[role=alert]');
        }""",
        arg=[explorable.element_handle(), told],
    )
    alert = explorable.get_by_role("alert")
    if alert.count():
        raise AssertionError(f"the explorable drew no picture: {alert.first.inner_text()}")


def _come_to_rest(page: Page, slider: Locator) -> None:
    """Scroll to the slider until it stays: after a run JupyterLab still scrolls, and cells above still grow."""
    before = None
    for _ in range(100):
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        if box == before:
            return
        before = box
        page.wait_for_timeout(500)
    raise AssertionError("the notebook's page does not come to rest")


def _wait_until_up(lab: Lab, server: subprocess.Popen[bytes], log: Path, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{lab.origin}/api/status?token={lab.token}", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not come up in {seconds:g} s; it said:\n{log.read_text(encoding='utf-8')}")
