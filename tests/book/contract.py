"""What every chapter keeps to: one small pure function a rule, each giving what is wrong and what is right."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any

import nbformat

from nips26lib.chapter import read_claims
from nips26lib.chapter.evidence import size_of
from nips26lib.chapter.obtaining import read_data
from tests.book.reading import (
    Cell,
    Chapter,
    classed,
    elements,
    headings_of,
    html_of,
    name_of,
    outputs_of,
    tagged,
    texts_of,
)

SECTIONS = (
    "The question",
    "The idea",
    "The method",
    "What happens",
    "Explore",
    "Claims",
    "Where it breaks",
    "Exercises",
    "Further reading",
)
PARAMETERS = {"preset": "laptop", "seed": 0, "overrides": {}}
VERDICTS = ("reproduced", "not reproduced", "not testable at this preset", "not testable here")
CLAIMS_MIME = "application/vnd.nips26.claims+json"
LARGEST_NOTEBOOK = 3_000_000
LARGEST_EXPLORABLE = 600_000
SHORTEST_ALT = 20
LONGEST_SNIPPET = 10


def violations(chapter: Chapter) -> list[str]:
    """Everything that is wrong with the chapter, each line led by the rule's name."""
    return [f"{rule.__name__}: {fault}" for rule in RULES for fault in rule(chapter)]


def valid(chapter: Chapter) -> list[str]:
    try:
        nbformat.validate(nbformat.from_dict(chapter.notebook))
    except nbformat.ValidationError as error:
        return [f"the file is no valid notebook of format 4: {error.message}"]
    kernel = chapter.notebook["metadata"].get("kernelspec", {}).get("name")
    return [] if kernel == "python3" else [f"the kernel is {kernel!r}; it must be 'python3', which every Jupyter has"]


def title_and_sections(chapter: Chapter) -> list[str]:
    headings = [heading for cell in chapter.cells for heading in headings_of(cell)]
    titles = [text for level, text in headings if level == 1]
    sections = tuple(text for level, text in headings if level == 2)
    faults = []
    if titles != [chapter.record.title] or headings[0][0] != 1:
        faults.append(f"the level-1 headings are {titles}; there must be one, first of all: {chapter.record.title!r}")
    if sections != SECTIONS:
        faults.append(f"the sections are {list(sections)}; they must be, in this order, {list(SECTIONS)}")
    return faults


def parameters(chapter: Chapter) -> list[str]:
    cells = tagged(chapter.cells, "parameters")
    if len(cells) != 1 or cells[0]["cell_type"] != "code":
        return [f"{len(cells)} cells are tagged 'parameters'; there must be one, a code cell"]
    if tagged(chapter.cells, "injected-parameters"):
        return ["a cell is tagged 'injected-parameters'; a stored chapter has only its own parameters"]
    wanted = 'it must stand before start(...) and assign preset, seed, overrides = "laptop", 0, {} and nothing else'
    assigned: dict[str, Any] = {}
    try:
        for statement in ast.parse(cells[0]["source"]).body:
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                raise ValueError
            target, value = statement.targets[0], ast.literal_eval(statement.value)
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = value if isinstance(target, ast.Tuple) else [value]
            assigned.update(zip([ast.unparse(name) for name in names], values, strict=True))
    except (SyntaxError, ValueError):
        return [f"the parameters cell holds something that is no plain assignment; {wanted}"]
    before = [cell for cell in chapter.code()[: chapter.code().index(cells[0])] if "start(" in cell["source"]]
    if assigned != PARAMETERS or before:
        return [f"the parameters cell assigns {assigned}; {wanted}"]
    return []


def worked_example(chapter: Chapter) -> list[str]:
    marked = [
        cell for cell in chapter.section("The idea") if re.search(r"^# NBVAL_CHECK_OUTPUT$", cell["source"], re.M)
    ]
    if not marked:
        return ["'The idea' has no code cell with the line '# NBVAL_CHECK_OUTPUT'; its worked example must be checked"]
    return [f"{name_of(cell)} is to be checked but has no output" for cell in marked if not cell.get("outputs")]


