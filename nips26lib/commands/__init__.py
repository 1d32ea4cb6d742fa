"""The commands of `nips26`, a module each; every one takes the parsed options and gives its exit status.

Imports come with what needs them, so that help is instant.
"""

from __future__ import annotations

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
