"""What is sent again and what is not, how a lost answer is resolved, and which server is refused."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
from typing import Any

import pytest

from recovery import errors as server_errors
from recovery.api.problems import HTTP_ONLY
from tests.sdk.conftest import SOON
from tests.sdk.rude_server import LOST, Asked, Reply, RudeServer, problem
from weave_client import AsyncClient, Client, Continue, Retries, calls, errors
from weave_client.calls import Answer
from weave_client.delivery import Lost, Pause, Send, deliver

COMMAND = Continue(expected_revision="7", reason="why", evidence_ref="bank:1", review_resolved=True)
DECIDE = "/instances/i/recovery/continue"
RECEIPT = {"operation_key": "k", "operation": "continue", "instance_id": "i", "revision": "8"}


def test_a_lost_answer_of_a_decision_is_resolved_by_its_receipt(server: RudeServer, client: Client) -> None:
    server.on("POST", DECIDE, LOST)

    class Kept:
        """Commits when it is first asked, and knows the receipt from then on."""

        def __call__(self, asked: Asked) -> Reply:
            sent = next(each for each in server.asked if each.method == "POST")
            assert asked.path == f"/operations/{sent.key}"
            return Reply(data=RECEIPT)

    original = server.reply

    def reply(asked: Asked) -> Reply:
        if asked.path.startswith("/operations/"):
            server.scripts["GET", asked.path] = [Kept()]
        return original(asked)

    server.reply = reply  # type: ignore[method-assign]
    assert client.recover("i", COMMAND).data == RECEIPT
    assert server.paths("POST") == [DECIDE]
    assert len(server.paths("GET")) == 1


def test_a_lost_answer_without_a_receipt_is_sent_again_with_the_same_key(server: RudeServer, client: Client) -> None:
    server.on("POST", DECIDE, LOST, Reply(data=RECEIPT))
    client.recover("i", COMMAND)
    sent = [each for each in server.asked if each.path == DECIDE]
    assert len(sent) == 2
    assert sent[0].key == sent[1].key
    assert sent[0].body == sent[1].body


def test_a_key_of_the_callers_own_is_sent_again_for_it_may_have_served_another_command(
    server: RudeServer, client: Client
) -> None:
    server.on("POST", DECIDE, LOST, problem("IDEMPOTENCY_CONFLICT"))
    server.on("GET", "/operations/mine", Reply(data={**RECEIPT, "operation": "retry-step"}))
    with pytest.raises(errors.IdempotencyConflict):
        client.recover("i", COMMAND, key="mine")
    assert server.paths() == [DECIDE, DECIDE]


def test_an_answer_that_stays_lost_is_told_with_its_key(server: RudeServer, client: Client) -> None:
    server.on("POST", DECIDE, LOST)
    with pytest.raises(errors.AnswerLost, match="unknown") as caught:
        client.recover("i", COMMAND, key="mine")
    assert caught.value.key == "mine"
    assert len(server.paths("POST")) == SOON.attempts


def test_what_a_proxy_says_of_a_silent_server_counts_as_a_lost_answer(server: RudeServer, client: Client) -> None:
    def proxy(asked: Asked) -> Reply:
        server.version = None
        return Reply(504, text=b"<html>gateway timeout</html>")

    def back(asked: Asked) -> Reply:
        server.version = "1"
        return Reply(data=RECEIPT)

    server.on("POST", DECIDE, proxy, back)
    assert client.recover("i", COMMAND, key="mine").data == RECEIPT


def test_cancelling_a_task_has_no_key_and_is_never_sent_twice(server: RudeServer, client: Client) -> None:
    for reply, error in ((LOST, errors.AnswerLost), (problem("BUSY", 503), errors.Busy)):
        server.asked.clear()
        server.on("POST", "/tasks/t/cancel", reply)
        with pytest.raises(error):
            client.cancel_task("t", expected_task_revision="1", reason="why")
        assert server.paths() == ["/tasks/t/cancel"]


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (calls.succeed("a", "token", {}), {"late": False, "task_status": "SUCCEEDED"}),
        (calls.heartbeat("a", "token"), {"lease_expires_at": "2026-03-02T09:00:30.000000Z"}),
        (calls.claim("bank", "w"), {"tasks": []}),
        (calls.dry_run("i", COMMAND), {"allowed": True, "findings": [], "changes": [], "created": []}),
        (calls.instance("i"), {"id": "i"}),
    ],
)
def test_reports_claims_dry_runs_and_reads_are_sent_again(
    server: RudeServer, client: Client, call: Any, answer: Any
) -> None:
    server.on(call.method, call.path, LOST, problem("BUSY", 503), Reply(data=answer))
    client.send(call)
    sent = [each for each in server.asked if each.path == call.path]
    assert len(sent) == 3
    assert {(each.key, each.body) for each in sent} == {(call.key, call.body or b"")}


def test_every_claim_has_a_key_for_a_lost_answer_has_leased_tasks() -> None:
    assert calls.claim("bank", "w").key
    assert calls.claim("bank", "w").key != calls.claim("bank", "w").key


def test_a_busy_server_is_asked_again_when_it_said(server: RudeServer) -> None:
    busy = Answer(503, {"weave-api-version": "1", "retry-after": "3"}, b'{"code": "BUSY"}')
    delivery = deliver(calls.instance("i"), Retries(first=0.1))
    assert isinstance(next(delivery), Send)
    pause = delivery.send(busy)
    assert isinstance(pause, Pause)
    assert pause.seconds == 3


def test_pauses_grow_are_drawn_at_random_and_come_to_an_end() -> None:
    retries = Retries(attempts=50, first=1, longest=8, budget=20)
    delivery = deliver(calls.instance("i"), retries)
    pauses: list[float] = []
    next(delivery)

    def go_on() -> None:
        said = Lost(True, "cut")
        while True:
            step = delivery.send(said)
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                next(delivery)

    with pytest.raises(errors.AnswerLost):
        go_on()
    assert sum(pauses) <= 20
    assert all(0.5 * min(8, 2**n) <= pause <= min(8, 2**n) for n, pause in enumerate(pauses))
    assert len({retries.pause(3) for _draw in range(20)}) > 1


def test_a_server_that_is_not_there_is_told_apart_from_a_lost_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", "token", retries=SOON) as client, pytest.raises(errors.Unreachable):
        client.recover("i", COMMAND)


def test_unreachable_after_a_lost_answer_is_still_in_doubt() -> None:
    delivery = deliver(calls.recover("i", COMMAND, key="mine"), Retries(attempts=2))
    next(delivery)
    assert isinstance(delivery.send(Lost(True, "cut")), Pause)
    assert isinstance(next(delivery), Send)
    with pytest.raises(errors.AnswerLost):
        delivery.send(Lost(False, "refused"))


# The handshake


def test_a_server_of_another_major_version_is_refused_before_anything_is_sent(
    server: RudeServer, client: Client
) -> None:
    server.version = "2"
    with pytest.raises(errors.IncompatibleServer, match=r"speaks version 2 .* this client version 1"):
        client.recover("i", COMMAND)
    assert server.paths() == []


def test_what_is_no_weave_server_is_refused(server: RudeServer, client: Client) -> None:
    server.version = None
    with pytest.raises(errors.IncompatibleServer, match="Check the address"):
        client.instance("i")
    assert server.paths() == []


def test_the_version_is_asked_for_once(server: RudeServer, client: Client) -> None:
    server.on("GET", "/instances/i", Reply(data={"id": "i"}))
    for _time in range(3):
        client.instance("i")
    assert [each.path for each in server.asked].count("/") == 1


def test_a_server_that_changes_its_version_meanwhile_is_noticed(server: RudeServer, client: Client) -> None:
    server.on("GET", "/instances/i", Reply(data={"id": "i"}))
    client.instance("i")
    server.version = "2"
    with pytest.raises(errors.IncompatibleServer):
        client.instance("i")


# Errors and numbers


def test_every_code_of_the_server_has_a_class() -> None:
    assert set(errors.BY_CODE) == set(server_errors.BY_CODE) | set(HTTP_ONLY)


def test_a_refusal_carries_rule_fields_revisions_and_findings(server: RudeServer, client: Client) -> None:
    found = {"rule": "G5", "holds": False, "found": "newer", "next": "read", "rows": ["r"]}
    more = {"errors": {"reason": ["too long"]}, "current": {"revision": "9"}, "findings": [found]}
    server.on("POST", DECIDE, problem("REVISION_CONFLICT", **more))
    with pytest.raises(errors.RevisionConflict) as caught:
        client.recover("i", COMMAND)
    refused = caught.value
    assert (refused.rule, refused.fields, refused.current) == ("G5", more["errors"], more["current"])
    assert (refused.findings[0].found, refused.findings[0].rows) == ("newer", ("r",))
    assert len(server.paths("POST")) == 1


def test_a_code_that_is_newer_than_the_client_is_a_conflict_by_its_status(server: RudeServer, client: Client) -> None:
    server.on("POST", DECIDE, problem("MOON_IN_THE_WAY"))
    with pytest.raises(errors.Conflict) as caught:
        client.recover("i", COMMAND)
    assert caught.value.code == "MOON_IN_THE_WAY"


def test_an_answer_that_is_no_json_is_told(server: RudeServer, client: Client) -> None:
    server.on("GET", "/instances/i", Reply(text=b"<html>"))
    with pytest.raises(errors.UnexpectedAnswer):
        client.instance("i")


def test_a_redirect_is_not_followed_for_it_would_carry_the_token_away(server: RudeServer, client: Client) -> None:
    server.on("GET", "/instances/i", Reply(302, {}, {"Location": "/elsewhere"}))
    with pytest.raises(errors.WeaveError):
        client.instance("i")
    assert server.paths() == ["/instances/i"]


def test_a_replayed_receipt_says_so(server: RudeServer, client: Client) -> None:
    server.on("POST", DECIDE, Reply(data=RECEIPT), Reply(data=RECEIPT, headers={"Idempotent-Replay": "true"}))
    assert [client.recover("i", COMMAND, key="mine").replayed for _time in range(2)] == [False, True]


def test_lists_go_on_from_page_to_page(server: RudeServer, client: Client) -> None:
    server.on("GET", "/instances?status=RUNNING", Reply(data={"items": [{"id": "a"}], "next_cursor": "x y"}))
    server.on("GET", "/instances?status=RUNNING&cursor=x+y", Reply(data={"items": [{"id": "b"}], "next_cursor": "z"}))
    server.on("GET", "/instances?status=RUNNING&cursor=z", Reply(data={"items": [], "next_cursor": None}))
    assert [row["id"] for row in client.instances(status="RUNNING")] == ["a", "b"]


def test_a_name_or_key_with_a_slash_stays_one_part_of_the_path() -> None:
    assert calls.receipt("a/b?c").path == "/operations/a%2Fb%3Fc"
    assert calls.receipt("..").path == "/operations/%2E%2E"


# The async client


def test_both_clients_offer_the_same_calls() -> None:
    def offered(cls: type) -> dict[str, Any]:
        return {name: inspect.signature(each) for name, each in vars(cls).items() if hasattr(each, "__wrapped__")}

    assert offered(Client) == offered(AsyncClient)
    assert len(offered(Client)) >= 25


def test_the_async_client_keeps_the_same_promises(server: RudeServer) -> None:
    server.on("POST", DECIDE, LOST, problem("BUSY", 503), Reply(data=RECEIPT))
    server.on("GET", "/instances", Reply(data={"items": [{"id": "a"}], "next_cursor": None}))

    async def talk() -> tuple[Any, list[Any]]:
        async with AsyncClient(server.url, "token", retries=SOON) as client:
            receipt, rows = await asyncio.gather(client.recover("i", COMMAND), _all(client.instances()))
            return receipt.data, rows

    async def _all(rows: Any) -> list[Any]:
        return [row async for row in rows]

    assert asyncio.run(talk()) == (RECEIPT, [{"id": "a"}])
    assert [each.path for each in server.asked].count("/") == 1
    assert len({each.key for each in server.asked if each.path == DECIDE}) == 1


def test_bodies_are_json_with_the_commands_members(server: RudeServer, client: Client) -> None:
    server.on("POST", DECIDE, Reply(data=RECEIPT))
    client.recover("i", COMMAND)
    sent = server.asked[-1]
    assert json.loads(sent.body) == {
        "expected_revision": "7",
        "reason": "why",
        "evidence_ref": "bank:1",
        "review_resolved": True,
    }
    assert sent.headers["authorization"] == "Bearer token"
    assert sent.headers["content-type"] == "application/json"
