"""Data sets: where they come from, under which licence, and how a chapter gets them as tensors."""

from __future__ import annotations

from nips26lib.data.images import Split, cifar10, digits, mnist5k

__all__ = ["Split", "cifar10", "digits", "mnist5k"]
