"""The outermost layer of every path: English, a form that the caller accepts, problem+json, nothing cached."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.utils import translation
from django.views.decorators.csrf import csrf_exempt

from recovery.api import answers, problems
from recovery.errors import DomainError

View = Callable[..., HttpResponseBase]

API_VERSION = "1"


JSON = (answers.MEDIA_TYPE, problems.MEDIA_TYPE)


def at_the_edge(view: View, *, accepts: tuple[str, ...] = JSON) -> View:
    """Wraps a view. `accepts`: the media types of which the caller must accept one.

    Programs read sentences too, and search logs for them: they are English, whatever the caller's language is.
    """

    # No cookie authenticates here, so no other site can act in a browser's name.
    @csrf_exempt
    @wraps(view)
    def edge(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with translation.override("en"):
            try:
                if not any(request.accepts(media_type) for media_type in accepts):
                    raise problems.NotAcceptable(f"The answer is one of: {', '.join(accepts)}.")
                response = view(request, *args, **kwargs)
                if isinstance(response, HttpResponseNotAllowed):
                    allowed = ", ".join(sorted(response["Allow"].split(", ")))
                    raise problems.MethodNotAllowed(f"Allowed here: {allowed}.", allowed=allowed)
            except DomainError as error:
                response = problems.refused(request, error)
        response["Content-Language"] = "en"
        response["Weave-Api-Version"] = API_VERSION
        response.setdefault("Cache-Control", "no-store")
        return response

    return edge
