"""The document as a page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Reading:
    """Walks the document; every reference stays a link to the schema that it names."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    @property
    def info(self) -> Any:
        return self.document["info"]
