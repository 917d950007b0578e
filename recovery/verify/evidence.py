"""Evidence against its hashes: the files in their folder, notes and references in their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from recovery.evidence import store
from recovery.evidence.bundles import FILE
from recovery.models import EvidenceItem
from recovery.verify.base import Scope, Violation, check, violation, walk


@check(gettext_lazy("Every piece of evidence is there, and is what its hash says."), deep=True)
def evidence_content(scope: Scope) -> Iterator[Violation]:
    """Reads every file of the store."""
    rows = EvidenceItem.objects.all()
    if scope.namespace_id is not None:
        rows = rows.filter(bundle__namespace_id=scope.namespace_id)
    for item in walk(rows):
        if item.kind != FILE:
            if hashlib.sha256(item.text.encode()).hexdigest() != item.sha256:
                yield violation(item, _("The text is not what its hash says."))
            continue
        try:
            store.open_checked(item.sha256, item.size).close()
        except store.Damaged as damaged:
            yield violation(item, str(damaged))
