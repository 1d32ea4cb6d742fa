"""The workflows parse, and call nothing that is not there."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
# YAML 1.1 reads the key `on` as true.
ON: Any = True


def read(name: str) -> dict[Any, Any]:
    content = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
    assert isinstance(content, dict)
    return content


def steps(workflow: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def commands(name: str) -> str:
    return "\n".join(step["run"] for step in steps(read(name)) if "run" in step)


def test_there_are_these_four() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "gpu", "nightly", "publish"]


@pytest.mark.parametrize("name", [path.stem for path in WORKFLOWS])
def test_a_workflow_is_well_formed(name: str) -> None:
    workflow = read(name)
    assert workflow["name"] == name
    assert workflow[ON] and "permissions" in workflow
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert set(job.get("needs", "").split()) <= workflow["jobs"].keys()
    for step in steps(workflow):
        assert ("run" in step) != ("uses" in step), step
        assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]), step


@pytest.mark.parametrize("name", [path.stem for path in WORKFLOWS])
def test_a_workflow_names_only_what_exists(name: str) -> None:
    called = set(re.findall(r"\bmake ((?:[a-z]+ ?)+)", commands(name)))
    assert {target for line in called for target in line.split()} <= TARGETS and called
    for script in re.findall(r"\bscripts/\w+\.py", commands(name)):
        assert (ROOT / script).is_file()


def test_ci_covers_every_python_that_the_project_supports() -> None:
    requires = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    supported = [f"3.{minor}" for minor in range(8, 20) if f"3.{minor}.9" in requires]
    assert read("ci")["jobs"]["test"]["strategy"]["matrix"]["python"] == supported
    assert "make test" in commands("ci")


def test_nightly_compares_each_chapter_at_laptop() -> None:
    workflow = read("nightly")
    assert workflow["jobs"]["laptop"]["strategy"]["matrix"]["chapter"].startswith(
        "${{ fromJson(needs.chapters.outputs."
    )
    assert "PRESET=laptop" in commands("nightly") and "scripts/compare_verdicts.py runs" in commands("nightly")
    assert any("upload-artifact" in step.get("uses", "") for step in steps(workflow))


def test_publish_says_where_the_repository_is() -> None:
    workflow = read("publish")
    assert workflow["env"].keys() >= {"NIPS26_REPOSITORY", "NIPS26_REVISION"}
    assert "make html" in commands("publish") and "scripts/colab_notebooks.py" in commands("publish")
    assert any("deploy-pages" in step.get("uses", "") for step in steps(workflow))


def test_gpu_is_started_by_hand_on_a_machine_of_our_own() -> None:
    workflow = read("gpu")
    assert set(workflow[ON]) == {"workflow_dispatch"}
    assert "self-hosted" in workflow["jobs"]["gpu"]["runs-on"]
    assert "PRESET=gpu" in commands("gpu")


def test_every_target_says_what_it_does() -> None:
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shown = {line.split()[1] for line in said.splitlines() if line.startswith("  make ")}
    assert shown == TARGETS


def test_the_script_of_ci_is_sound() -> None:
    path = ROOT / ".ci" / "run"
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
    assert "set -euo pipefail" in path.read_text() and path.read_text().rstrip().endswith("exec make test")
    assert path.stat().st_mode & 0o111
