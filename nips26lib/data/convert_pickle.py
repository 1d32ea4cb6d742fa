"""Reading plain data and numeric arrays out of a pickle without running anything from it."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np


def read_plain_pickle(raw: bytes) -> Any:
    """The lists, tuples, dictionaries, strings, numbers and numeric arrays in a pickle of Python 2 or 3.

    Strings of Python 2 come back as text. Nothing that the pickle names is imported or called: every class or function
    other than numpy's arrays, scalars and dtypes raises UnpicklingError, and those are replaced by records that only
    remember what they were given. ValueError for an array of anything but numbers.
    """
    return _plain(_PlainUnpickler(io.BytesIO(raw), encoding="latin1").load())


class _Record:
    """Stands in for an array, a scalar or a dtype while unpickling."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state


class _Array(_Record):
    def value(self) -> np.ndarray:
        if len(self.state) != 5:
            raise ValueError("the pickle holds an array without its numbers")
        _, shape, dtype, fortran, raw = self.state
        flat = np.frombuffer(_bytes(raw), _dtype(dtype))
        return (flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)).copy()


class _Scalar(_Record):
    def value(self) -> np.generic:
        dtype, raw = self.arguments
        number = np.frombuffer(_bytes(raw), _dtype(dtype))[0]
        assert isinstance(number, np.generic)
        return number


class _Dtype(_Record):
    pass


def _dtype(record: object) -> np.dtype:
    """The numeric dtype that a record stands for; its state is (version, byte order, subarray, names, fields, ...)."""
    if not (isinstance(record, _Dtype) and record.arguments and len(record.state) >= 5):
        raise ValueError("the pickle holds an array of no known kind")
    kind, order, plain = record.arguments[0], record.state[1], not any(record.state[2:5])
    if not (plain and order in ("<", ">", "|", "=") and re.fullmatch("b1|[iuf][1248]", str(kind))):
        raise ValueError(f"the pickle holds an array of {kind!r}; it may hold arrays of plain numbers only")
    return np.dtype(f"{order}{kind}")


def _bytes(raw: object) -> bytes:
    if isinstance(raw, str):  # the byte string of Python 2
        return raw.encode("latin1")
    if not isinstance(raw, bytes):
        raise ValueError(f"the pickle holds an array whose numbers are a {type(raw).__name__}; they must be bytes")
    return raw


def _latin1(text: object, encoding: object) -> bytes:
    """How Python 3 writes bytes in the old protocols: as text, and a call to turn it back."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("the pickle holds bytes written in an unknown way")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """The same where there are none; bytes itself, given a number, would fill the memory with zeros."""
    return b""


class _PlainUnpickler(pickle.Unpickler):
    _known: ClassVar[dict[tuple[str, str], Callable[..., object]]] = {
        ("numpy", "ndarray"): _Record,
        ("numpy", "dtype"): _Dtype,
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy.core.multiarray", "scalar"): _Scalar,
        ("numpy._core.multiarray", "scalar"): _Scalar,
        ("_codecs", "encode"): _latin1,
        ("__builtin__", "bytes"): _no_bytes,
        ("builtins", "bytes"): _no_bytes,
    }

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        if (module, name) not in self._known:
            raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}; it may hold plain data only")
        return self._known[module, name]


def _plain(value: Any) -> Any:
    """The same with arrays and numbers in place of records."""
    if isinstance(value, (_Array, _Scalar)):
        return value.value()
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(entry) for entry in value)
    if isinstance(value, dict):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    raise ValueError(f"the pickle holds a {type(value).__name__}; it may hold plain data and arrays only")
