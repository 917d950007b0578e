"""The pages of access, as a browser without JavaScript sees them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from recovery import clock, permissions
from recovery.access import credentials, grants
from recovery.console.access.urls import urlpatterns
from recovery.models import AccessLog, Credential
from recovery.permissions import ADMINISTER, READ, RECOVER, WORK, Actor
from tests.access.conftest import Desk
from tests.console.support import Desk as Browser
from tests.support import trees
from tests.support.world import World

HOUR = timedelta(hours=1)
Seat = Callable[[Actor], Browser]


@pytest.fixture(name="seat")
def _seat() -> Seat:
    def seat(actor: Actor) -> Browser:
        client = Client()
        client.force_login(get_user_model().objects.get(pk=actor.user_id))
        return Browser(client)

    return seat


@pytest.fixture(name="browser")
def _browser(ada: Actor, seat: Seat) -> Browser:
    """The administrator's."""
    return seat(ada)


def pages(desk: Desk, ada: Actor) -> dict[str, str]:
    """Every page of access, by the name of its URL."""
    desk.group("oncall", desk.person("bob", READ), rights=(RECOVER,))
    credential = credentials.create(ada, "bob", "laptop", reason="test").credential
    names = {"name": "", "credential_id": credential.pk}
    found = {}
    for pattern in urlpatterns:
        name = str(pattern.name)
        wanted = pattern.pattern.regex.groupindex
        names["name"] = {"access-group": "oncall", "access-queue": "bank"}.get(name, "bob")
        given = {key: desk.name if key == "namespace" else names[key] for key in wanted}
        found[name] = reverse(f"console:{name}", kwargs=given)
    found["access-change"] += "?kind=user&name=bob&permission=workflows:read"
    return found


# Who may


@pytest.mark.rule("G2")
def test_an_administrator_gets_every_page(desk: Desk, ada: Actor, browser: Browser) -> None:
    for name, url in pages(desk, ada).items():
        assert browser.get(url).status == (303 if name == "access" else 200), name


WHO = {
    "reader": 403,
    "recovers and reads": 403,
    "worker": 404,
    "recovers without reading": 404,
    "superuser": 404,
    "outsider": 404,
    "administrator of another namespace": 404,
    "administration ended, reads": 403,
    "administration ended": 404,
    "inactive administrator": 303,
}


def who(desk: Desk, name: str) -> Actor:
    past = clock.now() - HOUR
    match name:
        case "reader":
            return desk.person(name, READ)
        case "recovers and reads":
            return desk.person(name, READ, RECOVER)
        case "worker":
            return desk.person(name, WORK)
        case "recovers without reading":
            return desk.person(name, RECOVER)
        case "superuser":
            return desk.person(name, is_superuser=True, is_staff=True)
        case "administrator of another namespace":
            return Desk("other").person(name, ADMINISTER, READ)
        case "administration ended, reads":
            desk.person(name, READ)
            return desk.person(name, ADMINISTER, until=past)
        case "administration ended":
            return desk.person(name, ADMINISTER, until=past)
        case "inactive administrator":
            return desk.person(name, ADMINISTER, is_active=False)
    return desk.person(name)


@pytest.mark.rule("G2")
@pytest.mark.parametrize("name", WHO)
def test_nobody_else_gets_any_page_of_a_namespace(desk: Desk, ada: Actor, seat: Seat, name: str) -> None:
    urls = pages(desk, ada)
    del urls["access"]
    browser = seat(who(desk, name))
    assert {url: browser.get(url).status for url in urls.values()} == dict.fromkeys(urls.values(), WHO[name])


@pytest.mark.rule("G2")
@pytest.mark.parametrize("name", WHO)
def test_nobody_else_changes_anything(desk: Desk, ada: Actor, seat: Seat, name: str) -> None:
    urls = pages(desk, ada)
    before = AccessLog.objects.count()
    browser = seat(who(desk, name))
    sent = {"kind": "user", "name": "bob", "permissions": RECOVER, "reason": "test", "label": "mine", "act": "revoke"}
    for url in urls.values():
        assert browser.post(url, sent).status in {WHO[name], 405}, url
    assert AccessLog.objects.count() == before


def test_a_namespace_that_is_not_there_is_not_found(browser: Browser) -> None:
    assert browser.get("/access/nowhere/").status == 404


def test_who_administers_nothing_is_told_what_is_missing(desk: Desk, seat: Seat) -> None:
    page = seat(desk.person("reader", READ)).get("/access/")
    assert page.status == 403
    assert "You hold access:admin on no namespace." in page.text


def test_who_administers_several_namespaces_chooses(desk: Desk, ada: Actor, browser: Browser) -> None:
    Desk("other").person("ada", ADMINISTER)
    assert {"/access/pay/", "/access/other/"} <= set(browser.get("/access/").reader.links)


