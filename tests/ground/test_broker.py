"""The broker that needs no server, between several workers at once."""

import subprocess
import sys
from pathlib import Path

import pytest
from kombu.connection import Connection

from tests.support.stack import ROOT

MESSAGES = 400

# Takes messages until none came for a while; prints the numbers it got.
_WORKER = """
import sys
from kombu import Connection
from tests.ground.test_broker import options
got = []
with Connection("filesystem://", transport="weave_admin.broker:Transport", transport_options=options(sys.argv[1])) as c:
    queue = c.SimpleQueue("weave")
    print("listening", flush=True)
    while True:
        try:
            message = queue.get(timeout=float(sys.argv[2]))
        except queue.Empty:
            break
        got.append(message.payload["number"])
        message.ack()
print(*got)
"""


def options(folder: str) -> dict[str, str | float]:
    place = Path(folder)
    return {
        "data_folder_in": str(place / "messages"),
        "data_folder_out": str(place / "messages"),
        "control_folder": str(place / "control"),
        "polling_interval": 0.001,
    }


@pytest.mark.faults
def test_every_message_arrives_whole_and_once_while_two_workers_wait_for_it(tmp_path: Path) -> None:
    for name in ("messages", "control"):
        (tmp_path / name).mkdir()
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(tmp_path), "3"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "listening\n"
    with Connection(
        "filesystem://", transport="weave_admin.broker:Transport", transport_options=options(str(tmp_path))
    ) as connection:
        queue = connection.SimpleQueue("weave")
        for number in range(MESSAGES):
            # Big enough that a reader would often meet a file of which only the beginning is written.
            queue.put({"number": number, "padding": "x" * 200_000})
    got = [int(number) for worker in workers for number in worker.communicate(timeout=60)[0].split()]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert sorted(got) == list(range(MESSAGES))
