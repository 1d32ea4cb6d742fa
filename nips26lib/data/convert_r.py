"""Reading plain vectors out of R's data files (.rda), as far as data sets of R packages need it.

The format is R's own serialisation in its binary form, versions 2 and 3, described in "R Internals", section 1.8.
Functions, environments and whatever else could be run are refused.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LARGEST = 64 * 2**20
_NA_LOGICAL = -(2**31)

# types of serialised objects
_SYMBOL, _PAIRS, _TEXT, _LOGICAL, _INTEGER, _REAL, _STRINGS, _LIST = 1, 2, 9, 10, 13, 14, 16, 19
_COMPACT, _NULL, _REFERENCE = 238, 254, 255
_HAS_ATTRIBUTES, _HAS_TAG = 1 << 9, 1 << 10


@dataclass(frozen=True)
class RVector:
    """A vector of R: numbers as an array, strings and lists as a list; `attributes` such as names, dim, dimnames."""

    data: Any
    attributes: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """The entry called `name` of a list with names."""
        names = self.attributes.get("names")
        if not isinstance(names, RVector) or name not in names.data:
            raise ValueError(
                f"name is {name!r}; the list has {names.data if isinstance(names, RVector) else 'no names'}"
            )
        return self.data[names.data.index(name)]

    def array(self) -> np.ndarray:
        """The numbers in the shape that the attribute dim states; R's first index runs fastest."""
        dim = self.attributes.get("dim")
        shape = tuple(int(n) for n in dim.data) if isinstance(dim, RVector) else (len(self.data),)
        return np.asarray(self.data).reshape(shape, order="F")


def read_rda(raw: bytes) -> dict[str, Any]:
    """The objects saved in an .rda file by name; ValueError for another format or for anything but plain vectors."""
    data = _decompress(raw)
    if data[:7] not in (b"RDX2\nX\n", b"RDX3\nX\n"):
        raise ValueError(f"the file begins with {data[:7]!r}; it must be R's binary serialisation, version 2 or 3")
    reader = _Reader(data, 7)
    version = reader.integer()
    reader.integer(), reader.integer()  # the versions of R that wrote it and that can read it
    if version == 3:
        reader.take(reader.integer())  # the encoding of its strings
    objects = reader.item()
    if not isinstance(objects, dict):
        raise ValueError("the file holds no named objects")
    return objects


def _decompress(raw: bytes) -> bytes:
    for start, module in ((b"\x1f\x8b", gzip), (b"BZh", bz2), (b"\xfd7zXZ", lzma)):
        if raw.startswith(start):
            import io

            with module.open(io.BytesIO(raw)) as stream:
                data = stream.read(LARGEST + 1)
            if len(data) > LARGEST:
                raise ValueError(f"the file unpacks to more than {LARGEST} bytes")
            return bytes(data)
    return raw


class _Reader:
    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position
        self.symbols: list[str] = []

    def take(self, count: int) -> bytes:
        if count < 0 or count > len(self.data) - self.position:
            raise ValueError("the file is cut off")
        self.position += count
        return self.data[self.position - count : self.position]

    def integer(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def item(self) -> Any:
        """The next object: None, text, an RVector, or a dict for a list of tagged pairs."""
        flags = self.integer()
        kind = flags & 0xFF
        if kind == _NULL:
            return None
        if kind == _SYMBOL:
            self.symbols.append(str(self.item()))
            return self.symbols[-1]
        if kind == _REFERENCE:
            return self._symbol((flags >> 8) or self.integer())
        if kind == _PAIRS:
            return self._pairs(flags)
        if kind == _TEXT:
            length = self.integer()
            return None if length == -1 else self.take(length).decode("latin1" if flags & (1 << 14) else "utf-8")
        if kind == _COMPACT:
            return self._compact()
        data = self._vector(kind)
        attributes = self.item() if flags & _HAS_ATTRIBUTES else None
        return RVector(data, attributes if isinstance(attributes, dict) else {})

    def _symbol(self, number: int) -> str:
        if not 1 <= number <= len(self.symbols):
            raise ValueError("the file refers to a symbol that it has not named")
        return self.symbols[number - 1]

    def _pairs(self, flags: int) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        while flags & 0xFF == _PAIRS:
            if flags & _HAS_ATTRIBUTES:
                self.item()
            tag = self.item() if flags & _HAS_TAG else str(len(pairs))
            pairs[str(tag)] = self.item()
            flags = self.integer()
        if flags & 0xFF != _NULL:  # the pair is no list: its second half is an object of another kind
            self.position -= 4
            pairs[str(len(pairs))] = self.item()
        return pairs

    def _vector(self, kind: int) -> Any:
        if kind not in (_LOGICAL, _INTEGER, _REAL, _STRINGS, _LIST):
            raise ValueError(f"the file holds an object of type {kind}; only plain vectors are read")
        length = self.integer()
        if length < 0:
            raise ValueError("the file holds a vector of more than 2^31 entries")
        if kind in (_STRINGS, _LIST):
            return [self.item() for _ in range(length)]
        dtype = np.dtype(">f8" if kind == _REAL else ">i4")
        values = np.frombuffer(self.take(length * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        if kind != _REAL and (values == _NA_LOGICAL).any():  # R's mark of a missing whole number
            return np.where(values == _NA_LOGICAL, np.nan, values)
        return values

    def _compact(self) -> RVector:
        """A vector that R keeps in a short form: a run of whole numbers, or a wrapper around another vector."""
        form, state, attributes = self.item(), self.item(), self.item()
        name = next(iter(form.values()), None) if isinstance(form, dict) else None
        attributes = attributes if isinstance(attributes, dict) else {}
        if name == "compact_intseq" and isinstance(state, RVector) and len(state.data) == 3:
            count, first, step = (int(number) for number in state.data)
            if not 0 <= count <= LARGEST:
                raise ValueError(f"the file holds a run of {count} numbers")
            return RVector(first + step * np.arange(count), attributes)
        wrapped = next(iter(state.values()), None) if isinstance(state, dict) else None
        if str(name).startswith("wrap_") and isinstance(wrapped, RVector):
            return RVector(wrapped.data, {**wrapped.attributes, **attributes})
        raise ValueError(f"the file holds a vector in the short form {name!r}, which is not read")
