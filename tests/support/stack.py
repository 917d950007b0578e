"""The real product in processes of its own, on a database and a folder of its own."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connection

ROOT = Path(__file__).resolve().parent.parent.parent
START_TIMEOUT = 120
"""Seconds, far beyond what a slow machine needs: it only keeps a broken stack from hanging the run."""


def environment(folder: Path, **extra: str) -> dict[str, str]:
    """For a process of the product that keeps everything in `folder`: its database, broker and secret key."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"VAR_DIR": str(folder), "PORT": "0", "DJANGO_SETTINGS_MODULE": "weave_admin.settings"} | extra


@pytest.fixture
def stack_database(tmp_path: Path, db: None) -> Iterator[str]:
    """The URL of an empty database of the kind that this run tests, for processes that commit for themselves."""
    if connection.vendor == "sqlite":
        yield f"sqlite:///{tmp_path / 'stack.sqlite3'}"
        return
    given = connection.settings_dict
    name = f"{given['NAME']}_stack"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        account = f"{quote(given['USER'])}:{quote(given['PASSWORD'])}" if given["PASSWORD"] else quote(given["USER"])
        place = f"{given['HOST'] or 'localhost'}{':' + str(given['PORT']) if given['PORT'] else ''}"
        path = given["OPTIONS"].get("unix_socket")
        yield f"mysql://{account}@{place}/{name}" + (f"?unix_socket={quote(path)}" if path else "")
        cursor.execute(f"DROP DATABASE {name}")


@contextmanager
def running_stack(
    folder: Path, command: str = "serve", env: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`manage.py serve` (or another command that ends in `run_stack`): its process and its address, once it is ready.

    Everything it says on standard error is in `folder / "stderr"`. Stopped with SIGINT, as by Ctrl-C.
    """
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "manage.py", command],
            cwd=ROOT,
            env=environment(folder, **(env or {})),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        stuck = threading.Timer(START_TIMEOUT, process.kill)
        stuck.start()
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"https?://\S+", line)
            assert found, (folder / "stderr").read_text()[-4000:]
            stuck.cancel()
            yield process, found[0]
        finally:
            stuck.cancel()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
