"""Texts and question sets. Each has a stand-in: text that a small seeded grammar makes, of the same form."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass

from nips26lib.data.archives import DataCorrupt
from nips26lib.data.fetch import fetch

_NOUNS = ("king", "river", "house", "night", "sword", "garden", "letter", "storm", "voice", "crown", "table", "road")
_VERBS = ("sees", "keeps", "leaves", "fears", "finds", "breaks", "follows", "calls", "holds", "loses")
_ADJECTIVES = ("old", "bright", "silent", "gentle", "broken", "distant", "noble", "cold", "hidden", "heavy")
_SPEAKERS = ("DUKE", "QUEEN", "FIRST GUARD", "SECOND GUARD", "FOOL", "MESSENGER")


@dataclass(frozen=True)
class WordProblem:
    """A problem in words; the answer works it out and ends in `#### number`."""

    question: str
    answer: str

    @property
    def result(self) -> float:
        """The number after `####`."""
        return float(self.answer.rpartition("####")[2].replace(",", ""))


@dataclass(frozen=True)
class CodeProblem:
    """A function to complete: its head with docstring, its name, one right body, and the text of a test of it."""

    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str


def tiny_shakespeare() -> str:
    """1.1 million characters of Shakespeare's plays (public domain), as collected by Karpathy for char-rnn (MIT)."""
    return fetch("nugpt/tinyshakespeare.txt").read_text(encoding="utf-8")


def tiny_shakespeare_stand_in(seed: int = 0, characters: int = 1_115_394) -> str:
    """Speeches of a small grammar: a speaker, a colon, lines of sentences. As many `characters` as asked for."""
    draw = random.Random(seed)
    parts: list[str] = []
    size = 0
    while size < characters:
        lines = "\n".join(f"{_sentence(draw).capitalize()}." for _ in range(draw.randint(1, 5)))
        parts.append(f"{draw.choice(_SPEAKERS)}:\n{lines}\n\n")
        size += len(parts[-1])
    return "".join(parts)[:characters]


def wikitext2(split: str) -> str:
    """WikiText-2: articles of Wikipedia (CC BY-SA 3.0), a token between blanks, rare words as <unk>. 217,646 tokens in
    "valid" and 245,569 in "test", an end of line counted as one; Merity et al., arXiv 1609.07843.
    """
    if split not in ("valid", "test"):
        raise ValueError(f"split is {split!r}; it must be 'valid' or 'test' (the training part is not in the mirror)")
    return fetch(f"hybrid-mup/wikitext2_{split}.txt").read_text(encoding="utf-8")


def wikitext2_stand_in(seed: int = 0, tokens: int = 217_646) -> str:
    """Articles of a small grammar in WikiText's form: headings between `=`, tokens between blanks, one in fifty
    <unk>.
    """
    draw = random.Random(seed)
    lines: list[str] = []
    count = 0
    while count < tokens:
        words = " ".join(_sentence(draw) + " ." for _ in range(draw.randint(2, 8))).split()
        words = ["<unk>" if draw.random() < 0.02 else word for word in words]
        lines += [f" = {draw.choice(_NOUNS)} = ", "", f" {' '.join(words)} ", ""]
        count += len(words) + 3
    return "\n".join(lines)


def gsm8k(split: str) -> list[WordProblem]:
    """GSM8K: 7,473 + 1,319 grade-school problems with worked answers (MIT); Cobbe et al., arXiv 2110.14168."""
    if split not in ("train", "test"):
        raise ValueError(f"split is {split!r}; it must be 'train' or 'test'")
    name = f"lora/gsm8k_{split}.jsonl"
    lines = fetch(name).read_text(encoding="utf-8").splitlines()
    return [WordProblem(**record) for record in _records(lines, name, ("question", "answer"))]


def gsm8k_stand_in(seed: int = 0, problems: int = 1319) -> list[WordProblem]:
    """Problems of two steps, a product and a sum, in GSM8K's form: each step in <<…>>, the result after ####."""
    draw = random.Random(seed)
    found = []
    for _ in range(problems):
        each, days, more, noun = draw.randint(2, 30), draw.randint(2, 12), draw.randint(1, 40), draw.choice(_NOUNS)
        product = each * days
        total = product + more
        question = (
            f"Someone paints {each} pictures of a {noun} every day for {days} days, and then buys {more} more. "
            "How many are there?"
        )
        answer = (
            f"{days} days give {each}*{days} = <<{each}*{days}={product}>>{product} pictures.\n"
            f"With {more} more there are {product}+{more} = <<{product}+{more}={total}>>{total}.\n#### {total}"
        )
        found.append(WordProblem(question, answer))
    return found


def humaneval() -> list[CodeProblem]:
    """HumanEval: 164 Python functions to complete, each with a test (MIT); Chen et al., arXiv 2107.03374.

    Text only: nothing of it is run here.
    """
    name = "lora/HumanEval.jsonl.gz"
    with gzip.open(fetch(name), "rt", encoding="utf-8") as stream:
        keys = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
        return [CodeProblem(**record) for record in _records(stream, name, keys)]


def humaneval_stand_in(seed: int = 0, problems: int = 164) -> list[CodeProblem]:
    """Functions that add, multiply or subtract a constant, in HumanEval's form."""
    draw = random.Random(seed)
    found = []
    for number in range(problems):
        sign, constant = draw.choice("+*-"), draw.randint(1, 99)
        name = f"function_{number}"
        prompt = f'def {name}(x: int) -> int:\n    """ Return x {sign} {constant}.\n    """\n'
        test = f"def check(candidate):\n    assert candidate(7) == 7 {sign} {constant}\n"
        found.append(CodeProblem(f"StandIn/{number}", prompt, name, f"    return x {sign} {constant}\n", test))
    return found


def _sentence(draw: random.Random) -> str:
    return f"{_thing(draw)} {draw.choice(_VERBS)} {_thing(draw)}"


def _thing(draw: random.Random) -> str:
    return f"the {draw.choice(_ADJECTIVES)} {draw.choice(_NOUNS)}" if draw.random() < 0.5 else draw.choice(_NOUNS)


def _records(lines: Iterable[str], where: str, keys: tuple[str, ...]) -> Iterable[dict[str, str]]:
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            yield {key: str(record[key]) for key in keys}
        except (ValueError, KeyError, TypeError) as error:
            raise DataCorrupt(f"{where}, line {number}, is no record with {', '.join(keys)}: {error!r}") from error
