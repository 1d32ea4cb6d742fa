"""A web server on loopback that serves well or misbehaves in one of the ways that servers do."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

BEHAVIOURS = {"whole", "chunked", "gzip", "truncated", "dripping", "stalling", "missing", "broken", "moved", "together"}


@dataclass
class Served:
    """One thing to serve: `how` is one of BEHAVIOURS; `to` is where "moved" leads."""

    content: bytes = b""
    how: str = "whole"
    to: str = ""


@dataclass
class Server:
    """What a test sees of it. `begun` is set when half of a body that stalls is on its way; `released` ends a stall."""

    address: str
    things: dict[str, Served] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    both: threading.Barrier = field(default_factory=lambda: threading.Barrier(2, timeout=60))

    def serve(self, path: str, content: bytes = b"", how: str = "whole", to: str = "") -> str:
        assert how in BEHAVIOURS
        self.things[f"/{path}"] = Served(content, how, to)
        return f"{self.address}/{path}"


@contextmanager
def serving(certificate: tuple[str, str] | None = None) -> Iterator[Server]:
    """A server that runs while the block does; over TLS with a (certificate, key) pair of files."""
    scheme = "https" if certificate else "http"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.asked.append(self.path)
            answer(self, server, server.things.get(self.path, Served(how="missing")))

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that went away, which is what many tests are about."""

    with Quiet(("127.0.0.1", 0), Handler) as http:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            http.socket = context.wrap_socket(http.socket, server_side=True)
        server = Server(f"{scheme}://127.0.0.1:{http.server_address[1]}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.both.abort()
            http.shutdown()
            thread.join()


def answer(handler: BaseHTTPRequestHandler, server: Server, thing: Served) -> None:
    content, how = thing.content, thing.how
    if how in ("missing", "broken"):
        handler.send_error(404 if how == "missing" else 503)
        return
    if how == "together":  # two clients get their bodies at the same time
        server.both.wait()
    handler.send_response(302 if how == "moved" else 200)
    handler.send_header("Connection", "close")
    if how == "moved":
        handler.send_header("Location", thing.to)
    if how == "gzip":
        handler.send_header("Content-Encoding", "gzip")
    if how == "chunked":
        handler.send_header("Transfer-Encoding", "chunked")
    else:
        handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    if how == "chunked":
        for start in range(0, len(content), 1000):
            part = content[start : start + 1000]
            handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        handler.wfile.write(b"0\r\n\r\n")
    elif how == "dripping":
        for byte in content:
            handler.wfile.write(bytes([byte]))
            time.sleep(0.02)
    elif how in ("stalling", "truncated"):
        handler.wfile.write(content[: len(content) // 2])
        handler.wfile.flush()
        if how == "stalling":
            server.begun.set()
            server.released.wait()
    else:
        handler.wfile.write(content)


def closed_address() -> str:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as running:
        yield running
