"""Every call of the API as a value: what is sent, whether it may be repeated, and how its answer is read.

Nothing here sends anything; `delivery` decides what is sent when, and the two clients only send.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import PurePath
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

from weave_client import exact
from weave_client.commands import Command
from weave_client.shapes import Explanation, Lease, Page, Preview, Receipt, Report, Row

T = TypeVar("T")

ROOT = "/api/v1"
MAJOR = "1"
"""The major version of the API that this package speaks."""

LISTS = (
    "activations",
    "tasks",
    "attempts",
    "results",
    "events",
    "poll_states",
    "rounds",
    "budgets",
    "waits",
    "signals",
    "inbox",
    "clocks",
    "checkpoints",
    "continuations",
)
"""The lists of an instance's history."""


@dataclass(frozen=True)
class Answer:
    """What came back. `headers`: names in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return exact.loads(self.body)


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call. `path`: below the root, encoded. `key`: the operation key, in the Idempotency-Key header.

    `is_repeatable`: sending it again does nothing twice. `has_receipt`: the key's receipt tells whether it was
    committed, and `is_own_key` that nobody else can have used that key. `seconds`: how long the server may take beyond
    the client's own patience.
    """

    method: Literal["GET", "POST"]
    path: str
    read: Callable[[Answer], T] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)
    content_type: str = "application/json"
    key: str | None = None
    is_repeatable: bool = False
    has_receipt: bool = False
    is_own_key: bool = False
    seconds: float = 0.0

    @property
    def headers(self) -> dict[str, str]:
        told = {"Accept": "application/json, application/problem+json"}
        if self.body is not None:
            told["Content-Type"] = self.content_type
        if self.key is not None:
            told["Idempotency-Key"] = self.key
        return told


def new_key() -> str:
    """An operation key that nobody else has."""
    return secrets.token_urlsafe(24)


def _data(answer: Answer) -> Any:
    return answer.data


def _bytes(answer: Answer) -> bytes:
    return answer.body


def _page(answer: Answer) -> Page:
    return Page.read(answer.data)


def _receipt(answer: Answer) -> Receipt:
    return Receipt(answer.data, replayed=answer.headers.get("idempotent-replay") == "true")


def _get(path: str, read: Callable[[Answer], T], **query: Any) -> Call[T]:
    given = {name: value for name, value in query.items() if value is not None}
    return Call("GET", path + (f"?{urlencode(given)}" if given else ""), read, is_repeatable=True)


def _post(path: str, body: Any, read: Callable[[Answer], T]) -> Call[T]:
    return Call("POST", path, read, exact.dumps(body).encode())


def _keyed(path: str, body: Any, key: str | None) -> Call[Receipt]:
    return replace(
        _post(path, body, _receipt),
        key=key or new_key(),
        is_repeatable=True,
        has_receipt=True,
        is_own_key=key is None,
    )


def _part(segment: str) -> str:
    # "." and ".." would be taken out of the path on the way.
    return quote(segment, safe="").replace(".", "%2E") if set(segment) <= {"."} else quote(segment, safe="")


def after(call: Call[Page], cursor: str) -> Call[Page]:
    """The same list, from this cursor on."""
    base, _, query = call.path.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith("cursor=")]
    return replace(call, path=f"{base}?{'&'.join([*kept, urlencode({'cursor': cursor})])}")


# Definitions


def publish(definition: Mapping[str, Any], *, key: str | None = None) -> Call[Receipt]:
    """Publishes a version: `name`, `input_schema`, `max_duration_ms`, `root`. The same content is the same version."""
    return _keyed("/definitions", definition, key)


def list_definitions(*, limit: int | None = None, cursor: str | None = None) -> Call[Page]:
    return _get("/definitions", _page, limit=limit, cursor=cursor)


def definition(name: str, version: int) -> Call[Row]:
    return _get(f"/definitions/{_part(name)}/versions/{version}", _data)


# Instances


def start(
    application: str,
    definition: str,
    business_key: str,
    input: Any,
    *,
    version: int | None = None,
    key: str | None = None,
) -> Call[Receipt]:
    """Starts an instance; without `version`, of the newest. A business key that is taken: StateConflict."""
    body = {"application": application, "definition": definition, "business_key": business_key, "input": input}
    return _keyed("/instances", body if version is None else body | {"version": version}, key)


