"""The image data sets: sizes, strata, standardisation, and an archive reader that runs nothing from the archive."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from nips26lib.data import images


def test_digits_has_the_stated_sizes_and_every_image_once():
    data = images.digits(seed=3)
    assert (len(data.train_y), len(data.test_y)) == (1200, 597)
    from sklearn.datasets import load_digits

    pixels, _ = load_digits(return_X_y=True)
    low, high = float(data.train_x.min()), float(data.train_x.max())
    images_back = (torch.cat([data.train_x, data.test_x]).reshape(1797, 64) - low) * (pixels.max() / (high - low))
    got, want = (np.unique(array, axis=0, return_counts=True) for array in (images_back.round().numpy(), pixels))
    assert (got[0] == want[0]).all()
    assert (got[1] == want[1]).all()


def test_splits_are_stratified():
    data = images.digits(seed=0)
    train = torch.bincount(data.train_y, minlength=10) / len(data.train_y)
    test = torch.bincount(data.test_y, minlength=10) / len(data.test_y)
    # Rounding to whole images moves a class by at most one image in each part.
    assert (train - test).abs().max() < 1 / 597 + 1 / 1200


def test_training_part_is_standardised_and_test_part_uses_its_numbers():
    data = images.digits(seed=0)
    assert data.train_x.mean().abs() < 1e-5
    assert (data.train_x.std() - 1).abs() < 1e-5
    assert data.train_x.min() == data.test_x.min()  # a black pixel is the same number in both parts


def test_seed_decides_the_split():
    first, same, other = images.digits(seed=1), images.digits.__wrapped__(seed=1), images.digits(seed=2)
    assert torch.equal(first.train_x, same.train_x)
    assert not torch.equal(first.train_y, other.train_y)


def test_mnist5k():
    data = images.mnist5k()
    assert data.train_x.shape == (4000, 1, 28, 28)
    assert torch.bincount(data.test_y).tolist() == [100] * 10
    assert torch.bincount(data.train_y).tolist() == [400] * 10


def test_to_moves_all_tensors():
    moved = images.digits().to("meta")
    assert {t.device.type for t in (moved.train_x, moved.train_y, moved.test_x, moved.test_y)} == {"meta"}
    assert moved.name == "digits"


# --- CIFAR-10 -------------------------------------------------------------------------------------------------------


def _bytes(text: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(text)) + text  # a Python 2 string


def _int(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _python2_batch(pixels: np.ndarray, labels: list[int]) -> bytes:
    """A batch written with the very opcodes of Python 2's pickle, protocol 2, as in the published archive."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n" + b"cnumpy\nndarray\n" + _int(0) + b"\x85" + _bytes(b"b") + b"\x87R"
    )
    dtype = b"cnumpy\ndtype\n" + _bytes(b"u1") + _int(0) + _int(1) + b"\x87R"
    dtype += b"(" + _int(3) + _bytes(b"|") + b"NNN" + _int(-1) + _int(-1) + _int(0) + b"tb"
    rows, columns = pixels.shape
    state = b"(" + _int(1) + _int(rows) + _int(columns) + b"\x86" + dtype + b"\x89" + _bytes(pixels.tobytes()) + b"tb"
    classes = b"](" + b"".join(map(_int, labels)) + b"e"
    return b"\x80\x02}(" + _bytes(b"data") + array + state + _bytes(b"labels") + classes + b"u."


def _archive(path: Path, members: dict[str, bytes]) -> str:
    """Writes the archive and returns its MD5."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return hashlib.md5(path.read_bytes()).hexdigest()


def _pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, size=(2, 3072), dtype=np.uint8)


def _members() -> dict[str, bytes]:
    names = [*images._CIFAR10_TRAIN, *images._CIFAR10_TEST]
    return {name: _python2_batch(_pixels(i), [i, 9 - i]) for i, name in enumerate(names)}


def test_hand_made_batch_is_what_pickle_itself_reads():
    batch = pickle.loads(_python2_batch(_pixels(0), [4, 5]), encoding="bytes")
    assert (batch[b"data"] == _pixels(0)).all()
    assert batch[b"labels"] == [4, 5]


def test_cifar10_reads_the_archive(tmp_path, monkeypatch):
    path = tmp_path / "cifar-10-python.tar.gz"
    monkeypatch.setattr(images, "CIFAR10_MD5", _archive(path, _members()))
    data = images.cifar10(path)
    assert data.train_y.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert data.test_y.tolist() == [5, 4]
    raw = torch.from_numpy(np.stack([_pixels(i) for i in range(6)])).reshape(12, 3, 32, 32).double() / 255
    mean, std = raw[:10].mean((0, 2, 3), keepdim=True), raw[:10].std((0, 2, 3), keepdim=True)
    torch.testing.assert_close(data.train_x.double(), (raw[:10] - mean) / std, atol=1e-5, rtol=0)
    torch.testing.assert_close(data.test_x.double(), (raw[10:] - mean) / std, atol=1e-5, rtol=0)


def test_cifar10_refuses_another_hash(tmp_path):
    path = tmp_path / "cifar-10-python.tar.gz"
    found = _archive(path, _members())
    with pytest.raises(ValueError, match=f"MD5 {found}.*must be .*{images.CIFAR10_MD5}"):
        images.cifar10(path)


def test_cifar10_says_where_to_get_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="download https://"):
        images.cifar10(tmp_path / "nowhere.tar.gz")


class _Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_cifar10_runs_nothing_from_a_malicious_pickle(tmp_path, monkeypatch):
    witness = tmp_path / "executed"
    members = _members()
    members[images._CIFAR10_TRAIN[2]] = pickle.dumps({"data": _Touch(witness)}, protocol=2)
    path = tmp_path / "cifar-10-python.tar.gz"
    monkeypatch.setattr(images, "CIFAR10_MD5", _archive(path, members))
    with pytest.raises(pickle.UnpicklingError, match=r"asks for .*system"):
        images.cifar10(path)
    assert not witness.exists()
    pickle.loads(members[images._CIFAR10_TRAIN[2]])  # the trap is real: an ordinary unpickler springs it
    assert witness.exists()


def test_cifar10_refuses_an_array_of_another_kind(tmp_path, monkeypatch):
    members = {name: batch.replace(b"u1", b"i4") for name, batch in _members().items()}
    path = tmp_path / "cifar-10-python.tar.gz"
    monkeypatch.setattr(images, "CIFAR10_MD5", _archive(path, members))
    with pytest.raises(ValueError, match="unsigned bytes"):
        images.cifar10(path)