RESIDUE = {
    r"\b\w*Warning: ": "a warning",
    r"\d+%\|": "a progress bar",
    r"\d+(\.\d+)?(it/s|s/it)\b": "a progress bar",
    r"\r(?!\n)": "a carriage return (a progress bar)",
    r"\bat 0x[0-9a-f]{6,}\b": "the address of an object",
    r"<Figure size \d": "the repr of a figure (end the cell with show_figure)",
    r"\bTraceback \(most recent call last\)": "a traceback",
}


def clean_outputs(chapter: Chapter) -> list[str]:
    faults = []
    for where, output in outputs_of(chapter.cells):
        if output["output_type"] == "error":
            faults.append(f"{where} ended in {output['ename']}; every stored cell must run")
        if output["output_type"] == "stream" and output["name"] == "stderr":
            faults.append(f"{where} wrote to stderr; a stored chapter writes nothing there")
        for kind, text in texts_of(output):
            if kind.startswith("application/vnd.jupyter.widget"):
                faults.append(f"{where} stores a widget; store chapters with `make store`, which runs them without")
            if kind in ("stdout", "stderr", "text/plain", "text/markdown"):
                faults += [f"{where} shows {what}" for mark, what in RESIDUE.items() if re.search(mark, text)]
            if kind.startswith("image/"):
                faults.append(f"{where} shows a bare {kind}; show_figure adds the alt text and the caption")
    if "widgets" in chapter.notebook["metadata"]:
        faults.append("the notebook's metadata holds widget state; store chapters with `make store`")
    return faults


def real_data(chapter: Chapter) -> list[str]:
    notes = read_data(chapter.notebook)
    return [
        f"the stored run had a stand-in for {note['name']!r}; store the chapter where its data can be had"
        for note in notes
        if not note["real"]
    ]


def execution_order(chapter: Chapter) -> list[str]:
    counts = [cell["execution_count"] for cell in chapter.code()]
    wanted = list(range(1, len(counts) + 1))
    return [] if counts == wanted else [f"the execution counts are {counts}; one run from top to bottom gives {wanted}"]


def size(chapter: Chapter) -> list[str]:
    if chapter.size <= LARGEST_NOTEBOOK:
        return []
    return [f"the file has {chapter.size} bytes; it may have {LARGEST_NOTEBOOK}: fewer frames, or raster figures"]


def question(chapter: Chapter) -> list[str]:
    prose, faults = chapter.prose("The question"), []
    if not re.search(r"^(>|:::+\{|```+\{).*What is faithful here", prose, re.MULTILINE):
        faults.append("'The question' has no box (quote or admonition) headed 'What is faithful here'")
    if chapter.record.paper.title is None and "our reconstruction" not in prose:
        faults.append("the paper could not be read, so 'The question' must speak of 'our reconstruction'")
    return faults


def method(chapter: Chapter) -> list[str]:
    cells, prose, faults = chapter.section("The method"), chapter.prose("The method"), []
    if not re.search(r"^\s*\$\$\s*\([\w:-]+\)\s*$|\$\$[^$]+\$\$\s*\([\w:-]+\)|^:label: \S", prose, re.MULTILINE):
        faults.append("'The method' has no numbered equation; write its label after it: $$ ... $$ (label)")
    if not classed(cells, "nips26-source"):
        faults.append("'The method' shows no source of the library; use show(function)")
    return faults


def experiments(chapter: Chapter) -> list[str]:
    faults = []
    if not classed(chapter.section("What happens"), "nips26-figure"):
        faults.append("'What happens' has no figure")
    if not any(cell.get("outputs") for cell in chapter.section("Where it breaks")):
        faults.append("'Where it breaks' has no output; the failure must be shown by a run")
    pictures = [element.attributes.get("data-name") for _, element in classed(chapter.cells, "nips26-figure")]
    if pictures.count(chapter.record.picture) != 1:
        faults.append(
            f"no figure, or more than one, is named {chapter.record.picture!r}, the chapter's picture; "
            f"the names are {[name for name in pictures if name]}"
        )
    return faults


