"""Schemas of answers, by component name."""

from __future__ import annotations

from django.conf import settings

from recovery.api.history import LISTS
from recovery.api.schemas.rows import row
from recovery.api.schemas.words import (
    ANY,
    BOOL,
    BYTES,
    EVIDENCE_REF,
    ID,
    KEY,
    REVISION,
    TIME,
    Schema,
    listed,
    nullable,
    page,
    ref,
    shape,
    text,
    whole,
)
from recovery.evidence import bundles
from recovery.evidence.references import SCHEME
from recovery.models import Signal, Task, WorkflowAudit, WorkflowInstance, WorkflowStep
from recovery.operations import REGISTRY
from recovery.rows import BULKY
from recovery.states import ActivationStatus, GateState, InstanceStatus, TaskStatus

_STATUS: Schema = {"type": "string", "enum": list(InstanceStatus.values)}
_NUMBER = whole(1, 2**31 - 1)
_ACTOR = text(150, description="Name of the account.")

GATE = shape(
    {
        "state": {"type": "string", "enum": list(GateState.values)},
        "generation": {
            "type": "string",
            "pattern": "^[1-9][0-9]*$",
            "description": "Rises with each opening or closing.",
        },
    },
    description="No attempt is granted while it is closed.",
)
FINDING = shape(
    {
        "rule": text(16, description="Number of the rule."),
        "holds": {"enum": [True, False, "depends"], "description": "depends: on what has not been entered yet."},
        "found": {"type": "string"},
        "next": {"type": "string", "description": "What to do next; empty where there is nothing."},
        "rows": listed({"type": "string"}, description="Ids of the rows that show it."),
    }
)
_FINDINGS = listed(ref("Finding"))
_SLUGS: Schema = {"type": "string", "enum": sorted(REGISTRY)}


def _receipt(operations: list[str], facts: dict[str, Schema], description: str) -> Schema:
    head = {"operation": {"type": "string", "enum": operations}, "operation_key": KEY, "actor": _ACTOR}
    return shape({**head, "committed_at": TIME, **facts}, description=description)


_INSTANCE, _SHORT = row(WorkflowInstance), row(WorkflowInstance, BULKY)
_STEP = row(WorkflowStep)
_CURRENT = shape(
    {"id": ID, "sequence": _NUMBER, "status": {"type": "string", "enum": list(ActivationStatus.values)}},
)
_DEFINITION_NAME = text(128, 1)
_EVIDENCE_REF: Schema = text(512, pattern=f"^{SCHEME}[0-9a-f]{{32}}$")
_FILES = listed(
    shape({"name": text(255, 1), "size": whole(1, 2**63 - 1), "sha256": text(64, 64), "media_type": text(127)})
)


def components() -> dict[str, Schema]:
    """Every schema that an answer names."""
    rows = {each.model.__name__: row(each.model) for each in LISTS.values()}
    pages = {f"{each.model.__name__}Page": page(ref(each.model.__name__)) for each in LISTS.values()}
    return {**rows, **pages, **_OWN}


