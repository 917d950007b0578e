"""What every page of the console shares: the reader, sign-in first, and one place that turns errors into pages."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _

from recovery.console.reader import Reader, Request
from recovery.errors import Busy, DomainError, NotFound, Unauthenticated

Next = Callable[[Request], HttpResponse]

REFUSALS = (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.SERVICE_UNAVAILABLE)
"""What a form answers in its own page, with everything typed kept."""


class SeeOther(HttpResponseRedirect):
    """Post, redirect, get."""

    status_code = HTTPStatus.SEE_OTHER


class ReaderZone:
    """Attaches the reader and shows times in their zone."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: Request) -> HttpResponse:
        request.reader = Reader(request)
        with timezone.override(request.reader.zone):
            return self.get_response(request)


class ErrorPages:
    """Turns a domain error into a page or a partial, and a redirect into one that htmx follows.

    A view that can be refused leaves `request.refused`, which renders its form again; nobody else catches an error.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: Request) -> HttpResponse:
        response = self.get_response(request)
        if not _is_ours(request):
            return response
        if request.htmx and response.status_code in (301, 302, 303):
            # A redirect would be followed unseen, and its body would land inside the form.
            response = HttpResponse(headers={"HX-Redirect": response["Location"]})
        patch_vary_headers(response, ["HX-Request"])
        response.setdefault("Cache-Control", "no-store")
        return response

    def process_view(self, request: Request, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        if _is_ours(request) and not request.user.is_authenticated and getattr(view, "login_required", True):
            return self.process_exception(request, Unauthenticated(_("Sign in first.")))
        return None

    def process_exception(self, request: Request, error: Exception) -> HttpResponse | None:
        if isinstance(error, Http404):
            error = NotFound(_("There is no such page."))
        if not _is_ours(request) or not isinstance(error, DomainError):
            return None
        if isinstance(error, Unauthenticated):
            return _to_sign_in(request)
        if request.htmx and request.method == "GET":
            # A live update that fails must not touch what the reader has before them.
            return HttpResponse(status=error.status, headers={"HX-Reswap": "none"})
        if error.status in REFUSALS and (refused := getattr(request, "refused", None)):
            response = refused(error)
        else:
            response = page(request, "console/error.html", {"error": error}, status=error.status)
        if request.htmx:
            response["HX-Retarget"] = "#main"
            response["HX-Reswap"] = "innerHTML show:window:top"
        if isinstance(error, Busy):
            response["Retry-After"] = str(error.retry_after)
        return response


def page(request: Request, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """The whole page; for htmx its `main` part alone."""
    return render(request, f"{template}#main" if request.htmx else template, context, status=status)


def _is_ours(request: Request) -> bool:
    return request.resolver_match is not None and request.resolver_match.app_name == "console"


def _to_sign_in(request: Request) -> HttpResponse:
    # What an htmx request asked for is a part of a page; the page itself is where the reader comes back to.
    wanted = request.htmx.current_url_abs_path if request.htmx else request.get_full_path()
    return SeeOther(f"{reverse('console:sign-in')}?{urlencode({'next': wanted or '/'})}")
