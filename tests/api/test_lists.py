"""Lists: every row once, whatever comes in between; a filter that is wrong is an error."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from recovery.api.history import LISTS
from recovery.api.paging import MAX_LIMIT
from recovery.states import InstanceStatus
from tests.api.callers import caller
from tests.api.desk import Desk
from tests.support.trees import parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import World, make_world


def many(world: World, desk: Desk) -> dict[str, str]:
    """Instances in several states, some made at one moment; id to definition."""
    made = {}
    for name in ("first", "second"):
        for number in range(4):
            run = desk.start(sequence(task("pay")))
            made[run.id] = run.state["definition"]["name"]
            if number % 2:
                desk.fail(desk.claim())
            if number == 2:
                run.control("cancel")
            if name == "first":
                world.travel(seconds=1)
    return made


@pytest.mark.parametrize("limit", [1, 3, 200])
def test_every_row_comes_once_the_newest_first(world: World, desk: Desk, limit: int) -> None:
    made = many(world, desk)
    rows = desk.operator.all_pages("/instances", limit=limit)
    assert {row["id"] for row in rows} == set(made)
    assert len(rows) == len(made)
    assert rows == sorted(rows, key=lambda row: (row["created_at"], row["id"]), reverse=True)


def test_each_filter_answers_exactly_its_rows(world: World, desk: Desk) -> None:
    made = many(world, desk)
    by_id = {row["id"]: row for row in desk.operator.all_pages("/instances")}

    def ids(**filters: str) -> set[str]:
        found = desk.operator.all_pages("/instances", limit=2, **filters)
        assert len(found) == len({row["id"] for row in found})
        return {row["id"] for row in found}

    for status in InstanceStatus.values:
        assert ids(status=status) == {key for key, row in by_id.items() if row["status"] == status}
    for key, name in made.items():
        assert ids(definition=name) == {key}
        assert ids(business_key=by_id[key]["business_key"]) == {key}
        assert ids(business_key=by_id[key]["business_key"], definition=name) == {key}
    failed = {key for key, row in by_id.items() if row["review_reason"] == "TASK_FAILED"}
    assert ids(review_reason="TASK_FAILED") == failed
    assert len(failed) == 4
    one = next(iter(failed))
    assert ids(review_reason="TASK_FAILED", definition=made[one]) == {one}
    assert ids(review_reason="TASK_FAILED", status="RUNNING") == set()
    assert ids(definition="nobody's") == set()
    assert ids(status="RUNNING", definition=made[one]) == set()


def test_rows_that_come_in_between_move_no_page(world: World, desk: Desk) -> None:
    made = many(world, desk)
    page = desk.operator.get("/instances", limit=3)
    world.travel(seconds=1)
    desk.start(sequence(task("pay")))
    rest = desk.operator.get("/instances", limit=MAX_LIMIT, cursor=page["next_cursor"])
    assert {row["id"] for row in page["items"] + rest["items"]} == set(made)


def test_a_page_that_is_exactly_full_is_the_last(world: World, desk: Desk) -> None:
    made = many(world, desk)
    assert desk.operator.get("/instances", limit=len(made))["next_cursor"] is None


def test_a_list_shows_one_namespace_only(world: World, desk: Desk) -> None:
    many(world, desk)
    elsewhere = make_world(world.traveller, name="elsewhere")
    by = caller(elsewhere, elsewhere.operator)
    assert by.get("/instances")["items"] == []
    assert by.get("/definitions")["items"] == []


def test_definitions_come_by_name_with_their_latest_version(world: World, desk: Desk) -> None:
    for name in ("b", "a", "c/d e"):
        world.publish(sequence(task("pay")), name=name)
    world.publish(sequence(task("pay"), task("notify", queue="mail")), name="a")
    rows = desk.operator.all_pages("/definitions", limit=1)
    assert [(row["name"], row["latest_version"]) for row in rows] == [("a", 2), ("b", 1), ("c/d e", 1)]


def test_a_version_is_read_as_it_was_published_and_publishing_it_again_makes_no_other(desk: Desk) -> None:
    policy = {"on_failure": "FAIL", "backoff_ms": 5, "priority": -1, "business_key": {"$from": "/instance/input/order"}}
    schema = {"type": "object", "properties": {"amount": {"minimum": Decimal("0.1")}}}
    document = {
        "name": "all kinds/of steps",
        "input_schema": schema,
        "max_duration_ms": 86_400_000,
        "root": sequence(
            task("pay", policy=policy, input={"order": {"$from": "/instance/input/order"}}, output_contract=schema),
            parallel(poll("query", signal=receipt()), signal("receipt"), timer("cool-off"), key="all"),
        ),
    }
    published = desk.operator.post("/definitions", document)
    path = "/definitions/all%20kinds%2Fof%20steps/versions/1"
    read = desk.operator.get(path).data
    again = {name: read[name] for name in document}
    assert again == document
    second = desk.operator.post("/definitions", again)
    assert (second.status, second["version_id"]) == (200, published["version_id"])
    for wrong in ("0", "2", "x", "1.0", "99999999999", "-1"):
        assert desk.operator.get(f"/definitions/all%20kinds%2Fof%20steps/versions/{wrong}").code == "NOT_FOUND"


def eventful(world: World, desk: Desk) -> Any:
    """An instance with several rows in most of its lists."""
    leaves = parallel(task("pay"), poll("query", signal=receipt()), signal("receipt"), timer("cool-off"), key="all")
    run = desk.start(sequence(leaves))
    for lease in desk.claim_all():
        desk.fail(lease)
    for slug, key in (("retry-step", "pay"), ("retry-step", "query"), ("rearm-wait", "receipt")):
        run.recover(slug, key)
    run.send("receipt", 1)
    run.send("receipt", 2)
    run.control("cancel")
    return run


@pytest.mark.parametrize("name", LISTS)
def test_each_history_list_goes_on_at_its_own_path(world: World, desk: Desk, name: str) -> None:
    run = eventful(world, desk)
    whole = desk.operator.get(f"{run.path}/history", limit=MAX_LIMIT)[name]
    assert whole["next_cursor"] is None
    assert len(whole["items"]) > 1, "too little has happened for this test"
    assert desk.operator.all_pages(f"{run.path}/history/{name}", limit=1) == whole["items"]
    first = desk.operator.get(f"{run.path}/history", limit=1)[name]
    rest = desk.operator.all_pages(f"{run.path}/history/{name}", limit=1)
    assert first["items"] == rest[:1]
    following = desk.operator.get(f"{run.path}/history/{name}", cursor=first["next_cursor"])
    assert following["items"] == rest[1:]


def test_history_holds_the_rows_as_they_are_stored_but_for_lease_tokens(world: World, desk: Desk) -> None:
    run = eventful(world, desk)
    history = desk.operator.get(f"{run.path}/history").data
    for name, each in LISTS.items():
        columns = {field.attname for field in each.model._meta.concrete_fields}
        for row in history[name]["items"]:
            assert set(row) == columns - {"lease_token"}, name


def test_the_audit_is_a_chain_that_a_reader_can_follow(world: World, desk: Desk) -> None:
    run = eventful(world, desk)
    entries = desk.operator.all_pages(f"{run.path}/audit", limit=2)
    assert [entry["sequence"] for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry["action"] for entry in entries][:4] == ["start", "raise_review", "retry_step", "retry_step"]
    hashes = ["0" * 64, *(entry["entry_hash"] for entry in entries)]
    assert [entry["previous_hash"] for entry in entries] == hashes[:-1]
    assert run.state["audit_head"] == f"{len(entries)}:{hashes[-1]}"


WRONG = [
    {"limit": "0"},
    {"limit": "201"},
    {"limit": "-1"},
    {"limit": "1.0"},
    {"limit": " 5"},
    {"limit": "+5"},
    {"limit": "٣"},
    {"limit": ""},
    {"limit": "9" * 30},
    {"cursor": ""},
    {"cursor": "x"},
    {"cursor": "é"},
    {"cursor": "1"},
    {"cursor": "1-" + "a" * 31},
    {"cursor": "-1-" + "a" * 32},
    {"cursor": "1-" + "A" * 32},
    {"cursor": "1-" + "a" * 32 + "\n"},
    {"cursor": "9" * 17 + "-" + "a" * 32},
    {"cursor": "٣-" + "a" * 32},
    {"cursor": "1-" + "a" * 32 + "-1"},
    {"status": "running"},
    {"status": ""},
    {"review_reason": "BECAUSE"},
    {"definition": ""},
    {"definition": "a" * 129},
    {"business_key": "a\0"},
    {"business_key": "a" * 192},
    {"state": "RUNNING"},
    {"namespace": "pay"},
]


def test_a_parameter_that_is_wrong_is_an_error_by_its_name(desk: Desk) -> None:
    for query in WRONG:
        answer = desk.operator.get("/instances", **query)
        assert (answer.status, answer.code) == (422, "VALIDATION_FAILED"), query
        assert list(answer["errors"]) == list(query)


def test_a_parameter_that_is_given_twice_is_an_error(desk: Desk) -> None:
    answer = desk.operator.call("GET", "/instances?status=RUNNING&status=FAILED")
    assert (answer.code, list(answer["errors"])) == ("VALIDATION_FAILED", ["status"])


def test_a_filter_is_compared_byte_for_byte(world: World, desk: Desk) -> None:
    run = world.start(sequence(task("pay")), business_key="Café")
    for near in ("café", "Cafe", "Café ", "CAFÉ"):
        assert desk.operator.get("/instances", business_key=near)["items"] == []
    assert [row["id"] for row in desk.operator.get("/instances", business_key="Café")["items"]] == [run.id]


def test_the_list_of_instances_takes_at_most_ten_statements(world: World, desk: Desk, capture_statements: Any) -> None:
    made = many(world, desk)
    for filters in ({}, {"definition": next(iter(made.values()))}, {"status": "RUNNING"}):
        desk.operator.get("/instances", **filters)
        with capture_statements() as statements:
            desk.operator.get("/instances", **filters)
        assert len(statements) <= 10, [statement.sql for statement in statements]
