"""One file over the network, by pooch: bounded in size, in waiting and in slowness, and led on only where it may go."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from nips26lib.data.registry import Original

LARGEST_UNKNOWN = 2**30  # bytes of an original whose size the registry does not know
SLOWEST = 4096.0  # bytes a second, after the grace of one timeout
_CONNECT = 10.0  # seconds; a host that is up answers sooner
_REDIRECTS = 5
_REMEMBERED = 60.0  # seconds in which a host that did not answer is not asked again

_silent: dict[str, float] = {}


def download(original: Original, path: Path, timeout: float, schemes: tuple[str, ...]) -> str:
    """Fetch `original` to `path`, in a folder of its own; "" when that was done, else what went wrong.

    Bytes beyond the registered size are not waited for; whether what came is the right file is for the caller to see.
    """
    import pooch  # type: ignore[import-untyped]
    import requests
    import urllib3

    host = urlsplit(original.url).netloc
    if _silent.get(host, 0.0) > time.monotonic():
        return f"{host} did not answer a moment ago"
    downloader = _Downloader(timeout, schemes, original.bytes)
    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(original.url, known_hash=None, fname=path.name, path=path.parent, downloader=downloader)
    except _Abandoned as error:
        return str(error)
    except requests.exceptions.InvalidSchema as error:
        return f"only {' or '.join(schemes)} may be used ({error})"
    except requests.exceptions.ConnectionError as error:
        _silent[host] = time.monotonic() + _REMEMBERED
        return f"no connection ({_cause(error)})"
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        return f"the download failed ({_cause(error)})"
    return ""


class _Abandoned(Exception):
    """This side ended the download."""


class _Downloader:
    """What pooch calls to write the body of a response into a file."""

    def __init__(self, timeout: float, schemes: tuple[str, ...], expected: int | None) -> None:
        self.timeout = timeout
        self.schemes = schemes
        self.expected = expected

    def __call__(self, url: str, output_file: str | os.PathLike[str], pooch: object, check_only: bool = False) -> None:
        import requests

        started, received = time.monotonic(), 0
        with requests.Session() as session, open(output_file, "wb") as file:
            # The session can speak nothing but `schemes`, wherever a redirection leads.
            session.adapters.clear()
            for scheme in self.schemes:
                session.mount(f"{scheme}://", requests.adapters.HTTPAdapter())
            session.max_redirects = _REDIRECTS
            waits = (min(self.timeout, _CONNECT), self.timeout)
            # Not compressed on the way: the registered hash is that of the file itself.
            headers = {"Accept-Encoding": "identity", "User-Agent": "nips26lib"}
            with session.get(url, stream=True, timeout=waits, headers=headers) as response:
                response.raise_for_status()
                # read1 gives what has arrived; read would wait for a full buffer, however slowly that fills
                while chunk := response.raw.read1(2**16, decode_content=True):
                    file.write(chunk)
                    received += len(chunk)
                    if self.expected is not None and received > self.expected:
                        return
                    if received > LARGEST_UNKNOWN:
                        raise _Abandoned(f"it sends more than {LARGEST_UNKNOWN} bytes")
                    elapsed = time.monotonic() - started
                    if elapsed > self.timeout + received / SLOWEST:
                        raise _Abandoned(f"too slow, {received} bytes in {elapsed:.1f} seconds")


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """pooch writes to the error stream what it is doing; the outcome is told by this module's caller."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _cause(error: BaseException) -> str:
    """The innermost of the errors that the layers of the network wrap in each other, in a few words."""
    inner = error
    while inner.args and isinstance(inner.args[-1], BaseException):
        inner = inner.args[-1]
    reason = getattr(inner, "reason", None)
    return " ".join(str(reason if isinstance(reason, BaseException) else inner).split()) or type(error).__name__