@pytest.mark.parametrize("path", ["", "people/bob/", "groups/oncall/", "log/", "credentials/"])
def test_reading_a_page_writes_nothing(desk: Desk, ada: Actor, browser: Browser, path: str) -> None:
    pages(desk, ada)
    before = (AccessLog.objects.count(), permissions.grants(desk.namespace.pk))
    assert browser.get(f"/access/pay/{path}").status == 200
    assert (AccessLog.objects.count(), permissions.grants(desk.namespace.pk)) == before


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
    with django_assert_max_num_queries(12):  # type: ignore[attr-defined]
        assert browser.get(f"/access/pay/{path}").status == 200


# Forms


def test_a_grant_is_given_and_the_page_after_it_reads_the_log(desk: Desk, browser: Browser) -> None:
    bob = desk.person("bob")
    sent = {"kind": "user", "name": "bob", "permissions": [READ, RECOVER], "queues": ["bank"], "reason": "on call"}
    answer = browser.post("/access/pay/grant/", sent)
    assert answer.status == 303
    page = browser.get(answer.response["Location"])
    assert "Recorded entry" in page.text
    assert "bob: workflows:read granted" in page.text
    assert desk.rights(bob) == {READ, RECOVER}
    assert browser.get("/access/pay/people/bob/").text.count("Recorded") == 0
    again = browser.post("/access/pay/grant/", sent)
    assert "Recorded entry" in browser.get(again.response["Location"]).text, "a double click ends at the same entry"
    assert AccessLog.objects.count() == 3


def test_only_the_own_entry_of_this_namespace_is_shown_as_recorded(desk: Desk, ada: Actor, browser: Browser) -> None:
    other = Desk("other").person("ada", ADMINISTER)
    desk.person("bob", READ)
    grants.grant(other, "user", "bob", names=[RECOVER], reason="elsewhere")
    for forged in (AccessLog.objects.get().sequence, 999, "x", "1" * 40, "٣"):
        page = browser.get(f"/access/pay/people/bob/?done={forged}")
        assert page.status == 200
        assert "Recorded entry" not in page.text


def test_the_end_is_read_in_the_readers_zone(desk: Desk, browser: Browser) -> None:
    desk.person("bob")
    browser.client.cookies["weave_zone"] = "Asia/Shanghai"
    sent = {"kind": "user", "name": "bob", "permissions": [READ], "expires_at": "2099-01-01T06:00", "reason": "x"}
    assert browser.post("/access/pay/grant/", sent).status == 303
    end = next(row.expires_at for row in permissions.grants(desk.namespace.pk) if row.holder == "bob")
    assert end is not None
    assert end.isoformat() == "2098-12-31T22:00:00+00:00"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"name": "nobody"}, "There is no account of this name."),
        ({"permissions": [], "queues": []}, "Choose at least one permission or queue."),
        ({"permissions": ["workflows:fly"]}, "workflows:fly is not one of the available choices"),
        ({"reason": " "}, "Say why"),
        ({"expires_at": "2020-01-01T00:00"}, "This time has passed."),
        ({"expires_at": "soon"}, "Enter a valid date/time."),
        ({"kind": "robot"}, "robot is not one of the available choices"),
    ],
)
def test_a_refused_form_keeps_everything_typed(
    desk: Desk, browser: Browser, typed: dict[str, object], told: str
) -> None:
    desk.person("bob")
    sent = {
        "kind": "user",
        "name": "bob",
        "permissions": [RECOVER],
        "queues": ["bank"],
        "expires_at": "2099-01-01T06:00",
        "reason": "a <long> story",
        **typed,
    }
    page = browser.post("/access/pay/grant/", sent)
    assert page.status == 422
    assert told in page.text
    kept = page.fields("reason")
    assert kept["name"] == sent["name"]
    assert kept["expires_at"] == sent["expires_at"]
    assert kept["reason"] == sent["reason"]
    assert ('<div class="errors" role="alert" tabindex="-1" autofocus' in page.html) is True
    assert not AccessLog.objects.exists()


def test_nobody_grants_access_admin_to_themselves(desk: Desk, ada: Actor, browser: Browser) -> None:
    desk.group("leads", ada)
    page = browser.post(
        "/access/pay/grant/", {"kind": "group", "name": "leads", "permissions": [ADMINISTER], "reason": "me"}
    )
    assert page.status == 403
    assert "Nobody grants access:admin to themselves" in page.text


CHANGE = "/access/pay/change/?kind=user&name=bob&permission=workflows:read"


