"""Declares an endpoint: its path for the router, and what the document says of it beyond its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router

from recovery.api import params
from recovery.api.answers import MEDIA_TYPE as JSON
from recovery.api.schemas.words import Schema, ref

View = Callable[..., HttpResponseBase]

READING = ("NOT_FOUND",)
ACTING = ("PERMISSION_DENIED", "NOT_FOUND")


@dataclass(frozen=True, kw_only=True)
class Described:
    """`answers`: status -> schema. `body`: component. `key`: whether the operation takes an Idempotency-Key.

    `media_type`: of the body, or of the answer where there is no body; JSON where nothing is said. `codes`: of
    refusals, beside those that every operation can have.
    """

    answers: Mapping[int, Schema]
    body: str | None
    key: Literal["required", "optional"] | None
    media_type: str
    codes: tuple[str, ...]


DESCRIBED: dict[str, Described] = {}
"""By operation id, which is the name of the view."""


def endpoint(
    router: Router,
    method: Literal["GET", "POST"],
    path: str,
    answers: str | Mapping[int, Schema],
    *,
    body: str | None = None,
    key: Literal["required", "optional"] | None = None,
    media_type: str = JSON,
    codes: tuple[str, ...] = (),
) -> Callable[[View], View]:
    """Registers a view. `answers`: a component for 200, or a schema for each status.

    The docstring's first paragraph is the summary, the rest the description.
    """

    def register(view: View) -> View:
        signature = inspect.signature(view, eval_str=True)
        queries = [name for name in list(signature.parameters)[1:] if f"{name}}}" not in path]

        @wraps(view)
        def strict(request: HttpRequest, **values: Any) -> HttpResponseBase:
            params.refuse_unknown(request, queries)
            return view(request, **values)

        strict.__signature__ = signature  # type: ignore[attr-defined]  # annotations are names of the view's module
        summary, _, description = inspect.cleandoc(view.__doc__ or "").partition("\n\n")
        router.api_operation(
            [method],
            path,
            operation_id=view.__name__,
            summary=" ".join(summary.split()).removesuffix("."),
            description="\n\n".join(" ".join(text.split()) for text in description.split("\n\n")) or None,
        )(strict)
        by_status = {200: ref(answers)} if isinstance(answers, str) else answers
        DESCRIBED[view.__name__] = Described(answers=by_status, body=body, key=key, media_type=media_type, codes=codes)
        return view

    return register
