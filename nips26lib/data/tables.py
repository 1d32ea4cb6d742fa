"""What every loader asks of a file: the entries that it must have, of the right kind, and finite."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nips26lib.data.archives import DataCorrupt


def require(arrays: Mapping[str, np.ndarray], where: str, **dimensions: int) -> None:
    """Raise DataCorrupt unless each named array is there, has so many dimensions, and holds no NaN or infinity."""
    for name, wanted in dimensions.items():
        if name not in arrays:
            raise DataCorrupt(f"{where} has no array {name!r}; it holds {', '.join(sorted(arrays)) or 'nothing'}")
        array = arrays[name]
        if array.ndim != wanted:
            raise DataCorrupt(f"{where}: {name!r} has {array.ndim} dimensions; it must have {wanted}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise DataCorrupt(f"{where}: {name!r} holds numbers that are not finite")
