"""Trusted libraries that tests compare with, and which of them may be absent in CI."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

import pytest

# Import name -> why CI may do without it. Everything else of the extra `oracles` must be there.
MAY_BE_ABSENT_IN_CI: dict[str, str] = {}


def oracle(name: str) -> ModuleType:
    """The module of that name. Without it a reader's test is skipped, and CI's fails unless it is listed above."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:  # the oracle is there, but broken
            raise
        reason = MAY_BE_ABSENT_IN_CI.get(name)
        if os.environ.get("CI") == "true" and reason is None:
            pytest.fail(f"the oracle {name!r} is not installed; CI must compare with it (pip install -e '.[oracles]')")
        pytest.skip(f"the oracle {name!r} is not installed{f' ({reason})' if reason else ''}")
