"""A dossier proves a history from the file alone: every change, cut, addition and move is found and named."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from recovery import audit, exact_json, permissions
from recovery.dossier import bundle, render
from recovery.dossier.__main__ import main
from recovery.dossier.check import ENTRY, Report, Unreadable, verify
from recovery.dossier.gather import gather
from recovery.errors import DomainError, NotFound, PermissionDenied
from recovery.evidence import bundles
from recovery.models import WorkflowAudit
from tests.evidence.conftest import seat
from tests.operations.stages import failed_task
from tests.support.evidence import PNG, TEXT, attach
from tests.support.recovering import recover
from tests.support.world import Flow, World

READING = (permissions.READ, permissions.READ_AUDIT)


@pytest.fixture(name="flow")
def _flow(world: World, evidence_dir: Path) -> Flow:
    """Retried on evidence, continued, paused."""
    flow = failed_task(world)
    ref = attach(world, TEXT, PNG, notes=("Seen <b>at</b> noon.",), instance_id=flow.id)
    recover(flow, "retry-step", "it", evidence_ref=ref, reason="<script>alert(1)</script>")
    recover(flow, "continue")
    flow.pause()
    return flow


@pytest.fixture(name="archive")
def _archive(flow: Flow, tmp_path: Path) -> Path:
    path = tmp_path / "dossier.zip"
    with path.open("wb") as file:
        render.write_zip(gather(flow.world.operator, flow.id), file)
    return path


@pytest.fixture(name="page")
def _page(flow: Flow, tmp_path: Path) -> Path:
    path = tmp_path / "dossier.html"
    path.write_bytes(render.as_html(gather(flow.world.operator, flow.id)))
    return path


def contents(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def pack(archive: Path, files: dict[str, bytes]) -> None:
    """Packs the files as a dossier is packed, their manifest as it is."""
    with archive.open("wb") as target:
        bundle.write_zip(target, [render._member(name, data) for name, data in files.items()])


def forge(archive: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Changes a JSON member and leaves everything else, as somebody with an editor would."""
    files = contents(archive)
    value = exact_json.loads(files[name])
    files[name] = bundle.text(change(value) or value).encode()
    pack(archive, files)


def found(path: Path) -> str:
    return "\n".join(verify(path).problems)


def test_an_archive_that_nobody_touched_is_intact(archive: Path, flow: Flow) -> None:
    report = verify(archive, head=flow.instance.audit_head)
    assert report.problems == []
    assert (report.head, report.entries) == (flow.instance.audit_head, WorkflowAudit.objects.count())
    names = list(contents(archive))
    assert names[:6] == [
        *("instance.json", "history.json", "audit.json", "receipts.json", "evidence.json", "dossier.html")
    ]
    assert len([name for name in names if name.startswith("evidence/")]) == 2
    assert names[-2:] == ["manifest.json", "manifest.sha256"]


def test_a_page_that_nobody_touched_is_intact(page: Path, flow: Flow) -> None:
    assert verify(page, head=flow.instance.audit_head).problems == []


def test_the_same_dossier_is_the_same_file(flow: Flow) -> None:
    one, other = (render.as_zip(gather(flow.world.operator, flow.id)) for _ in range(2))
    with one, other:
        assert one.read() == other.read()


@pytest.mark.rule("G10")
def test_the_hash_of_an_exported_entry_is_that_of_the_audit(flow: Flow) -> None:
    for entry, row in zip(
        gather(flow.world.operator, flow.id).documents["audit.json"],
        WorkflowAudit.objects.order_by("sequence"),
        strict=True,
    ):
        again = exact_json.loads(bundle.text(entry))
        assert exact_json.digest({name: again[name] for name in ENTRY}) == audit.entry_hash(row) == row.entry_hash


