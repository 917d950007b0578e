"""S1 to S4 and S11 with the SDK against the product in processes of its own, and the command line beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

import weave_client
from tests.support.stack import ROOT, environment, running_stack
from weave_client import Client, Retries
from weave_client.audit import verify

pytestmark = pytest.mark.faults
EXAMPLE = ROOT / "examples" / "bank_transfer"
SDK = Path(weave_client.__file__).resolve().parent.parent
LONGEST = 300
"""Seconds, far beyond what a slow machine needs."""


@dataclass(frozen=True)
class Served:
    """The product, provisioned. `env`: for a program that talks to it, and nothing of the product's own settings."""

    env: dict[str, str]
    product: dict[str, str]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return _run(command, self.env)


def _run(command: tuple[str, ...], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *command]
    return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LONGEST, check=False)


@pytest.fixture(name="served")
def _served(tmp_path: Path, stack_database: str) -> Iterator[Served]:
    product = environment(tmp_path, DATABASE_URL=stack_database)
    with running_stack(tmp_path, env={"DATABASE_URL": stack_database}) as (_process, address):
        done = _run(("manage.py", "provision", str(EXAMPLE / "provision.json")), product)
        assert done.returncode == 0, done.stderr
        token = {each["user"]: each["token"] for each in json.loads(done.stdout)["credentials"]}
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SDK), "WEAVE_URL": address}
        tokens = {"WEAVE_TOKEN": token["operator"], "WEAVE_WORKER_TOKEN": token["bank-worker"]}
        yield Served(env | tokens, product)


class Lossy(httpx.HTTPTransport):
    """Passes requests on, and loses the answer of each one that is sent for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.met: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        response.read()
        sent = f"{request.method} {request.url} {request.headers.get('Idempotency-Key')}"
        if sent not in self.met:
            self.met.add(sent)
            raise httpx.ReadError("the answer was lost", request=request)
        return response


def _every_lost_answer_is_found_again_and_nothing_acts_twice(served: Served) -> None:
    lossy = Lossy()
    retries = Retries(first=0.01)
    with Client(served.env["WEAVE_URL"], served.env["WEAVE_TOKEN"], transport=lossy, retries=retries) as client:
        wait = {"key": "root", "kind": "TIMER", "delay_ms": 600_000}
        client.publish({"name": "wait", "input_schema": True, "max_duration_ms": 3_600_000, "root": wait})
        started = client.start("desk", "wait", "lossy", {"amount": Decimal("1250.10")}, key="start/lossy")
        instance_id = started["instance_id"]
        assert started.replayed  # its own key: sent again, and answered as before
        revision = client.instance(instance_id)["control_revision"]
        cancelled = client.cancel(instance_id, expected_control_revision=revision, reason="not needed")
        assert cancelled["stop_kind"] == "CANCEL"
        assert client.receipt(cancelled.operation_key).data == cancelled.data
        assert [row["id"] for row in client.instances(business_key="lossy")] == [instance_id]
        assert client.instance(instance_id)["input"] == {"amount": Decimal("1250.10")}
        entries = list(client.audit(instance_id))
        assert [row["action"] for row in entries].count("cancel") == 1
        assert verify(client.instance(instance_id), entries) == []
    posts = [sent for sent in lossy.met if sent.startswith("POST")]
    assert len(posts) == 3


@pytest.mark.rule("RT3", "RS1", "CO2", "B2", "G4", "G5", "G10", "RY2", "RY3", "RY6", "CP1", "CP4", "B8")
def test_scenarios_and_lost_answers_come_out_right_in_processes_of_their_own(served: Served) -> None:
    told = served.run(str(EXAMPLE / "story.py"))
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-4000:]
    assert told.stdout.count("the chain is whole") == 5
    assert "Traceback" not in told.stderr

    listed = served.run("-m", "weave_client.cli", "list", "--json")
    rows = json.loads(listed.stdout)
    assert sorted(row["status"] for row in rows) == ["FAILED", *["SUCCEEDED"] * 4]
    for row in rows:
        assert served.run("-m", "weave_client.cli", "verify", row["id"]).returncode == 0
    refused = served.run("-m", "weave_client.cli", "show", "no-such-instance")
    assert (refused.returncode, "NOT_FOUND" in refused.stderr) == (3, True)

    _every_lost_answer_is_found_again_and_nothing_acts_twice(served)
    verified = _run(("manage.py", "verify"), served.product)
    assert verified.returncode == 0, verified.stdout + verified.stderr
