"""The example as its readers run it: with one command."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.stack import ROOT

pytestmark = pytest.mark.faults
LONGEST = 300
"""Seconds, far beyond what a slow machine needs."""


def run(**changed: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "examples/bank_transfer/run.py"]
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | changed
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LONGEST, check=False)


def test_one_command_tells_the_whole_story_and_leaves_nothing_behind(tmp_path: object) -> None:
    done = run(TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for scenario in ("S1 ", "S2 ", "S3 ", "S4 ", "S11"):
        assert f"\n{scenario}" in done.stdout
    assert done.stdout.endswith("Everything came out as told.\n")
    assert os.listdir(str(tmp_path)) == []


def test_a_product_that_does_not_start_is_no_success() -> None:
    done = run(HOST="no such host")
    assert done.returncode == 2
    assert "HOST" in done.stderr
