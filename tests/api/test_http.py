"""HTTP itself: who is asked for a credential, what is answered to what nobody should send, and in which language."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from recovery import permissions
from recovery.api.document import document
from tests.api.callers import Caller, caller
from tests.api.desk import Desk
from tests.support.trees import sequence, task
from tests.support.world import World


def test_without_a_credential_the_answer_says_how_to_send_one(desk: Desk) -> None:
    answer = Caller("").get("/instances")
    assert (answer.status, answer.code) == (401, "UNAUTHENTICATED")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="weave"'
    assert Caller("nonsense").get("/instances").headers["WWW-Authenticate"].endswith('error="invalid_token"')


@pytest.mark.rule("G1")
@pytest.mark.parametrize("scheme", ["Basic {}", "{}", "Bearer  {}", "Bearer {} x", "Token {}", "Bearer", "Bearer {}x"])
def test_nothing_but_a_bearer_token_is_a_credential(desk: Desk, scheme: str) -> None:
    answer = desk.operator.call("GET", "/instances", Authorization=scheme.format(desk.operator.token))
    assert (answer.status, answer.code) == (401, "UNAUTHENTICATED")


@pytest.mark.rule("G1")
def test_a_session_alone_does_not_authenticate_and_never_overrides_a_token(world: World, desk: Desk) -> None:
    client = Client()
    client.force_login(get_user_model().objects.get(pk=world.operator.user_id))
    assert Caller("", client).get("/instances").status == 401
    assert Caller("nonsense", client).get("/instances").status == 401
    stranger = caller(world, world.actor())
    assert Caller(stranger.token, client).get("/instances").status == 404
    reader = caller(world, world.actor(permissions.READ))
    run = desk.start(sequence(task("pay")))
    body = {"expected_control_revision": "1", "reason": "why"}
    assert Caller(reader.token, client).post(f"{run.path}/pause", body).code == "PERMISSION_DENIED"


def test_a_token_in_the_url_is_a_parameter_that_nobody_knows(desk: Desk) -> None:
    assert Caller("").get("/instances", access_token=desk.operator.token).status == 401
    assert desk.operator.get("/instances", access_token=desk.operator.token).status == 422


def test_a_path_that_is_not_there_is_a_problem_too(desk: Desk) -> None:
    for path in ("/", "/nothing", "/instances/", "/instances/x/nothing", "/operations/", "/docs/"):
        for method in ("GET", "POST"):
            answer = desk.operator.call(method, path)
            assert (answer.status, answer.code) == (404, "NOT_FOUND"), path


def test_a_method_that_is_not_there_is_a_problem_with_those_that_are(desk: Desk) -> None:
    for path, methods in document()["paths"].items():
        allowed = ", ".join(sorted(method.upper() for method in methods))
        for method in ("PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "GET", "POST"):
            if method.lower() in methods:
                continue
            answer = desk.operator.call(method, path.replace("{", "").replace("}", ""))
            assert answer.status == 405, (method, path)
            assert answer.headers["Allow"] == allowed
            assert method == "HEAD" or answer.code == "METHOD_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json", 200),
        ("*/*", 200),
        ("application/*", 200),
        ("text/html, application/json;q=0.5", 200),
        ("application/problem+json", 200),
        ("text/html", 406),
        ("application/xml", 406),
        ("image/*", 406),
    ],
)
def test_an_answer_that_nobody_could_read_is_not_made(desk: Desk, accept: str, status: int) -> None:
    assert desk.operator.call("GET", "/instances", Accept=accept).status == status


def test_what_would_not_be_read_does_not_act(desk: Desk) -> None:
    run = desk.start(sequence(task("pay")))
    body = {"expected_control_revision": "1", "reason": "why"}
    answer = desk.operator.call("POST", f"{run.path}/pause", body, Accept="text/html", **{"Idempotency-Key": "k"})
    assert (answer.status, run.state["paused"]) == (406, False)


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/json-patch+json",
        "",
    ],
)
def test_a_body_of_another_media_type_is_not_read(desk: Desk, media_type: str) -> None:
    answer = desk.worker.call("POST", "/queues/bank/claim", {}, **{"Content-Type": media_type})
    assert (answer.status, answer.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"']
)
def test_json_in_utf_8_is_read_however_it_is_spelled(desk: Desk, media_type: str) -> None:
    answer = desk.worker.call(
        "POST", "/queues/bank/claim", {"worker": "é", "max_tasks": 1}, **{"Content-Type": media_type}
    )
    assert answer.status == 200


def test_sentences_are_english_whatever_the_caller_reads(desk: Desk) -> None:
    run = desk.start(sequence(task("pay")))
    for headers in ({"Accept-Language": "zh-hans"}, {"Cookie": "django_language=zh-hans"}):
        answer = desk.operator.call("POST", f"{run.path}/recovery/continue", run.command("continue"), **headers, **_KEY)
        assert answer["title"] == "Not possible in this state"
        assert answer["findings"][0]["found"].isascii()
        page = Client().get("/api/v1/docs", headers={"Accept": "text/html", **headers})
        assert page.headers["Content-Language"] == "en"


_KEY = {"Idempotency-Key": "k"}


def test_answers_are_kept_in_no_cache_and_set_no_cookie(desk: Desk) -> None:
    answer = desk.operator.get("/instances")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in answer.headers
    assert "Cookie" not in answer.headers.get("Vary", "")


def test_a_fault_of_ours_is_logged_and_told_without_its_details(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk.operator.client.raise_request_exception = False

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("recovery.api.routers.instances.render", broken)
    desk.start(sequence(task("pay")))
    answer = desk.operator.get("/instances")
    assert (answer.status, answer.code) == (500, "INTERNAL_ERROR")
    assert b"secret" not in answer.body
    assert "secret detail" in caplog.text
    caplog.clear()


def test_reading_writes_nothing_but_when_the_credential_was_used(desk: Desk, capture_statements: Any) -> None:
    run = desk.start(sequence(task("pay")))
    desk.operator.get("/instances")
    with capture_statements() as statements:
        for path in ("", "/history", "/audit", "/recovery"):
            desk.operator.get(f"{run.path}{path}")
        for path in ("/instances", "/definitions", "/operations/none"):
            desk.operator.get(path)
    written = [each.sql for each in statements if each.sql.startswith(("INSERT", "UPDATE", "DELETE"))]
    assert written == []
