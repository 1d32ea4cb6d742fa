"""The chapter kit as a notebook imports it."""

from __future__ import annotations

import subprocess
import sys

import nips26lib.chapter as kit


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_imports_load_no_heavy_library() -> None:
    heavy = {"torch", "matplotlib", "IPython", "ipywidgets", "numpy", "scipy", "tqdm", "pandas"}
    assert not loaded_by("import nips26lib") & heavy
    assert not loaded_by("import nips26lib.chapter") & heavy
    assert not loaded_by("import nips26lib.blocks.stats") & (heavy - {"numpy", "scipy"})


def test_every_exported_name_is_there() -> None:
    assert set(kit.__all__) >= {
        "start", "Preset", "show", "Claim", "Condition", "Claims", "read_claims", "show_figure", "explorable", "Slider",
        "Choice", "progress", "PALETTE", "INK",
    }  # fmt: skip
    for name in kit.__all__:
        assert hasattr(kit, name)
