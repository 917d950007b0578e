"""Sign-in: guesses are slowed down, and sessions end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.test import Client

from recovery import clock
from recovery.models import SignInFailure
from tests.support.world import World

pytestmark = [pytest.mark.rule("G1")]


@pytest.fixture
def person(world: World) -> str:
    get_user_model().objects.create_user("ada", password="right")
    return "ada"


def sign_in(name: str, password: str, address: str = "10.0.0.1", language: str = "en") -> Any:
    fields = {"username": name, "password": password}
    return Client().post("/sign-in/", fields, REMOTE_ADDR=address, headers={"Accept-Language": language})


@pytest.mark.parametrize(
    ("language", "sentence"), [("en", "Try again in 15 minutes"), ("zh-hans", "请在 15 分钟后重试")]
)
def test_after_ten_failures_the_right_password_has_to_wait_too(
    person: str, language: str, sentence: str, world: World
) -> None:
    first = clock.now()
    for _failure in range(10):
        assert sign_in(person, "wrong").status_code == 200
    refused = sign_in(person, "right", language=language)
    assert (refused.status_code, refused["Retry-After"]) == (429, "900")
    assert sentence in refused.content.decode()
    world.travel_to(first + timedelta(minutes=15), run=False)
    assert sign_in(person, "right").status_code == 302


def test_another_address_and_another_name_do_not_wait(person: str) -> None:
    for _failure in range(10):
        sign_in(person, "wrong")
    assert sign_in(person, "right", address="10.0.0.2").status_code == 302
    assert sign_in("grace", "wrong").status_code == 200


def test_other_spellings_of_a_name_do_not_count_apart(person: str) -> None:
    for number in range(10):
        sign_in([person, f" {person} ", "ａｄａ"][number % 3], "wrong")
    assert sign_in(person, "right").status_code == 429


def test_a_success_forgets_the_failures_before_it(person: str) -> None:
    for _failure in range(9):
        sign_in(person, "wrong")
    assert sign_in(person, "right").status_code == 302
    assert not SignInFailure.objects.exists()


def test_failures_that_count_no_more_are_not_kept(person: str, world: World) -> None:
    sign_in(person, "wrong")
    world.travel(minutes=15, run=False)
    sign_in("grace", "wrong")
    assert SignInFailure.objects.count() == 1


def test_a_session_lasts_a_shift_and_ends_when_the_password_changes(person: str) -> None:
    client = Client()
    answer = client.post("/sign-in/", {"username": person, "password": "right"})
    assert answer.cookies["sessionid"]["max-age"] == 12 * 3600
    assert Session.objects.count() == 1
    assert client.get("/review/").status_code == 200
    user = get_user_model().objects.get(username=person)
    user.set_password("another")
    user.save()
    assert client.get("/review/").status_code == 303
