"""`manage.py serve` and what stands below it: everything starts together and nothing outlives it."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.stack import ROOT, environment, running_stack

pytestmark = pytest.mark.faults

LONGEST = 60
"""Seconds that a process may take to notice; far more than it needs."""


def _of_the_stack(folder: Path) -> dict[int, str]:
    """The living processes that were started for this folder, by id, with their command lines."""
    mark = f"VAR_DIR={folder}".encode()
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:  # ended meanwhile, or somebody else's
            continue
    return found


def _nothing_is_left(folder: Path) -> bool:
    deadline = time.monotonic() + LONGEST
    while _of_the_stack(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _of_the_stack(folder)


def _status(address: str) -> int:
    with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().status


def test_serve_says_one_line_when_it_answers_and_ctrl_c_ends_everything(tmp_path: Path, stack_database: str) -> None:
    with running_stack(tmp_path, env={"DATABASE_URL": stack_database}) as (process, address):
        commands = " ".join(_of_the_stack(tmp_path).values())
        assert all(part in commands for part in ("gunicorn", "worker", "beat"))
        assert _status(address) < 500
        assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=LONGEST)
    assert (rest, process.returncode) == ("", 0)
    assert _of_the_stack(tmp_path) == {}


def test_a_killed_supervisor_leaves_no_orphan(tmp_path: Path, stack_database: str) -> None:
    with running_stack(tmp_path, env={"DATABASE_URL": stack_database}) as (process, _):
        assert len(_of_the_stack(tmp_path)) > 3
        process.kill()
        process.wait()
        assert _nothing_is_left(tmp_path)


def test_a_child_that_dies_ends_everything_and_is_named(tmp_path: Path, stack_database: str) -> None:
    with running_stack(tmp_path, env={"DATABASE_URL": stack_database}) as (process, _):
        (beat,) = (pid for pid, command in _of_the_stack(tmp_path).items() if command.rstrip().endswith("beat"))
        os.kill(beat, signal.SIGKILL)
        assert process.wait(timeout=LONGEST) != 0
    assert "The beat process ended" in (tmp_path / "stderr").read_text()
    assert _of_the_stack(tmp_path) == {}


def _serve(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "serve"],
        cwd=ROOT,
        env=environment(folder, **env),
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )


def test_a_port_that_is_taken_is_said_at_once_and_nothing_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = _serve(tmp_path, PORT=str(port))
    assert ended.returncode != 0
    assert f"127.0.0.1:{port} cannot be served: Address already in use" in ended.stderr
    assert not (tmp_path / "weave.sqlite3").exists()


def test_plain_http_is_served_on_loopback_only(tmp_path: Path) -> None:
    ended = _serve(tmp_path, HOST="192.0.2.1")
    assert ended.returncode != 0
    assert "without TLS only a loopback address is served" in ended.stderr


def test_a_migration_that_fails_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "weave.sqlite3").write_text("this is no database, whatever its name says")
    ended = _serve(tmp_path)
    assert ended.returncode != 0
    assert "manage.py migrate failed" in ended.stderr
    assert _of_the_stack(tmp_path) == {}


_WITH_EXTRAS = """
import django; django.setup()
import sys
from recovery.supervisor import Process, run_stack
run_stack(
    extra_env={"GREETING": "from extra_env"},
    extra_processes=[
        Process(name="extra", command=[sys.executable, "-c", "import os, sys; sys.exit(os.environ['GREETING'])"]),
    ],
    on_ready=lambda address: print("ready", address, flush=True),
)
"""


def test_more_processes_can_be_run_with_the_stack_and_are_watched_like_its_own(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _WITH_EXTRAS],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.stdout.startswith("ready http://127.0.0.1:")
    assert "from extra_env" in ended.stderr
    assert "The extra process ended (exit status 1)" in ended.stderr
    assert _of_the_stack(tmp_path) == {}
