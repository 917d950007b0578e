"""The forms of access, as a browser without JavaScript sends them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model

from recovery import permissions
from recovery.access import grants
from recovery.models import AccessLog
from recovery.permissions import ADMINISTER, READ, RECOVER, Actor
from tests.access.conftest import Desk, Seat
from tests.console.support import Desk as Browser

HOUR = timedelta(hours=1)


CHANGE = "/access/pay/change/?kind=user&name=bob&permission=workflows:read"


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
