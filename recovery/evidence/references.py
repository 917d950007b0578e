"""References in this system's own scheme: `evidence:<id>` (G3)."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from recovery import permissions
from recovery.errors import ValidationFailed
from recovery.models import EvidenceBundle, WorkflowAudit
from recovery.permissions import Actor

SCHEME = "evidence:"


def reference(bundle: EvidenceBundle) -> str:
    """What a decision names it by; it fits an `evidence_ref`."""
    return SCHEME + bundle.pk


def visible(actor: Actor) -> QuerySet[EvidenceBundle]:
    """The bundles of the actor's namespace; with a credential for one application, those about its instances."""
    limited = Q(instance__application_id=actor.application_id) if actor.application_id else Q()
    return EvidenceBundle.objects.filter(limited, namespace_id=actor.namespace_id)


def refusal(actor: Actor, evidence_ref: str) -> ValidationFailed | None:
    """Why a command must not name this reference; None where it may, and for what is kept elsewhere (G3).

    One answer for what is missing, foreign and not to be seen: a command is no way to find out.
    """
    if not evidence_ref.startswith(SCHEME):
        return None
    rights = permissions.rights_of(actor.user_id, actor.namespace_id)
    bundles = visible(actor).select_related("evidencewithdrawal").filter(pk=evidence_ref.removeprefix(SCHEME))
    bundle = bundles.first() if rights.may(permissions.READ_EVIDENCE) else None
    if bundle is None:
        sentence = _("No evidence that you may see has this reference. Attach it first, or say where it is kept.")
    elif hasattr(bundle, "evidencewithdrawal"):
        sentence = _("This evidence was withdrawn: %(reason)s") % {"reason": bundle.evidencewithdrawal.reason}
    else:
        return None
    return ValidationFailed(sentence, rule="G3", fields={"evidence_ref": [sentence]})


def uses(bundle: EvidenceBundle) -> QuerySet[WorkflowAudit]:
    """The audited decisions that name a bundle, newest first. It may be named in its own namespace only."""
    found = WorkflowAudit.objects.select_related("instance", "operation")
    return found.filter(evidence_ref=reference(bundle)).order_by("-created_at", "-sequence")
