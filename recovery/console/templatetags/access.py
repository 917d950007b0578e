"""What only the pages of access draw."""

from __future__ import annotations

from urllib.parse import urlencode

from django import template

from recovery.permissions import Grant

register = template.Library()


@register.simple_tag
def grant_query(grant: Grant, queue: str) -> str:
    """Names one grant in a URL."""
    named = {"kind": grant.kind, "name": grant.holder, "permission": grant.permission, "queue": queue}
    return urlencode({name: value for name, value in named.items() if value})
