"""Data sets: where they come from, under which licence, and how a chapter gets them as tensors or arrays.

`registry` knows every file, `fetch` gets one, and each kind of data has a module with its loaders, and with a stand-in
beside each: `text`, `graphs`, `worlds`, `measurements`, `behaviour`, `neurons`, `verification`, `images`.
"""

from __future__ import annotations

from nips26lib.data.archives import DataCorrupt
from nips26lib.data.fetch import DataUnavailable
from nips26lib.data.images import Split, cifar10, digits, mnist5k

__all__ = ["DataCorrupt", "DataUnavailable", "Split", "cifar10", "digits", "mnist5k"]
