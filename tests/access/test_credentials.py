"""Credentials: made once, kept as a hash, ended in several ways."""

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth import get_user_model

from recovery import clock
from recovery.access import credentials
from recovery.access.credentials import authenticate
from recovery.errors import NotFound, PermissionDenied, StateConflict, Unauthenticated, ValidationFailed
from recovery.models import Credential, CredentialUse
from recovery.permissions import ADMINISTER, READ, Actor
from tests.access.conftest import Desk

HOUR = timedelta(hours=1)


@pytest.fixture(name="robot")
def _robot(desk: Desk) -> Actor:
    return desk.person("robot")


def issue(ada: Actor, label: str = "desk robot", **limits: Any) -> credentials.Issued:
    return credentials.create(ada, "robot", label, reason="CHG-1", **limits)


@pytest.mark.rule("G1")
def test_a_credential_fixes_namespace_operator_and_application(desk: Desk, ada: Actor, robot: Actor) -> None:
    issued = issue(ada, application="desk")
    assert authenticate(issued.token) == Actor(
        user_id=robot.user_id,
        username="robot",
        namespace_id=desk.namespace.pk,
        application_id=desk.application.pk,
        credential_id=issued.credential.pk,
    )


@pytest.mark.usefixtures("robot")
def test_a_token_has_256_random_bits_and_a_prefix_and_only_its_hash_is_kept(desk: Desk, ada: Actor) -> None:
    first, second = issue(ada), issue(ada, "another")
    tokens = [issued.token for issued in (first, second)]
    assert all(re.fullmatch(r"weave_[0-9a-f]{32}_[A-Za-z0-9_-]{43}", token) for token in tokens)
    secrets = [token.split("_", 2)[2] for token in tokens]
    assert len(set(secrets)) == 2
    row = Credential.objects.filter(pk=first.credential.pk).values().get()
    assert secrets[0] not in str(row)
    kept = str([(entry.before, entry.after, entry.reason) for entry in desk.log()])
    assert not any(text in kept for text in (*secrets, row["secret_hash"]))


@pytest.mark.usefixtures("robot")
def test_a_token_that_is_off_by_anything_is_not_known(ada: Actor) -> None:
    token = issue(ada).token
    prefix, key, secret = token.split("_", 2)
    other = issue(ada, "another").token.split("_", 2)[2]
    swapped = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    for wrong in (
        "",
        "weave",
        secret,
        token + " ",
        token + "\n",
        token[:-1],
        token.upper(),
        f"{prefix}_{key}_{other}",
        f"{prefix}_{key}_{swapped}",
        f"{prefix}_{'0' * 32}_{secret}",
        f"weave_{key}_{'é' * 43}",
        "x" * 100_000,
    ):
        with pytest.raises(Unauthenticated):
            authenticate(wrong)


@pytest.mark.rule("G1")
@pytest.mark.usefixtures("robot")
def test_a_credential_expires_at_the_moment_of_use(ada: Actor) -> None:
    with time_machine.travel(clock.now(), tick=False) as traveller:
        token = issue(ada, expires_at=clock.now() + HOUR).token
        traveller.shift(HOUR - timedelta(microseconds=1))
        authenticate(token)
        traveller.shift(timedelta(microseconds=1))
        with pytest.raises(Unauthenticated, match="has expired"):
            authenticate(token)


@pytest.mark.rule("G1")
@pytest.mark.usefixtures("robot")
def test_a_revoked_credential_is_refused_from_the_next_request(desk: Desk, ada: Actor) -> None:
    issued = issue(ada)
    authenticate(issued.token)
    credentials.revoke(ada, issued.credential.pk, reason="leaked")
    with pytest.raises(Unauthenticated, match="was revoked"):
        authenticate(issued.token)
    with pytest.raises(StateConflict, match="was revoked"):
        credentials.revoke(ada, issued.credential.pk, reason="again")
    with pytest.raises(StateConflict, match="was revoked"):
        credentials.rotate(ada, issued.credential.pk, reason="again")
    assert [entry.action for entry in desk.log()] == ["create_credential", "revoke_credential"]


