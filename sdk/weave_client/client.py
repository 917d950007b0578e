"""The two clients. They offer the same calls and differ in how they send: one blocks, the other awaits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from weave_client import calls
from weave_client.calls import Answer, Call
from weave_client.delivery import Delivery, Lost, Pause, Retries, Send, deliver, handshake
from weave_client.shapes import Page, Row

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_TIMEOUT = 30.0
"""Seconds that one attempt may take; a claim's long poll comes on top."""
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


def _sync(build: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    @wraps(build)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    return method


def _sync_rows(build: Callable[P, Call[Page]]) -> Callable[Concatenate[Client, P], Iterator[Row]]:
    @wraps(build)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Row]:
        return self.rows(build(*args, **kwargs))

    return method


def _awaited(build: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    @wraps(build)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    return method


def _awaited_rows(build: Callable[P, Call[Page]]) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[Row]]:
    @wraps(build)
    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Row]:
        return self.rows(build(*args, **kwargs))

    return method


def _settings(url: str, token: str, timeout: float, options: dict[str, Any]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "weave-client/1.0.0"}
    # A redirect would carry the token elsewhere, and turn a POST into a GET.
    return {"base_url": url.rstrip("/"), "headers": headers, "timeout": timeout, "follow_redirects": False} | options


def _request(client: httpx.Client | httpx.AsyncClient, send: Send, timeout: float) -> httpx.Request:
    patience = httpx.Timeout(timeout, read=timeout + send.seconds)
    return client.build_request(send.method, send.path, headers=send.headers, content=send.body, timeout=patience)


def _answer(response: httpx.Response) -> Answer:
    return Answer(
        response.status_code, {name.lower(): text for name, text in response.headers.items()}, response.content
    )


def _lost(error: httpx.HTTPError) -> Lost:
    return Lost(not isinstance(error, _NOT_SENT), str(error) or type(error).__name__)


class Client:
    """Blocks until an answer is known. May be shared by threads.

    `url`: of the server, without /api/v1. `timeout`: seconds of one attempt. `options` go to httpx.Client (verify,
    cert, proxy, transport, ...). The first call asks for the server's version once. Every call raises what
    `delivery.deliver` raises.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retries: Retries | None = None,
        **options: Any,
    ) -> None:
        self._http = httpx.Client(**_settings(url, token, timeout, options))
        self._timeout = timeout
        self._retries = retries or Retries()
        self._met = False
        self._meeting = threading.Lock()

    def send(self, call: Call[T]) -> T:
        """Delivers any call of `weave_client.calls`."""
        with self._meeting:
            if not self._met:
                self._run(handshake(self._retries))
                self._met = True
        return self._run(deliver(call, self._retries))

    def rows(self, call: Call[Page]) -> Iterator[Row]:
        """The rows of a whole list, page by page as they are asked for."""
        page = self.send(call)
        yield from page.items
        while page.next_cursor is not None:
            page = self.send(calls.after(call, page.next_cursor))
            yield from page.items

    def _run(self, delivery: Delivery[T]) -> T:
        said: Any = None
        while True:
            try:
                step = delivery.send(said)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                said = None
                continue
            try:
                said = _answer(self._http.send(_request(self._http, step, self._timeout)))
            except httpx.HTTPError as error:
                said = _lost(error)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    publish = _sync(calls.publish)
    definition = _sync(calls.definition)
    definitions = _sync_rows(calls.list_definitions)
    start = _sync(calls.start)
    instance = _sync(calls.instance)
    instances = _sync_rows(calls.list_instances)
    history = _sync(calls.history)
    history_of = _sync_rows(calls.list_history)
    audit = _sync_rows(calls.list_audit)
    signal = _sync(calls.signal)
    pause = _sync(calls.pause)
    resume = _sync(calls.resume)
    cancel = _sync(calls.cancel)
    cancel_task = _sync(calls.cancel_task)
    explain = _sync(calls.explain)
    recover = _sync(calls.recover)
    dry_run = _sync(calls.dry_run)
    receipt = _sync(calls.receipt)
    claim = _sync(calls.claim)
    heartbeat = _sync(calls.heartbeat)
    succeed = _sync(calls.succeed)
    fail = _sync(calls.fail)
    unknown = _sync(calls.unknown)
    attach_evidence = _sync(calls.attach_evidence)
    evidence = _sync(calls.evidence)


class AsyncClient:
    """As Client, awaited. May be shared by tasks of one event loop."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retries: Retries | None = None,
        **options: Any,
    ) -> None:
        self._http = httpx.AsyncClient(**_settings(url, token, timeout, options))
        self._timeout = timeout
        self._retries = retries or Retries()
        self._met = False
        self._meeting = asyncio.Lock()

    async def send(self, call: Call[T]) -> T:
        """Delivers any call of `weave_client.calls`."""
        async with self._meeting:
            if not self._met:
                await self._run(handshake(self._retries))
                self._met = True
        return await self._run(deliver(call, self._retries))

    async def rows(self, call: Call[Page]) -> AsyncIterator[Row]:
        """The rows of a whole list, page by page as they are asked for."""
        page = await self.send(call)
        for row in page.items:
            yield row
        while page.next_cursor is not None:
            page = await self.send(calls.after(call, page.next_cursor))
            for row in page.items:
                yield row

    async def _run(self, delivery: Delivery[T]) -> T:
        said: Any = None
        while True:
            try:
                step = delivery.send(said)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                said = None
                continue
            try:
                said = _answer(await self._http.send(_request(self._http, step, self._timeout)))
            except httpx.HTTPError as error:
                said = _lost(error)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    publish = _awaited(calls.publish)
    definition = _awaited(calls.definition)
    definitions = _awaited_rows(calls.list_definitions)
    start = _awaited(calls.start)
    instance = _awaited(calls.instance)
    instances = _awaited_rows(calls.list_instances)
    history = _awaited(calls.history)
    history_of = _awaited_rows(calls.list_history)
    audit = _awaited_rows(calls.list_audit)
    signal = _awaited(calls.signal)
    pause = _awaited(calls.pause)
    resume = _awaited(calls.resume)
    cancel = _awaited(calls.cancel)
    cancel_task = _awaited(calls.cancel_task)
    explain = _awaited(calls.explain)
    recover = _awaited(calls.recover)
    dry_run = _awaited(calls.dry_run)
    receipt = _awaited(calls.receipt)
    claim = _awaited(calls.claim)
    heartbeat = _awaited(calls.heartbeat)
    succeed = _awaited(calls.succeed)
    fail = _awaited(calls.fail)
    unknown = _awaited(calls.unknown)
    attach_evidence = _awaited(calls.attach_evidence)
    evidence = _awaited(calls.evidence)
