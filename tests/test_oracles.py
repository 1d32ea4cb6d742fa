from __future__ import annotations

import math

import pytest

from tests import oracles


def test_an_oracle_that_is_there_is_the_module() -> None:
    assert oracles.oracle("math") is math


def test_a_reader_without_an_oracle_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="the oracle 'no_such_library' is not installed"):
        oracles.oracle("no_such_library")


def test_ci_without_an_oracle_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI must compare with it"):
        oracles.oracle("no_such_library")


def test_ci_skips_what_the_list_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setitem(oracles.MAY_BE_ABSENT_IN_CI, "no_such_library", "has no wheel")
    with pytest.raises(pytest.skip.Exception, match="has no wheel"):
        oracles.oracle("no_such_library")
