"""What a run is asked to do: the parameters of a chapter, read and checked before any kernel starts."""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from nips26lib.runs import Refusal
from nips26lib.runs.catalogue import ChapterRecord

EXPECTED = ("preset", "seed", "overrides")


@dataclass(frozen=True)
class Plan:
    """One run, checked and ready: it holds plain values only, so it can be sent to another process.

    `extra` holds the notebook parameters beyond preset, seed and overrides that were given.
    """

    chapter: ChapterRecord
    preset: str
    seed: int
    overrides: Mapping[str, Any]
    extra: Mapping[str, Any]
    device: str
    threads: int
    needs_gpu: bool

    @property
    def parameters(self) -> dict[str, Any]:
        """What papermill injects."""
        return {"preset": self.preset, "seed": self.seed, "overrides": dict(self.overrides), **self.extra}

    @property
    def directory(self) -> Path:
        """Where the run goes, below the folder of all runs: the same request, the same place."""
        name = f"{self.preset}-seed{self.seed}"
        if self.overrides or self.extra:
            text = json.dumps([dict(self.overrides), dict(self.extra)], sort_keys=True)
            name += "-" + hashlib.sha256(text.encode()).hexdigest()[:8]
        return Path(self.chapter.slug) / name


def read_parameters(notebook: Path) -> dict[str, Any]:
    """The names assigned in the notebook's cell tagged "parameters", with their default values.

    The cell is parsed, not run: it may hold assignments of literals only (`a, b = 1, 2` too).
    Refusal if there is no such cell, more than one, or anything else in it.

    >>> import json, tempfile
    >>> cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": 'preset, seed = "laptop", 0'}
    >>> with tempfile.NamedTemporaryFile("w", suffix=".ipynb") as file:
    ...     _ = file.write(json.dumps({"cells": [cell]})), file.flush()
    ...     read_parameters(Path(file.name))
    {'preset': 'laptop', 'seed': 0}
    """
    cells = [cell for cell in _cells(notebook) if "parameters" in cell.get("metadata", {}).get("tags", [])]
    if len(cells) != 1:
        found = f"{len(cells)} cells" if cells else "no cell"
        raise Refusal(f"{notebook} has {found} tagged 'parameters'; it must have one")
    values: dict[str, Any] = {}
    try:
        for statement in ast.parse("".join(cells[0]["source"])).body:
            values.update(_assigned(statement))
    except (SyntaxError, ValueError, TypeError) as error:
        reason = f"the cell tagged 'parameters' must hold only assignments of literals: {error}"
        raise Refusal(f"{notebook}: {reason}") from error
    return values


