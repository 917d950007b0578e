"""S1 to S4 and S11 with the SDK against the product in processes of its own, and the command line beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import weave_client
from tests.support.stack import ROOT, environment, running_stack

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


@pytest.mark.rule("RT3", "RS1", "CO2", "B2", "G4", "G5", "G10", "RY2", "RY3", "RY6", "CP1", "CP4", "B8")
def test_the_scenarios_run_with_the_sdk_in_processes_of_their_own(served: Served) -> None:
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

    verified = _run(("manage.py", "verify"), served.product)
    assert verified.returncode == 0, verified.stdout + verified.stderr
