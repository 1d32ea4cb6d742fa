"""Every chapter keeps to the contract, and the contract refuses what it should."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from nips26lib.chapter.obtaining import Obtained
from nips26lib.runs.catalogue import Budget, ChapterRecord, Paper, load_catalogue
from tests.book import contract
from tests.book.reading import Chapter, headings_of, read_chapter, without_code

BOOK = Path(__file__).parents[2] / "book"


@pytest.mark.parametrize("record", load_catalogue(BOOK).chapters, ids=lambda record: record.slug)
def test_chapter_keeps_the_contract(record: ChapterRecord) -> None:
    faults = contract.violations(read_chapter(record))
    assert not faults, "\n".join(["", *faults])


def test_every_notebook_of_the_book_is_a_chapter() -> None:
    stored = {path for path in BOOK.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts}
    assert stored == {record.notebook for record in load_catalogue(BOOK).chapters}


# A chapter that is as small as the contract allows, and what is wrong with it after one change.

ALT = "Accuracy against the number of faults, one line a method"
FIGURE = f'<figure class="nips26-figure" data-name="main"><img alt="{ALT}" src="data:image/png;base64,AA=="/></figure>'
PLAYER = f'<div class="nips26-explorable"><img alt="{ALT}" src="data:image/png;base64,AA=="/></div>'
LISTING = '<a class="nips26-source" href="../../nips26lib/papers/tiny.py">tiny.py</a>\n\n```python\ntable[0](a.b)\n```'
CLAIM = {"id": "first", "statement": "It works.", "verdict": "reproduced", "reason": None, "measurements": []}
EXERCISE = "### Exercise {}: think\n\nHow?\n\n<details><summary>Solution</summary>\n\nSo.\n\n</details>"


def code(source: str, *outputs: dict[str, Any], tags: tuple[str, ...] = ()) -> Any:
    return new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags)} if tags else {})


def shown(**data: Any) -> Any:
    return new_output("display_data", data={mime.replace("__", "/", 1): value for mime, value in data.items()})


def html(text: str) -> Any:
    return shown(text__html=text)


def claims_output(**changes: Any) -> Any:
    table = {"chapter": "tiny", "preset": "laptop", "seed": 0, "device": "cpu", "claims": [dict(CLAIM)], **changes}
    return new_output("execute_result", data={contract.CLAIMS_MIME: table, "text/plain": "claims"}, execution_count=1)


def good_notebook() -> Any:
    box = "> **What is faithful here.** All of it is our reconstruction of {cite:t}`someone2026`."
    cells = [
        new_markdown_cell(
            f"# A tiny chapter\n\n## The question\n\nWhy?\n\n{box}\n\n[data](../data.csv) [web](https://x.y/z)"
        ),
        code('preset, seed, overrides = "laptop", 0, {}', tags=("parameters",)),
        new_markdown_cell("## The idea"),
        code("claims = Claims(tiny.CLAIMS)\nclaims.conditions()", html("<table></table>")),
        code("# NBVAL_CHECK_OUTPUT\nprint(1 + 1)", new_output("stream", name="stdout", text="2\n")),
        new_markdown_cell("## The method\n\n$$\nx = f[x](t/T)\n$$ (eq-tiny)"),
        code("show(project)", shown(text__markdown=LISTING)),
        new_markdown_cell("## What happens"),
        code("claims.measure('first', 'gain', 2.0)\nshow_figure(figure)", html(FIGURE)),
        new_markdown_cell("## Explore"),
        code("explorable(draw)", html(PLAYER)),
        new_markdown_cell("## Claims"),
        code("claims  # the table", claims_output()),
        new_markdown_cell("## Where it breaks"),
        code("print('worse')", new_output("stream", name="stdout", text="worse\n")),
        new_markdown_cell("## Exercises\n\n" + "\n\n".join(EXERCISE.format(number) for number in (1, 2, 3))),
        code("check(answer)", tags=("checker",)),
        new_markdown_cell("## Further reading"),
        code("from nips26lib.papers import tiny\n\ntiny.project(1)"),
    ]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    number_cells(notebook)
    return notebook


def number_cells(notebook: Any) -> None:
    for number, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), 1):
        cell.execution_count = number


RECORD = ChapterRecord(
    slug="tiny",
    part="part",
    title="A tiny chapter",
    question="Why?",
    module="nips26lib.papers.tiny",
    picture="main",
    paper=Paper(title=None, authors=(), arxiv=None, cite=("someone2026",), note=""),
    data=(),
    claims=("first",),
    budget=dict.fromkeys(("smoke", "laptop", "gpu"), Budget(1.0, 1.0)),
    notebook=Path("part/tiny.ipynb"),
)


def good_chapter() -> Chapter:
    files = {"../data.csv", "../../nips26lib/papers/tiny.py"}
    return Chapter(good_notebook(), RECORD, 10_000, frozenset({"someone2026"}), ("first",), files.__contains__)


def test_the_smallest_good_chapter_passes() -> None:
    assert contract.violations(good_chapter()) == []


def cell_of(notebook: Any, start: str) -> Any:
    return next(cell for cell in notebook.cells if start in cell.source)


def source(start: str, old: str, new: str) -> Callable[[Any], None]:
    """A change that replaces text in the first cell that holds `start`."""

    def change(notebook: Any) -> None:
        cell = cell_of(notebook, start)
        assert old in cell.source
        cell.source = cell.source.replace(old, new)

    return change


def outputs(start: str, *new: Any) -> Callable[[Any], None]:
    """A change that replaces the outputs of the first cell that holds `start`."""

    def change(notebook: Any) -> None:
        cell_of(notebook, start).outputs = list(new)

    return change


def stream(text: str, name: str = "stdout") -> Callable[[Any], None]:
    return outputs("print('worse')", new_output("stream", name=name, text=text))


def both(*changes: Callable[[Any], None]) -> Callable[[Any], None]:
    def change(notebook: Any) -> None:
        for one in changes:
            one(notebook)

    return change


def without(start: str) -> Callable[[Any], None]:
    def change(notebook: Any) -> None:
        notebook.cells.remove(cell_of(notebook, start))
        number_cells(notebook)

    return change


def untagged(start: str) -> Callable[[Any], None]:
    def change(notebook: Any) -> None:
        cell_of(notebook, start).metadata = nbformat.from_dict({})

    return change


def claim(**changes: Any) -> Callable[[Any], None]:
    return outputs("# the table", claims_output(claims=[{**CLAIM, **changes}]))


def swap_sections(notebook: Any) -> None:
    explore, claims = cell_of(notebook, "## Explore"), cell_of(notebook, "## Claims")
    explore.source, claims.source = claims.source, explore.source


def parameters_later(notebook: Any) -> None:
    notebook.cells.insert(1, code("run = start('tiny', {}, 'laptop', 0, {})"))
    number_cells(notebook)


def conditions_late(notebook: Any) -> None:
    cell = cell_of(notebook, "claims.conditions()")
    notebook.cells.remove(cell)
    notebook.cells.insert(notebook.cells.index(cell_of(notebook, "## Explore")), cell)
    number_cells(notebook)


def second_parameters(notebook: Any) -> None:
    notebook.cells.insert(2, code("preset = 'gpu'", tags=("parameters",)))
    number_cells(notebook)


def injected_parameters(notebook: Any) -> None:
    notebook.cells.insert(2, code("preset = 'gpu'", tags=("injected-parameters",)))
    number_cells(notebook)


def run_out_of_order(notebook: Any) -> None:
    cell_of(notebook, "# the table").execution_count = 99


def widget_state(notebook: Any) -> None:
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {}}


def other_kernel(notebook: Any) -> None:
    notebook.metadata.kernelspec.name = "my-env"


def machine_in_metadata(notebook: Any) -> None:
    notebook.metadata["papermill"] = {"output_path": "/home/me/out.ipynb"}


ERROR = new_output("error", ename="ValueError", evalue="no", traceback=[])
WIDGET = shown(**{"application__vnd.jupyter.widget-view+json": {"model_id": "1"}})
FIGURE_TWICE = outputs("show_figure(figure)", html(FIGURE), html(FIGURE))
SILENT = html(FIGURE.replace(ALT, "a plot"))
UNFOLDED = EXERCISE.format(2).replace("<details><summary>Solution</summary>", "**Solution**").replace("</details>", "")

BROKEN: dict[str, tuple[Callable[[Any], None], str]] = {
    "a stand-in for data": (
        outputs("print('worse')", new_output("display_data", data=Obtained("Cora", False, 1)._repr_mimebundle_())),
        "real_data: the stored run had a stand-in for 'Cora'",
    ),
    "other kernel": (other_kernel, "valid: the kernel is 'my-env'; it must be 'python3'"),
    "another title": (source("# A tiny", "# A tiny chapter", "# Tiny"), "title_and_sections: the level-1 headings are"),
    "second title": (source("## Explore", "## Explore", "# Explore"), "there must be one, first of all"),
    "sections swapped": (swap_sections, "title_and_sections: the sections are"),
    "section missing": (source("## Claims", "## Claims", "### Claims"), "they must be, in this order"),
    "no parameters": (untagged("preset, seed"), "0 cells are tagged 'parameters'"),
    "two parameters": (second_parameters, "2 cells are tagged 'parameters'"),
    "injected parameters": (injected_parameters, "a cell is tagged 'injected-parameters'"),
    "parameters at smoke": (source("preset, seed", "laptop", "smoke"), "the parameters cell assigns"),
    "parameters compute": (source("preset, seed", "0, {}", "int(0), {}"), "that is no plain assignment"),
    "parameters not first": (parameters_later, "it must stand before start(...)"),
    "no worked example": (source("print(1 + 1)", "# NBVAL_CHECK_OUTPUT\n", ""), "worked_example: 'The idea' has no"),
    "worked example silent": (outputs("print(1 + 1)"), "is to be checked but has no output"),
    "error stored": (outputs("print('worse')", ERROR), "ended in ValueError"),
    "stderr": (stream("hm\n", name="stderr"), "wrote to stderr"),
    "warning": (stream("x.py:1: UserWarning: careful\n"), "shows a warning"),
    "progress bar": (stream(" 50%|#####     | 5/10\n"), "shows a progress bar"),
    "progress rate": (stream("epoch 3, 12.5it/s\n"), "shows a progress bar"),
    "carriage return": (stream("1\r2\n"), "shows a carriage return"),
    "address": (stream("<Model object at 0x7f00aabbcc>\n"), "shows the address of an object"),
    "widget view": (outputs("explorable(", html(PLAYER), WIDGET), "stores a widget"),
    "widget state": (widget_state, "metadata holds widget state"),
    "bare image": (outputs("print('worse')", shown(image__png="AA==")), "shows a bare image/png"),
    "run out of order": (
        run_out_of_order,
        "execution_order: the execution counts are [1, 2, 3, 4, 5, 6, 99, 8, 9, 10]",
    ),
    "no box": (source("# A tiny", "> **What is faithful here.**", "What is faithful here:"), "has no box"),
    "silent reconstruction": (
        source("# A tiny", "our reconstruction", "the method"),
        "must speak of 'our reconstruction'",
    ),
    "no numbered equation": (source("## The method", "(eq-tiny)", ""), "has no numbered equation"),
    "no listing": (outputs("show(project)"), "shows no source of the library"),
    "no figure": (outputs("show_figure(figure)"), "'What happens' has no figure"),
    "nothing breaks": (outputs("print('worse')"), "'Where it breaks' has no output"),
    "no picture": (outputs("show_figure(figure)", html(FIGURE.replace("main", "other"))), "is named 'main'"),
    "two pictures": (FIGURE_TWICE, "or more than one, is named 'main'"),
    "no explorable": (outputs("explorable("), "'Explore' has 0 explorables"),
    "four explorables": (outputs("explorable(", html(PLAYER * 4)), "'Explore' has 4 explorables"),
    "explorable elsewhere": (
        both(outputs("explorable("), outputs("# the table", claims_output(), html(PLAYER))),
        "has 0 expl",
    ),
    "heavy explorable": (outputs("explorable(", html(PLAYER + " " * 600_000)), "makes an explorable of 600"),
    "no conditions": (without("claims.conditions()"), "nothing shows the conditions before"),
    "conditions too late": (conditions_late, "nothing shows the conditions before the first claim is measured"),
    "no claims table": (outputs("# the table"), "there must be one claims table"),
    "claims table elsewhere": (both(outputs("# the table"), outputs("print('worse')", claims_output())), "in 'Claims'"),
    "claims at smoke": (
        outputs("# the table", claims_output(preset="smoke")),
        "says preset 'smoke'; it must be 'laptop'",
    ),
    "claims of another": (outputs("# the table", claims_output(chapter="x")), "says chapter 'x'; it must be 'tiny'"),
    "other claims": (claim(id="second"), "the table's claims are ['second']; chapters.yml lists ['first']"),
    "unknown verdict": (claim(verdict="fine"), "has the verdict 'fine'"),
    "failed without a reason": (claim(verdict="not reproduced"), "say what we think is the reason"),
    "short alt text": (outputs("show_figure(figure)", SILENT), "an image whose alt text is 'a plot'"),
    "short alt in prose": (source("# A tiny", "Why?", "![plot](../data.csv)"), "an image whose alt text is 'plot'"),
    "directive without alt": (source("# A tiny", "Why?", "```{image} x\n:width: 3\n```"), "whose alt text is ''"),
    "two exercises": (source("### Exercise", EXERCISE.format(3), ""), "there must be three or more"),
    "exercises misnumbered": (source("### Exercise", "Exercise 3", "Exercise 4"), "'### Exercise 1: ...' and so on"),
    "solution in the open": (source("### Exercise", EXERCISE.format(2), UNFOLDED), "'Exercise 2: think' has no folded"),
    "no checker": (untagged("check(answer)"), "is tagged 'checker'"),
    "no snippet": (without("tiny.project(1)"), "'Further reading' has no code cell of 10 lines or fewer"),
    "long snippet": (
        source("tiny.project", "tiny.project(1)", "tiny.project(1)\n" * 10),
        "'Further reading' has no code",
    ),
    "snippet of another": (source("tiny.project", "import tiny", "import x"), "that imports nips26lib.papers.tiny"),
    "unknown citation": (
        source("## Claims", "Claims", "Claims\n\n{cite}`a2020,b2021`"),
        "'a2020' is cited but is not in",
    ),
    "paper not cited": (source("# A tiny", "{cite:t}`someone2026`", "someone"), "'someone2026' is a paper of this"),
    "paper cited too late": (
        both(
            source("# A tiny", "{cite:t}`someone2026`", "x"),
            source("## Claims", "Claims", "Claims\n\n{cite}`someone2026`"),
        ),
        "'The question' cites none of",
    ),
    "path in a source": (source("show(project)", "show", "open('/home/me/x')\nshow"), "holds the path '/home'"),
    "path in an output": (stream("saved to /tmp/x\n"), "holds the path '/tmp'"),
    "path of Windows": (stream("C:\\Users\\me\n"), "holds the path 'C:\\\\Users"),
    "path in metadata": (machine_in_metadata, "the notebook's metadata holds the path '/home'"),
    "dead link": (source("# A tiny", "../data.csv", "../gone.csv"), "links to '../gone.csv', which is not there"),
    "dead listing link": (
        outputs("show(project)", html(LISTING.replace("tiny.py", "x.py"))),
        "papers/x.py', which is not",
    ),
}


def test_what_the_book_holds_of_a_sweep_must_be_in_the_claims_table() -> None:
    found = {"runs": 4, "preset": "laptop", "hardware": "one core", "date": "2026-12-01", "claims": []}
    chapter = dataclasses.replace(good_chapter(), evidence=found)
    assert any(fault.startswith("evidence: the book holds the evidence of 4") for fault in contract.violations(chapter))
    shown_there = claims_output()
    shown_there.data["text/html"] = "<table><caption>beside it 4 laptop runs on one core, 2026-12-01</caption></table>"
    outputs("# the table", shown_there)(chapter.notebook)
    assert contract.violations(chapter) == []


@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_chapter_is_refused_by_name(change: Callable[[Any], None], message: str) -> None:
    chapter = good_chapter()
    change(chapter.notebook)
    faults = contract.violations(chapter)
    assert any(message in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 3_000_001}, "size: the file has 3000001 bytes; it may have 3000000"),
        ({"module_claims": ("first", "more")}, "nips26lib.papers.tiny.CLAIMS' claims are ['first', 'more']"),
        ({"bibliography": frozenset()}, "'someone2026' is cited but is not in references.bib"),
    ],
)
def test_a_chapter_that_does_not_fit_the_book_is_refused(changes: dict[str, Any], message: str) -> None:
    faults = contract.violations(dataclasses.replace(good_chapter(), **changes))
    assert any(message in fault for fault in faults), faults


def test_a_file_that_is_no_notebook_is_refused() -> None:
    chapter = good_chapter()
    del chapter.notebook["cells"][1]["outputs"]
    assert any("no valid notebook" in fault for fault in contract.valid(chapter))


def test_every_rule_has_a_broken_chapter() -> None:
    refused = set()
    for change, _ in BROKEN.values():
        chapter = good_chapter()
        change(chapter.notebook)
        refused |= {fault.split(":")[0] for fault in contract.violations(chapter)}
    assert refused | {"size", "evidence"} == {rule.__name__ for rule in contract.RULES}


def test_headings_in_code_are_none() -> None:
    cell = new_markdown_cell("## One\n\n```python\n# no heading\n## nor this\n```\n\n### Two")
    assert headings_of(cell) == [(2, "One"), (3, "Two")]


def test_code_and_mathematics_hold_no_links() -> None:
    text = "`a[0](b.c)` $x[0](t/T)$ [kept](d.md)\n\n~~~\n[gone](e.md)\n~~~\n\n```{image} f.png\n:alt: kept\n```"
    assert without_code(text).split() == ["[kept](d.md)", "```{image}", "f.png", ":alt:", "kept", "```"]
