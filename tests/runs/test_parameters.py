from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nips26lib.runs import Refusal
from nips26lib.runs.parameters import make_plan, parse_assignment, read_parameters
from tests.tinybook import TinyBook


def notebook(path: Path, *sources: str | list[str], tag: str = "parameters") -> Path:
    cells = [{"cell_type": "code", "metadata": {"tags": [tag]}, "source": source} for source in sources]
    path.write_text(json.dumps({"cells": cells}))
    return path


@pytest.mark.parametrize(("source", "values"), [
    ('preset, seed, overrides = "laptop", 0, {}', {"preset": "laptop", "seed": 0, "overrides": {}}),
    ("a = 1\nb: float = -2.5  # how far\n[c, d] = (3, [4])", {"a": 1, "b": -2.5, "c": 3, "d": [4]}),
    ("a = b = None", {"a": None, "b": None}),
    (["a = 1\n", "b = 2"], {"a": 1, "b": 2}),
])  # fmt: skip
def test_defaults_are_read_without_running_the_cell(tmp_path: Path, source: str, values: dict[str, object]) -> None:
    assert read_parameters(notebook(tmp_path / "n.ipynb", source)) == values


@pytest.mark.parametrize("source", ["a = open('x')", "import os", "a.b = 1", "a, b = 1, 2, 3", "a, b = 1", "a = ("])
def test_a_parameters_cell_with_anything_else_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(Refusal, match=r"n\.ipynb.*only assignments of literals"):
        read_parameters(notebook(tmp_path / "n.ipynb", source))


def test_a_notebook_needs_exactly_one_parameters_cell(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="has no cell tagged 'parameters'"):
        read_parameters(notebook(tmp_path / "n.ipynb", "a = 1", tag="other"))
    with pytest.raises(Refusal, match="has 2 cells tagged 'parameters'"):
        read_parameters(notebook(tmp_path / "n.ipynb", "a = 1", "b = 1"))
    (tmp_path / "n.ipynb").write_text("{")
    with pytest.raises(Refusal, match="is not a notebook"):
        read_parameters(tmp_path / "n.ipynb")
    with pytest.raises(Refusal, match=r"absent\.ipynb cannot be read"):
        read_parameters(tmp_path / "absent.ipynb")


@pytest.mark.parametrize(("text", "value"), [
    ("2", 2), ("-2", -2), ("2.5", 2.5), ("1e-3", 1e-3), ("1E5", 1e5), (".5", 0.5), ("true", True), ("null", None),
    ("", None), ("on", "on"), ("no", "no"), ("010", "010"), ("2026-01-01", "2026-01-01"),
    ("1:30", "1:30"), ("1_000", "1_000"),
    ("laptop", "laptop"), ("'7'", "7"), ("a=b", "a=b"), ("[1, 2.0, x]", [1, 2.0, "x"]),
    ("{seeds: 2, rate: 1e-3}", {"seeds": 2, "rate": 1e-3}),
])  # fmt: skip
def test_values_are_yaml_scalars_and_flows(text: str, value: object) -> None:
    name, parsed = parse_assignment(f"x={text}")
    assert (name, parsed, type(parsed)) == ("x", value, type(value))


@pytest.mark.parametrize("text", ["x", "=1", "a b=1", "1a=1", "x={a: ", "x=!!python/object/apply:os.getcwd []"])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        parse_assignment(text)


def test_a_plan_fills_in_defaults_and_travels(book: TinyBook, monkeypatch: pytest.MonkeyPatch) -> None:
    chapter = book.catalogue.chapter("tiny")
    plan = make_plan(chapter)
    assert (plan.preset, plan.seed, plan.overrides, plan.threads) == ("smoke", 0, {}, 1)
    assert plan.directory == Path("tiny/smoke-seed0")
    monkeypatch.setenv("NIPS26_PRESET", "laptop")
    assert (make_plan(chapter).preset, make_plan(chapter).threads) == ("laptop", 2)
    assert make_plan(chapter, "smoke", 7).directory == Path("tiny/smoke-seed7")
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_a_field_of_the_preset_joins_the_overrides(book: TinyBook) -> None:
    chapter = book.catalogue.chapter("tiny")
    short = make_plan(chapter, assignments=[("seeds", 2), ("widths", [1, 2])])
    long = make_plan(chapter, assignments=[("overrides", {"widths": [1, 2], "seeds": 2})])
    assert short.parameters == {"preset": "smoke", "seed": 0, "overrides": {"seeds": 2, "widths": [1, 2]}}
    assert short.directory == long.directory != make_plan(chapter).directory
    assert short.directory != make_plan(chapter, assignments=[("seeds", 3)]).directory