def _cells(notebook: Path) -> list[dict[str, Any]]:
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        return [cell for cell in cells if cell["cell_type"] == "code"]
    except OSError as error:
        raise Refusal(f"{notebook} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(f"{notebook} is not a notebook: {error!r}") from error


def _assigned(statement: ast.stmt) -> dict[str, Any]:
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets, value = [statement.target], statement.value
    else:
        raise ValueError(f"line {statement.lineno} is no assignment")
    assigned: dict[str, Any] = {}
    for target in targets:
        literal = ast.literal_eval(value)
        if isinstance(target, ast.Name):
            assigned[target.id] = literal
        elif isinstance(target, ast.Tuple | ast.List) and all(isinstance(name, ast.Name) for name in target.elts):
            names = [name.id for name in target.elts if isinstance(name, ast.Name)]
            assigned.update(zip(names, literal, strict=True))
        else:
            raise ValueError(f"line {statement.lineno} assigns to something other than a name")
    return assigned


class _Loader(yaml.SafeLoader):
    """Scalars as YAML 1.2's core schema reads them: 1e-3 is a number, and `on`, 010 and dates are texts."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?((\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def parse_assignment(text: str) -> tuple[str, Any]:
    """Split `name=value`; the value is a YAML scalar, `[list]` or `{mapping: of values}`.

    >>> parse_assignment("seeds=2"), parse_assignment("overrides={rate: 1e-3, widths: [8, 16]}")
    (('seeds', 2), ('overrides', {'rate': 0.001, 'widths': [8, 16]}))
    """
    name, separator, value = text.partition("=")
    if not separator or not name.strip().isidentifier():
        raise Refusal(f"parameter {text!r} must have the form name=value")
    try:
        return name.strip(), yaml.load(value, _Loader)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise Refusal(
            f"the value of parameter {name.strip()!r} is {value!r}, which is not YAML: {' '.join(str(error).split())}"
        ) from error


def make_plan(
    chapter: ChapterRecord,
    preset: str | None = None,
    seed: int | None = None,
    assignments: Iterable[tuple[str, Any]] = (),
    elsewhere: bool = False,
) -> Plan:
    """Check a request against the notebook's parameters cell and the chapter's presets.

    `preset` defaults to NIPS26_PRESET, else smoke; `seed` to the cell's own. An assignment names a parameter of the
    notebook or, for short, a field of the preset, which then joins the overrides. Refusal for whatever is unknown,
    doubled, of the wrong type, or beyond this machine. `elsewhere` says that another machine will run it: then this
    one's device is not asked, and the plan's is empty.
    """
    defaults = read_parameters(chapter.notebook)
    lacking = [name for name in EXPECTED if name not in defaults]
    if lacking:
        raise Refusal(
            f"{chapter.notebook}: the cell tagged 'parameters' must assign {', '.join(EXPECTED)}; "
            f"{lacking[0]!r} is missing"
        )
    presets = _presets(chapter)
    settings = sorted({field.name for each in presets.values() for field in fields(each)})

    given: dict[str, Any] = {}
    shorthand: dict[str, Any] = {}
    explicit = [(name, value) for name, value in (("preset", preset), ("seed", seed)) if value is not None]
    for name, value in [*explicit, *assignments]:
        if name not in defaults and name not in settings:
            raise Refusal(
                f"chapter {chapter.slug!r} has no parameter {name!r}; its parameters: {', '.join(defaults)}; "
                f"the fields of its presets: {', '.join(settings)}"
            )
        into = given if name in defaults else shorthand
        if name in into:
            raise Refusal(f"parameter {name!r} is given twice")
        into[name] = _checked(name, value, defaults[name]) if name in defaults else value

    overrides = dict(given.pop("overrides", defaults["overrides"]))
    for name, value in shorthand.items():
        if name in overrides:
            raise Refusal(f"parameter {name!r} is given twice: alone and in overrides")
        overrides[name] = value
    chosen = given.pop("preset", None) or os.environ.get("NIPS26_PRESET") or "smoke"
    number = given.pop("seed", defaults["seed"])
    return _resolved(chapter, presets, chosen, number, overrides, given, elsewhere)


def _resolved(
    chapter: ChapterRecord,
    presets: Mapping[str, Any],
    preset: str,
    seed: int,
    overrides: dict[str, Any],
    extra: dict[str, Any],
    elsewhere: bool,
) -> Plan:
    from nips26lib.chapter.presets import choose_device, resolve

    if not 0 <= seed < 2**32:
        raise Refusal(f"seed is {seed}; it must be from 0 to 2**32 - 1")
    try:
        settings = resolve(presets, preset, overrides)
        device = "" if elsewhere else str(choose_device(presets, preset, settings))
    except (ValueError, TypeError) as error:
        raise Refusal(f"chapter {chapter.slug!r}: {error}") from error
    if settings.threads < 1:
        raise Refusal(f"chapter {chapter.slug!r}: setting 'threads' is {settings.threads}; it must be at least 1")
    return Plan(chapter, preset, seed, overrides, extra, device, settings.threads, settings.needs_gpu)


def _presets(chapter: ChapterRecord) -> Mapping[str, Any]:
    try:
        presets = importlib.import_module(chapter.module).PRESETS
    except (ImportError, AttributeError) as error:
        reason = f"the presets cannot be had from module {chapter.module!r}: {error}"
        raise Refusal(f"chapter {chapter.slug!r}: {reason}") from error
    if not isinstance(presets, Mapping) or not presets:
        raise Refusal(f"chapter {chapter.slug!r}: PRESETS of module {chapter.module!r} must map names to presets")
    return presets


def _checked(name: str, value: Any, default: Any) -> Any:
    """The value, if it is of the default's type: an int passes for a float, a list for a tuple, a bool for neither."""
    wanted = type(default)
    if default is None or type(value) is wanted:
        return value
    if wanted is float and type(value) is int:
        return float(value)
    if wanted is tuple and type(value) is list:
        return tuple(value)
    raise Refusal(
        f"parameter {name!r} is {value!r} ({type(value).__name__}); it must be of type {wanted.__name__}, "
        f"like its default {default!r}"
    )
