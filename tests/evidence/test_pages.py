"""The pages of evidence as a browser without JavaScript sees them, and what hostile people upload there."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from recovery import permissions
from recovery.evidence import kinds, names
from recovery.models import EvidenceBundle, EvidenceItem
from tests.console.support import Desk, Page
from tests.evidence.conftest import seat
from tests.operations.stages import failed_task
from tests.support.evidence import PNG, TEXT, attach, stored
from tests.support.recovering import recover
from tests.support.world import World

HTML = b"<!doctype html><html><body><script>alert(1)</script></body></html>"
SVG = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>'
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj\n%%EOF\n"
NEW = "/evidence/new/"


def upload(desk: Desk, *files: tuple[str, bytes], url: str = NEW, **typed: str) -> Page:
    """Fills in the form as it is opened now and sends it."""
    sent: dict[str, Any] = desk.get(url).fields("operation_key") | typed
    sent["file"] = [SimpleUploadedFile(name, content) for name, content in files]
    return desk.post(url, sent)


def landed(desk: Desk, page: Page) -> Page:
    """The bundle's page that an upload led to."""
    assert page.status == 303, page.text
    return desk.get(page.response["Location"])


def the_file(desk: Desk, page: Page) -> Any:
    """The answer of the first file's URL."""
    return desk.client.get(page.response["Location"].partition("?")[0] + "files/1/")


def body_of(response: Any) -> bytes:
    return b"".join(response.streaming_content)


