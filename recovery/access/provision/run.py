"""Makes a provisioning document so, in one transaction: what is missing is made, what differs is changed.

Nothing is removed but by `prune`, and then only rights: grants, memberships and credentials that the document does not
name, where it governs them. Namespaces, applications, queues and accounts have a history and stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recovery.access.ledger import SHELL, Ledger, change
from recovery.access.provision.document import Document, Problems, refusal
from recovery.access.provision.people import People
from recovery.access.provision.rights import Rights
from recovery.access.provision.tenants import Tenants
from recovery.models import AccessLog


@dataclass
class Outcome:
    """What was changed, or would be: the entries of the log; `kept`: rights beyond the document; the new tokens."""

    entries: list[AccessLog] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    tokens: list[dict[str, str]] = field(default_factory=list)


def provision(document: Document, *, prune: bool = False, preview: bool = False) -> Outcome:
    """Runs a document that `read` has checked; a preview rolls everything back.

    Raises ValidationFailed, with paths, where the document names what is not there, and StateConflict where a
    namespace would lose its last administrator; nothing is written then.
    """

    def work(ledger: Ledger) -> Outcome:
        outcome, problems = Outcome(ledger.entries), Problems()
        namespaces = Tenants(ledger).provide(document.namespaces)
        people = People(ledger, prune, outcome.kept, problems)
        people.provide(document)
        for entry in document.namespaces:
            rights = Rights(ledger, namespaces[entry.name], people, prune, outcome.kept, problems)
            rights.provide(entry)
            outcome.tokens += rights.tokens
        if problems:
            raise refusal(problems)
        return outcome

    return change(SHELL, work, preview=preview)
