"""Paths below /api/v1/."""

from __future__ import annotations

from django.urls import URLPattern, path, re_path

from recovery.api import pages, problems
from recovery.api.app import api
from recovery.api.edge import at_the_edge

app_name = "api"


def _operations() -> list[URLPattern]:
    patterns = [each for each in api.urls[0] if isinstance(each, URLPattern) and each.name != "api-root"]
    for pattern in patterns:
        pattern.callback = at_the_edge(pattern.callback)
    return patterns


urlpatterns = [
    path("openapi.json", at_the_edge(pages.openapi), name="openapi"),
    path("docs", at_the_edge(pages.docs, accepts=("text/html",)), name="docs"),
    *_operations(),
    re_path("", at_the_edge(problems.not_found)),
]
