"""Stored figures become part of the page, so that they follow its theme.

JupyterLab shows a figure as an image on white. Here the SVG inside that image is put into the page itself, and the
book's ink becomes the colour of the text around it.
"""

from __future__ import annotations

import html
import re
from itertools import count

from docutils import nodes
from sphinx.application import Sphinx

from nips26_site.stored import Picture, picture_of
from nips26lib.chapter.figures import INK

SVG = "image/svg+xml"
DARK_INK = "#dfe3e8"  # for pictures that cannot take the colour of the page: the ink of the dark theme in nips26.css

_SVG_IMAGE = re.compile(r"<img\b[^>]*\bsrc=\"data:image/svg\+xml;base64,[^>]*>")
_RASTER_IMAGE = re.compile(r"<img\b(?=[^>]*\bsrc=\"data:image/(?:png|jpeg|webp);base64,)")
_REFERENCE = re.compile(r'(\sid="|href="#|url\(#)')
_ROOT = re.compile(r"<svg\b[^>]*>")


def inked(svg: str, colour: str) -> str:
    """The drawing with the book's ink replaced by another colour."""
    return re.sub(re.escape(INK), colour, svg, flags=re.IGNORECASE)


def inline_svg(picture: Picture, prefix: str) -> str:
    """The drawing as an element of the page: named by its alternative text, its ids begun with `prefix`."""
    svg = picture.content.decode("utf-8")
    svg = _REFERENCE.sub(lambda found: found[1] + prefix, inked(svg[svg.index("<svg") :], "currentColor"))
    alt = html.escape(picture.alt)

    def root(found: re.Match[str]) -> str:
        opening = found[0].replace("<svg", f'<svg class="nips26-drawing" role="img" aria-label="{alt}"', 1)
        return f"{opening}<title>{alt}</title>"

    return _ROOT.sub(root, svg, count=1)


def with_inline_figures(text: str, prefixes: count[int]) -> str:
    """HTML with its stored SVG images inlined, and its raster images marked for a light ground."""

    def drawing(found: re.Match[str]) -> str:
        picture = picture_of(found[0])
        return found[0] if picture is None else inline_svg(picture, f"drawing{next(prefixes)}-")

    return _RASTER_IMAGE.sub('<img class="nips26-raster"', _SVG_IMAGE.sub(drawing, text))


def _inline(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "html":
        return
    prefixes = count(1)
    for node in list(doctree.findall(nodes.raw)):
        if "html" in node.get("format", "") and "data:image/" in node.astext():
            node.children[:] = [nodes.Text(with_inline_figures(node.astext(), prefixes))]


def setup(app: Sphinx) -> None:
    app.connect("doctree-resolved", _inline)
