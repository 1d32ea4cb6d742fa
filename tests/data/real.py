"""For tests of the real files: they run where NIPS26_DATA names a mirror."""

from __future__ import annotations

import os

import pytest

mirror = pytest.mark.skipif(not os.environ.get("NIPS26_DATA"), reason="NIPS26_DATA does not name a mirror of the data")
