"""Weights that mend themselves: zero-sum blocks detect and undo bit flips with no stored check bit."""

from . import exercises, explorables, study
from .attacks import Attack, Flip, bit_flip_attack, margin_loss, probability_loss, read, strike
from .claims import CLAIMS
from .constraint import LAYOUTS, Blocks, blocks_of, init_gain, project, residuals
from .decoder import RecoveryReport, TileStep, recover, tile_steps
from .defences import Defence, Guard, Nothing, Radar, ZeroSum
from .ecc import SECDED, InPlaceECC, wot_clip
from .formats import FORMATS, Format, decode, encode, grid_unit, native, values
from .layers import ZeroSumConv2d, ZeroSumLinear, convert, deploy, export, load, requantise
from .memory import Stored, flip, flip_random, store
from .moves import MOVES
from .presets import FLOATS, PRESETS, ZeroSumPreset
from .rounding import round_zero_sum

__all__ = [
    "CLAIMS",
    "FLOATS",
    "FORMATS",
    "LAYOUTS",
    "MOVES",
    "PRESETS",
    "SECDED",
    "Attack",
    "Blocks",
    "Defence",
    "Flip",
    "Format",
    "Guard",
    "InPlaceECC",
    "Nothing",
    "Radar",
    "RecoveryReport",
    "Stored",
    "TileStep",
    "ZeroSum",
    "ZeroSumConv2d",
    "ZeroSumLinear",
    "ZeroSumPreset",
    "bit_flip_attack",
    "blocks_of",
    "convert",
    "decode",
    "deploy",
    "encode",
    "exercises",
    "explorables",
    "export",
    "flip",
    "flip_random",
    "grid_unit",
    "init_gain",
    "load",
    "margin_loss",
    "native",
    "probability_loss",
    "project",
    "read",
    "recover",
    "requantise",
    "residuals",
    "round_zero_sum",
    "store",
    "strike",
    "study",
    "tile_steps",
    "values",
    "wot_clip",
]