def explorables(chapter: Chapter) -> list[str]:
    cells = chapter.section("Explore")
    number = len(classed(cells, "nips26-explorable"))
    faults = [] if 1 <= number <= 3 else [f"'Explore' has {number} explorables; it must have one to three"]
    for where, html in html_of(cells):
        if any("nips26-explorable" in element.classes for element in elements(html)) and len(html) > LARGEST_EXPLORABLE:
            faults.append(f"{where} makes an explorable of {len(html)} bytes; it may have {LARGEST_EXPLORABLE}")
    return faults


def conditions(chapter: Chapter) -> list[str]:
    cells = chapter.code()
    end = min((cells.index(cell) for cell in cells if ".measure(" in cell["source"]), default=len(cells))
    if any(".conditions()" in cell["source"] and cell.get("outputs") for cell in cells[:end]):
        return []
    return [
        "nothing shows the conditions before the first claim is measured; end an early cell with claims.conditions()"
    ]


def claims(chapter: Chapter) -> list[str]:
    def holders(cells: list[Cell]) -> int:
        return sum(CLAIMS_MIME in output.get("data", {}) for _, output in outputs_of(cells))

    if holders(chapter.section("Claims")) != 1 or holders(chapter.cells) != 1:
        return ["there must be one claims table, in 'Claims': end a cell there with the Claims object"]
    table, faults = read_claims(chapter.notebook), []
    assert table is not None
    wanted = list(chapter.record.claims)
    for what, ids in {
        "the table's": [claim["id"] for claim in table["claims"]],
        f"{chapter.record.module}.CLAIMS'": list(chapter.module_claims),
    }.items():
        if ids != wanted:
            faults.append(f"{what} claims are {ids}; chapters.yml lists {wanted}")
    for key, right in (("preset", "laptop"), ("chapter", chapter.record.slug)):
        if table[key] != right:
            faults.append(f"the claims table says {key} {table[key]!r}; it must be {right!r}")
    for claim in table["claims"]:
        if claim["verdict"] not in VERDICTS:
            faults.append(f"claim {claim['id']!r} has the verdict {claim['verdict']!r}; it must be one of {VERDICTS}")
        elif claim["verdict"] in ("not reproduced", "not testable here") and not claim["reason"]:
            faults.append(f"claim {claim['id']!r} is {claim['verdict']}; say what we think is the reason")
    return faults


def evidence(chapter: Chapter) -> list[str]:
    if chapter.evidence is None:
        return []
    size = size_of(chapter.evidence)
    tables = [html for _, html in html_of(chapter.section("Claims"))]
    return [] if any(size in html for html in tables) else [
        f"the book holds the evidence of {size}; the claims table must show it: store the chapter again"
    ]  # fmt: skip


def figures(chapter: Chapter) -> list[str]:
    described: list[tuple[str, str]] = []
    for where, html in html_of(chapter.cells):
        described += [
            (where, element.attributes.get("alt") or element.attributes.get("aria-label", ""))
            for element in elements(html)
            if element.tag == "img"
        ]
        described += [(where, alt) for alt in re.findall(r"!\[([^\]]*)\]\(", html)]
        for block in re.findall(r"^(?:```+|:::+)\{(?:figure|image)\}.*?^(?:```+|:::+)", html, re.MULTILINE | re.DOTALL):
            described.append((where, "".join(re.findall(r"^:alt: *(.*)$", block, re.MULTILINE))))
    return [
        f"{where} has an image whose alt text is {alt!r}; it needs {SHORTEST_ALT} characters or more"
        for where, alt in described
        if len(alt.strip()) < SHORTEST_ALT
    ]


