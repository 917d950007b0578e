"""Paths below /api/v1/."""

from __future__ import annotations

from django.urls import URLPattern, path, re_path

from recovery.api import pages, problems
from recovery.api.app import api
from recovery.api.edge import JSON, at_the_edge
from recovery.api.endpoint import DESCRIBED

app_name = "api"


def _operations() -> list[URLPattern]:
    patterns = [each for each in api.urls[0] if isinstance(each, URLPattern) and each.name != "api-root"]
    for pattern in patterns:
        described = DESCRIBED[str(pattern.name)]
        accepts = JSON if described.body else (*JSON, described.media_type)
        pattern.callback = at_the_edge(pattern.callback, accepts=accepts)
    return patterns


urlpatterns = [
    path("openapi.json", at_the_edge(pages.openapi), name="openapi"),
    path("docs", at_the_edge(pages.docs, accepts=("text/html",)), name="docs"),
    *_operations(),
    re_path("", at_the_edge(problems.not_found)),
]