def list_instances(
    *,
    status: str | None = None,
    definition: str | None = None,
    business_key: str | None = None,
    review_reason: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page]:
    """The newest first; with `review_reason`, those that came into review last come first."""
    given = {"status": status, "definition": definition, "business_key": business_key, "review_reason": review_reason}
    return _get("/instances", _page, **given, limit=limit, cursor=cursor)


def instance(instance_id: str) -> Call[Row]:
    """An instance with its gate and its steps, each with its current activation."""
    return _get(_instance(instance_id), _data)


def history(instance_id: str, *, limit: int | None = None) -> Call[Row]:
    """The first page of every list, by the list's name."""
    return _get(f"{_instance(instance_id)}/history", _data, limit=limit)


def list_history(instance_id: str, name: str, *, limit: int | None = None, cursor: str | None = None) -> Call[Page]:
    """`name`: one of LISTS. The oldest first."""
    return _get(f"{_instance(instance_id)}/history/{_part(name)}", _page, limit=limit, cursor=cursor)


def list_audit(instance_id: str, *, limit: int | None = None, cursor: str | None = None) -> Call[Page]:
    """The audit entries in their order; `audit.verify` checks their chain."""
    return _get(f"{_instance(instance_id)}/audit", _page, limit=limit, cursor=cursor)


def signal(
    instance_id: str,
    *,
    step_key: str,
    generation: int,
    name: str,
    correlation_key: str,
    source_key: str,
    payload: Any,
) -> Call[Row]:
    """Sends a signal to one generation of a step. The source key makes it safe to repeat."""
    body = {
        "step_key": step_key,
        "generation": generation,
        "name": name,
        "correlation_key": correlation_key,
        "source_key": source_key,
        "payload": payload,
    }
    return replace(_post(f"{_instance(instance_id)}/signals", body, _data), is_repeatable=True)


def _instance(instance_id: str) -> str:
    return f"/instances/{_part(instance_id)}"


# Control


def _control(
    verb: str, instance_id: str, expected_control_revision: str, reason: str, key: str | None
) -> Call[Receipt]:
    body = {"expected_control_revision": expected_control_revision, "reason": reason}
    return _keyed(f"{_instance(instance_id)}/{verb}", body, key)


def pause(instance_id: str, *, expected_control_revision: str, reason: str, key: str | None = None) -> Call[Receipt]:
    return _control("pause", instance_id, expected_control_revision, reason, key)


def resume(instance_id: str, *, expected_control_revision: str, reason: str, key: str | None = None) -> Call[Receipt]:
    return _control("resume", instance_id, expected_control_revision, reason, key)


def cancel(instance_id: str, *, expected_control_revision: str, reason: str, key: str | None = None) -> Call[Receipt]:
    return _control("cancel", instance_id, expected_control_revision, reason, key)


def cancel_task(task_id: str, *, expected_task_revision: str, reason: str) -> Call[Row]:
    """Cancels a task that has not started. It has no key, so a lost answer is told and never repeated."""
    return _post(
        f"/tasks/{_part(task_id)}/cancel", {"expected_task_revision": expected_task_revision, "reason": reason}, _data
    )


# Recovery


def explain(instance_id: str, *, step_key: str | None = None, task_id: str | None = None) -> Call[Explanation]:
    """For each operation and target: allowed or not, and every rule with its finding."""

    def read(answer: Answer) -> Explanation:
        return Explanation.read(answer.data)

    return _get(f"{_instance(instance_id)}/recovery", read, step_key=step_key, task_id=task_id)


def recover(instance_id: str, command: Command, *, key: str | None = None) -> Call[Receipt]:
    """Commits one of the six. The same key with the same command answers the first receipt again."""
    return _keyed(f"{_instance(instance_id)}/recovery/{command.operation}", command.body(), key)


def dry_run(instance_id: str, command: Command) -> Call[Preview]:
    """What the command would change now. Changes nothing."""

    def read(answer: Answer) -> Preview:
        return Preview.read(answer.data)

    path = f"{_instance(instance_id)}/recovery/{command.operation}?dry_run=true"
    return replace(_post(path, command.body(), read), is_repeatable=True)


def receipt(operation_key: str) -> Call[Receipt]:
    """The frozen receipt of a key. Raises NotFound where nothing was committed under it."""
    return _get(f"/operations/{_part(operation_key)}", _receipt)