def exercises(chapter: Chapter) -> list[str]:
    cells, faults = chapter.section("Exercises"), []
    blocks = re.split(r"^### ", chapter.prose("Exercises"), flags=re.MULTILINE)[1:]
    numbers = [re.match(r"Exercise (\d+): \S", block) for block in blocks]
    if len(blocks) < 3 or [match and int(match[1]) for match in numbers] != list(range(1, len(blocks) + 1)):
        faults.append(
            f"the exercises are headed {[block.splitlines()[0] for block in blocks]}; "
            "there must be three or more, '### Exercise 1: ...' and so on"
        )
    for block in blocks:
        if not re.search(r"<details>\s*<summary>Solution.*?</summary>.*\S.*</details>", block, re.DOTALL):
            faults.append(
                f"{block.splitlines()[0]!r} has no folded solution "
                "(<details><summary>Solution</summary> ... </details>)"
            )
    checkers = tagged(cells, "checker")
    if not checkers or any(cell["cell_type"] != "code" for cell in checkers):
        faults.append("no code cell of 'Exercises' is tagged 'checker'; one exercise must tell right from wrong")
    return faults


def further_reading(chapter: Chapter) -> list[str]:
    module = re.escape(chapter.record.module)
    package, _, name = chapter.record.module.rpartition(".")
    uses = re.compile(rf"\b{module}\b|from {re.escape(package)} import [^\n]*\b{re.escape(name)}\b")
    snippets = [cell for cell in chapter.section("Further reading") if cell["cell_type"] == "code"]
    fits = [
        cell
        for cell in snippets
        if uses.search(cell["source"])
        and sum(bool(line.strip()) for line in cell["source"].splitlines()) <= LONGEST_SNIPPET
    ]
    return (
        []
        if fits
        else [
            f"'Further reading' has no code cell of {LONGEST_SNIPPET} lines or fewer that imports "
            f"{chapter.record.module}"
        ]
    )


def citations(chapter: Chapter) -> list[str]:
    def cited(text: str) -> set[str]:
        return {key.strip() for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text) for key in keys.split(",")}

    everywhere = cited("\n".join(cell["source"] for cell in chapter.cells if cell["cell_type"] == "markdown"))
    own = chapter.record.paper.cite
    faults = [f"{key!r} is cited but is not in references.bib" for key in sorted(everywhere - chapter.bibliography)]
    faults += [f"{key!r} is a paper of this chapter but is not cited" for key in own if key not in everywhere]
    if own and not cited(chapter.prose("The question")) & set(own):
        faults.append(f"'The question' cites none of {list(own)}; the paper must be named there")
    return faults


LOCAL_PATH = re.compile(
    r"(?<![\w+/.~-])(?:/(?:home|root|tmp|work|Users|private|var/folders)(?![\w-])"
    r"|[A-Z]:\\+(?:Users|Documents|Program|Temp|Windows)\w*)"
)


def local_paths(chapter: Chapter) -> list[str]:
    texts = [("the notebook's metadata", json.dumps(chapter.notebook["metadata"]))]
    texts += [(name_of(cell), cell["source"] + "\n" + json.dumps(cell["metadata"])) for cell in chapter.cells]
    texts += [(where, text) for where, output in outputs_of(chapter.cells) for _, text in texts_of(output)]
    return [
        f"{where} holds the path {match[0]!r} of one machine"
        for where, text in texts
        if (match := LOCAL_PATH.search(text))
    ]


def links(chapter: Chapter) -> list[str]:
    faults = []
    for where, html in html_of(chapter.cells):
        targets = re.findall(r"\]\(<?([^)\s>]+)", html)
        targets += [element.attributes.get(name, "") for element in elements(html) for name in ("href", "src")]
        for target in targets:
            path = re.split(r"[#?]", target)[0]
            names_file = "/" in path or re.search(r"\.\w+$", path)
            if re.match(r"[a-z][a-z0-9+.-]*:|//", target, re.IGNORECASE) or not names_file:
                continue
            if path.startswith("/") or not chapter.exists(path):
                faults.append(f"{where} links to {target!r}, which is not there; a link is relative to the notebook")
    return faults


RULES: tuple[Callable[[Chapter], list[str]], ...] = (
    valid,
    title_and_sections,
    parameters,
    worked_example,
    clean_outputs,
    real_data,
    execution_order,
    size,
    question,
    method,
    experiments,
    explorables,
    conditions,
    claims,
    evidence,
    figures,
    exercises,
    further_reading,
    citations,
    local_paths,
    links,
)
