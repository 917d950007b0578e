"""Names of files as people gave them, made harmless to look at. No path is ever made of one."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 120
"""Characters of a name; a longer one loses its middle, not its ending."""


def displayed(name: str) -> str:
    """The last part of a path, without control and formatting characters (NUL, right-to-left override); never empty."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    seen = "".join(char for char in last if unicodedata.category(char)[0] != "C").strip(" .")
    if len(seen) > LONGEST:
        stem, dot, ending = seen.rpartition(".")
        tail = dot + ending if stem and len(ending) <= 10 else ""
        seen = f"{seen[: LONGEST - len(tail) - 1]}…{tail}"
    return seen or "file"