def test_several_files_a_note_and_references_become_one_bundle(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    page = upload(
        desk,
        ("a.txt", TEXT),
        ("b.png", PNG),
        url=f"{NEW}?instance={flow.id}",
        note="Seen\r\nat noon.",
        reference="bank:FT1\r\nbank:FT2",
    )
    shown = landed(desk, page)
    items = EvidenceItem.objects.order_by("position")
    assert [item.kind for item in items] == ["FILE", "FILE", "NOTE", "REFERENCE", "REFERENCE"]
    assert (items[0].name, items[0].media_type, items[1].media_type) == ("a.txt", "text/plain", "image/png")
    assert items[2].text == "Seen\nat noon."
    assert EvidenceBundle.objects.get().instance_id == flow.id
    assert "&lt;b&gt;FT26333&lt;/b&gt;" in shown.html
    assert all(item.sha256 in shown.html for item in items)
    image = next(given for tag, given in shown.reader.elements if tag == "img")
    assert image["src"].endswith("/files/2/")


def test_a_double_click_is_one_bundle(world: World, desk: Desk) -> None:
    fields = desk.get(NEW).fields("operation_key")
    first, second = (
        desk.post(NEW, {**fields, "file": SimpleUploadedFile("a.txt", TEXT)}).response["Location"] for _ in range(2)
    )
    assert first == second
    assert EvidenceBundle.objects.count() == 1


def test_a_bundle_is_listed_and_says_where_it_was_used(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    ref = attach(world, TEXT, instance_id=flow.id)
    receipt = recover(flow, "retry-step", "it", evidence_ref=ref)
    assert ref in desk.get("/evidence/").text
    assert ref in desk.get(f"/evidence/?instance={flow.id}&namespace=pay").text
    assert ref not in desk.get("/evidence/?instance=another").text
    page = desk.get(f"/evidence/{ref.partition(':')[2]}/")
    assert f"/operations/{receipt.data['operation_key']}/?namespace=pay" in page.reader.links


def test_withdrawing_takes_a_reason_and_shows_it(world: World, desk: Desk) -> None:
    url = f"/evidence/{attach(world, TEXT).partition(':')[2]}/"
    assert desk.post(f"{url}withdraw/", {"reason": " "}).status == 422
    assert desk.post(f"{url}withdraw/", {"reason": "<i>Another</i> payment."}).status == 303
    page = desk.get(url)
    assert "&lt;i&gt;Another&lt;/i&gt; payment." in page.html
    assert "withdrawn" in page.text
    assert desk.post(f"{url}withdraw/", {"reason": "Again."}).status == 409


def test_the_action_form_leads_to_the_upload(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    page = desk.get(f"/instances/{flow.id}/recovery/retry-step/it/")
    assert f"{NEW}?instance={flow.id}" in page.reader.links


def test_searching_a_reference_lands_on_the_bundle(world: World, desk: Desk) -> None:
    ref = attach(world, TEXT)
    for wanted in (ref, ref.partition(":")[2]):
        assert desk.get(f"/go?q={wanted}").response["Location"] == f"/evidence/{ref.partition(':')[2]}/"
    assert seat(world.actor()).get(f"/go?q={ref}").status == 404


# Who may


WHO: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "outsider": ((), {"bundle": 404, "file": 404, "new": 404, "withdraw": 404}),
    "reader": ((permissions.READ,), {"bundle": 403, "file": 403, "new": 403, "withdraw": 403}),
    "reader of evidence": (
        (permissions.READ, permissions.READ_EVIDENCE),
        {"bundle": 200, "file": 200, "new": 403, "withdraw": 403},
    ),
    "attaches only": ((permissions.READ, permissions.ATTACH_EVIDENCE), {"bundle": 403, "file": 403, "new": 200}),
    "without reading": ((permissions.READ_EVIDENCE, permissions.ATTACH_EVIDENCE), {"bundle": 404, "new": 404}),
}


@pytest.mark.rule("G1")
@pytest.mark.parametrize("who", WHO)
def test_each_right_opens_its_pages_and_no_others(world: World, who: str) -> None:
    rights, answers = WHO[who]
    bundle_id = attach(world, TEXT).partition(":")[2]
    browser = seat(world.actor(*rights))
    place = f"/evidence/{bundle_id}/"
    urls = {"bundle": place, "file": f"{place}files/1/", "new": f"{NEW}?namespace=pay", "withdraw": f"{place}withdraw/"}
    for name, status in answers.items():
        answer = browser.client.get(urls[name])
        assert answer.status_code == status, name
        if answer.streaming:
            assert body_of(answer) == TEXT
    is_listed = f"evidence:{bundle_id}" in browser.get("/evidence/").text
    assert is_listed == (answers["bundle"] == 200)


def test_nobody_is_led_to_the_sign_in(world: World) -> None:
    bundle_id = attach(world, TEXT).partition(":")[2]
    for url in ("/evidence/", NEW, f"/evidence/{bundle_id}/", f"/evidence/{bundle_id}/files/1/"):
        assert Client().get(url)["Location"].startswith("/sign-in/")


def test_who_may_attach_but_not_read_is_told_the_reference(world: World) -> None:
    page = upload(seat(world.actor(permissions.READ, permissions.ATTACH_EVIDENCE)), ("a.txt", TEXT))
    assert f"evidence:{EvidenceBundle.objects.get().pk}" in page.text


def test_an_upload_needs_the_token_of_its_form(world: World, evidence_dir: Path) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(_account(world))
    answer = strict.post(NEW, {"operation_key": "k", "file": SimpleUploadedFile("a.txt", TEXT)})
    assert answer.status_code == 403
    assert stored(evidence_dir) == []


def _account(world: World) -> Any:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.get(pk=world.operator.user_id)


# Hostile uploads


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("page.html", HTML),
        ("drawing.svg", SVG),
        ("picture.png", PNG + HTML),
        ("page.png", HTML),
        ("script.pdf", PDF),
    ],
)
def test_nothing_that_was_uploaded_runs(world: World, desk: Desk, name: str, content: bytes) -> None:
    sent = upload(desk, (name, content))
    page, answer = landed(desk, sent), the_file(desk, sent)
    assert body_of(answer) == content
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer["Content-Type"] in ("application/octet-stream", "image/png")
    assert not [given for tag, given in page.reader.elements if tag == "script" and "src" not in given]
    assert not [tag for tag, _given in page.reader.elements if tag in ("svg-upload", "iframe", "object", "embed")]
    assert b"<script>alert" not in page.html.encode()


