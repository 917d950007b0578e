"""Calling the API as a program does: a bearer token, JSON out, JSON in. Every answer has to fit the document."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

from django.test import Client
from jsonschema import Draft202012Validator

from recovery import exact_json
from recovery.access import credentials
from recovery.api.document import ROOT, document
from recovery.permissions import Actor
from recovery.receipts import new_key
from tests.support.world import World

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    """What came back. `data`: the body, its numbers exact; None where the body is no JSON."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return exact_json.loads(self.body)

    @property
    def code(self) -> str:
        """Of a refusal, "" for a success."""
        return self.data.get("code", "") if self.status >= 400 else ""

    @property
    def is_replay(self) -> bool:
        return self.headers.get("Idempotent-Replay") == "true"

    def __getitem__(self, name: str) -> Any:
        return self.data[name]


@dataclass
class Caller:
    """One program with its credential. Nothing but HTTP."""

    token: str
    client: Client = field(default_factory=lambda: Client(raise_request_exception=True))

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        query: Mapping[str, Any] | None = None,
        **headers: str,
    ) -> Answer:
        """`path` below the root, already encoded. `raw` instead of `body` for what is no JSON."""
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        content = raw if raw is not None else b"" if body is None else exact_json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
        answer = self.send(method, f"{ROOT}{path}" + (f"?{urlencode(query)}" if query else ""), content, headers)
        check(method, path, answer)
        return answer

    def send(self, method: str, url: str, content: bytes, headers: dict[str, str]) -> Answer:
        """Here through Django's handler, without a network."""
        response = self.client.generic(method, url, content, content_type=headers.pop("Content-Type"), headers=headers)
        body = b"".join(response.streaming_content) if response.streaming else response.content
        return Answer(response.status_code, response.headers, body)

    def get(self, path: str, **query: Any) -> Answer:
        return self.call("GET", path, query=query)

    def post(self, path: str, body: Any, *, key: str | None = "", **query: Any) -> Answer:
        """`key`: "" makes a new one, None sends none."""
        headers = {} if key is None else {"Idempotency-Key": key or new_key()}
        return self.call("POST", path, body, query=query, **headers)

    def all_pages(self, path: str, **query: Any) -> list[Any]:
        """The rows of a whole list, page by page."""
        items: list[Any] = []
        cursor: dict[str, Any] = {}
        for _page in range(1000):
            page = self.get(path, **query, **cursor)
            items += page["items"]
            if page["next_cursor"] is None:
                return items
            cursor = {"cursor": page["next_cursor"]}
        raise AssertionError("the list does not end")


def caller(world: World, actor: Actor, **limits: Any) -> Caller:
    """A caller with a new credential of this person."""
    issued = credentials.create(world.operator, actor.username, f"robot {next(_numbers)}", reason="test", **limits)
    return Caller(issued.token)


def encoded(segment: str) -> str:
    return quote(segment, safe="")


# The document as a judge of every answer


def check(method: str, path: str, answer: Answer) -> None:
    """Asserts that the document says of this path what came back: status, media type, schema, code."""
    if method == "HEAD":  # an answer to it has no body
        return
    media_type = answer.headers.get("Content-Type", "")
    assert answer.status < 400 or media_type == "application/problem+json", media_type
    assert answer.headers["Content-Language"] == "en"
    assert answer.headers["Weave-Api-Version"] == "1"
    if answer.status >= 400:
        _validate({"$ref": "#/components/schemas/Problem"}, answer.data)
        assert answer.data["status"] == answer.status
    operation = _operation(method, path.partition("?")[0])
    if operation is None:
        assert answer.status in (404, 405, 406), (method, path, answer.status)
        return
    described = operation["responses"].get(str(answer.status))
    assert described is not None, f"{operation['operationId']} does not document {answer.status}: {answer.body!r}"
    schema = described["content"][media_type]["schema"]
    if "contentMediaType" not in schema:
        _validate(schema, answer.data)


def _operation(method: str, path: str) -> Any:
    for pattern, methods in _patterns():
        if pattern.match(path) and method.lower() in methods:
            return methods[method.lower()]
    return None


@lru_cache(maxsize=1)
def _patterns() -> list[tuple[re.Pattern[str], Any]]:
    # A name may hold slashes (they arrive encoded), an id not.
    return [
        (re.compile(re.sub(r"\\\{\w+\\\}", "[^/?]+", re.escape(path)) + r"\Z"), methods)
        for path, methods in document()["paths"].items()
    ]


def _validate(schema: Any, data: Any) -> None:
    validator = _validator(exact_json.dumps(schema))
    # The validator knows numbers as Python has them; the exact ones are compared elsewhere.

    problems = [
        f"{error.json_path}: {error.message}" for error in validator.iter_errors(json.loads(exact_json.dumps(data)))
    ]
    assert not problems, problems[:5]


@lru_cache(maxsize=500)
def _validator(schema: str) -> Any:
    rooted = {**exact_json.loads(schema), "components": document()["components"]}
    return Draft202012Validator(rooted)
