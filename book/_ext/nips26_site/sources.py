"""The library's source beside the chapters: a highlighted page a cited file, and links that lead there."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import cast

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.osutil import relative_uri

from nips26_site.repository import repository

FOLDER = "sources"
LIGHT, DARK = "a11y-high-contrast-light", "a11y-high-contrast-dark"

logger = logging.getLogger(__name__)

_LINK = re.compile(r'<a\b[^>]*\bclass="nips26-source"[^>]*>')
_HREF = re.compile(r'\shref="[^"]*"')
_PATH = re.compile(r'\sdata-path="([^"]*)"')
_LINE = re.compile(r'\sdata-line="(\d+)"')

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{path} — {book}</title>
<script>
  let theme = null;
  try {{ theme = localStorage.getItem("theme"); }} catch {{ /* no storage for pages opened as files */ }}
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
</script>
<link rel="icon" href="{up}_static/favicon.svg">
<link rel="stylesheet" href="{up}_static/nips26-source.css">
</head>
<body>
<header><a href="{up}{home}">{book}</a><h1>{path}</h1></header>
<main>{code}</main>
</body>
</html>
"""

_STYLE = """
:root { color-scheme: light; --paper: #fff; --ink: #1b1d21; --faint: #5b6370; --link: #0b5c85; --mark: #fff3c4; }
%(dark_root)s
@media (prefers-color-scheme: dark) { %(dark_auto)s }
body { background: var(--paper); color: var(--ink); margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem;
  font: 1rem/1.5 system-ui, sans-serif; }
a { color: var(--link); }
h1 { font: 600 1.15rem/1.4 ui-monospace, "DejaVu Sans Mono", monospace;
  margin: .5rem 0 1.5rem; overflow-wrap: anywhere; }
main { overflow-x: auto; }
pre { font: .875rem/1.55 ui-monospace, "DejaVu Sans Mono", monospace; margin: 0; }
pre a { color: inherit; text-decoration: none; }
pre > span[id] { display: block; scroll-margin-top: 30vh; }
pre > span[id]:target { background: var(--mark); box-shadow: -.5rem 0 var(--mark); }
.linenos { color: var(--faint); padding-right: 1.25em; user-select: none; }
"""
_DARK_ROOT = "--paper: #14171c; --ink: #dfe3e8; --faint: #98a2b0; --link: #7cc0e8; --mark: #3a3320; color-scheme: dark;"


class _LineFormatter(HtmlFormatter):  # type: ignore[type-arg]
    """Lines with the ids L1, L2, …: the same names that GitHub gives them."""

    def _wrap_linespans(self, inner):  # type: ignore[no-untyped-def]
        number = self.linenostart - 1
        for is_line, line in inner:
            number += is_line
            yield is_line, f'<span id="L{number}">{line}</span>' if is_line else line


def source_page(path: str, code: str, home: str, book: str) -> str:
    """The page of a source file; `path` from the repository's top, `home` the first page of the site."""
    formatter = _LineFormatter(nowrap=False, linenos="inline", linespans="L", wrapcode=False)
    up = "../" * (path.count("/") + 1)
    return _PAGE.format(
        path=html.escape(path), book=html.escape(book), up=up, home=home, code=highlight(code, PythonLexer(), formatter)
    )


def source_style() -> str:
    """The style sheet of the source pages, in both themes."""

    def tokens(style: str, scope: str) -> str:
        rules = cast(str, HtmlFormatter(style=style).get_style_defs(f"{scope} .highlight")).splitlines()
        # Rules for line numbers and for the ground come with colours of their own; the page sets those.
        return "\n".join(rule for rule in rules if rule.startswith(f"{scope} .highlight .") and "linenos" not in rule)

    dark, auto = ':root[data-theme="dark"]', ":root:not([data-theme])"
    return (
        _STYLE
        % {
            "dark_root": f"{dark} {{ {_DARK_ROOT} }}",
            "dark_auto": f"{auto} {{ {_DARK_ROOT} }} {tokens(DARK, auto)}",
        }
        + tokens(LIGHT, ':root[data-theme="light"]')
        + f"\n@media (prefers-color-scheme: light) {{ {tokens(LIGHT, auto)} }}\n"
        + tokens(DARK, dark)
    )


def with_links(text: str, target: dict[str, str]) -> str:
    """HTML whose source links lead to `target[path]`, at their line; links to other paths stay as they are."""

    def link(found: re.Match[str]) -> str:
        tag = found[0]
        path, line = cited_path(tag), _LINE.search(tag)
        if path not in target:
            return tag
        address = target[path] + (f"#L{line[1]}" if line else "")
        return _HREF.sub(lambda _: f' href="{html.escape(address)}"', tag)

    return _LINK.sub(link, text)


def cited_path(tag: str) -> str:
    """The path that a source link names."""
    found = _PATH.search(tag)
    return html.unescape(found[1]) if found else ""


def _rewrite(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "html":
        return
    place, root = repository(), Path(app.srcdir).resolve()
    page = app.builder.get_target_uri(docname)
    for node in list(doctree.findall(nodes.raw)):
        text = node.astext()
        paths = {cited_path(tag) for tag in _LINK.findall(text)}
        if not paths:
            continue
        target = {}
        for path in paths:
            file = (root / path).resolve()
            if not file.is_relative_to(root) or not file.is_file():
                logger.warning("a source link names %r, which is no file of this repository", path, location=docname)
            elif place is not None:
                target[path] = place.blob(path)
            else:
                app.nips26_cited.add(path)  # type: ignore[attr-defined]
                target[path] = relative_uri(page, f"{FOLDER}/{path}.html")
        node.children[:] = [nodes.Text(with_links(text, target))]


def _write_pages(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    root, folder = Path(app.srcdir), Path(app.outdir) / FOLDER
    # Pages of earlier builds too: their chapters may not have been written anew, and the source may have changed.
    earlier = {page.relative_to(folder).as_posix().removesuffix(".html") for page in folder.rglob("*.html")}
    for path in sorted(app.nips26_cited | earlier):  # type: ignore[attr-defined]
        page = folder / f"{path}.html"
        if not (root / path).is_file():
            page.unlink(missing_ok=True)
            continue
        page.parent.mkdir(parents=True, exist_ok=True)
        home = app.builder.get_target_uri(app.config.root_doc)
        code = (root / path).read_text(encoding="utf-8")
        page.write_text(source_page(path, code, home, app.config.html_title), encoding="utf-8")
    (Path(app.outdir) / "_static" / "nips26-source.css").write_text(source_style(), encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.nips26_cited = set()  # type: ignore[attr-defined]
    app.connect("doctree-resolved", _rewrite)
    app.connect("build-finished", _write_pages)