def test_a_zip_bomb_is_kept_as_it_is_and_never_unpacked(world: World, desk: Desk, evidence_dir: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(20_000_000))
    sent = upload(desk, ("bomb.zip", packed.getvalue()))
    landed(desk, sent)
    assert EvidenceItem.objects.get().media_type == "application/zip"
    (name,) = stored(evidence_dir)
    assert (evidence_dir / name).read_bytes() == packed.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.txt", b"", "is empty"),
        ("large.txt", b"x" * 1001, "larger than 1000 bytes"),
        ("program", bytes.fromhex("7f454c4602010100") + bytes(56), "is not taken as evidence"),
    ],
)
def test_what_is_not_taken_is_said_at_the_field_and_leaves_nothing(
    world: World, desk: Desk, evidence_dir: Path, settings: Any, name: str, content: bytes, said: str
) -> None:
    settings.EVIDENCE_MAX_FILE_BYTES = 1000
    page = upload(desk, ("good.txt", TEXT), (name, content), note="Typed <carefully>.")
    assert page.status == 422
    assert said in page.text
    assert page.control("note").value.strip() == "Typed <carefully>."
    assert (EvidenceBundle.objects.count(), stored(evidence_dir)) == (0, [])


def test_too_many_files_are_refused(world: World, desk: Desk, evidence_dir: Path, settings: Any) -> None:
    settings.EVIDENCE_MAX_FILES = 2
    for count in (3, 150):
        page = upload(desk, *[(f"{number}.txt", TEXT) for number in range(count)])
        assert page.status == 422
        assert (EvidenceBundle.objects.count(), stored(evidence_dir)) == (0, [])


def send_raw(desk: Desk, body: io.BytesIO, announced: int) -> Any:
    """A body that may hold less than its header says."""
    environ = {"wsgi.input": body, "CONTENT_LENGTH": str(announced), "CONTENT_TYPE": MULTIPART_CONTENT}
    return desk.client.generic("POST", NEW, b"", **environ)


def test_a_body_beyond_all_limits_is_refused_before_it_is_read(world: World, desk: Desk, evidence_dir: Path) -> None:
    class Unread(io.BytesIO):
        def read(self, *size: Any) -> bytes:
            raise AssertionError("the body was read")

    answer = send_raw(desk, Unread(), 10**12)
    assert answer.status_code == 422
    assert stored(evidence_dir) == []


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9, 0.999])
def test_a_connection_cut_in_the_middle_leaves_nothing(
    world: World, desk: Desk, evidence_dir: Path, part: float
) -> None:
    files = [SimpleUploadedFile(f"{number}.txt", TEXT * 9000) for number in range(3)]
    body = encode_multipart(BOUNDARY, {"operation_key": "k", "file": files, "note": "At the end."})
    cut = io.BytesIO(body[: int(len(body) * part)])
    answer = send_raw(desk, cut, len(body))
    assert answer.status_code == 422
    assert "cut off" in answer.content.decode()
    assert (EvidenceBundle.objects.count(), stored(evidence_dir)) == (0, [])


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\secret\\a.txt", "a.txt"),
        ("invoice\u202egnp.exe", "invoicegnp.exe"),
        ("a\0b.txt", "ab.txt"),
        ("\r\nSet-Cookie: x.txt", "Set-Cookie: x.txt"),
        ("..", "file"),
        ("", "file"),
        ("名单.csv", "名单.csv"),
    ],
)
def test_a_name_is_only_ever_something_to_look_at(given: str, seen: str) -> None:
    assert names.displayed(given) == seen


def test_a_long_name_loses_its_middle(world: World, desk: Desk) -> None:
    page = landed(desk, upload(desk, ("n" * 300 + ".txt", TEXT)))
    name = EvidenceItem.objects.get().name
    assert len(name) == names.LONGEST
    assert name.endswith("….txt")
    assert name in page.text


def test_a_changed_file_is_neither_shown_nor_handed_out(world: World, desk: Desk, evidence_dir: Path) -> None:
    sent = upload(desk, ("a.txt", TEXT))
    path = evidence_dir / stored(evidence_dir)[0]
    path.chmod(0o600)
    path.write_bytes(TEXT[:-1] + b"!")
    assert "was changed" in landed(desk, sent).text
    assert the_file(desk, sent).status_code == 409


def test_without_libmagic_everything_is_a_download(world: World, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "magic", None)
    sent = upload(desk, ("a.png", PNG))
    page = landed(desk, sent)
    assert "img" not in [tag for tag, _given in page.reader.elements]
    answer = the_file(desk, sent)
    assert (answer["Content-Type"], body_of(answer)) == ("application/octet-stream", PNG)
    (warning,) = kinds.check_libmagic(None)
    assert "libmagic" in str(warning.hint)
