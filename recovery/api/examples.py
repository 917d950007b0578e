"""Examples of the document: exchanges that were really had. A test has them again and compares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from recovery import exact_json

FILE = Path(__file__).with_name("examples.json")


@dataclass(frozen=True)
class Example:
    """One exchange. `given`: path, query and header parameters by name."""

    operation: str
    name: str
    given: dict[str, Any]
    body: Any
    status: int
    answer: Any


@lru_cache(maxsize=1)
def _recorded() -> dict[str, list[Example]]:
    by_operation: dict[str, list[Example]] = {}
    for each in exact_json.loads(FILE.read_text()) if FILE.exists() else []:
        by_operation.setdefault(each["operation"], []).append(Example(**each))
    return by_operation


def examples(operation_id: str) -> list[Example]:
    return _recorded().get(operation_id, [])
