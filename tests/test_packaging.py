"""pyproject.toml, requirements.lock and environment.yml say the same."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
LOCK = [
    Requirement(line)
    for line in (ROOT / "requirements.lock").read_text().splitlines()
    if line.strip() and not line.lstrip().startswith("#")
]
# What `make` installs; `robotics` is installed by those who run its chapters.
INSTALLED = ("book", "cluster", "site", "oracles", "test")
CONDA_NAMES = {"pytorch": "torch"}


def specifiers(lines: list[str]) -> dict[str, SpecifierSet]:
    return {canonicalize_name(found.name): found.specifier for found in map(Requirement, lines)}


def test_every_locked_version_is_pinned() -> None:
    loose = [str(pin) for pin in LOCK if len(pin.specifier) != 1 or not str(pin.specifier).startswith("==")]
    assert LOCK and not loose


@pytest.mark.parametrize("group", ["library", "build", *EXTRAS])
@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_lock_satisfies_pyproject(python: str, platform: str, group: str) -> None:
    groups = {"library": PROJECT["dependencies"], "build": PYPROJECT["build-system"]["requires"], **EXTRAS}
    system = {"linux": "Linux", "darwin": "Darwin"}[platform]
    place = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": platform,
        "platform_system": system,
        "platform_machine": {"linux": "x86_64", "darwin": "arm64"}[platform],
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    applies = [pin for pin in LOCK if pin.marker is None or pin.marker.evaluate(place)]
    pins = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in applies}
    assert len(pins) == len(applies), "two pins of one package apply at once"
    for name, wanted in specifiers(groups[group]).items():
        assert name in pins, f"{name} is not locked; run `make lock`"
        assert wanted.contains(pins[name], prereleases=True), f"{name} is locked at {pins[name]}, wanted {wanted}"


def test_every_supported_python_is_locked() -> None:
    supported = SpecifierSet(PROJECT["requires-python"])
    assert [minor for minor in range(8, 20) if f"3.{minor}.9" in supported] == [11, 12, 13]


def test_conda_users_get_the_same_bounds() -> None:
    listed: list[Any] = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    conda = specifiers([line for line in listed if isinstance(line, str)])
    from_pypi = specifiers([line for entry in listed if isinstance(entry, dict) for line in entry["pip"]])
    assert conda.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert conda.pop("pip") == SpecifierSet()
    conda = {CONDA_NAMES.get(name, name): bound for name, bound in conda.items()}
    assert not conda.keys() & from_pypi.keys()
    assert conda | from_pypi == specifiers(
        [*PROJECT["dependencies"], *(line for extra in INSTALLED for line in EXTRAS[extra])]
    )


def test_make_installs_these_extras() -> None:
    assert f"-e '.[{','.join(INSTALLED)}]'" in (ROOT / "Makefile").read_text()


def test_the_citation_names_this_version() -> None:
    import nips26lib

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == nips26lib.__version__
    assert citation["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
