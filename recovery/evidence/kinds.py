"""What a file is, told by its content alone; and which kinds are taken and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core import checks

try:
    import magic
except ImportError:  # the package is there, the library it loads (libmagic) is not
    magic = None  # type: ignore[assignment]

UNKNOWN = "application/octet-stream"
"""Of every file where libmagic is missing. Such a file can only be downloaded."""

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Drawn by browsers without running anything. SVG runs scripts and is not among them."""

_DOCUMENTS = frozenset(
    {
        *("application/pdf", "application/json", "application/xml", "application/rtf", "application/x-ndjson"),
        *("application/zip", "application/gzip", "application/x-tar", "application/x-7z-compressed"),
        *(
            "application/vnd.ms-excel",
            "application/msword",
            "application/vnd.ms-powerpoint",
            "application/vnd.ms-outlook",
        ),
        *("application/CDFV2", "message/rfc822", "image/svg+xml", "image/tiff", "image/bmp"),
    }
)
_FAMILIES = ("text/", "application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.")
_PROGRAMS = ("text/x-msdos-batch",)

_HEAD = 256 * 1024
"""Bytes that are looked at."""


def media_type(path: Path) -> str:
    """The media type that libmagic finds in the content."""
    if magic is None:
        return UNKNOWN
    with path.open("rb") as file:
        found: str = magic.from_buffer(file.read(_HEAD), mime=True)
    return found[:127]


def is_taken(kind: str) -> bool:
    """The allow-list. Archives are taken as they are and never unpacked; HTML and SVG only ever leave as a download."""
    if magic is None:
        return True
    return kind in IMAGES | _DOCUMENTS or (kind.startswith(_FAMILIES) and kind not in _PROGRAMS)


def is_text(kind: str) -> bool:
    """Whether it may be read on a page: as escaped text, whatever it would mean to a browser."""
    return kind.startswith("text/") or kind in (
        "application/json",
        "application/xml",
        "application/x-ndjson",
        "image/svg+xml",
    )


@checks.register()
def check_libmagic(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    """Says at every start what is missing and what follows from it."""
    if magic is not None:
        return []
    hint = "Install libmagic (Debian: apt-get install libmagic1)."
    return [
        checks.Warning("Types of evidence cannot be told: every file is download-only.", hint=hint, id="recovery.W001")
    ]
