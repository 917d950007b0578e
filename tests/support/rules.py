"""The table rule -> tests, from the markers `@pytest.mark.rule("G5")`.

`--rules` prints it after the run; `--require-rules` also fails the run when a numbered rule has no test that passed.
"""

from collections import defaultdict
from typing import Any

import pytest

_COUNTS = {"G": 16, "RT": 5, "RS": 4, "CP": 5, "RW": 5, "RY": 9, "CO": 5, "B": 14, "M": 1}
RULES = [f"{group}{number}" for group, count in _COUNTS.items() for number in range(1, count + 1)]
"""Every numbered rule of the rule book."""


class RuleTable:
    """Collects passed tests under their rules; lives in the process that reports, also under xdist."""

    def __init__(self, required: bool) -> None:
        self.required = required
        self.tests: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            for name, rule in report.user_properties:
                if name == "rule":
                    self.tests[str(rule)].add(report.nodeid.partition("[")[0])

    @property
    def missing(self) -> list[str]:
        return [rule for rule in RULES if not self.tests[rule]]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.required and self.missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("rules")
        for rule in RULES:
            for line, test in enumerate(sorted(self.tests[rule]) or ["no test"]):
                terminalreporter.write_line(f"{rule if line == 0 else '':5} {test}")
        if self.missing:
            terminalreporter.write_line(f"rules without a test that passed: {', '.join(self.missing)}", red=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rules")
    group.addoption("--rules", action="store_true", help="print the table rule -> tests")
    group.addoption("--require-rules", action="store_true", help="print it, and fail when a rule has no test")


def pytest_configure(config: pytest.Config) -> None:
    required = config.getoption("--require-rules")
    reports_here = not hasattr(config, "workerinput")
    if reports_here and (required or config.getoption("--rules")):
        config.pluginmanager.register(RuleTable(required), "rule-table")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers("rule"):
            for rule in marker.args:
                if rule not in RULES:
                    raise pytest.UsageError(f"{item.nodeid}: there is no rule {rule!r}")
                item.user_properties.append(("rule", rule))
