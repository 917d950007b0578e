"""The audit explorer: who did what, whether the chain holds, and the same entries as files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from recovery import audit as chain
from recovery import permissions
from recovery.console.presenters import audits
from recovery.console.presenters.audit import guarded
from recovery.console.presenters.chain_check import check_chain
from recovery.ids import new_id
from recovery.permissions import Actor
from recovery.writes import insert
from tests.console.support import Desk
from tests.operations.stages import failed_task
from tests.support.recovering import recover
from tests.support.statements import Statement
from tests.support.world import Flow, World, make_world

Capture = Callable[[], AbstractContextManager[list[Statement]]]
Seat = Callable[[Actor], Desk]


def resolved(world: World, **fields: Any) -> Flow:
    flow = failed_task(world)
    recover(flow, "resolve-step", "it", outcome="SUCCEEDED", **fields)
    return flow


def body(desk: Desk, url: str) -> str:
    response: Any = desk.client.get(url)
    assert response.status_code == 200
    return response.getvalue().decode()


def test_an_entry_shows_what_was_before_and_after(world: World, desk: Desk) -> None:
    flow = resolved(world)
    page = desk.get("/audit/?action=resolve_step")
    assert page.html.count("#entry-") == 1
    for said in ("ResolveStep", world.operator.username, flow.audits()[-1].reason, "FAILED → SUCCEEDED"):
        assert said in page.text


@pytest.mark.rule("G2")
def test_without_audit_read_there_is_no_audit(world: World, sit: Seat) -> None:
    resolved(world)
    reader = sit(world.actor(permissions.READ))
    assert {reader.get(url).status for url in ("/audit/", "/audit/entries.csv", "/audit/entries.jsonl")} == {404}
    assert "/audit/" not in reader.get("/review/").reader.links
    assert sit(world.actor(permissions.READ_AUDIT)).get("/audit/").status == 404
    auditor = sit(world.actor(permissions.READ, permissions.READ_AUDIT))
    assert "/audit/" in auditor.get("/review/").reader.links
    assert auditor.get("/audit/").status == 200


@pytest.mark.rule("G2")
def test_entries_of_other_namespaces_are_neither_listed_nor_exported(world: World, sit: Seat) -> None:
    flow = resolved(world)
    stranger = sit(make_world(world.traveller, name="other").operator)
    assert flow.id not in stranger.get("/audit/").html
    assert stranger.get(f"/audit/?instance={flow.id}").status == 422
    assert stranger.get("/audit/?namespace=pay").status == 422
    assert flow.id not in body(stranger, "/audit/entries.jsonl")


def test_each_filter_of_the_audit_narrows_list_and_file_alike(world: World, desk: Desk) -> None:
    flow = resolved(world)
    world.travel(hours=9)
    other = resolved(world)
    key = flow.instance.business_key
    whole = len(flow.audits()) + len(other.audits())
    lines = {
        "": whole,
        "action=resolve_step": 2,
        f"instance={flow.id}": len(flow.audits()),
        f"instance={key}": len(flow.audits()),
        f"instance={flow.id}&action=resolve_step": 1,
        f"actor={world.operator.username}&action=resolve_step": 2,
        "actor=nobody": 0,
        "within=8h": len(other.audits()),
    }
    listed = {query: desk.get(f"/audit/?{query}").html.count("#entry-") for query in lines}
    exported = {query: len(body(desk, f"/audit/entries.jsonl?{query}").splitlines()) for query in lines}
    assert listed == exported == lines
    for wrong in ("action=anything", "within=soon", "instance=nothing"):
        assert desk.get(f"/audit/?{wrong}").status == desk.get(f"/audit/entries.csv?{wrong}").status == 422


@pytest.mark.rule("G10")
def test_an_unbroken_chain_is_said_to_hold(world: World, desk: Desk) -> None:
    flow = resolved(world)
    page = desk.get(f"/audit/?instance={flow.id}")
    assert f"The chain holds: {len(flow.audits())} entries" in page.text
    assert flow.audits()[-1].entry_hash in page.text


@pytest.mark.rule("G10")
def test_a_cut_tail_and_a_forged_entry_break_the_chain(world: World, desk: Desk) -> None:
    flow = resolved(world)
    instance = flow.instance
    instance.audit_head = f"9:{chain.ORIGIN}"
    assert not check_chain(instance).is_head_met
    forged = flow.audits()[-1]
    forged.pk, forged.sequence, forged.reason, forged.operation = new_id(), forged.sequence + 1, "forged", None
    insert(forged)
    check = check_chain(flow.instance)
    assert {key for key, _sentence in check.problems} == {forged.pk}
    page = desk.get(f"/audit/?instance={flow.id}")
    assert "The chain is broken." in page.text
    assert forged.pk in page.text


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r=1"])
def test_no_cell_of_an_export_is_a_formula(world: World, desk: Desk, formula: str) -> None:
    assert guarded(formula).startswith("'")
    assert (guarded("plain"), guarded(7), guarded(None)) == ("plain", "7", "")


def test_the_files_hold_every_entry_with_what_its_hash_covers(world: World, desk: Desk) -> None:
    flow = resolved(world, reason="=HYPERLINK(1)")
    rows = list(csv.DictReader(io.StringIO(body(desk, f"/audit/entries.csv?instance={flow.id}"))))
    records = [json.loads(line) for line in body(desk, f"/audit/entries.jsonl?instance={flow.id}").splitlines()]
    hashes = [entry.entry_hash for entry in reversed(flow.audits())]
    assert [row["entry_hash"] for row in rows] == [record["entry_hash"] for record in records] == hashes
    assert rows[0]["reason"] == "'=HYPERLINK(1)"
    assert records[0]["reason"] == "=HYPERLINK(1)"
    assert records[0]["before"] == flow.audits()[-1].before


def test_an_export_goes_on_over_pages_and_stops_at_its_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = resolved(world)
    search = audits.Search((world.namespace.pk,), instance_id=flow.id)
    monkeypatch.setattr(audits, "SCAN", 2)
    whole = [entry.sequence for entry in audits.every(search, 100)]
    assert whole == [entry.sequence for entry in reversed(flow.audits())]
    assert [entry.sequence for entry in audits.every(search, 3)] == whole[:3]


def test_the_audit_costs_the_same_however_many_entries_there_are(
    world: World, desk: Desk, capture_statements: Capture
) -> None:
    flow = failed_task(world)
    few = statements_of(capture_statements, desk, f"/audit/?instance={flow.id}")
    for _number in range(8):
        resolved(world)
    assert statements_of(capture_statements, desk, f"/audit/?instance={flow.id}") == few <= 13


def statements_of(capture_statements: Capture, desk: Desk, url: str) -> int:
    with capture_statements() as statements:
        assert desk.get(url).status == 200
    return len([each for each in statements if not each.sql.startswith(("SAVEPOINT", "RELEASE"))])


@pytest.mark.parametrize("cursor", ["nonsense", "x-y", "-", "1" * 40, "a-" + "9" * 30])
def test_a_cursor_that_no_page_made_is_refused(world: World, desk: Desk, cursor: str) -> None:
    flow = resolved(world)
    assert desk.get(f"/audit/?after={cursor}").status == 422
    assert desk.get(f"/audit/?instance={flow.id}&after={cursor}").status == 422
    assert desk.get(f"/instances/?after={cursor}").status == 422
