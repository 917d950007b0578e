"""`manage.py credential`: the first one, before there is anybody who could make it on a page."""

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from recovery.access import credentials
from recovery.models import (
    AccessLog,
    Credential,
)
from tests.access.conftest import Run
from tests.access.provisioning import CONTRACT, altered

pytestmark = pytest.mark.django_db


def test_the_command_for_the_first_credential_prints_its_token_once(run: Run) -> None:
    run(altered(namespaces__0__credentials=[]))
    stdout = io.StringIO()
    call_command(
        "credential",
        "pay",
        "op",
        "first",
        application="desk",
        expires="2099-01-01T00:00:00Z",
        reason="set-up",
        stdout=stdout,
    )
    (printed,) = json.loads(stdout.getvalue())["credentials"]
    assert credentials.authenticate(printed["token"]).username == "op"
    entry = AccessLog.objects.order_by("-sequence")[0]
    assert (entry.actor, entry.action, entry.subject, entry.reason) == (
        "manage.py",
        "create_credential",
        "op",
        "set-up",
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"namespace": "gone"}, "no namespace “gone”"),
        ({"user": "eve"}, "no account of this name"),
        ({"application": "gone"}, "no such application"),
        ({"expires": "tomorrow"}, "--expires"),
        ({"expires": "2020-01-01T00:00:00Z"}, "This time has passed"),
        ({"reason": " "}, "White space alone"),
    ],
)
def test_the_command_for_the_first_credential_says_what_is_wrong(
    run: Run, arguments: dict[str, str], told: str
) -> None:
    run(CONTRACT)
    given = {"namespace": "pay", "user": "op", "label": "first", "reason": "set-up", **arguments}
    named = [given.pop(name) for name in ("namespace", "user", "label")]
    with pytest.raises(CommandError, match=told):
        call_command("credential", *named, **given)
    assert Credential.objects.count() == 1
