"""Who gets which page: signing in comes first, what may not be seen is not found, a missing right is said."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import URLPattern

from recovery import permissions
from recovery.console.urls import urlpatterns
from recovery.permissions import Actor
from tests.console.support import CLAIM, Desk, act_url
from tests.operations.stages import STAGES, failed_task, unknown_task
from tests.support.faults import facts
from tests.support.recovering import recover
from tests.support.trees import task
from tests.support.world import Flow, World, make_world

Seat = Callable[[Actor], Desk]

OPEN = {"sign-in"}
"""Pages for people who are not signed in."""

EXAMPLES = {
    "namespace": "pay",
    "credential_id": "c1",
    "instance_id": "a1",
    "step_key": "it",
    "task_id": "t1",
    "operation": "continue",
    "target": "it",
    "operation_key": "k1",
    "name": "input",
    "revision": "1",
    "number": 1,
    "kind": "csv",
    "bundle_id": "b1",
    "position": 1,
}


def pages_of(flow: Flow) -> dict[str, str]:
    """Every page about one instance, by name."""
    receipt = recover(flow, "review-task", "it")
    place, work = f"/instances/{flow.id}", f"/tasks/{flow.task('it').pk}"
    return {
        "instance": f"{place}/",
        "live line": f"{place}/newer/?revision=1",
        "step": f"{place}/steps/it/",
        "task": f"{work}/",
        "act": f"{place}/recovery/continue/",
        "act on": f"{place}/recovery/resolve-step/it/",
        "act on, asked": f"{place}/recovery/resolve-step/?step_key=it",
        "choose": f"{place}/recovery/resolve-step/",
        "receipt": f"/operations/{receipt.data['operation_key']}/",
        "input": f"{place}/input.json",
        "step input": f"{place}/steps/input.json/it/",
        "task input": f"{work}/input/0.json",
        "result": f"{work}/results/3.json",
    }


@pytest.mark.django_db
@pytest.mark.parametrize("pattern", urlpatterns, ids=lambda pattern: str(pattern.name))
def test_signing_in_comes_first(pattern: URLPattern) -> None:
    from django.urls import reverse

    names = pattern.pattern.regex.groupindex if hasattr(pattern.pattern, "regex") else {}
    url = reverse(f"console:{pattern.name}", kwargs={name: EXAMPLES[name] for name in names})
    answer = Client().get(url)
    if pattern.name in OPEN:
        assert answer.status_code == 200
    else:
        assert (answer.status_code, answer["Location"].partition("?")[0]) == (303, "/sign-in/")


@pytest.mark.django_db
def test_after_signing_in_the_reader_comes_back_to_the_page(world: World) -> None:
    user = get_user_model().objects.create_user("marta", password="a long pass phrase")
    client = Client()
    asked = client.get("/review/?step=it")
    answer = client.post(asked["Location"], {"username": "marta", "password": "a long pass phrase"})
    assert client.session["_auth_user_id"] == str(user.pk)
    page = client.get(asked["Location"])
    assert (page.status_code, page["Location"]) == (302, "/review/?step=it")
    assert answer.status_code == 302


@pytest.mark.rule("G2")
def test_who_may_read_gets_every_page(world: World, desk: Desk) -> None:
    for name, url in pages_of(unknown_task(world)).items():
        assert desk.get(url).status in (200, 204), name


@pytest.mark.rule("G2")
def test_a_superuser_without_grants_sees_nothing(world: World, sit: Seat) -> None:
    pages = pages_of(unknown_task(world))
    root = get_user_model().objects.create_superuser("root")
    desk = sit(permissions.actor_of(root, world.namespace.pk))
    assert {name: desk.get(url).status for name, url in pages.items()} == dict.fromkeys(pages, 404)
    queue = desk.get("/review/")
    assert queue.status == 200
    assert "You may not read any namespace yet." in queue.text


@pytest.mark.rule("G1", "G2")
def test_another_namespace_is_not_found(world: World, sit: Seat) -> None:
    pages = pages_of(unknown_task(world))
    other = make_world(world.traveller, name="other")
    desk = sit(other.operator)
    assert {name: desk.get(url).status for name, url in pages.items()} == dict.fromkeys(pages, 404)


@pytest.mark.rule("G2")
def test_recovering_without_reading_is_not_found(world: World, sit: Seat) -> None:
    flow = unknown_task(world)
    desk = sit(world.actor(permissions.RECOVER, queues=("bank", "mail")))
    assert desk.get(f"/instances/{flow.id}/").status == 404
    assert desk.post(act_url(flow, "continue"), CLAIM).status == 404


@pytest.mark.rule("G2", "G4")
@pytest.mark.parametrize(("slug", "target", "stage"), STAGES[:1] + STAGES[-1:])
def test_a_reader_sees_the_act_and_which_right_is_missing(
    world: World, sit: Seat, desk: Desk, slug: str, target: str, stage: Callable[[World], Flow]
) -> None:
    flow = stage(world)
    url = act_url(flow, slug, flow.task(target).pk if slug == "review-task" else target)
    reader = sit(world.actor(permissions.READ))
    shown = reader.get(url)
    assert shown.status == 200
    assert "workflows:recover" in shown.text
    typed = {**CLAIM, "outcome": "SUCCEEDED", "result": "{}", "execution_settled": "true", "review_resolved": "true"}
    before = facts()
    denied = reader.send(shown, url, **typed)
    assert denied.status == 403
    assert "workflows:recover" in denied.text
    assert "access:admin" in denied.text
    assert facts() == before


@pytest.mark.rule("G2")
def test_a_queue_without_a_right_is_named(world: World, sit: Seat) -> None:
    flow = failed_task(world)
    desk = sit(world.actor(permissions.READ, permissions.RECOVER, queues=("mail",)))
    url = act_url(flow, "retry-step", "it")
    shown = desk.get(url)
    assert "queues:use is missing on: bank" in shown.text
    assert desk.send(shown, url, **CLAIM, safe_to_retry="true").status == 403


@pytest.mark.rule("G4")
def test_a_receipt_needs_the_right_of_the_act(world: World, sit: Seat) -> None:
    url = pages_of(unknown_task(world))["receipt"]
    assert sit(world.actor(permissions.READ)).get(url).status == 403


def test_what_does_not_exist_is_told_like_what_may_not_be_seen(world: World, sit: Seat) -> None:
    flow = world.start(task("it"))
    stranger = sit(make_world(world.traveller, name="other").operator)
    assert stranger.get(f"/instances/{flow.id}/").text == stranger.get("/instances/nothing/").text


def test_an_operation_or_step_that_does_not_exist_is_not_found(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    assert desk.get(f"/instances/{flow.id}/recovery/rewrite-history/").status == 404
    assert desk.get(f"/instances/{flow.id}/steps/nowhere/").status == 404
    assert desk.get(f"/instances/{flow.id}/steps/root/").status == 404
