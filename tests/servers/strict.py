"""A plugin for which a skipped test is a failed one: a server that does not start makes fixtures skip what needs it, which nobody would see."""

from typing import Any

import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
