"""Who gets which page of access, and what every one of them promises the browser."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse

from recovery import clock, permissions
from recovery.access import credentials
from recovery.console.access.urls import urlpatterns
from recovery.models import AccessLog
from recovery.permissions import ADMINISTER, READ, RECOVER, WORK, Actor
from tests.access.conftest import Desk, Seat
from tests.console.support import Desk as Browser

HOUR = timedelta(hours=1)


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


CHANGE = "/access/pay/change/?kind=user&name=bob&permission=workflows:read"


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
