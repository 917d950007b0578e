"""What the command line prints for people. `--json` prints the server's own shapes instead."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from weave_client import exact
from weave_client.errors import Refused
from weave_client.shapes import Explanation, Finding, Preview, Receipt, Row
from weave_client.words import NAMES, word

HOLDS = {True: "holds", False: "fails", "depends": "depends on what you enter"}


def plain(value: Any) -> Any:
    """A shape as JSON."""
    if isinstance(value, Receipt | Explanation):
        return value.data
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def shown(text: str) -> str:
    """Text from outside on one line, without what would steer a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns, each as wide as its widest text."""
    cells = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def instances(rows: Iterable[Row]) -> Iterator[str]:
    head = ("Instance", "Business key", "Status", "Reason", "Since", "Revision")
    yield from table([head, *(_instance(row) for row in rows)])


def _instance(row: Row) -> tuple[str, ...]:
    reason = word("ReviewReason", row["review_reason"])
    return (
        row["id"],
        row["business_key"],
        _status(row),
        reason,
        row["review_since"] or row["created_at"],
        row["revision"],
    )


def _status(row: Row) -> str:
    said = word("InstanceStatus", row["status"])
    said += ", paused" if row["paused"] else ""
    return said + (f", stop requested ({word('StopKind', row['stop_kind'])})" if row["stop_kind"] else "")


def instance(row: Row) -> Iterator[str]:
    definition = row["definition"]
    facts = [
        ("Instance", row["id"]),
        ("Business key", row["business_key"]),
        ("Definition", f"{definition['name']}, version {definition['version']}"),
        ("Status", _status(row)),
        ("Gate", word("GateState", row["gate"]["state"])),
        ("Revision", f"{row['revision']} (control {row['control_revision']})"),
        ("Deadline", row["deadline_at"] or "none"),
    ]
    if row["review_reason"]:
        facts.append(("Reason", f"{word('ReviewReason', row['review_reason'])}, since {row['review_since']}"))
    yield from table(facts)
    yield ""
    yield from table([("Step", "Kind", "Status", "Activation", "Revision"), *map(_step, row["steps"])])


def _step(row: Row) -> tuple[str, ...]:
    current = row["current_activation"]
    activation = f"{current['sequence']}" if current else "none"
    return (
        row["step_key"],
        word("StepKind", row["kind"]),
        word("StepStatus", row["status"]),
        activation,
        row["revision"],
    )


def explanation(explained: Explanation) -> Iterator[str]:
    yield f"At revision {explained.revision}"
    for option in explained.options:
        target = option.target.get("step_key") or option.target.get("task_id") or ""
        verdict = "allowed" if option.allowed else f"refused: {option.code}"
        yield ""
        yield shown(f"{NAMES.get(option.operation, option.operation)} {target}".rstrip()) + f"  {verdict}"
        yield from findings(found for found in option.findings if found.holds is not True)
    if explained.hidden:
        yield ""
        yield f"{explained.hidden} more steps need a decision; ask for one with --step."


def findings(found: Iterable[Finding]) -> Iterator[str]:
    for each in found:
        yield shown(f"  {each.rule} {HOLDS[each.holds]}: {each.found}")
        if each.next:
            yield shown(f"    Next: {each.next}")


def preview(seen: Preview) -> Iterator[str]:
    yield "Would be committed. Nothing was changed." if seen.allowed else "Would be refused. Nothing was changed."
    yield from findings(found for found in seen.findings if found.holds is not True)
    for change in seen.changes:
        before, after = exact.dumps(change["before"]), exact.dumps(change["after"])
        yield shown(f"  {change['entity']} {change['id']} {change['field']}: {before} -> {after}")
    for made in seen.created:
        yield shown(f"  new {made['entity']} {exact.dumps(made['fields'])}")


def receipt(given: Receipt) -> Iterator[str]:
    data = given.data
    yield f"{NAMES.get(given.operation, given.operation)}  {'committed before' if given.replayed else 'committed'}"
    names = {
        "operation_key": "Key",
        "instance_id": "Instance",
        "actor": "Operator",
        "reason": "Reason",
        "evidence_ref": "Evidence",
        "committed_at": "Committed",
        "revision": "Revision",
    }
    facts = [(told, str(data[name])) for name, told in names.items() if data.get(name)]
    if "status" in data:
        facts.append(("Status", word("InstanceStatus", data["status"])))
    if isinstance(data.get("gate"), Mapping):
        facts.append(("Gate", word("GateState", data["gate"]["state"])))
    yield from table(facts)
    for name, effect in data.get("effects", {}).items():
        yield shown(f"  {name}: {exact.dumps(effect)}")
    for sentence in data.get("will_not", ()):
        yield shown(f"  {sentence}")


def refusal(error: Refused) -> Iterator[str]:
    yield shown(f"{error.title}: {error.detail} ({error.code}{', rule ' + error.rule if error.rule else ''})")
    for name, sentences in error.fields.items():
        for sentence in sentences:
            yield shown(f"  {name}: {sentence}")
    yield from findings(error.findings)
    for name, value in error.current.items():
        yield shown(f"  now {name}: {value}")
