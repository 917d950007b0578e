"""How a dossier writes JSON values."""

from __future__ import annotations

from typing import Any

from django import template

from recovery import exact_json

register = template.Library()


@register.filter
def json_text(value: Any) -> str:
    """Exact JSON on one line; "" for nothing."""
    return "" if value is None else exact_json.dumps(value)
