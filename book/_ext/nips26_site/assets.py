"""Scripts, fonts and styles: all from the site itself, and no more of them than a page needs."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

STATIC = Path(__file__).resolve().parents[2] / "_static"

# Of MathJax's 24 MB: its loader, the TeX reader with the extensions it fetches by name, and the HTML writer with its
# fonts. The menu is left out, for it can fetch parts that are not here; the hidden MathML keeps equations audible.
MATHJAX_COMPONENTS = ("input/tex", "output/chtml", "a11y/assistive-mml")
MATHJAX_FILES = (
    "startup.js",
    "core.js",
    "input/tex.js",
    "input/tex/extensions",
    "output/chtml.js",
    "output/chtml/fonts",
    "a11y/assistive-mml.js",
)

# The icons come from a web font that the theme's style sheet names; this script of 1.5 MB would draw the same ones.
_ICON_SCRIPT = re.compile(r"<script[^>]*fontawesome\.js[^>]*></script>")


def mathjax_folder() -> Path:
    """Where the installed package sphinx-mathjax-offline keeps MathJax 3; its module name is no identifier."""
    found = importlib.util.find_spec("sphinx-mathjax-offline")
    if found is None or found.origin is None:
        raise ExtensionError("the package sphinx-mathjax-offline is missing; it is in the extra `site`")
    return Path(found.origin).parent / "static" / "mathjax"


def copy_mathjax(target: Path) -> None:
    """Copy the parts of MathJax that pages load into `target`."""
    source = mathjax_folder()
    for name in MATHJAX_FILES:
        place = target / name
        if place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, place)
        else:
            shutil.copyfile(source / name, place)


def without_icon_script(head: str) -> str:
    """The page head without the theme's icon script."""
    return _ICON_SCRIPT.sub("", head)


def _configure(app: Sphinx, config: Config) -> None:
    config.html_static_path.append(str(STATIC))
    config.mathjax_path = "mathjax/startup.js"
    mathjax = dict(config.mathjax3_config or {})
    mathjax["loader"] = {"load": list(MATHJAX_COMPONENTS)}
    config.mathjax3_config = mathjax


def _prepare(app: Sphinx) -> None:
    if app.builder.format != "html":
        return
    copy_mathjax(Path(app.outdir) / "_static" / "mathjax")
    environment = app.builder.templates.environment  # type: ignore[attr-defined]
    environment.filters["without_icon_script"] = without_icon_script


def setup(app: Sphinx) -> None:
    # Jupyter Book sets it for an extension that this book does without.
    app.add_config_value("comments_config", {}, "")
    # Before MyST, which adds its own part to the configuration of MathJax.
    app.connect("config-inited", _configure, priority=100)
    app.connect("builder-inited", _prepare)
    app.add_css_file("nips26.css", priority=900)
