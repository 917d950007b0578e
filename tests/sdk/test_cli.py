"""The command line: exit statuses, words, and what it says of a chain that was tampered with."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from recovery import exact_json
from recovery.api.document import document
from recovery.console import words
from tests.sdk.conftest import SOON
from tests.sdk.rude_server import LOST, Reply, RudeServer, problem
from weave_client import Client, audit, cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(name="weave")
def _weave(server: RudeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("WEAVE_URL", server.url)
    monkeypatch.setenv("WEAVE_TOKEN", "token")
    monkeypatch.setattr(cli, "Client", partial(Client, retries=SOON))

    def run(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(arguments)
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def example(operation: str, name: str) -> Any:
    """A recorded answer of the real server."""
    for methods in document()["paths"].values():
        for described in methods.values():
            if described["operationId"] == operation:
                for answer in described["responses"].values():
                    content = next(iter(answer["content"].values()))
                    if name in content.get("examples", {}):
                        return json.loads(exact_json.dumps(content["examples"][name]["value"]))
    raise LookupError((operation, name))


INSTANCE = {
    "id": "i",
    "business_key": "order-1\x1b[31m",
    "status": "NEEDS_REVIEW",
    "paused": False,
    "stop_kind": None,
    "review_reason": "EXECUTION_UNKNOWN",
    "review_since": "2026-03-02T09:00:00.000000Z",
    "created_at": "2026-03-02T09:00:00.000000Z",
    "deadline_at": None,
    "revision": "7",
    "control_revision": "3",
    "definition": {"name": "transfer", "version": 1},
    "gate": {"state": "CLOSED", "generation": "2"},
    "audit_head": "",
    "steps": [
        {
            "step_key": "pay",
            "kind": "TASK",
            "status": "NEEDS_REVIEW",
            "revision": "4",
            "current_activation_id": "act",
            "current_activation": {"id": "act", "sequence": 1, "status": "NEEDS_REVIEW"},
        }
    ],
}
DECISION = ("--reason", "why", "--evidence", "bank:1")


def test_show_and_list_use_the_words_of_the_pages_and_nothing_steers_the_terminal(
    server: RudeServer, weave: Run
) -> None:
    server.on("GET", "/instances/i", Reply(data=INSTANCE))
    server.on("GET", "/instances?status=NEEDS_REVIEW&limit=50", Reply(data={"items": [INSTANCE], "next_cursor": None}))
    for arguments in (("show", "i"), ("list", "--status", "NEEDS_REVIEW")):
        status, out, _ = weave(*arguments)
        assert status == cli.DONE
        assert str(words.label("InstanceStatus", "NEEDS_REVIEW")) in out
        assert str(words.label("ReviewReason", "EXECUTION_UNKNOWN")) in out
        assert "\x1b" not in out


def test_json_is_what_the_server_answered(server: RudeServer, weave: Run) -> None:
    server.on("GET", "/instances/i", Reply(text=b'{"id": "i", "amount": 1.10}'))
    assert weave("show", "i", "--json")[:2] == (cli.DONE, '{"id":"i","amount":1.10}\n')


def test_explain_shows_what_stands_against_each_operation(server: RudeServer, weave: Run) -> None:
    explained = example("explain_recovery", "what may be decided")
    server.on("GET", "/instances/i/recovery", Reply(data=explained))
    status, out, _ = weave("explain", "i")
    assert status == cli.DONE
    assert "ReviewTask" in out
    assert "refused: EXECUTION_UNKNOWN" in out
    assert json.loads(weave("explain", "i", "--json")[1]) == explained


def test_recover_fills_in_what_was_read_and_tells_its_key_before_it_acts(server: RudeServer, weave: Run) -> None:
    receipt = example("retry_step", "the same round again")
    server.on("GET", "/instances/i", Reply(data=INSTANCE))
    server.on("POST", "/instances/i/recovery/retry-step", Reply(data=receipt))
    status, out, err = weave("recover", "retry-step", "i", "pay", *DECISION, "--safe-to-retry")
    sent = next(each for each in server.asked if each.method == "POST")
    assert (status, err) == (cli.DONE, f"Operation key: {sent.key}\n")
    assert json.loads(sent.body) == {
        "expected_revision": "7",
        "reason": "why",
        "evidence_ref": "bank:1",
        "step_key": "pay",
        "activation_id": "act",
        "expected_step_revision": "4",
        "safe_to_retry": True,
    }
    assert all(sentence in out for sentence in receipt["will_not"])


def test_what_was_seen_earlier_may_be_told_and_is_sent_as_it_is(server: RudeServer, weave: Run) -> None:
    server.on("GET", "/instances/i", Reply(data=INSTANCE))
    server.on("POST", "/instances/i/recovery/continue", problem("REVISION_CONFLICT", current={"revision": "7"}))
    arguments = ("recover", "continue", "i", *DECISION, "--review-resolved", "--expected-revision", "6")
    status, _, err = weave(*arguments)
    assert status == cli.REFUSED
    assert "REVISION_CONFLICT, rule G5" in err
    assert "now revision: 7" in err
    assert json.loads(server.asked[-1].body)["expected_revision"] == "6"


def test_a_dry_run_shows_the_changes_and_its_status_says_whether_it_is_allowed(server: RudeServer, weave: Run) -> None:
    server.on("GET", "/instances/i", Reply(data=INSTANCE))
    seen = example("review_task", "a preview")
    path = "/instances/i/recovery/continue?dry_run=true"
    server.on("POST", path, Reply(data=seen), Reply(data={**seen, "allowed": False, "changes": [], "created": []}))
    arguments = ("recover", "continue", "i", *DECISION, "--review-resolved", "--dry-run")
    status, out, err = weave(*arguments)
    assert (status, err) == (cli.DONE, "")
    assert 'status: "NEEDS_REVIEW" -> "SUCCEEDED"' in out
    assert weave(*arguments)[0] == cli.REFUSED
    assert server.asked[-1].key is None


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (problem("STATE_CONFLICT"), cli.REFUSED),
        (problem("VALIDATION_FAILED", 422), cli.INVALID),
        (problem("UNAUTHENTICATED", 401), cli.NOT_ALLOWED),
        (problem("PERMISSION_DENIED", 403), cli.NOT_ALLOWED),
        (problem("NOT_FOUND", 404), cli.NOT_ALLOWED),
        (problem("BUSY", 503), cli.UNAVAILABLE),
        (problem("INTERNAL_ERROR", 500), cli.UNAVAILABLE),
        (Reply(text=b"<html>"), cli.UNAVAILABLE),
        (LOST, cli.LOST),
    ],
)
def test_exit_statuses_tell_what_to_do_next(server: RudeServer, weave: Run, reply: Reply, status: int) -> None:
    server.on("GET", "/instances/i", Reply(data=INSTANCE))
    server.on("POST", "/instances/i/recovery/continue", reply)
    said = weave("recover", "continue", "i", *DECISION, "--review-resolved")
    assert said[0] == status
    assert said[2].count("\n") >= 2


def test_without_address_or_credential_nothing_is_asked(
    server: RudeServer, weave: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEAVE_TOKEN", "")
    assert weave("show", "i")[0] == cli.INVALID
    assert server.asked == []


def test_a_statement_that_is_not_made_is_no_command(weave: Run) -> None:
    with pytest.raises(SystemExit) as ended:
        weave("recover", "continue", "i", *DECISION)
    assert ended.value.code == cli.INVALID


# Verification

ENTRIES = [*example("list_audit", "the first entries")["items"], *example("list_audit", "the next ones")["items"]]


def whole(entries: list[Any]) -> Any:
    return {**INSTANCE, "id": entries[0]["instance_id"], "audit_head": f"{len(entries)}:{entries[-1]['entry_hash']}"}


def verify(server: RudeServer, weave: Run, instance: Any, entries: list[Any]) -> tuple[int, str, str]:
    server.on("GET", "/instances/i", Reply(data=instance))
    server.on(
        "GET", "/instances/i/audit", Reply(text=exact_json.dumps({"items": entries, "next_cursor": None}).encode())
    )
    return weave("verify", "i")


def test_a_chain_that_is_whole_verifies_with_the_servers_own_hashes(server: RudeServer, weave: Run) -> None:
    assert verify(server, weave, whole(ENTRIES), ENTRIES)[0] == cli.DONE
    assert [audit.entry_hash(entry) for entry in ENTRIES] == [entry["entry_hash"] for entry in ENTRIES]


@pytest.mark.parametrize(
    ("field", "value"),
    [("reason", "another"), ("actor", "nobody"), ("after", {}), ("created_at", "2026-03-02T09:05:11.000000Z")],
)
def test_a_changed_entry_shows(server: RudeServer, weave: Run, field: str, value: Any) -> None:
    changed = [*ENTRIES[:2], {**ENTRIES[2], field: value}, *ENTRIES[3:]]
    status, out, _ = verify(server, weave, whole(ENTRIES), changed)
    assert (status, "entry 3 does not fit" in out) == (cli.REFUSED, True)


def test_a_rehashed_entry_a_missing_one_and_a_cut_tail_show(server: RudeServer, weave: Run) -> None:
    forged = {**ENTRIES[1], "reason": "another"}
    forged["entry_hash"] = audit.entry_hash(forged)
    assert "Entry 3 does not follow" in verify(server, weave, whole(ENTRIES), [ENTRIES[0], forged, *ENTRIES[2:]])[1]
    assert "missing" in verify(server, weave, whole(ENTRIES), [ENTRIES[0], *ENTRIES[2:]])[1]
    assert "the instance holds 4 as the last" in verify(server, weave, whole(ENTRIES), ENTRIES[:-1])[1]
    assert "Entry 4 is not the one" in verify(server, weave, {**whole(ENTRIES), "audit_head": "4:00"}, ENTRIES)[1]
    assert verify(server, weave, {**whole(ENTRIES), "audit_head": ""}, [])[0] == cli.DONE


def test_a_receipt_is_compared_with_the_entry_that_it_names(server: RudeServer, weave: Run) -> None:
    receipt = example("review_task", "the money has moved")
    identity = receipt["instance_id"]
    server.on("GET", f"/instances/{identity}", Reply(data=whole(ENTRIES)))
    server.on("GET", f"/instances/{identity}/audit", Reply(data={"items": ENTRIES, "next_cursor": None}))
    server.on("GET", "/operations/k", Reply(data=receipt), Reply(data={**receipt, "evidence_ref": "other"}))
    assert weave("verify", "--receipt", "k")[0] == cli.DONE
    status, out, _ = weave("verify", "--receipt", "k")
    assert (status, "evidence_ref" in out) == (cli.REFUSED, True)
