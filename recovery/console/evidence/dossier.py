"""The dossier of an instance, as a page of its own and as an archive."""

from __future__ import annotations

from django.http import FileResponse, HttpResponse
from django.views.decorators.http import require_safe

from recovery.console import find
from recovery.console.reader import Request
from recovery.dossier import render
from recovery.dossier.gather import Dossier, gather


@require_safe
def html(request: Request, instance_id: str) -> HttpResponse:
    """To read and to keep. It runs nothing, wherever it is opened."""
    response = HttpResponse(render.as_html(_gathered(request, instance_id)))
    response["Content-Disposition"] = f'inline; filename="dossier-{instance_id}.html"'
    response["Content-Security-Policy"] = f"{render.policy()}; frame-ancestors 'none'; sandbox"
    return response


@require_safe
def archive(request: Request, instance_id: str) -> FileResponse:
    """With the files of the evidence."""
    opened = render.as_zip(_gathered(request, instance_id))
    name = f"dossier-{instance_id}.zip"
    return FileResponse(opened, as_attachment=True, filename=name, content_type="application/zip")


def _gathered(request: Request, instance_id: str) -> Dossier:
    return gather(find.instance(request, instance_id).actor, instance_id)
