"""Real Celery workers of the product at a real broker, on the test's own database."""

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from celery import Celery
from django.db import connection

from tests.support.stack import ROOT, environment

ACCOUNT = "robot"
"""The user that the workers' handlers act as; the test makes it."""
TIMEOUT = 90
"""Seconds that a test waits for a worker before it fails; never how long it takes."""


def until(holds: Callable[[], Any], meanwhile: Callable[[], Any] = lambda: None) -> None:
    """Looks again and again until it holds: when is of no interest, that it does is."""
    for _look in range(TIMEOUT * 10):
        if holds():
            return
        meanwhile()
        threading.Event().wait(0.1)
    raise AssertionError(f"it did not come within {TIMEOUT} seconds")


def database_url() -> str:
    """Of the test's own database, for processes that share it."""
    given = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{given['NAME']}"
    account = f"{quote(given['USER'])}:{quote(given['PASSWORD'])}" if given["PASSWORD"] else quote(given["USER"])
    place = f"{given['HOST'] or 'localhost'}{':' + str(given['PORT']) if given['PORT'] else ''}"
    path = given["OPTIONS"].get("unix_socket")
    return f"mysql://{account}@{place}/{given['NAME']}" + (f"?unix_socket={quote(path)}" if path else "")


class Broker:
    """The broker that TEST_BROKER_URL names, or the server-less one in a folder; with queues of this run's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = os.environ.get("TEST_BROKER_URL", "")
        self.queue = f"weave-test-{secrets.token_hex(4)}"
        self.sender = Celery("sender", set_as_current=False)
        self.sender.conf.update(
            broker_url=self.url or "filesystem://",
            task_default_queue=self.queue,
            task_routes={"recovery.tasks.work": {"queue": f"{self.queue}-handlers"}},
        )
        if not self.url:
            places = {name: folder / "broker" / name for name in ("messages", "control")}
            for place in places.values():
                place.mkdir(parents=True)
            self.sender.conf.update(
                broker_transport="weave_admin.broker:Transport",
                broker_transport_options={
                    "data_folder_in": str(places["messages"]),
                    "data_folder_out": str(places["messages"]),
                    "control_folder": str(places["control"]),
                },
            )
        elif self.url.startswith("amqp"):
            self.sender.conf.update(
                broker_transport_options={"confirm_publish": True, "max_retries": 0},
                task_default_queue_type="quorum",
                task_create_missing_queue_type="quorum",
            )

    def send(self, name: str, *keys: str) -> None:
        self.sender.send_task(f"recovery.tasks.{name}", keys)

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """A worker for the engine and for handlers, in a process group of its own; ready when it is handed out."""
        command = [sys.executable, "-m", "celery", "--app", "weave_admin", "worker", "--concurrency=2"]
        command += [f"--queues={self.queue},{self.queue}-handlers", "--without-gossip", "--without-mingle"]
        said = self.folder / f"worker-{secrets.token_hex(4)}"
        with said.open("w") as errors:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(
                    self.folder,
                    DATABASE_URL=database_url(),
                    BROKER_URL=self.url,
                    BROKER_QUEUE=self.queue,
                    WEAVE_HANDLERS="tests.support.sample_handlers",
                    WEAVE_WORKER_USER=ACCOUNT,
                ),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        try:
            until(lambda: process.poll() is not None or " ready." in said.read_text())
            assert process.poll() is None, said.read_text()[-4000:]
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def close(self) -> None:
        """Leaves nothing on a broker that others use too."""
        with self.sender.connection_for_write() as broker:
            if self.url:
                for queue in (self.queue, f"{self.queue}-handlers"):
                    broker.default_channel.queue_delete(queue)
        self.sender.close()
