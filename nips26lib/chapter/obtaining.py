"""Real data where it can be had, a stand-in of the same shape where not, and a note in the output of which it was."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

MIME = "application/vnd.nips26.data+json"

T = TypeVar("T")


@dataclass(frozen=True)
class Obtained(Generic[T]):
    """A data set as a run has it. `real` is False for the built-in stand-in; `why` then says why."""

    name: str
    real: bool
    value: T
    why: str = ""

    def __str__(self) -> str:
        if self.real:
            return f"Data: {self.name}, the real data."
        return (
            f"Data: a built-in stand-in of the same shape, since {self.name} could not be had here. "
            f"Claims that need the real data are not testable in this run. {self.why}"
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        note = {"name": self.name, "real": self.real, "why": self.why}
        return {
            "text/html": f'<p class="nips26-data">{html.escape(str(self))}</p>',
            "text/plain": str(self),
            MIME: note,
        }


_real: dict[str, bool] = {}


def obtain(name: str, load: Callable[[], T], stand_in: Callable[[], T]) -> T:
    """What `load()` gives, or `stand_in()` where the real data is out of reach; the output says which of the two.

    `name` is how a reader and a claim's ``needs_data`` call the data. Only `nips26lib.data.DataUnavailable` leads to
    the stand-in: a file with a wrong checksum is an error.
    """
    from IPython.display import display

    from nips26lib.data.fetch import DataUnavailable

    try:
        obtained = Obtained(name, True, load())
    except DataUnavailable as error:
        obtained = Obtained(name, False, stand_in(), " ".join(str(error).split()))
    _real[name] = obtained.real
    display(obtained)
    return obtained.value


def forget_obtained() -> None:
    """Begin a run that has obtained nothing yet."""
    _real.clear()


def obtained_real() -> Mapping[str, bool]:
    """Of each data set that this run asked for, whether the real one was had."""
    return dict(_real)


def read_data(notebook: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The notes in the outputs of a notebook (as JSON, format 4): {"name", "real", "why"} of each data set, once."""
    return list({note["name"]: note for note in _notes(notebook)}.values())


def _notes(notebook: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for cell in notebook.get("cells", ()):
        for output in cell.get("outputs", ()):
            note = output.get("data", {}).get(MIME)
            if isinstance(note, Mapping):
                yield dict(note)