# Work


def claim(
    queue: str,
    worker: str,
    *,
    max_tasks: int = 1,
    wait_ms: int = 0,
    handlers: Sequence[tuple[str, str]] | None = None,
    key: str | None = None,
) -> Call[list[Lease]]:
    """Leases tasks; waits up to `wait_ms` for a first one. `handlers`: names with versions, None for all."""
    body: dict[str, Any] = {"worker": worker, "max_tasks": max_tasks, "wait_ms": wait_ms}
    if handlers is not None:
        body["handlers"] = [{"name": name, "version": version} for name, version in handlers]
    call = _post(f"/queues/{_part(queue)}/claim", body, _leases)
    # Always keyed: an answer that was lost has leased tasks, and the same key answers the same leases.
    return replace(call, key=key or new_key(), is_repeatable=True, seconds=wait_ms / 1000)


def _leases(answer: Answer) -> list[Lease]:
    granted_at = _date(answer.headers.get("date"))
    return [Lease.read(lease, granted_at) for lease in answer.data["tasks"]]


def _date(text: str | None) -> datetime | None:
    """The server's own time: a lease is measured by one clock only. None where it cannot be read."""
    try:
        moment = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


def heartbeat(attempt_id: str, lease_token: str) -> Call[datetime]:
    """Extends a lease; answers when it ends. Raises StateConflict for an attempt that has ended."""

    def read(answer: Answer) -> datetime:
        return datetime.fromisoformat(answer.data["lease_expires_at"])

    return replace(
        _post(f"/attempts/{_part(attempt_id)}/heartbeat", {"lease_token": lease_token}, read), is_repeatable=True
    )


def _report(verb: str, attempt_id: str, said: Mapping[str, Any]) -> Call[Report]:
    def read(answer: Answer) -> Report:
        return Report(answer.data["late"], answer.data["task_status"])

    return replace(_post(f"/attempts/{_part(attempt_id)}/{verb}", said, read), is_repeatable=True)


def succeed(attempt_id: str, lease_token: str, result: Any) -> Call[Report]:
    """Reports what the execution answered."""
    return _report("succeed", attempt_id, {"lease_token": lease_token, "result": result})


def fail(attempt_id: str, lease_token: str, *, error_code: str, error_message: str, retryable: bool) -> Call[Report]:
    """Reports that the execution failed and has no further effect."""
    said = {"error_code": error_code, "error_message": error_message, "retryable": retryable}
    return _report("fail", attempt_id, {"lease_token": lease_token, **said})


def unknown(attempt_id: str, lease_token: str, *, error_code: str, error_message: str) -> Call[Report]:
    """Reports that nobody knows what the execution did: a person will review it."""
    said = {"error_code": error_code, "error_message": error_message}
    return _report("unknown", attempt_id, {"lease_token": lease_token, **said})


# Evidence


def attach_evidence(
    instance_id: str, files: Mapping[str, bytes], *, note: str = "", reference: str = "", key: str | None = None
) -> Call[Row]:
    """Attaches files (name -> content); the answer's `ref` is what a command's `evidence_ref` takes."""
    boundary = secrets.token_hex(16)
    texts = {"instance_id": instance_id, "note": note, "reference": reference}
    parts = [_text_part(name, text) for name, text in texts.items() if text]
    parts += [_file_part(name, content) for name, content in files.items()]
    body = b"".join(b"--%s\r\n%s\r\n" % (boundary.encode(), part) for part in parts) + b"--%s--\r\n" % boundary.encode()
    content_type = f"multipart/form-data; boundary={boundary}"
    return Call("POST", "/evidence", _data, body, content_type, key or new_key(), is_repeatable=True)


def _text_part(name: str, text: str) -> bytes:
    return f'Content-Disposition: form-data; name="{name}"\r\n\r\n{text}'.encode()


def _file_part(name: str, content: bytes) -> bytes:
    shown = PurePath(name).name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    head = f'Content-Disposition: form-data; name="file"; filename="{shown}"\r\n'
    return head.encode() + b"Content-Type: application/octet-stream\r\n\r\n" + content


def evidence(ref: str) -> Call[bytes]:
    """The content behind a reference."""
    return _get(f"/evidence/{_part(ref)}", _bytes)