def test_a_grant_gets_another_end_and_is_revoked(desk: Desk, browser: Browser) -> None:
    bob = desk.person("bob", READ)
    fields = browser.get(CHANGE).fields("reason") | {"reason": "until spring", "expires_at": "2099-03-01T00:00"}
    assert browser.post(CHANGE, fields | {"act": "change"}).status == 303
    page = browser.get(CHANGE)
    assert page.fields("reason")["expires_at"] == "2099-03-01T00:00"
    assert browser.post(CHANGE, page.fields("reason") | {"act": "revoke", "reason": "left"}).status == 303
    assert desk.rights(bob) == set()
    assert browser.get(CHANGE).status == 404


def test_a_grant_that_is_newer_than_the_form_is_a_conflict_that_keeps_what_was_typed(
    desk: Desk, browser: Browser, seat: Seat
) -> None:
    bob = desk.person("bob", READ)
    fields = browser.get(CHANGE).fields("reason")
    other = seat(desk.person("grace", ADMINISTER))
    theirs = other.get(CHANGE).fields("reason") | {"reason": "theirs", "expires_at": "2099-03-01T00:00"}
    other.post(CHANGE, theirs | {"act": "change"})
    page = browser.post(CHANGE, fields | {"act": "revoke", "reason": "mine"})
    assert page.status == 409
    assert "changed by grace" in page.text
    assert page.fields("reason")["reason"] == "mine"
    assert desk.rights(bob) == {READ}
    assert browser.post(CHANGE, page.fields("reason") | {"act": "revoke"}).status == 303
    assert desk.rights(bob) == set()


def test_the_last_administrator_stays(desk: Desk, ada: Actor, browser: Browser) -> None:
    url = "/access/pay/change/?kind=user&name=ada&permission=access:admin"
    page = browser.post(url, browser.get(url).fields("reason") | {"act": "revoke", "reason": "bye"})
    assert page.status == 409
    assert "Nobody could administer access to pay any more." in page.text
    assert ADMINISTER in desk.rights(ada)


def test_members_join_and_leave_a_group(desk: Desk, ada: Actor, browser: Browser) -> None:
    bob = desk.person("bob")
    assert browser.post("/access/pay/groups/", {"name": "nights", "reason": "new shift"}).status == 303
    grants.grant(ada, "group", "nights", names=[RECOVER], reason="new shift")
    place = "/access/pay/groups/nights/"
    joining = browser.get(place).fields("act") | {"name": "bob", "reason": "night shift"}
    assert browser.post(place, joining).status == 303
    assert desk.rights(bob) == {RECOVER}
    leaving = browser.get(f"{place}?leave=bob").fields("act")
    assert (leaving["act"], leaving["name"]) == ("leave", "bob")
    assert browser.post(place, leaving | {"reason": "over"}).status == 303
    assert desk.rights(bob) == set()
    again = browser.post(place, leaving | {"reason": "over"})
    assert (again.status, again.fields("act")["act"]) == (409, "leave")


def test_a_group_of_other_namespaces_is_not_shown(desk: Desk, browser: Browser) -> None:
    Desk("other").group("theirs", rights=(READ,))
    assert browser.get("/access/pay/groups/theirs/").status == 404
    assert "theirs" not in browser.get("/access/pay/groups/").text


def test_people_who_hold_nothing_here_are_not_shown(desk: Desk, browser: Browser) -> None:
    get_user_model().objects.create(username="stranger")
    assert browser.get("/access/pay/people/stranger/").status == 404
    assert browser.get("/access/pay/people/nobody/").status == 404


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


# What every page promises the browser


def test_no_page_has_anything_inline_and_each_has_one_heading(desk: Desk, ada: Actor, browser: Browser) -> None:
    answers = [browser.get(url) for name, url in pages(desk, ada).items() if name != "access"]
    answers += [browser.post("/access/pay/grant/", {"reason": ""}), browser.post(CHANGE, {"reason": ""})]
    for page in answers:
        where = page.response.wsgi_request.get_full_path()
        assert "unsafe" not in page.response["Content-Security-Policy"]
        tags = [tag for tag, _given in page.reader.elements]
        assert (tags.count("h1"), tags.count("main")) == (1, 1), where
        names = [given["id"] for _tag, given in page.reader.elements if "id" in given]
        assert len(names) == len(set(names)), where
        for tag, given in page.reader.elements:
            assert tag != "style", where
            assert not [name for name in given if name == "style" or name.startswith("on")], (where, tag)


# Languages


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_every_page_renders_in_every_language(desk: Desk, ada: Actor, browser: Browser, language: str) -> None:
    for name, url in pages(desk, ada).items():
        assert browser.get(url, **{"Accept-Language": language}).status in (200, 303), name
    page = browser.post("/access/pay/grant/", {"reason": ""}, **{"Accept-Language": language})
    assert page.status == 422
