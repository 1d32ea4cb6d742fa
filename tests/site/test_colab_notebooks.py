from __future__ import annotations

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from scripts.colab_notebooks import install_cell, main, with_install_cell


def test_the_copy_installs_the_library_first_and_keeps_the_rest() -> None:
    original = new_notebook(cells=[new_markdown_cell("# Title", id="a"), new_code_cell("1 + 1", id="b")])
    made = with_install_cell(original, "https://github.com/someone/book", "v1")
    assert "git+https://github.com/someone/book@v1" in made.cells[0].source
    assert made.cells[0].source.splitlines()[-1].startswith("%pip install")
    assert made.cells[1:] == original.cells
    assert len(original.cells) == 2
    nbformat.validate(made)


@pytest.mark.parametrize("address", ["https://github.com/a/b/", "https://github.com/a/b.git"])
def test_other_spellings_of_the_address(address: str) -> None:
    assert 'git+https://github.com/a/b@main"' in install_cell(address, "main")


@pytest.mark.parametrize(
    "address", ["a/b", "https://example.org/a/b", "https://github.com/a", 'https://github.com/a/b"']
)
def test_an_address_that_is_none_is_refused(address: str, tmp_path, capsys) -> None:
    with pytest.raises(ValueError, match="must have the form"):
        install_cell(address, "main")
    with pytest.raises(SystemExit, match="2"):
        main([address, str(tmp_path)])
    assert "OWNER/NAME" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
