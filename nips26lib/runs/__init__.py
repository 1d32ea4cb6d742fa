"""Executing chapters: the catalogue, one run and its record, the stored outputs. Knows no paper."""

from __future__ import annotations


class Refusal(ValueError):
    """What was asked cannot be done, and nothing has been touched: one sentence, what was wrong and what is right.

    The command line prints it alone and exits with status 2.
    """
