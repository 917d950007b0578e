"""A small server that misbehaves on purpose: it acts and says nothing, it is busy, it is of another version."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

ROOT = "/api/v1"


@dataclass(frozen=True)
class Asked:
    """One request as it came in. `path` is below the root."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")


@dataclass(frozen=True)
class Reply:
    """`lost`: the connection is cut instead, after the server has done what was asked."""

    status: int = 200
    data: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    text: bytes | None = None


LOST = Reply(lost=True)


def problem(code: str, status: int = 409, headers: dict[str, str] | None = None, **more: Any) -> Reply:
    return Reply(
        status, {"code": code, "title": code, "status": status, "detail": "why", "rule": "G5", **more}, headers or {}
    )


class RudeServer:
    """Answers from a script, one reply for each request of a method and path; the last one again and again."""

    def __init__(self) -> None:
        self.version: str | None = "1"
        self.asked: list[Asked] = []
        self.scripts: dict[tuple[str, str], list[Reply | Callable[[Asked], Reply]]] = {}
        self.url = ""
        self._lock = threading.Lock()

    def on(self, method: str, path: str, *replies: Reply | Callable[[Asked], Reply]) -> None:
        self.scripts[method, path] = list(replies)

    def paths(self, method: str = "") -> list[str]:
        """What was asked for, but for the handshake."""
        return [each.path for each in self.asked if each.path != "/" and method in ("", each.method)]

    def reply(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            script = self.scripts.get((asked.method, asked.path), [problem("NOT_FOUND", 404)])
            chosen = script.pop(0) if len(script) > 1 else script[0]
        return chosen if isinstance(chosen, Reply) else chosen(asked)


@contextmanager
def rude_server() -> Iterator[RudeServer]:
    server = RudeServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): text for name, text in self.headers.items()}
            reply = server.reply(Asked(self.command, self.path.removeprefix(ROOT), headers, body))
            self.close_connection = reply.lost
            if reply.lost:
                return
            content = reply.text if reply.text is not None else json.dumps(reply.data).encode()
            self.send_response(reply.status)
            if server.version is not None:
                self.send_header("Weave-Api-Version", server.version)
            for name, text in reply.headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server.url = f"http://127.0.0.1:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


@pytest.fixture(name="server")
def _server() -> Iterator[RudeServer]:
    with rude_server() as server:
        yield server