@pytest.mark.usefixtures("robot")
def test_an_inactive_account_acts_through_no_credential(ada: Actor) -> None:
    token = issue(ada).token
    get_user_model().objects.filter(username="robot").update(is_active=False)
    with pytest.raises(Unauthenticated, match="not active"):
        authenticate(token)


@pytest.mark.usefixtures("robot")
def test_a_rotated_credential_has_a_new_secret_and_the_old_one_is_refused(desk: Desk, ada: Actor) -> None:
    old = issue(ada)
    new = credentials.rotate(ada, old.credential.pk, reason="yearly")
    assert new.credential.pk == old.credential.pk
    assert authenticate(new.token).credential_id == old.credential.pk
    with pytest.raises(Unauthenticated, match="not known"):
        authenticate(old.token)
    assert desk.log()[-1].action == "rotate_credential"


@pytest.mark.usefixtures("robot")
def test_authenticating_is_one_statement_and_once_a_minute_a_second_one(ada: Actor, capture_statements: Any) -> None:
    token = issue(ada).token
    with time_machine.travel(clock.now(), tick=False) as traveller:
        begin = clock.now()
        for seconds, at_most, last in ((0, 2, 0), (0, 1, 0), (59, 1, 0), (1, 2, 60)):
            traveller.shift(seconds)
            with capture_statements() as statements:
                authenticate(token)
            assert len([one for one in statements if "SAVEPOINT" not in one.sql]) <= at_most
            assert CredentialUse.objects.get().last_used_at == begin + timedelta(seconds=last)


@pytest.mark.usefixtures("robot")
def test_a_refused_token_leaves_no_use(ada: Actor) -> None:
    issued = issue(ada)
    credentials.revoke(ada, issued.credential.pk, reason="leaked")
    with pytest.raises(Unauthenticated):
        authenticate(issued.token)
    assert not CredentialUse.objects.exists()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"username": "nobody"}, "name"),
        ({"label": " "}, "label"),
        ({"label": "x" * 129}, "label"),
        ({"application": "gone"}, "application"),
        ({"expires_at": clock.now() - HOUR}, "expires_at"),
        ({"reason": ""}, "reason"),
    ],
)
@pytest.mark.usefixtures("robot")
def test_what_cannot_be_is_refused_at_its_field(desk: Desk, ada: Actor, given: dict[str, Any], field: str) -> None:
    asked = {"username": "robot", "label": "desk robot", "reason": "CHG-1", **given}
    with pytest.raises(ValidationFailed) as refused:
        credentials.create(ada, **asked)
    assert set(refused.value.fields) == {field}
    assert not Credential.objects.exists()
    assert not desk.log()


@pytest.mark.usefixtures("robot")
def test_a_label_names_one_credential_of_an_account_until_that_is_revoked(ada: Actor) -> None:
    issued = issue(ada)
    with pytest.raises(ValidationFailed) as refused:
        issue(ada)
    assert set(refused.value.fields) == {"label"}
    credentials.revoke(ada, issued.credential.pk, reason="leaked")
    issue(ada)


@pytest.mark.usefixtures("robot")
def test_credentials_are_for_administrators_of_their_namespace_only(desk: Desk, ada: Actor) -> None:
    key = issue(ada).credential.pk
    reader, root = desk.person("reader", READ), desk.person("root", is_superuser=True)
    foreigner = Desk("other").person("foreigner", ADMINISTER)
    for actor, error in ((reader, PermissionDenied), (root, NotFound), (foreigner, NotFound)):
        with pytest.raises(error):
            credentials.revoke(actor, key, reason="test")
        with pytest.raises(error):
            credentials.rotate(actor, key, reason="test")
    with pytest.raises(PermissionDenied):
        credentials.create(reader, "robot", "mine", reason="test")
    assert Credential.objects.get(pk=key).revoked_at is None
