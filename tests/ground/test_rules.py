"""The table rule -> tests, and the run that fails when a rule has none."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.rules import RULES
from tests.support.stack import ROOT

_TESTS = """
import pytest
@pytest.mark.rule({rules})
@pytest.mark.parametrize("value", [1, 2])
def test_{name}(value): assert {holds}
"""


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    plugins = ["-p", "xdist", "-p", "no:cacheprovider", "-p", "tests.support.rules"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-c", str(folder / "pytest.ini"), str(folder), *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # no Django, and a quick start
        capture_output=True,
        text=True,
    )


def _write(folder: Path, rules: list[str], holds: bool = True, name: str = "some") -> None:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = rule")
    words = ", ".join(map(repr, rules))
    (folder / f"test_{name}.py").write_text(_TESTS.format(rules=words, holds=holds, name=name))


def test_the_numbers_are_those_of_the_rule_book() -> None:
    book = (ROOT / "docs" / "recovery.md").read_text()
    assert sorted(re.findall(r"^- ([A-Z]+[0-9]+) ", book, re.MULTILINE)) == sorted(RULES)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_table_names_the_tests_of_each_rule_once(tmp_path: Path, workers: str) -> None:
    _write(tmp_path, ["G5", "RY3"])
    ran = _run(tmp_path, "--rules", "-n", workers)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "RY3   test_some.py::test_some\n" in ran.stdout
    assert ran.stdout.count("test_some.py::test_some\n") == 2
    assert "B14   no test\n" in ran.stdout


def test_a_rule_without_a_test_fails_the_run_that_requires_them(tmp_path: Path) -> None:
    _write(tmp_path, [rule for rule in RULES if rule != "CO4"])
    assert _run(tmp_path, "--rules").returncode == 0
    required = _run(tmp_path, "--require-rules")
    assert required.returncode == 1
    assert "rules without a test that passed: CO4\n" in required.stdout
    _write(tmp_path, ["CO4"], name="the_last")
    assert _run(tmp_path, "--require-rules").returncode == 0


def test_a_test_that_fails_counts_for_no_rule(tmp_path: Path) -> None:
    _write(tmp_path, RULES, holds=False)
    assert "M1    no test\n" in _run(tmp_path, "--rules").stdout


def test_a_rule_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, ["G17"])
    ran = _run(tmp_path)
    assert ran.returncode == 4
    assert "there is no rule 'G17'" in ran.stderr
