"""All that a chapter needs: presets, claims, explorables, source listings, figure style, progress.

Importing it is cheap: PyTorch, matplotlib and IPython are loaded by what uses them.
"""

from nips26lib.chapter.claims import Claim, Claims, Condition, read_claims
from nips26lib.chapter.explore import Choice, Slider, explorable
from nips26lib.chapter.figures import INK, PALETTE, show_figure
from nips26lib.chapter.obtaining import obtain
from nips26lib.chapter.presets import Preset, Run, current_run, start
from nips26lib.chapter.progress import progress
from nips26lib.chapter.sources import show

__all__ = [
    "INK",
    "PALETTE",
    "Choice",
    "Claim",
    "Claims",
    "Condition",
    "Preset",
    "Run",
    "Slider",
    "current_run",
    "explorable",
    "obtain",
    "progress",
    "read_claims",
    "show",
    "show_figure",
    "start",
]
