"""Signing in and out, and what a reader prefers."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import views as auth
from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from recovery.console import times
from recovery.console.middleware import SeeOther, page
from recovery.console.reader import KEYS_COOKIE, THEME_COOKIE, THEMES, ZONE_COOKIE, Request

YEAR = 365 * 24 * 3600


class SignIn(auth.LoginView):
    """Sessions of people. Programs carry credentials instead."""

    template_name = "console/sign_in.html"
    redirect_authenticated_user = True

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