def test_other_parameters_of_the_notebook_are_passed_on(book: TinyBook) -> None:
    book.write("more", parameters='preset, seed, overrides = "laptop", 0, {}\nratio, labels = 0.5, (1, 2)')
    chapter = book.catalogue.chapter("more")
    plan = make_plan(chapter, assignments=[("ratio", 1), ("labels", [3]), ("seed", 4)])
    assert plan.extra == {"ratio": 1.0, "labels": (3,)} and plan.seed == 4
    assert plan.parameters["ratio"] == 1.0
    assert plan.directory.name.startswith("smoke-seed4-")


@pytest.mark.parametrize(("assignments", "words"), [
    ([("sedes", 2)], ["no parameter 'sedes'", "preset, seed, overrides", "rate, seeds, threads, widths"]),
    ([("preset", "huge")], ["'huge'", "'smoke', 'laptop', 'gpu'"]),
    ([("preset", 7)], ["'preset' is 7 (int)", "str"]),
    ([("seed", "x")], ["'seed' is 'x' (str)", "int"]),
    ([("seed", True)], ["'seed' is True (bool)", "int"]),
    ([("seed", -1)], ["seed is -1", "from 0"]),
    ([("seed", 1.5)], ["'seed' is 1.5 (float)", "int"]),
    ([("overrides", [1])], ["'overrides' is [1] (list)", "dict"]),
    ([("overrides", {"sedes": 1})], ["'sedes'", "'seeds'"]),
    ([("overrides", {"seeds": "many"})], ["'seeds'", "'many'", "int"]),
    ([("seeds", 2.5)], ["'seeds'", "2.5", "int"]),
    ([("rate", True)], ["'rate'", "True", "float"]),
    ([("widths", [1, "x"])], ["'widths'", "tuple"]),
    ([("threads", 0)], ["'threads' is 0"]),
    ([("seeds", 1), ("seeds", 2)], ["'seeds'", "twice"]),
    ([("seeds", 1), ("overrides", {"seeds": 2})], ["'seeds'", "twice"]),
])  # fmt: skip
def test_a_wrong_request_is_refused(book: TinyBook, assignments: list[tuple[str, object]], words: list[str]) -> None:
    with pytest.raises(Refusal) as refusal:
        make_plan(book.catalogue.chapter("tiny"), assignments=assignments)
    text = str(refusal.value)
    assert all(word in text for word in words), text
    assert "\n" not in text


def test_preset_and_seed_are_not_taken_twice(book: TinyBook) -> None:
    chapter = book.catalogue.chapter("tiny")
    with pytest.raises(Refusal, match="'preset' is given twice"):
        make_plan(chapter, "smoke", assignments=[("preset", "laptop")])
    with pytest.raises(Refusal, match="'seed' is given twice"):
        make_plan(chapter, seed=1, assignments=[("seed", 1)])


@pytest.mark.skipif(torch.cuda.is_available(), reason="only a machine without a GPU lacks one")
def test_a_preset_that_needs_a_gpu_offers_laptop(book: TinyBook) -> None:
    with pytest.raises(Refusal, match=r"'gpu' needs a GPU.*laptop"):
        make_plan(book.catalogue.chapter("tiny"), "gpu")


def test_a_chapter_whose_presets_cannot_be_had_is_refused(book: TinyBook) -> None:
    for module, words in (("no_such_module", "no_such_module"), ("json", "PRESETS")):
        book.records[0]["module"] = module
        book.write("tiny")
        with pytest.raises(Refusal, match=rf"'tiny'.*{words}"):
            make_plan(book.catalogue.chapter("tiny"))


def test_a_parameters_cell_without_the_three_is_refused(book: TinyBook, no_kernel: Callable[[], None]) -> None:
    book.write("tiny", parameters='preset, seed = "laptop", 0')
    with pytest.raises(Refusal, match="'overrides' is missing"):
        make_plan(book.catalogue.chapter("tiny"))
