"""What a run's result follows from, as one hash: two runs with the same identity are the same run."""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

import nips26lib
from nips26lib.runs import Refusal
from nips26lib.runs.parameters import Plan

# What no number depends on: how chapters are executed and listed.
_APART = ("runs", "papers", "cli.py")


def identify(plan: Plan) -> str:
    """The hash of the chapter's cells, its parameters and preset, and the version of the library that it runs on."""
    content = {
        "chapter": plan.chapter.slug,
        "source": source_digest(plan.chapter.notebook),
        "parameters": plan.parameters,
        "library": library_version(plan.chapter.module),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def source_digest(notebook: Path) -> str:
    """The hash of a notebook's cells, whatever outputs are stored in it."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        source = [[cell["cell_type"], "".join(cell["source"])] for cell in cells]
    except OSError as error:
        raise Refusal(f"{notebook} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(f"{notebook} is not a notebook: {error!r}") from error
    return hashlib.sha256(json.dumps(source).encode()).hexdigest()


def library_version(module: str) -> str:
    """The version of nips26lib, with a hash of its sources as far as `module`, a paper's, can depend on them.

    A change to another paper, or to how chapters are executed, is no change here.
    """
    package = Path(nips26lib.__file__).parent
    parts = [path for path in sorted(package.iterdir()) if path.name not in _APART]
    digest = hashlib.sha256()
    for part in [*parts, *_places(module)]:
        for path in sorted(part.rglob("*")) if part.is_dir() else [part]:
            if path.is_file() and path.suffix not in (".pyc", ".pyi"):
                digest.update(f"{path.relative_to(part.parent).as_posix()}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{nips26lib.__version__}+{digest.hexdigest()[:12]}"


def _places(module: str) -> list[Path]:
    try:
        spec = find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        raise Refusal(f"there is no module {module!r}")
    place = Path(spec.origin)
    return [place.parent if place.name == "__init__.py" else place]
