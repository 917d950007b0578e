"""The demo says who may sign in, and with what."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model

from recovery.management.commands import demo


@pytest.mark.django_db(transaction=True)
def test_the_demo_prints_the_passwords_that_its_accounts_are_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = json.loads(demo.PEOPLE.read_bytes())["users"]
    other = tmp_path / "people.json"
    other.write_text(json.dumps({"users": [person | {"password": f"of-{person['username']}"} for person in people]}))
    monkeypatch.setattr(demo, "PEOPLE", other)
    for name in demo.WHAT_FOR:
        get_user_model().objects.create(username=name)
    printed = StringIO()
    demo.Command(stdout=printed)._welcome("http://127.0.0.1:8000")
    assert all(f"of-{name}" in printed.getvalue() for name in demo.WHAT_FOR)
