"""The pages of access, as a browser without JavaScript sees them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from recovery import clock
from recovery.access import credentials, grants
from recovery.models import Credential
from recovery.permissions import ADMINISTER, READ, RECOVER, Actor
from tests.access.conftest import Desk, Seat
from tests.console.support import Desk as Browser
from tests.support import trees
from tests.support.world import World

HOUR = timedelta(hours=1)


# The matrix


def test_the_matrix_shows_the_way_the_end_and_the_giver(desk: Desk, ada: Actor, browser: Browser) -> None:
    bob, eve = desk.person("bob"), desk.person("eve", is_superuser=True)
    desk.group("oncall", bob, eve)
    grants.grant(ada, "group", "oncall", names=[RECOVER], expires_at=clock.now() + HOUR, reason="on call")
    grants.grant(ada, "user", "bob", queues=["bank"], reason="on call")
    page = browser.get("/access/pay/")
    assert "2 people hold workflows:recover now. 2 of these rights end within 4 hours." in page.text
    row = next(part for part in page.html.split("<tr") if "/access/pay/people/bob/" in part)
    text = " ".join(re.sub("<[^>]*>", " ", row).split())
    assert "oncall until" in text
    assert "1 of 2 queues no end by ada" in text
    assert "superuser, holds nothing by that" in page.text


def test_a_grant_that_has_ended_is_shown_as_ended(desk: Desk, browser: Browser) -> None:
    desk.person("bob", RECOVER, until=clock.now() - HOUR)
    page = browser.get("/access/pay/")
    assert "0 people hold workflows:recover now." in page.text
    assert "ended" in page.text


def test_people_are_paged_by_name(desk: Desk, browser: Browser) -> None:
    for number in range(60):
        desk.person(f"person-{number:02}", READ)
    first = browser.get("/access/pay/")
    link = next(link for link in first.reader.links if "after=" in link)
    second = browser.get(f"/access/pay/{link}")
    shown = [set(re.findall(r"/people/(person-\d\d)/", page.html)) for page in (first, second)]
    assert shown[0] | shown[1] == {f"person-{number:02}" for number in range(60)}
    assert not shown[0] & shown[1]


@pytest.mark.parametrize("path", ["", "people/person-01/", "groups/", "groups/oncall/", "queues/", "queues/bank/"])
def test_a_page_takes_as_many_statements_for_many_people_as_for_one(
    desk: Desk, browser: Browser, path: str, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    people = [desk.person(f"person-{number:02}", READ) for number in range(30)]
    desk.group("oncall", *people, rights=(RECOVER,))
    with django_assert_max_num_queries(12):
        assert browser.get(f"/access/pay/{path}").status == 200


# Credentials


def test_a_token_is_shown_once_and_kept_nowhere(desk: Desk, browser: Browser) -> None:
    desk.person("robot")
    sent = {"name": "robot", "label": "desk robot", "application": "desk", "reason": "CHG-1"}
    page = browser.post("/access/pay/credentials/new/", sent)
    assert page.status == 200
    assert page.response["Cache-Control"] == "no-store"
    (token,) = re.findall(r"weave_[0-9a-f]{32}_[A-Za-z0-9_-]{43}", page.html)
    actor = credentials.authenticate(token)
    assert (actor.username, actor.application_id) == ("robot", desk.application.pk)
    secret = token.split("_", 2)[2]
    row = Credential.objects.get()
    for path in ("credentials/", f"credentials/{row.pk}/", "people/robot/", "log/"):
        shown = browser.get(f"/access/pay/{path}").html
        assert secret not in shown
        assert row.secret_hash not in shown
    again = browser.post("/access/pay/credentials/new/", sent)
    assert again.status == 422, "a reload of the page makes no second one"
    assert Credential.objects.count() == 1


def test_a_credential_is_rotated_and_revoked(desk: Desk, ada: Actor, browser: Browser) -> None:
    desk.person("robot")
    issued = credentials.create(ada, "robot", "desk robot", reason="CHG-1")
    place = f"/access/pay/credentials/{issued.credential.pk}/"
    credentials.authenticate(issued.token)
    assert "to the minute" in browser.get(place).text
    page = browser.post(place, {"act": "rotate", "reason": "yearly"})
    (token,) = re.findall(r"weave_[0-9a-f]{32}_[A-Za-z0-9_-]{43}", page.html)
    assert token != issued.token
    assert browser.post(place, {"act": "revoke", "reason": ""}).status == 422
    assert browser.post(place, {"act": "revoke", "reason": "retired"}).status == 303
    page = browser.get(place)
    assert "revoked" in page.text
    assert not any(control.name == "reason" for _form, fields in page.reader.forms for control in fields)


def test_a_credential_of_another_namespace_is_not_found(desk: Desk, browser: Browser) -> None:
    other = Desk("other").person("eve", ADMINISTER)
    issued = credentials.create(other, "eve", "theirs", reason="test")
    assert browser.get(f"/access/pay/credentials/{issued.credential.pk}/").status == 404


# The log


def test_the_log_is_filtered_and_paged(desk: Desk, ada: Actor, browser: Browser) -> None:
    desk.person("bob")
    desk.person("eve")
    for number in range(30):
        grants.grant(ada, "user", "bob", names=[READ], reason=f"reason {number}")
        held = grants.Held("user", "bob", READ)
        grants.revoke(ada, held, version=desk.version(held), reason=f"back {number}")
    grants.grant(ada, "user", "eve", names=[READ], reason="about eve")
    first = browser.get("/access/pay/log/")
    assert first.html.count('id="entry-') == 50
    link = next(link for link in first.reader.links if "before=" in link)
    assert browser.get(f"/access/pay/log/{link}").html.count('id="entry-') == 11
    assert browser.get("/access/pay/log/?about=eve").html.count('id="entry-') == 1
    assert browser.get("/access/pay/log/?by=eve").html.count('id="entry-') == 0
    wrong = browser.get("/access/pay/log/?before=x")
    assert (wrong.status, wrong.html.count('id="entry-')) == (422, 0)


def test_the_log_of_another_namespace_is_another_log(desk: Desk, browser: Browser) -> None:
    other = Desk("other").person("eve", ADMINISTER)
    desk.person("bob")
    grants.grant(other, "user", "bob", names=[READ], reason="elsewhere")
    assert "elsewhere" not in browser.get("/access/pay/log/").text


def test_text_of_people_is_escaped(desk: Desk, ada: Actor, browser: Browser) -> None:
    desk.person("bob")
    grants.grant(ada, "user", "bob", names=[READ], reason="<script>alert(1)</script>")
    for path in ("", "people/bob/", "log/", "change/?kind=user&name=bob&permission=workflows:read"):
        assert "<script>alert" not in browser.get(f"/access/pay/{path}").html


# Why


def test_why_somebody_can_or_cannot_recover_an_instance(world: World, seat: Seat) -> None:
    flow = world.start(trees.task("it", queue="bank"), business_key="ORDER-1", run=False)
    admin = world.actor(READ, ADMINISTER)
    desk = seat(admin)
    operator = world.operator.username
    page = desk.get(f"/access/pay/why/?person={operator}&instance=ORDER-1")
    assert f"Why {operator} can recover ORDER-1" in page.text
    assert "queues:use bank" in page.text
    worker = world.worker.username
    page = desk.get(f"/access/pay/why/?person={worker}&instance={flow.id}")
    assert f"Why {worker} cannot recover ORDER-1" in page.text
    assert "No workflows:recover" in page.text
    assert f"Can grant what is missing: {operator}, {admin.username}" in page.text or admin.username in page.text


@pytest.mark.parametrize("query", ["person=nobody&instance=x", "person=&instance=", "instance=x"])
def test_a_question_about_nobody_or_nothing_is_said_so(world: World, seat: Seat, query: str) -> None:
    page = seat(world.actor(READ, ADMINISTER)).get(f"/access/pay/why/?{query}")
    assert page.status == 422
    assert page.html.count('class="errors"') == 1


def test_why_needs_the_right_to_see_the_instance(world: World, seat: Seat) -> None:
    world.start(trees.task("it", queue="bank"), business_key="ORDER-1", run=False)
    browser = seat(world.actor(ADMINISTER))
    assert browser.get(f"/access/pay/why/?person={world.operator.username}&instance=ORDER-1").status == 404
