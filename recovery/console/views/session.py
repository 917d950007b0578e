"""Signing in and out, and what a reader prefers."""

from __future__ import annotations

from http import HTTPStatus
from math import ceil
from typing import Any

from django.contrib.auth import views as auth
from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from recovery import clock
from recovery.console import throttle, times
from recovery.console.middleware import SeeOther, page
from recovery.console.reader import KEYS_COOKIE, THEME_COOKIE, THEMES, ZONE_COOKIE, Request

YEAR = 365 * 24 * 3600


class SignIn(auth.LoginView):
    """Sessions of people. Programs carry credentials instead."""

    template_name = "console/sign_in.html"
    redirect_authenticated_user = True

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        until = throttle.blocked_until(*self._who())
        if until is None:
            return super().post(request, *args, **kwargs)
        wait = until - clock.now()
        # The form is not asked: a page that takes no password must not say whether it was the right one.
        empty = self.form_class(request)
        context = self.get_context_data(form=empty, wait_minutes=max(1, ceil(wait.total_seconds() / 60)))
        response = self.render_to_response(context, status=HTTPStatus.TOO_MANY_REQUESTS)
        response["Retry-After"] = str(ceil(wait.total_seconds()))
        return response

    def form_valid(self, form: Any) -> HttpResponse:
        throttle.succeeded(*self._who())
        return super().form_valid(form)

    def form_invalid(self, form: Any) -> HttpResponse:
        throttle.failed(*self._who())
        return super().form_invalid(form)

    def _who(self) -> tuple[str, str]:
        return self.request.POST.get("username", ""), self.request.META.get("REMOTE_ADDR", "")

    def get_default_redirect_url(self) -> Any:
        return reverse("console:review")


class SignOut(auth.LogoutView):
    """A POST: nobody is signed out by a link."""

    next_page = "console:sign-in"


@require_http_methods(["GET", "POST"])
def preferences(request: Request) -> HttpResponse:
    """Zone, theme and single keys of this browser."""
    if request.method == "GET":
        return page(request, "console/preferences.html", {"zones": times.zone_names(), "themes": THEMES})
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure()):
        back = reverse("console:preferences")
    response = SeeOther(back)
    theme = request.POST.get("theme", "")
    _remember(request, response, ZONE_COOKIE, times.zone(request.POST.get("zone", "UTC")).key)
    _remember(request, response, THEME_COOKIE, theme if theme in THEMES else "system")
    _remember(request, response, KEYS_COOKIE, "on" if request.POST.get("keys") else "off")
    return response


def _remember(request: Request, response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(name, value, max_age=YEAR, samesite="Lax", secure=request.is_secure())