def test_one_byte_changed_in_any_file_of_the_archive_names_the_file(archive: Path) -> None:
    files = contents(archive)
    for name, data in files.items():
        for place in (0, len(data) // 2, len(data) - 1):
            changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            pack(archive, files | {name: changed})
            assert name in found(archive), (name, place)


def test_one_byte_changed_anywhere_in_the_raw_archive_is_found(archive: Path) -> None:
    data = archive.read_bytes()
    for place in range(0, len(data), max(1, len(data) // 400)):
        archive.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with suppress(Unreadable):  # said as well, with an exit status of its own
            assert verify(archive).problems, place


def test_what_is_put_before_or_after_the_archive_is_found(archive: Path) -> None:
    data = archive.read_bytes()
    archive.write_bytes(data + b"more")
    assert main(["verify", str(archive)]) != 0


def test_one_byte_changed_in_the_page_is_found(page: Path) -> None:
    data = page.read_bytes()
    for place in range(0, len(data) - 1, max(1, len(data) // 400)):
        page.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with suppress(Unreadable):
            assert verify(page).problems, place


def test_every_file_that_is_cut_added_or_moved_is_named(archive: Path) -> None:
    files = contents(archive)
    for name in files:
        pack(archive, {each: data for each, data in files.items() if each != name})
        if name == bundle.MANIFEST:
            with pytest.raises(Unreadable, match=name):
                verify(archive)
        else:
            assert name in found(archive)
    pack(archive, files | {"evidence/more": b"x"})
    assert "evidence/more was added" in found(archive)
    pack(archive, dict(sorted(files.items(), reverse=True)))
    assert "another order" in found(archive)


def _set(number: int, name: str, value: Any) -> Callable[[list[Any]], Any]:
    return lambda entries: entries[number].update({name: value})


@pytest.mark.rule("G10")
@pytest.mark.parametrize("name", ["actor", "reason", "evidence_ref", "after", "created_at", "previous_hash"])
def test_a_changed_entry_is_named(archive: Path, name: str) -> None:
    forge(archive, "audit.json", _set(1, name, {} if name == "after" else "another"))
    assert "entry 2 is not what its hash says" in found(archive)


@pytest.mark.rule("G10")
def test_entries_that_are_cut_added_or_moved_are_named(archive: Path) -> None:
    files = contents(archive)
    entries = exact_json.loads(files["audit.json"])
    first, last = entries[0]["id"], entries[-1]["id"]
    cases: list[tuple[Callable[[list[Any]], Any], tuple[str, ...]]] = [
        (lambda all_: all_[1:], (f"{first} was cut", "entry 2 follows entry 0")),
        (lambda all_: all_[:-1], (f"{last} was cut", "the end was cut")),
        (lambda all_: all_[:2] + all_[3:], ("was cut", "entry 4 follows entry 2", "does not follow")),
        (lambda all_: [*all_, all_[-1] | {"id": "new"}], ("new was added", "not what its hash says")),
        (lambda all_: [all_[1], all_[0], *all_[2:]], ("another order", "entry 2 follows entry 0")),
    ]
    for change, said in cases:
        pack(archive, files)
        forge(archive, "audit.json", change)
        assert all(each in found(archive) for each in said), (said, found(archive))


def test_receipts_and_evidence_that_are_changed_or_cut_are_named(archive: Path) -> None:
    files = contents(archive)
    for name, key in (("receipts.json", "operation_key"), ("evidence.json", "ref")):
        value = exact_json.loads(files[name])[0][key]
        forge(archive, name, _set(0, "actor", "another"))
        assert f"{value} was changed" in found(archive)
        pack(archive, files)
        forge(archive, name, lambda all_, key=key: all_[1:] or [{key: "another"}])  # type: ignore[misc]
        assert f"{value} was cut" in found(archive)
        pack(archive, files)


@pytest.mark.rule("G10")
def test_a_tail_cut_with_a_new_manifest_shows_against_the_anchored_head(archive: Path, flow: Flow) -> None:
    made = gather(flow.world.operator, flow.id)
    kept = made.documents["audit.json"][:-1]
    head = f"{len(kept)}:{kept[-1]['entry_hash']}"
    instance = made.documents["instance.json"] | {"audit_head": head}
    documents = {**made.documents, "audit.json": kept, "instance.json": instance}
    forged = type(made)({**made.about, "audit_head": head}, documents, made.files)
    with archive.open("wb") as file:
        render.write_zip(forged, file)
    assert verify(archive).problems == []
    assert verify(archive, head=flow.instance.audit_head).problems


# The command


def command(path: Path) -> subprocess.CompletedProcess[str]:
    """Without Django and without settings: importing it would fail."""
    code = (
        "import sys, runpy; sys.modules['django'] = None; sys.modules['MySQLdb'] = None; sys.modules['sqlite3'] = None;"
        f"sys.argv = ['dossier', 'verify', {str(path)!r}]; runpy.run_module('recovery.dossier', run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"LANGUAGE": "en"}
    )


def test_the_command_needs_no_django_and_answers_0_1_2(archive: Path, page: Path, tmp_path: Path) -> None:
    for path in (archive, page):
        done = command(path)
        assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, "INTACT", "")
    forge(archive, "audit.json", _set(0, "reason", "another"))
    assert command(archive).returncode == 1
    assert "audit.json was changed" in command(archive).stdout
    nothing = tmp_path / "nothing.html"
    nothing.write_text("<html></html>")
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK\x03\x04 and nothing else")
    for path in (nothing, broken, tmp_path / "missing"):
        assert command(path).returncode == 2, path


def test_the_command_speaks_chinese_where_the_shell_does(archive: Path) -> None:
    code = [sys.executable, "-m", "recovery.dossier", "verify", str(archive)]
    done = subprocess.run(code, capture_output=True, text=True, check=True, env={"LANG": "zh_CN.UTF-8"})
    assert done.stdout.splitlines()[-1] == "完好"


@pytest.mark.parametrize("value", ["1", "[]", '{"members": 1}', '{"entries": [], "members": [], "audit_head": 1}'])
def test_a_manifest_of_nonsense_is_told_and_nothing_breaks(archive: Path, value: str) -> None:
    pack(archive, contents(archive) | {"manifest.json": value.encode()})
    assert main(["verify", str(archive)]) in (1, 2)


@pytest.mark.parametrize("value", [1, [1], [{"id": []}], {"a": 1}])
def test_lists_of_nonsense_are_told_and_nothing_breaks(archive: Path, value: Any) -> None:
    for name in ("audit.json", "receipts.json", "evidence.json", "instance.json"):
        forge(archive, name, lambda _: value)
        assert name in found(archive)


# The page, and who may have it


def test_the_page_is_self_contained_and_runs_nothing(page: Path) -> None:
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "Seen &lt;b&gt;at&lt;/b&gt; noon." in text
    assert "src=" not in text
    assert "href=" not in text


def test_the_page_tells_who_decided_what_why_and_on_what(page: Path, flow: Flow) -> None:
    text = page.read_text()
    for entry in flow.audits():
        assert entry.entry_hash in text
        assert entry.actor in text


def test_the_console_hands_both_out_to_be_kept_and_lets_neither_run(flow: Flow, tmp_path: Path) -> None:
    desk = seat(flow.world.operator)
    answer: Any = desk.client.get(f"/instances/{flow.id}/dossier")
    policy = answer["Content-Security-Policy"]
    assert "script" not in policy
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert policy.endswith("sandbox")
    path = tmp_path / "served"
    path.write_bytes(answer.content)
    assert verify(path).problems == []
    answer = desk.client.get(f"/instances/{flow.id}/dossier.zip")
    assert answer["Content-Disposition"].startswith("attachment")
    path.write_bytes(b"".join(answer.streaming_content))
    assert verify(path).problems == []


@pytest.mark.parametrize(
    ("rights", "error"),
    [((), NotFound), ((permissions.READ_AUDIT,), NotFound), ((permissions.READ,), PermissionDenied)],
)
def test_a_dossier_takes_reading_and_the_audit(flow: Flow, rights: tuple[str, ...], error: type[DomainError]) -> None:
    actor = flow.world.actor(*rights)
    with pytest.raises(error):
        gather(actor, flow.id)
    status = {NotFound: 404, PermissionDenied: 403}[error]
    for ending in ("dossier", "dossier.zip"):
        assert seat(actor).client.get(f"/instances/{flow.id}/{ending}").status_code == status


def test_without_evidence_read_the_evidence_is_listed_as_withheld(flow: Flow, archive: Path) -> None:
    actor = flow.world.actor(*READING)
    with archive.open("wb") as file:
        render.write_zip(gather(actor, flow.id), file)
    files = contents(archive)
    (entry,) = exact_json.loads(files["evidence.json"])
    assert (entry["withheld"], set(entry)) == (True, {"ref", "used_by", "withheld"})
    assert not [name for name in files if name.startswith("evidence/")]
    assert b"Seen" not in files["evidence.json"]
    assert verify(archive).problems == []


def test_a_withdrawal_is_told(flow: Flow) -> None:
    (row,) = gather(flow.world.operator, flow.id).documents["evidence.json"]
    bundles.withdraw(flow.world.operator, row["id"], "Another payment.")
    assert b"Another payment." in render.as_html(gather(flow.world.operator, flow.id))


def test_a_file_that_is_not_intact_stays_out_and_is_marked(flow: Flow, evidence_dir: Path, archive: Path) -> None:
    path = next(iter(evidence_dir.glob("??/*")))
    path.chmod(0o600)
    path.write_bytes(b"changed")
    made = gather(flow.world.operator, flow.id)
    marks = {item["sha256"]: item["intact"] for item in made.documents["evidence.json"][0]["items"]}
    assert marks[path.name] is False
    assert f"evidence/{path.name}" not in [member.name for member in made.files]
    target = io.BytesIO()
    render.write_zip(made, target)
    archive.write_bytes(target.getvalue())
    report: Report = verify(archive)
    assert report.problems == []
