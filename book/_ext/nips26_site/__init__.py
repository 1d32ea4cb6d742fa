"""What the site of this book does beyond Jupyter Book: one subject a module."""

from __future__ import annotations

from sphinx.application import Sphinx

from nips26_site import assets, cards, figures, repository, reproducibility, sources


def setup(app: Sphinx) -> dict[str, bool]:
    """Register everything with Sphinx."""
    for module in (assets, repository, cards, reproducibility, figures, sources):
        module.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
