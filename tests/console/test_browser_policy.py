"""What every page promises the browser: a strict policy, nothing inline, nothing of another host; htmx kept in line."""

from __future__ import annotations

import re

import pytest
from django.conf import settings

from recovery.models import WorkflowInstance
from tests.console.support import CLAIM, Desk, Page, act_url
from tests.operations.stages import failed_query, failed_task
from tests.support.recovering import recover
from tests.support.world import Flow, World


def every_page(desk: Desk, flow: Flow) -> list[Page]:
    place = f"/instances/{flow.id}/"
    form = act_url(flow, "retry-step", "it")
    opened = desk.get(form)
    pages = [
        opened,
        desk.send(opened, form),
        desk.send(opened, form, **CLAIM, safe_to_retry="true", preview="1"),
        desk.send(opened, form, **CLAIM, safe_to_retry="true", expected_revision="1"),
    ]
    receipt = recover(flow, "retry-step", "it")
    urls = [
        *("/review/", "/review/?within=never", "/instances/", "/preferences/", "/go?q=nothing"),
        *(place, f"{place}steps/it/", f"/tasks/{flow.task('it').pk}/", "/instances/none/"),
        *(act_url(flow, "resolve-step", "it"), act_url(flow, "retry-step"), act_url(flow, "continue")),
        f"/operations/{receipt.data['operation_key']}/",
    ]
    return pages + [desk.get(url) for url in urls]


@pytest.mark.parametrize("language", [code for code, _name in settings.LANGUAGES])
def test_no_page_has_anything_inline_or_from_elsewhere(world: World, desk: Desk, language: str) -> None:
    desk.client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    for page in every_page(desk, failed_query(world)):
        where = page.response.wsgi_request.path
        policy = page.response["Content-Security-Policy"]
        assert "default-src 'none'" in policy, where
        assert "unsafe" not in policy, where
        for tag, given in page.reader.elements:
            assert "style" not in given, (where, tag)
            assert not [name for name in given if name.startswith("on")], (where, tag)
            assert tag != "style", where
            assert tag != "script" or given.get("src", "").startswith("/static/"), where
            for name in ("src", "href", "action", "hx-get", "hx-post"):
                assert not re.match(r"(?:https?:)?//|javascript:|data:", given.get(name, "")), (where, tag)


@pytest.mark.parametrize("language", [code for code, _name in settings.LANGUAGES])
def test_every_page_has_one_heading_a_title_and_its_language(world: World, desk: Desk, language: str) -> None:
    desk.client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    for page in every_page(desk, failed_task(world)):
        tags = [tag for tag, _given in page.reader.elements]
        assert (tags.count("h1"), tags.count("main"), tags.count("title") >= 1) == (1, 1, True)
        root = next(given for tag, given in page.reader.elements if tag == "html")
        assert root["lang"] == language
        names = [given["id"] for _tag, given in page.reader.elements if "id" in given]
        assert len(names) == len(set(names)), page.response.wsgi_request.path


def test_text_from_outside_is_escaped_everywhere(world: World, desk: Desk) -> None:
    evil = "<img src=x onerror=alert(1)>"
    flow = failed_task(world)
    WorkflowInstance.objects.filter(pk=flow.id).update(business_key=evil)
    recover(flow, "retry-step", "it", reason=evil, evidence_ref="<svg/onload=alert(1)>")
    for url in ("/review/", "/instances/", f"/instances/{flow.id}/", f"/instances/{flow.id}/steps/it/"):
        page = desk.get(url)
        assert evil not in page.html
        assert "<svg/onload" not in page.html
        assert "onerror=alert(1)" in page.html


def test_pages_are_not_stored_and_differ_for_htmx(world: World, desk: Desk) -> None:
    answer = desk.get("/review/").response
    assert answer["Cache-Control"] == "no-store"
    assert "HX-Request" in answer["Vary"]


def test_htmx_gets_the_main_part_and_follows_redirects_by_itself(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    url = act_url(flow, "retry-step", "it")
    page = desk.get(url)
    part = desk.post(url, page.fields("operation_key"), **{"HX-Request": "true"})
    assert part.status == 422
    assert "<html" not in part.html
    assert part.response["HX-Retarget"] == "#main"
    typed = page.fields("operation_key") | CLAIM | {"safe_to_retry": "true"}
    done = desk.post(url, typed, **{"HX-Request": "true"})
    assert (done.status, done.html) == (200, "")
    assert done.response["HX-Redirect"].startswith("/operations/")


def test_a_live_update_that_is_denied_touches_nothing(world: World, desk: Desk) -> None:
    answer = desk.htmx("/instances/nothing/newer/?revision=1")
    assert (answer.status, answer.html, answer.response["HX-Reswap"]) == (404, "", "none")


def test_a_live_update_after_the_session_ended_leads_back_to_the_page(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    desk.client.logout()
    page = f"http://testserver/instances/{flow.id}/"
    answer = desk.htmx(f"/instances/{flow.id}/newer/?revision=1", **{"HX-Current-URL": page})
    assert answer.response["HX-Redirect"] == f"/sign-in/?next=%2Finstances%2F{flow.id}%2F"


def test_signing_out_takes_a_form_not_a_link(world: World, desk: Desk) -> None:
    assert desk.get("/sign-out/").status == 405
    assert desk.post("/sign-out/", {}).status == 302
    assert desk.get("/review/").status == 303
