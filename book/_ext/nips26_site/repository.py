"""Where the repository is: the buttons that open a chapter elsewhere, and links to source files.

The publishing workflow says it in NIPS26_REPOSITORY (https://github.com/OWNER/NAME) and NIPS26_REVISION (a branch, tag
or commit, default `main`). Without an address no button points outside the site.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

COLAB_BRANCH = "colab"
_ADDRESS = re.compile(r"https://github\.com/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(\.git)?/?")


@dataclass(frozen=True)
class Repository:
    """A public repository on GitHub, at one revision."""

    owner: str
    name: str
    revision: str

    @property
    def address(self) -> str:
        return f"https://github.com/{self.owner}/{self.name}"

    def blob(self, path: str) -> str:
        """The page of a file."""
        return f"{self.address}/blob/{self.revision}/{path}"

    def binder(self, path: str) -> str:
        """JupyterLab on Binder with the notebook open."""
        return f"https://mybinder.org/v2/gh/{self.owner}/{self.name}/{self.revision}?urlpath=lab/tree/{path}"

    def colab(self, path: str) -> str:
        """Colab with the copy of the notebook that installs the library first (scripts/colab_notebooks.py)."""
        return f"https://colab.research.google.com/github/{self.owner}/{self.name}/blob/{COLAB_BRANCH}/{path}"


def parse_repository(address: str, revision: str = "main") -> Repository:
    """The repository at that address; ValueError unless it has the form https://github.com/OWNER/NAME."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ValueError(f"NIPS26_REPOSITORY is {address!r}; it must have the form https://github.com/OWNER/NAME")
    return Repository(found["owner"], found["name"], revision or "main")


def repository() -> Repository | None:
    """What the environment says, or None."""
    address = os.environ.get("NIPS26_REPOSITORY", "").strip()
    if not address:
        return None
    try:
        return parse_repository(address, os.environ.get("NIPS26_REVISION", "").strip())
    except ValueError as error:
        raise ExtensionError(str(error)) from error


def buttons(place: Repository | None, path: str, download: str) -> list[dict[str, Any]]:
    """The buttons over a notebook; `path` from the repository's top, `download` from the page."""
    made: list[dict[str, Any]] = []
    if place is not None:
        elsewhere = [
            ("Binder", place.binder(path), "_static/images/logo_binder.svg", "Run this chapter on Binder"),
            ("Colab", place.colab(path), "_static/images/logo_colab.png", "Run this chapter in Colab"),
            ("GitHub", place.blob(path), "fa-brands fa-github", "See this notebook on GitHub"),
        ]
        made.append(
            {
                "type": "group",
                "tooltip": "Run or see this chapter elsewhere",
                "icon": "fa-solid fa-rocket",
                "label": "launch-buttons",
                "buttons": [
                    {"type": "link", "text": text, "url": url, "icon": icon, "tooltip": tip}
                    for text, url, icon, tip in elsewhere
                ],
            }
        )
    made.append(
        {
            "type": "link",
            "url": download,
            "icon": "fa-solid fa-download",
            "tooltip": "Download this notebook",
            "label": "download-notebook-button",
        }
    )
    return made


def _add_buttons(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    if doctree is not None and context.get("page_source_suffix") == ".ipynb":
        download = f"{context['pathto']('_sources', 1)}/{context['sourcename']}"
        context["header_buttons"].extend(buttons(repository(), f"{pagename}.ipynb", download))


def _rebuild_when_moved(app: Sphinx, config: Config) -> None:
    place = repository()
    config.nips26_repository = place.blob("") if place else ""


def setup(app: Sphinx) -> None:
    # A configuration value, so that a site built before for another address (or for none) is written anew.
    app.add_config_value("nips26_repository", "", "html", types=(str,))
    app.connect("config-inited", _rebuild_when_moved)
    # After the theme has made its (empty) list of buttons.
    app.connect("html-page-context", _add_buttons, priority=600)
