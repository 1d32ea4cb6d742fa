"""The library's own source as an output of a chapter, so that nothing is written twice."""

from __future__ import annotations

import ast
import html
import inspect
import re
import textwrap
from pathlib import Path

import nips26lib

_ROOT = Path(nips26lib.__file__).resolve().parent.parent
_TO_ROOT = "../.."  # from book/<part>/, where a chapter lies


def show(*objects: object, docstring: bool = True) -> None:
    """Display the source of functions, methods or classes of `nips26lib`, each under a link to its place.

    ``docstring=False`` leaves docstrings out. Raises TypeError for anything that is not written in `nips26lib`.
    """
    from IPython.display import display

    if not objects:
        raise TypeError("show was given nothing; it must be given functions, methods or classes of nips26lib")
    listings = [_listing(thing, docstring) for thing in objects]
    display(
        {
            "text/markdown": "\n\n".join(markdown for markdown, _ in listings),
            "text/plain": "\n\n".join(plain for _, plain in listings),
        },
        raw=True,
    )


def _listing(thing: object, docstring: bool) -> tuple[str, str]:
    """The source of one object as Markdown and as plain text."""
    path, first, source = _located(thing)
    last = first + source.count("\n")
    if not docstring:
        source = without_docstrings(source)
    place = f"{path}, lines {first}–{last}" if last > first else f"{path}, line {first}"
    link = (
        f'<a class="nips26-source" data-path="{html.escape(path)}" data-line="{first}" '
        f'href="{_TO_ROOT}/{html.escape(path)}">{html.escape(place)}</a>'
    )
    longest = max((len(ticks) for ticks in re.findall("`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{link}\n\n{fence}python\n{source}\n{fence}", f"# {place}\n{source}"


def _located(thing: object) -> tuple[str, int, str]:
    """Path from the repository's top, first line and dedented source."""
    written = thing.fget if isinstance(thing, property) else thing
    written = inspect.unwrap(written) if callable(written) and not isinstance(written, type) else written
    try:
        path = Path(inspect.getsourcefile(written) or "").resolve()  # type: ignore[arg-type]
        lines, first = inspect.getsourcelines(written)  # type: ignore[arg-type]
    except (TypeError, OSError):
        path = Path()
    if not path.is_relative_to(_ROOT / "nips26lib") or inspect.ismodule(written):
        raise TypeError(f"show was given {thing!r}; it must be a function, a method or a class of nips26lib")
    return path.relative_to(_ROOT).as_posix(), first, textwrap.dedent("".join(lines)).rstrip()


def without_docstrings(source: str) -> str:
    """The source without its docstrings; a body that is nothing else keeps its own.

    >>> print(without_docstrings('def f(x):\\n    "Doc."\\n\\n    return x'))
    def f(x):
        return x
    """
    lines = source.splitlines()
    drop: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or len(node.body) < 2:
            continue
        said, after = node.body[0], node.body[1]
        if ast.get_docstring(node) is not None and said.end_lineno is not None and after.lineno > said.end_lineno:
            drop |= set(range(said.lineno, said.end_lineno + 1))
            if not lines[said.end_lineno].strip():  # the blank line below it
                drop.add(said.end_lineno + 1)
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in drop)
