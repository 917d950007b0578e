"""Evidence over HTTP: attached once, read safely, named by decisions."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from recovery import permissions
from tests.api.callers import Answer, Caller, caller, encoded
from tests.api.desk import Desk
from tests.support.evidence import PNG, TEXT, stored
from tests.support.trees import sequence, task
from tests.support.world import World

Parts = list[tuple[str, str | tuple[str, bytes]]]


def body(parts: Parts) -> bytes:
    """Of multipart/form-data. A part is a text, or a name with bytes."""
    sent = b""
    for name, content in parts:
        shown = "" if isinstance(content, str) else f'; filename="{content[0]}"'
        data = content.encode() if isinstance(content, str) else content[1]
        sent += f'--boundary\r\nContent-Disposition: form-data; name="{name}"{shown}\r\n\r\n'.encode() + data + b"\r\n"
    return sent + b"--boundary--\r\n"


def attach(by: Caller, parts: Parts, *, key: str = "k", raw: bytes | None = None) -> Answer:
    headers = {"Content-Type": "multipart/form-data; boundary=boundary", "Idempotency-Key": key}
    return by.call("POST", "/evidence", raw=body(parts) if raw is None else raw, **headers)


FILES: Parts = [("file", ("portal.txt", TEXT)), ("file", ("picture.png", PNG))]


def test_what_was_attached_is_read_again_byte_for_byte(desk: Desk) -> None:
    run = desk.start(sequence(task("pay")))
    told = [("note", "The portal was read."), ("reference", "bank-portal:FT26333"), ("instance_id", run.id)]
    made = attach(desk.operator, [*FILES, *told])
    assert made.status == 201
    path = f"/evidence/{encoded(made['ref'])}"
    read = desk.operator.get(path)
    assert (read["files"], read["notes"]) == (made["files"], ["The portal was read."])
    assert (read["references"], read["instance_id"]) == (["bank-portal:FT26333"], run.id)
    for number, content in ((1, TEXT), (2, PNG)):
        about = read["files"][number - 1]
        assert (about["size"], about["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
        assert desk.operator.get(f"{path}/files/{number}").body == content
    assert [about["media_type"] for about in read["files"]] == ["text/plain", "image/png"]
    for wrong in ("0", "3", "01", "x", "-1"):
        assert desk.operator.get(f"{path}/files/{wrong}").code == "NOT_FOUND"


@pytest.mark.rule("G4")
def test_the_same_key_attaches_once(desk: Desk, tmp_path: Path) -> None:
    first = attach(desk.operator, FILES)
    again = attach(desk.operator, FILES)
    assert (again.status, again.is_replay, again.body) == (201, True, first.body)
    assert attach(desk.operator, FILES[:1]).code == "IDEMPOTENCY_CONFLICT"
    assert desk.operator.get("/operations/k").body == first.body
    assert len(stored(tmp_path / "evidence")) == 2


def test_a_file_is_handed_out_so_that_no_browser_runs_it(desk: Desk) -> None:
    made = attach(desk.operator, [("file", ("page.html", b"<html><script>alert(1)</script></html>"))])
    answer = desk.operator.get(f"/evidence/{encoded(made['ref'])}/files/1")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"


@pytest.mark.rule("G3")
def test_a_decision_names_evidence_that_is_there(desk: Desk) -> None:
    run = desk.start(sequence(task("pay")))
    desk.fail(desk.claim())
    made = attach(desk.operator, FILES)
    missing = run.command("retry-step", "pay", evidence_ref="evidence:" + "0" * 32)
    answer = desk.operator.post(f"{run.path}/recovery/retry-step", missing)
    assert (answer.status, list(answer["errors"])) == (422, ["evidence_ref"])
    assert run.recover("retry-step", "pay", evidence_ref=made["ref"])["evidence_ref"] == made["ref"]


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ([], "file"),
        ([("file", ("empty.txt", b""))], "file"),
        ([("file", ("run.exe", b"MZ\x90\x00" + b"\0" * 60))], "file"),
        ([("note", " ")], "note"),
        ([("reference", "a b")], "reference"),
        ([("note", "why"), ("namespace", "other")], "namespace"),
        ([("note", "why"), ("instance_id", "a"), ("instance_id", "b")], "instance_id"),
    ],
)
def test_parts_that_are_wrong_are_told_by_their_name_and_nothing_is_kept(
    desk: Desk, tmp_path: Path, parts: Parts, field: str
) -> None:
    answer = attach(desk.operator, parts)
    assert (answer.status, list(answer["errors"])) == (422, [field])
    assert stored(tmp_path / "evidence") == []


def test_a_body_without_parts_is_refused(desk: Desk, tmp_path: Path) -> None:
    assert attach(desk.operator, [], raw=b"no parts at all").status == 422
    assert stored(tmp_path / "evidence") == []


def test_limits_of_size_and_number(desk: Desk, settings: Any) -> None:
    settings.EVIDENCE_MAX_FILE_BYTES, settings.EVIDENCE_MAX_FILES = 10, 1
    assert attach(desk.operator, [("file", ("a.txt", b"12345678901"))]).status == 422
    assert attach(desk.operator, [("file", ("a.txt", b"1")), ("file", ("b.txt", b"2"))]).status == 422
    assert attach(desk.operator, [("file", ("a.txt", b"1234567890"))]).status == 201


def test_a_damaged_file_is_not_handed_out(desk: Desk, tmp_path: Path) -> None:
    made = attach(desk.operator, FILES[:1])
    (place,) = (tmp_path / "evidence").glob("*/" + made["files"][0]["sha256"])
    place.chmod(0o640)
    place.write_bytes(TEXT.replace(b"no", b"a "))
    answer = desk.operator.get(f"/evidence/{encoded(made['ref'])}/files/1")
    assert (answer.status, answer.code) == (409, "STATE_CONFLICT")


def test_attaching_and_reading_are_rights_of_their_own(world: World, desk: Desk) -> None:
    writer = caller(world, world.actor(permissions.READ, permissions.ATTACH_EVIDENCE))
    reader = caller(world, world.actor(permissions.READ, permissions.READ_EVIDENCE))
    made = attach(writer, FILES)
    path = f"/evidence/{encoded(made['ref'])}"
    assert (writer.get(path).code, reader.get(path).status) == ("PERMISSION_DENIED", 200)
    assert attach(reader, FILES, key="k2").code == "PERMISSION_DENIED"
    assert reader.get("/operations/k").code == "PERMISSION_DENIED"
