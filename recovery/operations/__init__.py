"""The six recovery operations: one list of pure rules, used by the commit, the explanation and the preview.

`execute` commits, `preview` runs the same transaction and rolls it back, `explain` asks the same rules without locks.
"""

from recovery.operations.explain import Explanation, Option, explain
from recovery.operations.registry import REGISTRY
from recovery.operations.run import Preview, execute, preview, receipt
from recovery.receipts import Receipt, new_key

__all__ = [
    "REGISTRY",
    "Explanation",
    "Option",
    "Preview",
    "Receipt",
    "execute",
    "explain",
    "new_key",
    "preview",
    "receipt",
]
