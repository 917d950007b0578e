"""What callers get: exact JSON, and frozen receipts byte for byte."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from recovery import exact_json
from recovery.receipts import Receipt

MEDIA_TYPE = "application/json"


def answer(data: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(exact_json.dumps(data), status=status, content_type=MEDIA_TYPE)


def frozen(receipt: Receipt, status: int = 200) -> HttpResponse:
    """The first answer again, and whether it is a repeat (G4)."""
    response = HttpResponse(receipt.body, status=status, content_type=MEDIA_TYPE)
    if receipt.replayed:
        response["Idempotent-Replay"] = "true"
    return response