_OWN: dict[str, Schema] = {
    "Revision": REVISION,
    "Gate": GATE,
    "Finding": FINDING,
    "Task": row(Task),
    "Signal": row(Signal),
    "WorkflowAudit": row(WorkflowAudit),
    "WorkflowAuditPage": page(ref("WorkflowAudit")),
    "ListedInstance": _SHORT,
    "ListedInstancePage": page(ref("ListedInstance")),
    "Instance": {
        **_INSTANCE,
        "properties": {
            **_INSTANCE["properties"],
            "gate": ref("Gate"),
            "definition": shape({"name": _DEFINITION_NAME, "version": _NUMBER}),
            "steps": listed(ref("Step"), description="In the order of the tree, parents first."),
        },
        "required": [*_INSTANCE["required"], "gate", "definition", "steps"],
    },
    "Step": {
        **_STEP,
        "properties": {**_STEP["properties"], "current_activation": nullable(ref("CurrentActivation"))},
        "required": [*_STEP["required"], "current_activation"],
    },
    "CurrentActivation": _CURRENT,
    "History": shape(
        {name: ref(f"{each.model.__name__}Page") for name, each in LISTS.items()},
        description="The first page of each list; the next ones are at /instances/{instance_id}/history/{name}.",
    ),
    "ListedDefinition": shape(
        {"id": ID, "namespace_id": ID, "name": _DEFINITION_NAME, "created_at": TIME, "latest_version": _NUMBER}
    ),
    "ListedDefinitionPage": page(ref("ListedDefinition")),
    "DefinitionVersion": shape(
        {
            "id": ID,
            "definition_id": ID,
            "name": _DEFINITION_NAME,
            "version": _NUMBER,
            "graph_digest": text(64),
            "published_by": _ACTOR,
            "published_at": TIME,
            "input_schema": ANY,
            "max_duration_ms": whole(1, 2**63 - 1),
            "root": ref("Node"),
        }
    ),
    "PublishReceipt": _receipt(
        ["publish"],
        {
            "definition": _DEFINITION_NAME,
            "definition_id": ID,
            "version": _NUMBER,
            "version_id": ID,
            "graph_digest": text(64),
            "created": {**BOOL, "description": "false: this content was published before, as this version."},
        },
        "The frozen answer of publishing.",
    ),
    "StartReceipt": _receipt(
        ["start"],
        {
            "instance_id": ID,
            "application": text(64, 1),
            "definition": _DEFINITION_NAME,
            "version": _NUMBER,
            **_SHORT["properties"],
        },
        "The frozen answer of starting an instance.",
    ),
    "ControlReceipt": _receipt(
        ["pause", "resume", "cancel"],
        {"instance_id": ID, "reason": text(1024), **_SHORT["properties"], "gate": ref("Gate"), "audit_id": ID},
        "The frozen answer of a control operation: the instance as it left it.",
    ),
    "RecoveryReceipt": _receipt(
        sorted(REGISTRY),
        {
            "instance_id": ID,
            "reason": text(1024, 1),
            "revision": ref("Revision"),
            "control_revision": ref("Revision"),
            "status": _STATUS,
            "gate": ref("Gate"),
            "audit_id": ID,
            "proposed_by": nullable(_ACTOR),
            "evidence_ref": text(512, 1),
            "effects": {"type": "object", "description": "What it made or changed: ids, statuses, revisions."},
            "will_not": listed({"type": "string"}, description="What it does not do, whatever one might expect."),
        },
        "The frozen answer of a recovery operation. What it set going shows in the instance, not here.",
    ),
    "Receipt": {"oneOf": [ref(f"{act}Receipt") for act in ("Recovery", "Control", "Start", "Publish", "Evidence")]},
    "EvidenceReceipt": shape(
        {"ref": _EVIDENCE_REF, "files": _FILES}, description="The frozen answer of attaching evidence."
    ),
    "Evidence": shape(
        {
            "ref": _EVIDENCE_REF,
            "instance_id": nullable(ID),
            "attached_by": _ACTOR,
            "created_at": TIME,
            "files": _FILES,
            "notes": listed(text(bundles.MAX_NOTE, 1)),
            "references": listed(text(512, 1)),
            "withdrawn": nullable(
                shape({"reason": text(1024), "created_at": TIME}, description="Not to be relied on any more.")
            ),
        }
    ),
    "EvidenceParts": shape(
        {
            "file": listed(BYTES, maxItems=settings.EVIDENCE_MAX_FILES),
            "note": listed(text(bundles.MAX_NOTE, 1), maxItems=bundles.MAX_REFERENCES),
            "reference": listed(EVIDENCE_REF, maxItems=bundles.MAX_REFERENCES),
            "instance_id": ID,
        },
        optional=("file", "note", "reference", "instance_id"),
        closed=True,
        description=f"At least one part; a file has at most {settings.EVIDENCE_MAX_FILE_BYTES} bytes.",
    ),
    "Explanation": shape(
        {
            "revision": ref("Revision"),
            "operations": listed(
                shape(
                    {
                        "operation": _SLUGS,
                        "target": shape({"step_key": text(128), "task_id": ID}, optional=("step_key", "task_id")),
                        "allowed": {**BOOL, "description": "No rule fails with what is known."},
                        "code": nullable(text(32, description="Of the first rule that fails.")),
                        "findings": _FINDINGS,
                    }
                )
            ),
            "hidden": whole(
                0,
                2**31 - 1,
                description="Troubled steps beyond the first ones, which are shown; ask for one by step_key.",
            ),
        }
    ),
    "Preview": shape(
        {
            "allowed": BOOL,
            "findings": _FINDINGS,
            "changes": listed(shape({"entity": text(64), "id": ID, "field": text(64), "before": ANY, "after": ANY})),
            "created": listed(shape({"entity": text(64), "fields": {"type": "object"}})),
        },
        description="What the same command would do now. Nothing was changed.",
    ),
    "Leases": shape(
        {
            "tasks": listed(
                shape(
                    {
                        "task": row(Task, ("input",)),
                        "attempt": shape(
                            {"id": ID, "attempt_no": _NUMBER, "lease_token": text(64), "lease_expires_at": TIME}
                        ),
                        "input": ANY,
                    }
                ),
                description="Empty where there was nothing to do in time.",
            )
        }
    ),
    "Lease": shape({"lease_expires_at": TIME}),
    "Report": shape(
        {
            "late": {**BOOL, "description": "true: kept as a fact only; the attempt had ended before (B9)."},
            "task_status": {"type": "string", "enum": list(TaskStatus.values)},
        }
    ),
}
