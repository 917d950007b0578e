"""Settings that decide correctness or safety, as the database and the browser see them."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import Client

from tests.support.stack import ROOT, environment
from weave_admin.databases import database
from weave_admin.secret_key import kept_secret_key


def _value(sql: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


@pytest.mark.django_db
def test_the_connection_has_what_correctness_needs() -> None:
    if connection.vendor == "sqlite":
        assert _value("PRAGMA journal_mode") == "wal"
        assert _value("PRAGMA busy_timeout") == 20_000
        assert connection.settings_dict["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    else:
        assert _value("SELECT @@session.tx_isolation") == "READ-COMMITTED"
        assert _value("SELECT @@session.time_zone") == "+00:00"
        assert "STRICT_TRANS_TABLES" in str(_value("SELECT @@session.sql_mode"))
        assert _value("SELECT @@session.character_set_client") == "utf8mb4"


def test_a_served_sqlite_file_keeps_what_it_confirmed_through_a_power_failure() -> None:
    assert "synchronous = FULL" in database("sqlite:///weave.sqlite3")["OPTIONS"]["init_command"]


def test_the_socket_of_a_server_can_be_named() -> None:
    config = database("mysql://root@localhost/weave?unix_socket=/run/some/socket")
    assert config["OPTIONS"]["unix_socket"] == "/run/some/socket"


def test_another_database_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="MariaDB"):
        database("postgres://localhost/weave")


def test_processes_that_start_together_agree_on_one_secret_key(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secret_key"
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: kept_secret_key(path), range(64)))
    assert keys == {path.read_text()}
    assert len(path.read_text()) > 60
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_page_runs_no_script_of_others(client: Client) -> None:
    policy = client.get("/i18n/setlang/").headers["Content-Security-Policy"]
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(
        policy.split("; ")
    )
    assert "unsafe" not in policy


def test_the_deployment_check_finds_nothing_when_tls_is_on(tmp_path: Path) -> None:
    checked = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level=WARNING"],
        cwd=ROOT,
        env=environment(tmp_path, TLS="on"),
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr


def test_tracebacks_in_the_log_keep_local_variables_to_themselves(tmp_path: Path) -> None:
    script = """
import django; django.setup()
import structlog
def submit(password):
    raise ValueError("refused")
try:
    submit("correct horse")
except ValueError:
    structlog.get_logger("weave").exception("failed", instance="abc")
"""
    logged = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=True
    ).stderr
    assert '"instance": "abc"' in logged
    assert "refused" in logged
    assert "correct horse" not in logged.replace('submit("correct horse")', "")
