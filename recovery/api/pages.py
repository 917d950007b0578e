"""The document, for programs and for people. Both are public: they say nothing about anybody's data."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from recovery.api.answers import answer
from recovery.api.document import ROOT, document
from recovery.api.reading import Reading


@require_GET
def openapi(request: HttpRequest) -> HttpResponse:
    response = answer(document())
    response["Cache-Control"] = "no-cache"
    return response


@require_GET
def docs(request: HttpRequest) -> HttpResponse:
    return render(request, "api/docs.html", {"reading": Reading(document()), "root": ROOT})
