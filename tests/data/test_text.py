from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from nips26lib.data import text
from nips26lib.data.archives import DataCorrupt
from tests.data.real import mirror


@mirror
def test_the_real_texts_have_the_sizes_that_are_published() -> None:
    plays = text.tiny_shakespeare()
    assert len(plays) == 1_115_394 and plays.startswith("First Citizen:") and len(set(plays)) == 65
    for split, tokens in (("valid", 217_646), ("test", 245_569)):  # Merity et al., table 1
        articles = text.wikitext2(split)
        assert len(articles.split()) + articles.count("\n") == tokens and "<unk>" in articles


@mirror
def test_the_real_questions() -> None:
    train, test = text.gsm8k("train"), text.gsm8k("test")
    assert (len(train), len(test)) == (7473, 1319)
    assert test[0].question.startswith("Janet") and test[0].result == 18
    assert all(problem.result == problem.result for problem in (*train, *test)), "each ends in a number"
    problems = text.humaneval()
    assert len(problems) == 164 and problems[0].entry_point == "has_close_elements"
    assert all(f"def {problem.entry_point}" in problem.prompt for problem in problems)


@pytest.mark.parametrize("make", [
    partial(text.tiny_shakespeare_stand_in, characters=5000), partial(text.wikitext2_stand_in, tokens=500),
    partial(text.gsm8k_stand_in, problems=20), text.humaneval_stand_in,
])  # fmt: skip
def test_stand_ins_follow_their_seed(make: object) -> None:
    assert callable(make)
    assert make(seed=3) == make(seed=3) != make(seed=4)


def test_stand_ins_have_the_form_of_the_real() -> None:
    plays = text.tiny_shakespeare_stand_in(characters=20_000)
    assert len(plays) == 20_000 and ":\n" in plays
    articles = text.wikitext2_stand_in(tokens=5000)
    assert len(articles.split()) >= 5000 and 0.005 < articles.split().count("<unk>") / 5000 < 0.05
    for problem in text.gsm8k_stand_in(problems=50):
        left, _, right = problem.answer.split("<<")[2].partition(">>")[0].partition("=")
        first, _, second = left.partition("+")
        assert int(first) + int(second) == int(right) == problem.result
    for code in text.humaneval_stand_in(problems=20):
        names: dict[str, object] = {}
        exec(code.prompt + code.canonical_solution + code.test, names)  # our own text, a few lines above
        check, candidate = names["check"], names[code.entry_point]
        assert callable(check)
        check(candidate)


def test_what_is_no_record_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text('{"question": "How many?", "answer": "#### 3"}\n{"question": "?"}\n')
    monkeypatch.setattr(text, "fetch", lambda name: path)
    with pytest.raises(DataCorrupt, match=r"gsm8k_test\.jsonl, line 2, is no record with question, answer"):
        text.gsm8k("test")
    for call in (text.gsm8k, text.wikitext2):
        with pytest.raises(ValueError, match="split is 'all'"):
            call("all")
